"""Exit codes of every command, and which error leads to which.

They are an interface: schedulers and scripts branch on them.  docs/cli.md lists them too.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from paimon_core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitStateUnknown,
    CorruptTable,
    GuardTripped,
    InvalidArgument,
    LeaseHeld,
    LeaseLost,
    NotFound,
    SchemaError,
    StalePlan,
    UnsupportedFeature,
)


class ExitCode(IntEnum):
    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    NOTHING_TO_DO = 3
    REFUSED_FEATURE = 4
    CONFLICT = 5
    GUARD_TRIPPED = 6
    CORRUPT_TABLE = 7
    UNKNOWN_OUTCOME = 8

    @property
    def meaning(self) -> str:
        """One line for help texts."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.SUCCESS: "success",
    ExitCode.FAILURE: "unexpected failure; the message says what",
    ExitCode.USAGE: "wrong usage: an argument, a table or a reference that does not exist",
    ExitCode.NOTHING_TO_DO: "nothing to do; the table was left as it is",
    ExitCode.REFUSED_FEATURE: "the table uses a feature that is refused; nothing was touched",
    ExitCode.CONFLICT: "a concurrent commit won, also after re-planning; nothing was changed",
    ExitCode.GUARD_TRIPPED: "the plan would do more than the guards allow; nothing was changed",
    ExitCode.CORRUPT_TABLE: "the table contradicts itself; see `caretaker verify`",
    ExitCode.UNKNOWN_OUTCOME: "a commit's reply was lost: it may or may not have happened",
}

_BY_ERROR: tuple[tuple[type[Exception], ExitCode], ...] = (
    (InvalidArgument, ExitCode.USAGE),
    (NotFound, ExitCode.USAGE),
    (AlreadyExists, ExitCode.USAGE),
    (SchemaError, ExitCode.USAGE),
    (UnsupportedFeature, ExitCode.REFUSED_FEATURE),
    (CommitConflict, ExitCode.CONFLICT),
    (StalePlan, ExitCode.CONFLICT),
    (LeaseHeld, ExitCode.CONFLICT),
    (LeaseLost, ExitCode.CONFLICT),
    (GuardTripped, ExitCode.GUARD_TRIPPED),
    (CorruptTable, ExitCode.CORRUPT_TABLE),
    (CommitStateUnknown, ExitCode.UNKNOWN_OUTCOME),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code of a failed run; FAILURE for every error that is not one of ours."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.FAILURE)


def combined(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of a run over several tables.

    SUCCESS if some table succeeded and none failed, NOTHING_TO_DO if there was nothing to do
    anywhere, the failure's own code if all failures share it, FAILURE if they differ.
    """
    seen = set(codes)
    failures = seen - {ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO}
    if len(failures) > 1:
        return ExitCode.FAILURE
    if failures:
        return failures.pop()
    return ExitCode.SUCCESS if ExitCode.SUCCESS in seen else ExitCode.NOTHING_TO_DO
