"""The exit codes of all commands, and the exit code of each error.

They are a public interface: schedulers and scripts depend on them.  docs/cli.md lists them.  They
do not say what a failed run changed before it failed; the report does.
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
from paimon_maintenance.job.approval import ApprovalNeeded
from paimon_maintenance.job.opt_out import OptedOut


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
    APPROVAL_NEEDED = 9

    @property
    def meaning(self) -> str:
        """One line for help texts."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.SUCCESS: "success",
    ExitCode.FAILURE: "failure; see the message",
    ExitCode.USAGE: "usage error: invalid argument, or a table or reference that does not exist",
    ExitCode.NOTHING_TO_DO: "nothing to do; the table is unchanged",
    ExitCode.REFUSED: "refused: the table or store uses an unsupported feature",
    ExitCode.CONFLICT: "concurrent commits conflicted in every attempt",
    ExitCode.GUARD_TRIPPED: "the plan exceeds a guard",
    ExitCode.CORRUPT_TABLE: "the table is corrupt; run `caretaker verify`",
    ExitCode.UNKNOWN_OUTCOME: "the outcome of a commit is unknown: the reply was lost",
    ExitCode.APPROVAL_NEEDED: "the policy requires an approval first; see `caretaker approvals`",
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
    (ApprovalNeeded, ExitCode.APPROVAL_NEEDED),
    (OptedOut, ExitCode.NOTHING_TO_DO),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code of an error; FAILURE for errors of other libraries."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.FAILURE)


class OnRefused(StrEnum):
    """The policy setting: does a refused table fail a run over several tables?"""

    SKIP = "skip"
    FAIL = "fail"


def is_refusal(error: BaseException | None) -> bool:
    """Whether this version does not support the table, so that retries are useless."""
    return isinstance(error, UnsupportedFeature)


def refusal_fails(on_refused: OnRefused | None, *, known: bool) -> bool:
    """Whether a refused table fails a run over several tables.

    Without a policy setting, only the first refusal of a table fails the run.
    """
    if on_refused is None:
        return not known
    return on_refused is OnRefused.FAIL


def combined(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of a run over several tables.

    SUCCESS if at least one table succeeded and none failed, NOTHING_TO_DO if no table had work.
    The common code of all failures, or FAILURE if they differ.  Callers leave out refused tables
    that do not count (`refusal_fails`).
    """
    seen = set(codes)
    failures = seen - {ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO}
    if len(failures) > 1:
        return ExitCode.FAILURE
    if failures:
        return failures.pop()
    return ExitCode.SUCCESS if ExitCode.SUCCESS in seen else ExitCode.NOTHING_TO_DO
