"""Writers: builder -> write -> commit messages -> commit (Java: `table/sink/*WriteBuilder`).

Nothing is visible before the commit, and the rows of one commit become visible together.  After a
CommitConflict nothing was committed; after a CommitStateUnknown the commit may exist, and no file
of it may be deleted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from paimon_core.api.context import Context
from paimon_core.api.predicates import partition_values
from paimon_core.api.rows import batches_in, split_kinds
from paimon_core.commit.committer import latest_of_user
from paimon_core.commit.message import CommitMessage
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import DYNAMIC_PARTITION_OVERWRITE
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_core.table.after_commit import AfterCommit, Maintained
from paimon_core.table.write_session import (
    commit_overwrite,
    commit_write,
    delete_messages,
    new_writer,
    replay_commits,
)

if TYPE_CHECKING:
    import pandas as pd

Partition = Mapping[str, object]
"""Values of some or all partition columns; text is parsed as in paths."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The snapshots of a commit, oldest first; none if there was nothing to commit.

    `maintained` is what was removed after the commit, or why that failed.  None if the table is
    `write-only`, or if it happens in the background (`snapshot.expire.execution-mode`).
    """

    snapshots: tuple[Snapshot, ...] = ()
    maintained: Maintained | None = None


class _WriteBuilder:
    def __init__(self, table: FileStoreTable, context: Context) -> None:
        self._table = table
        self._context = context
        self._partition: dict[str, Any] | None = None
        self.commit_user = context.env.new_uuid()
        """The commit user.  A batch has a user of its own; a stream keeps its user after a restart.
        """

    def overwrite(self, partition: Partition | None = None, *, dynamic: bool | None = None) -> Self:
        """Replace rows instead of adding to them.

        With `partition`, replace the content of the partitions with these values; with `dynamic`,
        that of the partitions of the new rows; neither: the option `dynamic-partition-overwrite`
        (default true) decides between the partitions of the new rows and the whole table, as in
        Java.
        """
        if partition and dynamic:
            raise InvalidArgument("an overwrite is either dynamic or of a named partition")
        self._partition = partition_values(self._table, partition or {})
        chosen = False if partition else dynamic
        if chosen is not None:
            options = {DYNAMIC_PARTITION_OVERWRITE.key: str(chosen).lower()}
            self._table = replace(self._table, schema=self._table.schema.with_options(options))
        return self

    def new_write(self) -> TableWrite:
        """Return a writer; UnsupportedFeature for tables that cannot be written."""
        return TableWrite(
            self._table,
            self._context,
            user=self.commit_user,
            overwrites=self._partition is not None,
        )


class BatchWriteBuilder(_WriteBuilder):
    """One commit of any number of rows."""

    def new_commit(self) -> BatchTableCommit:
        """Return what commits the messages of the writers, once."""
        return BatchTableCommit(
            self._table, self._context, user=self.commit_user, partition=self._partition
        )


class StreamWriteBuilder(_WriteBuilder):
    """Many commits of one user, with growing identifiers.

    A stream that starts again after a failure passes the same user, and commits everything that may
    be missing with `filter_and_commit`: what is committed already is skipped.
    """

    def with_commit_user(self, commit_user: str) -> StreamWriteBuilder:
        """Commit as this user; a stream that starts again must pass the user that it had before."""
        self.commit_user = commit_user
        return self

    def new_commit(self) -> StreamTableCommit:
        """Return what commits the messages of the writers, again and again."""
        return StreamTableCommit(
            self._table, self._context, user=self.commit_user, partition=self._partition
        )


class _Closing(ABC):
    """A context manager that calls `close` at its end."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held; calling it again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class TableWrite(_Closing):
    """Writes rows into data files, which `prepare_commit` hands over as commit messages.

    Columns are matched by name; missing ones get their default value.  A column `_row_kind` (+I,
    -U, +U, -D) says what a row does; only primary-key tables take other kinds than +I.  Memory is
    bounded by `write-buffer-size`.  InvalidArgument for unknown columns and values that do not fit.
    """

    def __init__(
        self, table: FileStoreTable, context: Context, *, user: str, overwrites: bool
    ) -> None:
        self._table = table
        self._writer = new_writer(table, env=context.env, user=user, overwrite=overwrites)

    def write(self, data: Any) -> None:
        """Add rows: Arrow tables, batches and readers, pandas DataFrames, lists of dicts."""
        for rows in batches_in(data, self._table.schema):
            plain, kinds = split_kinds(rows)
            self._writer.write(plain, kinds)

    def write_arrow(self, table: pa.Table) -> None:
        self.write(table)

    def write_arrow_batch(self, batch: pa.RecordBatch) -> None:
        self.write(batch)

    def write_pandas(self, dataframe: pd.DataFrame) -> None:
        self.write(dataframe)

    def write_dicts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.write(rows)

    def prepare_commit(self) -> list[CommitMessage]:
        """Return what has been written since the last call.  The messages can be pickled."""
        return self._writer.prepare_commit()

    def abort(self) -> None:
        """Delete the files of rows that `prepare_commit` has not returned."""
        self._writer.abort()

    def close(self) -> None:
        """Same as `abort`."""
        self.abort()


class _TableCommit(_Closing):
    def __init__(
        self,
        table: FileStoreTable,
        context: Context,
        *,
        user: str,
        partition: dict[str, Any] | None,
    ) -> None:
        self._table = table
        self._context = context
        self._partition = partition
        self._after = AfterCommit(table, env=context.env)
        self.commit_user = user

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that were not committed, and never will be."""
        delete_messages(self._table, messages)

    def close(self) -> None:
        """Wait for what runs in the background after the last commit."""
        self._after.close()

    def _commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int,
        watermark: int | None,
        *,
        ignore_empty: bool,
    ) -> CommitResult:
        env, after = self._context.env, self._after
        after.last = None
        if self._partition is None:
            made = commit_write(
                self._table,
                messages,
                env=env,
                user=self.commit_user,
                identifier=identifier,
                watermark=watermark,
                ignore_empty=ignore_empty,
                after=after,
            )
        else:
            made = commit_overwrite(
                self._table,
                messages,
                env=env,
                user=self.commit_user,
                partition=self._partition,
                identifier=identifier,
                watermark=watermark,
                after=after,
            )
        return CommitResult(made, after.last)


class BatchTableCommit(_TableCommit):
    """Commits once."""

    _used = False

    def commit(self, messages: Sequence[CommitMessage]) -> CommitResult:
        """Commit; after a CommitConflict, the files of the messages are deleted."""
        if self._used:
            raise InvalidArgument(
                "a batch commit commits once", next_step="make another one with the builder"
            )
        self._used = True
        try:
            return self._commit(messages, BATCH_COMMIT_IDENTIFIER, None, ignore_empty=True)
        except CommitConflict:
            self.abort(messages)
            raise


class StreamTableCommit(_TableCommit):
    """Commits again and again; identifiers grow from commit to commit."""

    _last: int | None = None

    def last_committed_identifier(self) -> int | None:
        """The greatest identifier that this user has committed; None if there is none."""
        newest = latest_of_user(self._table, self.commit_user)
        return None if newest is None else newest.commit_identifier

    def commit(
        self, messages: Sequence[CommitMessage], identifier: int, *, watermark: int | None = None
    ) -> CommitResult:
        """Commit under this identifier, even without rows; `watermark` in milliseconds.

        For the first attempt only: after a failure use `filter_and_commit`.
        """
        if self._last is not None:
            messages = [
                m if m.keys_at is None else replace(m, follows=self._last) for m in messages
            ]
        result = self._commit(messages, identifier, watermark, ignore_empty=False)
        self._last = identifier
        return result

    def filter_and_commit(self, pending: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit the identifiers that are not committed yet, in order; return how many these were.

        InvalidArgument, before anything is committed, if a file of theirs is gone.
        """
        if self._partition is not None:
            raise InvalidArgument("an overwrite cannot be replayed: commit it again")
        last = self.last_committed_identifier()
        left = [i for i in pending if last is None or i > last]
        replay_commits(
            self._table,
            pending,
            user=self.commit_user,
            env=self._context.env,
            after=self._after,
        )
        return len(left)
