"""All errors that Caretaker raises deliberately.

::

    PaimonError
    |-- InvalidArgument            the argument is invalid (usage)
    |-- CatalogError
    |   |-- NotFound               database, table, snapshot, tag, branch, consumer
    |   |   `-- TableGone          the table was dropped, renamed or replaced during the work
    |   |-- AlreadyExists
    |   `-- CatalogLocked          another client holds the catalog's lock; nothing was changed
    |-- SchemaError                a schema or schema change that Java Paimon refuses too
    |-- CorruptTable               metadata or data contradicts itself, or cannot be decoded
    |-- UnsupportedFeature         the table uses something that this version does not support
    |-- StorageError               the store did not answer, or refused the request
    |   `-- StorageAccessDenied    it refused the credentials: a retry will not help
    |-- CommitError
    |   |-- CommitConflict         another commit changed what this one builds on: plan again
    |   |   |-- RowsChanged        it changed rows that this one was computed from
    |   |   `-- CommitObstructed   another attempt fails as well
    |   `-- CommitStateUnknown     the reply was lost: the commit may or may not exist
    |       `-- CommitRemoved      the commit succeeded, but a rollback removed it
    `-- MaintenanceError
        |-- ClockSkew              this machine's clock and the store's disagree
        |-- GuardTripped           the plan would do more than the guards allow
        |-- LeaseHeld              another Caretaker job removes history or files of the table
        |-- LeaseLost              the job stalled, and another one took over its lease
        `-- StalePlan              the table has changed since the plan was made

A message says what is wrong and where (table, file, snapshot); `next_step` tells the operator what
to do and ends the printed text.  Neither says what a run has changed so far: only the run's report
knows that.
"""

from __future__ import annotations

import re
from typing import Final

UNREADABLE: Final = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ArithmeticError,
    EOFError,
    RecursionError,
    MemoryError,
)
"""The errors that decoding damaged text or bytes may raise."""


class PaimonError(Exception):
    """Base of the tree.  `table`, `file` and `snapshot` give the location, if known."""

    default_next_step = ""

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        file: str | None = None,
        snapshot: int | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.file = file
        self.snapshot = snapshot
        self.next_step = self.default_next_step if next_step is None else next_step

    def __str__(self) -> str:
        places = [
            f"{name} {value}"
            for name, value in (
                ("table", self.table),
                ("snapshot", self.snapshot),
                ("file", self.file),
            )
            if value is not None and not _names(self.message, value)
        ]
        text = self.message
        if places:
            text += f" [{', '.join(places)}]"
        if self.next_step:
            text += f" -> {self.next_step}"
        return text

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only attributes must survive pickling on the way from a Spark executor.
        return (_rebuild, (type(self), dict(self.__dict__)))


def _names(message: str, place: str | int) -> bool:
    """Return whether the message holds the place; the number of a snapshot as a word of its own."""
    if isinstance(place, str):
        return place in message
    return re.search(rf"(?<![\w.-]){place}(?![\w-])", message) is not None


def _rebuild(cls: type[PaimonError], state: dict[str, object]) -> PaimonError:
    error = cls.__new__(cls)
    Exception.__init__(error, state.get("message", ""))
    error.__dict__.update(state)
    return error


def how_to_get(extra: str) -> str:
    """The next step without a package of this extra; Caretaker is on no package index."""
    return f"pip install '.[{extra}]' in Caretaker's checkout, or use its ./caretaker, which has it"


class InvalidArgument(PaimonError, ValueError):
    """An argument that can never work, whatever the table holds."""

    default_next_step = "correct the argument and run again"


class NullInRequiredColumn(InvalidArgument):
    """Rows have a null in a NOT NULL column, or in a part of one."""

    default_next_step = "correct the rows and run again"


class BucketCountChanged(InvalidArgument):
    """The rows of a partition are in another number of buckets than the table now has."""

    default_next_step = "rescale it first (caretaker run rescale)"


class CatalogError(PaimonError):
    """A database, table or reference is missing or already exists."""


SEE_INSPECT: Final = "check the name; `caretaker inspect` lists what the table has"
"""The next step where a tag, a branch or a consumer is missing."""


class NotFound(CatalogError, LookupError):
    """The named database, table, snapshot, tag, branch or consumer does not exist."""

    default_next_step = "check the name; `caretaker tables` lists the tables"


class NoSuchVersion(NotFound):
    """The snapshot, tag or time that a read names is not there."""

    default_next_step = "choose an existing snapshot or tag; `caretaker inspect` lists them"


class TableGone(NotFound):
    """The table was dropped or renamed during the work, or dropped and created again."""

    default_next_step = (
        "if the table was renamed, run again under its new name (`caretaker tables` lists the tables); "
        "if it was dropped, nothing is left to do"
    )


class AlreadyExists(CatalogError):
    """The name is taken."""

    default_next_step = "choose another name, or drop the existing one first"


class ReferenceExists(AlreadyExists):
    """The table has a tag or branch of this name."""


class CatalogLocked(CatalogError):
    """Another client held the catalog's lock on the table for too long; nothing was changed."""

    default_next_step = "find out which client holds the lock, then run again"


class SchemaError(PaimonError):
    """A schema or schema change that Java Paimon refuses too."""

    default_next_step = "correct the schema change and run again"


class UnknownKeyColumn(SchemaError):
    """A key that names a column which the table does not have."""


class ForbiddenChange(SchemaError):
    """A change that no table allows, or not to this column."""


class ImmutableOption(ForbiddenChange):
    """An option that a table with a snapshot keeps as it is."""


class CorruptTable(PaimonError):
    """Stored metadata or data contradicts itself or cannot be decoded."""

    default_next_step = "run `caretaker verify` on the table"


class OutsideTable(CorruptTable):
    """A path leads out of the table, by a symbolic link or into another table's folder.

    Nothing was changed there.
    """

    default_next_step = (
        "nothing was changed there; replace the link by a folder or a mount, or name the folder "
        "behind it in data-file.external-paths"
    )


def missing_file(what: str, path: str) -> CorruptTable:
    """The error for a file that a snapshot names but that does not exist."""
    return CorruptTable(
        f"{what} is missing",
        file=path,
        next_step="if its snapshot expired while it was read, read again from a newer one; "
        "otherwise run `caretaker verify`",
    )


class UnsupportedFeature(PaimonError):
    """The table uses `feature`, which this version does not support.

    `known`: the history shows an earlier refusal for the same reason (set by the runner).
    """

    default_next_step = "use Java Paimon for this table, or upgrade Caretaker"

    def __init__(
        self,
        feature: str,
        message: str | None = None,
        *,
        table: str | None = None,
        file: str | None = None,
        snapshot: int | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(
            message or f"unsupported table feature: {feature}",
            table=table,
            file=file,
            snapshot=snapshot,
            next_step=next_step,
        )
        self.feature = feature
        self.known = False


class StorageError(PaimonError, OSError):
    """A request to the store failed finally; `file` is the path of the request.

    It is also an OSError, as `FileIO` promises.  For a request that changes something, the outcome
    is unknown, unless a subclass says otherwise.
    """

    default_next_step = "check that the store answers, then run again"


class NotAFolder(StorageError, NotADirectoryError):
    """A file lies where a folder belongs: what the folder held is unknown, not missing."""

    default_next_step = "move the file away, then run `caretaker verify` on the table"


class BrokenLink(StorageError):
    """A symbolic link in a local folder has no target: its content is unknown, not missing."""

    default_next_step = (
        "make what it led to available again (is a disk not mounted?), or move the link out of the "
        "table, then run again"
    )


class StorageAccessDenied(StorageError, PermissionError):
    """The store refused the credentials or their permissions; the request had no effect.

    Another attempt with the same credentials would fail too, so nothing retries it.
    """

    default_next_step = (
        "check the credentials, whether they have expired, and what they are allowed to do; "
        "another attempt without a change will fail the same way"
    )


class CommitError(PaimonError):
    """A commit failed or its outcome is unknown."""


class CommitConflict(CommitError):
    """A concurrent commit changed what this one builds on; its metadata files were deleted.

    Data files belong to their writer: jobs delete their own, those of a writer become orphans.
    """

    default_next_step = (
        "Conflicts during commits are normal; run again: a new plan sees the other commit"
    )


class RowsChanged(CommitConflict):
    """A concurrent commit changed rows that this one updates, or from which it computed others."""


class CommitObstructed(CommitConflict):
    """Another attempt will fail as well.

    What is no snapshot has the name of the next one, or the strict mode of the writer forbids it.
    """


class CommitStateUnknown(CommitError):
    """The outcome of a commit is unknown; no file was deleted."""

    default_next_step = (
        "look at the newest snapshots for this commit user and identifier before running again; "
        "files of a commit that did not happen are orphans, which remove_orphan_files finds"
    )


class CommitRemoved(CommitStateUnknown):
    """The commit succeeded, but another job removed its snapshot; no file was deleted.

    A tag or branch created in between may need the commit's files.
    """

    default_next_step = (
        "run again if the commit is still wanted; files that nothing needs are orphans, which "
        "remove_orphan_files finds"
    )


class MaintenanceError(PaimonError):
    """A maintenance job stopped deliberately."""


class ClockSkew(MaintenanceError):
    """This machine's clock and the store's disagree, so ages are wrong."""

    default_next_step = "set this machine's clock (NTP), then run again"


class GuardTripped(MaintenanceError):
    """The plan would delete or rewrite more than the guards allow."""

    default_next_step = "read the plan; if it is right, run again with --force"


class LeaseHeld(MaintenanceError):
    """Another job holds the lease on the table."""

    default_next_step = "wait for that job, or see `caretaker leases`; then run again"


class LeaseLost(MaintenanceError):
    """The job stopped midway because another one took over its lease."""

    default_next_step = "run again: the next run finishes the work"


class NotYetVisible(MaintenanceError):
    """Rows are committed, and a compaction that queries wait for has not come."""


class StalePlan(MaintenanceError):
    """The table has changed since the plan was made."""

    default_next_step = "make a new plan"
