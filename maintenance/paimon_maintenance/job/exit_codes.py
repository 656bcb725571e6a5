"""Exit codes of every command, and which error leads to which.

They are an interface: schedulers and scripts branch on them.  docs/cli.md lists them too.  What a
run had changed before it failed is no part of the code: the report says it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum

from paimon_core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitRemoved,
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
    REFUSED = 4
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
    ExitCode.REFUSED: "refused: the table or store uses something that this version does not know",
    ExitCode.CONFLICT: "a concurrent commit won, also after re-planning",
    ExitCode.GUARD_TRIPPED: "the plan would do more than the guards allow",
    ExitCode.CORRUPT_TABLE: "the table contradicts itself; see `caretaker verify`",
    ExitCode.UNKNOWN_OUTCOME: "a commit's reply was lost: it may or may not have happened",
}

_BY_ERROR: tuple[tuple[type[Exception], ExitCode], ...] = (
    (InvalidArgument, ExitCode.USAGE),
    (NotFound, ExitCode.USAGE),
    (AlreadyExists, ExitCode.USAGE),
    (SchemaError, ExitCode.USAGE),
    (UnsupportedFeature, ExitCode.REFUSED),
    (CommitConflict, ExitCode.CONFLICT),
    (CommitRemoved, ExitCode.CONFLICT),
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


class OnRefused(StrEnum):
    """Whether a refused table makes a run over many tables fail, as the policy says."""

    SKIP = "skip"
    FAIL = "fail"


def is_refusal(error: BaseException | None) -> bool:
    """Whether the error says that this version must not work on the table, however often it tries."""
    return isinstance(error, UnsupportedFeature)


def refusal_fails(on_refused: OnRefused | None, *, known: bool) -> bool:
    """Whether a refused table makes a run over many tables fail.

    Unless the policy decides, a refusal fails the run the first time, and no more once it is known.
    """
    if on_refused is None:
        return not known
    return on_refused is OnRefused.FAIL


def combined(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of a run over several tables.

    SUCCESS if some table succeeded and none failed, NOTHING_TO_DO if there was nothing to do
    anywhere, the failure's own code if all failures share it, FAILURE if they differ.  Callers
    leave out refused tables that do not count (`refusal_fails`).
    """
    seen = set(codes)
    failures = seen - {ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO}
    if len(failures) > 1:
        return ExitCode.FAILURE
    if failures:
        return failures.pop()
    return ExitCode.SUCCESS if ExitCode.SUCCESS in seen else ExitCode.NOTHING_TO_DO
