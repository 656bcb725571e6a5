"""Writers in the sense of engines: they take rows, commit them, and compact.

Java: `table/sink/TableWriteImpl` and `TableCommitImpl` together.  A table that is not `write-only`
is compacted by its writers: each commit then creates an APPEND snapshot and, if a bucket was due, a
COMPACT snapshot of the same user and identifier.  Compaction is optional: if another commit
replaced the files that it read, its result is dropped and the rows stay committed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from paimon_core.commit.committer import commit, filter_committed, latest_of_user
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.overwrite import overwrite
from paimon_core.compaction.due import BucketFiles, delete_results
from paimon_core.compaction.unit import CompactResult
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.features import uncompactable_features
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import WRITE_ONLY
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_core.table.compact_table import compact_buckets
from paimon_core.table.index_bootstrap import load_global_index
from paimon_core.write.incoming_rows import Kinds
from paimon_core.write.row_writer import RowWriter, delete_new_files, new_paths

log = logging.getLogger(__name__)


def new_writer(
    table: FileStoreTable,
    *,
    env: Environment,
    overwrite: bool = False,
    buffer_bytes: int | None = None,
    user: str | None = None,
    writer_id: int | None = None,
    sequence_offset: int = 0,
    spill_dir: str | None = None,
) -> RowWriter:
    """Return a writer for any kind of table; arguments as in `RowWriter`.

    For a cross-partition table, whose writer must know the location of each key, all keys are read
    first.
    """
    needs_keys = table.bucket_mode is BucketMode.CROSS_PARTITION and not overwrite
    return RowWriter(
        table,
        env=env,
        overwrite=overwrite,
        buffer_bytes=buffer_bytes,
        user=user,
        writer_id=writer_id,
        sequence_offset=sequence_offset,
        global_index=load_global_index(table, table.snapshots.latest()) if needs_keys else None,
        spill_dir=spill_dir,
    )


def write_rows(
    table: FileStoreTable,
    rows: pa.RecordBatch | pa.Table,
    kinds: Kinds | None = None,
    *,
    env: Environment,
    user: str | None = None,
    partition: Mapping[str, object] | None = None,
) -> tuple[Snapshot, ...]:
    """Commit one batch and return its snapshots; `partition` makes it an overwrite (`overwrite`)."""
    user = user or env.new_uuid()
    writer = new_writer(table, env=env, user=user, overwrite=partition is not None)
    writer.write(rows, kinds)
    messages = writer.prepare_commit()
    if partition is not None:
        made = overwrite(table, messages, user=user, env=env, partition=partition)
        return () if made is None else (made,)
    return commit_write(table, messages, env=env, user=user)


def commit_write(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    *,
    env: Environment,
    user: str,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    watermark: int | None = None,
    ignore_empty: bool = True,
    check: bool = False,
) -> tuple[Snapshot, ...]:
    """Commit what a writer wrote as APPEND, then the compaction that became due as COMPACT.

    The compaction runs first, so that readers see the first without the second only briefly.
    `check` checks even plain appends for conflicts, as replays do.  Errors as in `commit`.
    """
    results = compact_written(table, messages, env=env)
    try:
        made = commit(
            table,
            messages,
            user=user,
            env=env,
            identifier=identifier,
            watermark=watermark,
            ignore_empty=ignore_empty,
            check_append=check,
        )
    except CommitConflict:
        delete_results(table, results)
        raise
    if not results:
        return made
    try:
        compacted = commit(
            table,
            [r.to_message() for r in results],
            user=user,
            env=env,
            identifier=identifier,
            watermark=watermark,
        )
    except CommitConflict as e:
        log.info("table=%s compaction after a write dropped: %s", table.name, e)
        delete_results(table, results)
        return made
    return (*made, *compacted)


def delete_messages(table: FileStoreTable, messages: Iterable[CommitMessage]) -> None:
    """Delete the files of messages that are certain never to be committed."""
    for message in messages:
        delete_new_files(table, message)


def compact_written(
    table: FileStoreTable, messages: Sequence[CommitMessage], *, env: Environment
) -> list[CompactResult]:
    """Compact the due buckets that the messages write to; a no-op for write-only tables.

    Like Java's core, this leaves bucket=-1 tables to the engines.
    """
    if table.options.value(WRITE_ONLY) or table.bucket_mode in (
        BucketMode.UNAWARE,
        BucketMode.POSTPONE,
    ):
        return []
    if any(True for _ in uncompactable_features(table)):
        return []
    return compact_buckets(
        table, _written_buckets(table, messages), full=False, env=env, until_done=False
    )


def _written_buckets(table: FileStoreTable, messages: Sequence[CommitMessage]) -> list[BucketFiles]:
    """Return the buckets that got files, with their previous content."""
    new: dict[tuple[bytes, int], tuple[DataFileMeta, ...]] = {
        (m.partition, m.bucket): m.new_files for m in messages if m.new_files
    }
    totals = {(m.partition, m.bucket): m.total_buckets for m in messages}
    old: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    latest = table.snapshots.latest()
    if latest is not None and new:
        for entry in scan_files(table, latest, partitions={p for p, _ in new}):
            old[entry.partition, entry.bucket].append(entry)
    vectors = {} if latest is None else vector_files(table, latest)
    return [
        BucketFiles(
            partition=key[0],
            bucket=key[1],
            total_buckets=totals[key],
            files=(*(e.file for e in old[key]), *files),
            vector_files=vectors.get(key, ()),
        )
        for key, files in new.items()
    ]


class StreamWriter:
    """Makes a series of commits as one user; a replay after a failure commits nothing twice.

    Identifiers grow from commit to commit.  After any failure, create a new writer for the same
    user, call `committed_up_to`, and write everything after that again: it includes a commit whose
    reply was lost.
    """

    def __init__(
        self,
        table: FileStoreTable,
        *,
        user: str,
        env: Environment,
        buffer_bytes: int | None = None,
        spill_dir: str | None = None,
    ) -> None:
        self._table = table
        self._env = env
        self._user = user
        self._last = self.committed_up_to()
        self._writer = new_writer(
            table, env=env, user=user, buffer_bytes=buffer_bytes, spill_dir=spill_dir
        )

    def committed_up_to(self) -> int | None:
        """Return the greatest identifier that this user has committed; None if there is none."""
        newest = latest_of_user(self._table, self._user)
        return None if newest is None else newest.commit_identifier

    def write(self, rows: pa.RecordBatch | pa.Table, kinds: Kinds | None = None) -> None:
        """Add rows to the next commit, as `RowWriter.write`."""
        self._writer.write(rows, kinds)

    def commit(self, identifier: int, *, watermark: int | None = None) -> tuple[Snapshot, ...]:
        """Commit all rows since the last commit; return at least one snapshot, even without rows.

        Raises InvalidArgument if the identifier is not greater than the last one.
        """
        if self._last is not None and identifier <= self._last:
            raise InvalidArgument(
                f"commit identifier {identifier} of user {self._user} is not greater than "
                f"{self._last}, which is committed",
                table=self._table.name,
            )
        messages = self._writer.prepare_commit()
        made = commit_write(
            self._table,
            messages,
            env=self._env,
            user=self._user,
            identifier=identifier,
            watermark=watermark,
            ignore_empty=False,
        )
        self._last = identifier
        return made

    def abort(self) -> None:
        """Delete the files of uncommitted rows."""
        self._writer.abort()


def replay_commits(
    table: FileStoreTable,
    pending: Mapping[int, Sequence[CommitMessage]],
    *,
    user: str,
    env: Environment,
) -> tuple[Snapshot, ...]:
    """Commit prepared messages again after a failure, in the order of their identifiers.

    Those already committed are skipped (Java: `TableCommitImpl.filterAndCommit`).  Raises
    InvalidArgument, before anything is committed, if a file of the others is gone.
    """
    left = filter_committed(table, sorted(pending), user=user)
    for identifier in left:
        for message in pending[identifier]:
            for path in new_paths(table, message):
                if not table.io.exists(path):
                    raise InvalidArgument(
                        f"commit {identifier} of user {user} cannot be replayed: its file {path} "
                        f"is gone",
                        table=table.name,
                        file=path,
                        next_step="write its rows again under a new identifier; if the file was "
                        "removed as an orphan, raise older_than of remove_orphan_files",
                    )
    made: list[Snapshot] = []
    for identifier in left:
        made += commit(
            table,
            pending[identifier],
            user=user,
            env=env,
            identifier=identifier,
            ignore_empty=False,
            check_append=True,
        )
    return tuple(made)
