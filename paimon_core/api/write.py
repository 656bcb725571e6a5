"""Writers: builder -> write -> commit messages -> commit (Java: `table/sink/*WriteBuilder`).

Readers see the rows of a commit all at once, and none before it.  After a CommitConflict nothing
was committed.  After a CommitStateUnknown the commit may exist, so its files must not be deleted.
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
from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.committer import latest_of_user
from paimon_core.commit.message import CommitMessage
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import DYNAMIC_PARTITION_OVERWRITE
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_core.table.sink.after_commit import AfterCommit, Maintained
from paimon_core.table.sink.write_session import (
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
    """The snapshots of a commit, oldest first; empty if there was nothing to commit.

    `maintained` is what the maintenance after the commit removed, or why it failed.  None if the
    table is `write-only`, or if the maintenance runs in the background
    (`snapshot.expire.execution-mode`).
    """

    snapshots: tuple[Snapshot, ...] = ()
    maintained: Maintained | None = None


class _WriteBuilder:
    def __init__(self, table: FileStoreTable, context: Context) -> None:
        self._table = table
        self._context = context
        self._partition: dict[str, Any] | None = None
        self.commit_user = new_commit_user(table, context.env)
        """The commit user: unique for a batch; a stream uses the same one after a restart."""

    def overwrite(self, partition: Partition | None = None, *, dynamic: bool | None = None) -> Self:
        """Replace existing rows with the written ones, and return the builder.

        - With `partition`: replace the partitions that have these values.
        - With `dynamic=True`: replace the partitions that the written rows belong to.
        - With `dynamic=False`: replace the whole table.
        - With neither: the table option `dynamic-partition-overwrite` (default: true) decides
          between the last two, as in Java.

        Raises InvalidArgument for both, or for a column by which the table is not partitioned.
        """
        if partition and dynamic:
            raise InvalidArgument(
                f"table {self._table.name}: an overwrite of named partitions cannot be dynamic",
                table=self._table.name,
                next_step="give either partition or dynamic",
            )
        self._partition = partition_values(self._table, partition or {})
        chosen = False if partition else dynamic
        if chosen is not None:
            options = {DYNAMIC_PARTITION_OVERWRITE.key: str(chosen).lower()}
            self._table = replace(self._table, schema=self._table.schema.with_options(options))
        return self

    def new_write(self) -> TableWrite:
        """A writer; UnsupportedFeature for a table that this version cannot write."""
        return TableWrite(
            self._table,
            self._context,
            user=self.commit_user,
            overwrites=self._partition is not None,
        )


class BatchWriteBuilder(_WriteBuilder):
    """Creates the writers and the commit of a batch, which commits once."""

    def new_commit(self) -> BatchTableCommit:
        """A commit for the messages of the writers; it can be used once."""
        return BatchTableCommit(
            self._table, self._context, user=self.commit_user, partition=self._partition
        )


class StreamWriteBuilder(_WriteBuilder):
    """Creates the writers and the commit of a stream: many commits with increasing identifiers.

    A stream that restarts after a failure passes the same commit user, and commits all messages
    that may not be committed yet with `filter_and_commit`, which skips those that are.
    """

    def with_commit_user(self, commit_user: str) -> StreamWriteBuilder:
        """Commit as this user; a stream that restarts must pass the user that it had before."""
        self.commit_user = commit_user
        return self

    def new_commit(self) -> StreamTableCommit:
        """A commit for the messages of the writers; it can be used repeatedly."""
        return StreamTableCommit(
            self._table, self._context, user=self.commit_user, partition=self._partition
        )


class _Closing(ABC):
    """A context manager that calls `close` on exit."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; further calls do nothing."""

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
    """Writes rows to data files; `prepare_commit` returns them as commit messages.

    Columns are matched by name, and missing ones get their default value.  An optional column
    `_row_kind` (+I, -U, +U, -D) has the kind of each row; only primary-key tables accept other
    kinds than +I.  `write-buffer-size` limits the memory.  Methods that write raise InvalidArgument
    for an unknown column, and for a value that does not fit its column.
    """

    def __init__(
        self, table: FileStoreTable, context: Context, *, user: str, overwrites: bool
    ) -> None:
        self._table = table
        self._writer = new_writer(table, env=context.env, user=user, overwrite=overwrites)

    def write(self, data: Any) -> None:
        """Write rows: an Arrow table, batch or reader, a pandas DataFrame, or a list of dicts.

        Also accepts any object with the Arrow C stream interface (polars, DuckDB).
        """
        for rows in batches_in(data, self._table.schema):
            plain, kinds = split_kinds(rows)
            self._writer.write(plain, kinds)

    def write_arrow(self, table: pa.Table) -> None:
        """Write an Arrow table."""
        self.write(table)

    def write_arrow_batch(self, batch: pa.RecordBatch) -> None:
        """Write an Arrow batch."""
        self.write(batch)

    def write_pandas(self, dataframe: pd.DataFrame) -> None:
        """Write a pandas DataFrame; its index is ignored."""
        self.write(dataframe)

    def write_dicts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows given as dicts of column names and values."""
        self.write(rows)

    def prepare_commit(self) -> list[CommitMessage]:
        """Close the open files, and return the messages of all files since the last call.

        The messages can be pickled, and committed by another process.
        """
        return self._writer.prepare_commit()

    def abort(self) -> None:
        """Delete the files that `prepare_commit` has not returned yet."""
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
        """Delete the files of messages that are not committed and never will be."""
        delete_messages(self._table, messages)

    def close(self) -> None:
        """Wait for the background maintenance after the last commit."""
        self._after.close()

    def _commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int,
        watermark: int | None,
        *,
        ignore_empty: bool | None,
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
    """The commit of a batch; `commit` can be called once."""

    _used = False

    def commit(self, messages: Sequence[CommitMessage]) -> CommitResult:
        """Commit the messages in one snapshot, or two if they also contain compacted files.

        Raises CommitConflict, after it deleted the files of the messages, if another commit removed
        what this one needs.  Raises CommitStateUnknown if the store did not answer: the commit may
        exist.
        """
        if self._used:
            raise InvalidArgument(
                f"table {self._table.name}: a batch commit can be used only once",
                table=self._table.name,
                next_step="create another one with the builder",
            )
        self._used = True
        return self._commit(messages, BATCH_COMMIT_IDENTIFIER, None, ignore_empty=None)


class StreamTableCommit(_TableCommit):
    """The commits of a stream; the identifier must increase from commit to commit."""

    _last: int | None = None

    def last_committed_identifier(self) -> int | None:
        """The identifier of the newest commit of this user; None if there is none."""
        newest = latest_of_user(self._table, self.commit_user)
        return None if newest is None else newest.commit_identifier

    def commit(
        self, messages: Sequence[CommitMessage], identifier: int, *, watermark: int | None = None
    ) -> CommitResult:
        """Commit the messages with this identifier, even if there are none.

        `watermark` is in milliseconds since the epoch.  Use this for the first attempt only; after
        a failure use `filter_and_commit`.
        """
        if self._last is not None:
            messages = [
                m if m.keys_at is None else replace(m, follows=self._last) for m in messages
            ]
        result = self._commit(messages, identifier, watermark, ignore_empty=False)
        self._last = identifier
        return result

    def filter_and_commit(self, pending: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit the messages of all identifiers that are not committed yet, in order.

        Returns the number of these identifiers.  Raises InvalidArgument, before it commits
        anything, if a file of the messages no longer exists, or if the builder was set to
        overwrite.
        """
        if self._partition is not None:
            raise InvalidArgument(
                f"table {self._table.name}: an overwrite cannot be replayed",
                table=self._table.name,
                next_step="write and commit it again",
            )
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
