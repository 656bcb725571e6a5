"""Writers in the sense of engines: they take rows, commit them, and compact.

Java: `table/sink/TableWriteImpl` and `TableCommitImpl` together.  A table that is not `write-only`
is compacted by its writers: each commit then creates an APPEND snapshot and, if a bucket was due, a
COMPACT snapshot of the same user and identifier.  What expires afterwards is up to `after_commit`.
Compaction is optional: if another commit replaced the files that it read, its result is dropped and
the rows stay committed, as they do if it fails.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.committer import commit, filter_committed
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.overwrite import Check, overwrite
from paimon_core.commit.row_group_conflict import RowGroup
from paimon_core.compaction.due import BucketFiles, delete_results
from paimon_core.compaction.unit import CompactResult
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument, PaimonError
from paimon_core.features import uncompactable_features
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import (
    FULL_COMPACTION_DELTA_COMMITS,
    IGNORE_EMPTY_COMMIT,
    SNAPSHOT_ORDERING,
    WRITE_ONLY,
)
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.replaced import older_than_replacement
from paimon_core.snapshot.expiry_beside import read_beside_expiry
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Identity, Snapshot
from paimon_core.table.chain.overwrite import ChainOverwrite, check_with_chain
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.compact_table import buckets_of, compact_buckets
from paimon_core.table.sink.index_bootstrap import load_global_index
from paimon_core.table.sink.visibility import wait_until_visible
from paimon_core.write.incoming_rows import Kinds
from paimon_core.write.on_failure import aborted_on_failure
from paimon_core.write.row_writer import RowWriter, delete_new_files, new_paths

log = logging.getLogger(__name__)


def new_writer(
    table: FileStoreTable,
    *,
    env: Environment,
    overwrite: bool = False,
    user: str | None = None,
    writer_id: int | None = None,
    sequence_offset: int = 0,
    tracked: bool = False,
) -> RowWriter:
    """Return a writer for any kind of table; arguments as in `RowWriter`.

    For a cross-partition table, whose writer must know the location of each key, all keys are read
    first, unless an overwrite removes them.
    """
    before = None if overwrite else table.snapshots.latest()
    return RowWriter(
        table,
        env=env,
        overwrite=overwrite,
        user=user,
        writer_id=writer_id,
        sequence_offset=sequence_offset,
        global_index=load_global_index(table, before),
        tracked=tracked,
    )


def write_rows(
    table: FileStoreTable,
    rows: pa.RecordBatch | pa.Table,
    kinds: Kinds | None = None,
    *,
    env: Environment,
    partition: Mapping[str, object] | None = None,
    after: AfterCommit | None = None,
    rows_at: Identity | None = None,
) -> tuple[Snapshot, ...]:
    """Commit one batch and return its snapshots; `partition` makes it an overwrite (`overwrite`).

    `after` and `rows_at` as in `commit_write`.
    """
    user = new_commit_user(table, env)
    messages = prepare_rows(table, rows, kinds, env=env, user=user, overwrite=partition is not None)
    if partition is not None:
        return commit_overwrite(
            table,
            messages,
            user=user,
            env=env,
            partition=partition,
            after=after,
            rows_at=rows_at,
        )
    return commit_write(table, messages, env=env, user=user, after=after, rows_at=rows_at)


def prepare_rows(
    table: FileStoreTable,
    rows: pa.RecordBatch | pa.Table,
    kinds: Kinds | None = None,
    *,
    env: Environment,
    user: str,
    overwrite: bool,
) -> list[CommitMessage]:
    """Write one batch for a commit of this user; after a failure no file is left."""
    writer = new_writer(table, env=env, user=user, overwrite=overwrite)
    with aborted_on_failure((writer,)):
        writer.write(rows, kinds)
        return writer.prepare_commit()


def commit_overwrite(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    *,
    env: Environment,
    user: str,
    partition: Mapping[str, object] | None = None,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    after: AfterCommit | None = None,
    rows_at: Identity | None = None,
    check: Check | None = None,
) -> tuple[Snapshot, ...]:
    """Commit an overwrite (`commit.overwrite.overwrite`), then do what follows a commit.

    InvalidArgument if its rows or partitions are refused: then the files of the messages are
    deleted, as after a CommitConflict of a batch.  `check` as in `overwrite`.
    """
    after = after or AfterCommit(table, env=env)
    chain = ChainOverwrite.of(table)
    try:
        made = overwrite(
            table,
            messages,
            user=user,
            env=env,
            partition=partition,
            identifier=identifier,
            watermark=watermark,
            properties=properties,
            check=check_with_chain(chain, check),
            rows_at=rows_at,
        )
    except (CommitConflict, InvalidArgument) as e:
        _clean_up(table, messages, e, identifier)
        raise
    if chain is not None and made is not None:
        chain.follow(env)
    _follow(table, messages, after, env=env, user=user, identifier=identifier)
    return () if made is None else (made,)


def commit_write(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    *,
    env: Environment,
    user: str,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    ignore_empty: bool | None = None,
    after: AfterCommit | None = None,
    rows_at: Identity | None = None,
) -> tuple[Snapshot, ...]:
    """Commit what a writer wrote as APPEND, then the compaction that became due as COMPACT.

    The compaction runs first, so that readers see the first without the second only briefly.
    Without rows there is no snapshot unless `ignore_empty` (default: the option
    `snapshot.ignore-empty-commit`) is False.
    `after` does what follows a commit (default: a new one); writers that commit more than once pass
    their own.  `properties` are stored in the snapshots.  `rows_at` is the snapshot from whose rows
    those of a primary-key table were computed: RowsChanged if others changed them since.  Errors as
    in `commit`; after a CommitConflict of a batch, the files of the messages are deleted.
    """
    after = after or AfterCommit(table, env=env)
    try:
        made = _commit_and_compact(
            table,
            messages,
            env=env,
            user=user,
            identifier=identifier,
            watermark=watermark,
            properties=properties,
            ignore_empty=_ignores_empty(table) if ignore_empty is None else ignore_empty,
            rows_at=rows_at,
        )
    except CommitConflict as e:
        _clean_up(table, messages, e, identifier)
        raise
    _follow(table, messages, after, env=env, user=user, identifier=identifier)
    return made


def commit_files(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    *,
    env: Environment,
    user: str,
    row_groups: Sequence[RowGroup] = (),
    after: AfterCommit | None = None,
    rows_at: Identity | None = None,
) -> tuple[Snapshot, ...]:
    """Commit changes that are not only new rows, then do what follows a commit (`commit_write`).

    For DELETE and the like: deleted files, deletion vectors, columns for `row_groups`.  `rows_at`
    is the snapshot in which the new rows were not found, None if nobody looked.  CommitConflict if
    another commit replaced a file meanwhile: then the files of the messages are deleted.
    """
    after = after or AfterCommit(table, env=env)
    try:
        made = commit(
            table,
            messages,
            user=user,
            env=env,
            row_groups=row_groups,
            ignore_empty=_ignores_empty(table),
            rows_at=rows_at,
        )
    except CommitConflict:
        delete_messages(table, messages)
        raise
    _follow(table, messages, after, env=env, user=user, identifier=BATCH_COMMIT_IDENTIFIER)
    return made


def _follow(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    after: AfterCommit,
    *,
    env: Environment,
    user: str,
    identifier: int,
) -> None:
    """Do what follows a commit; a batch may wait until its rows are visible."""
    after.run(user=user, identifier=identifier, messages=messages)
    if identifier == BATCH_COMMIT_IDENTIFIER:
        wait_until_visible(table, messages, env=env)


def _clean_up(
    table: FileStoreTable, messages: Sequence[CommitMessage], error: PaimonError, identifier: int
) -> None:
    """Delete the files of messages that were refused; a stream may commit its own again."""
    if identifier == BATCH_COMMIT_IDENTIFIER or isinstance(error, InvalidArgument):
        delete_messages(table, messages)


def _ignores_empty(table: FileStoreTable) -> bool:
    """Whether batch commits without changes make no snapshot (Java: `BatchWriteBuilderImpl`)."""
    return table.options.value(IGNORE_EMPTY_COMMIT)


def _commit_and_compact(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    *,
    env: Environment,
    user: str,
    identifier: int,
    watermark: int | None,
    properties: Mapping[str, str] | None,
    ignore_empty: bool,
    rows_at: Identity | None,
) -> tuple[Snapshot, ...]:
    # Others may have compacted the files meanwhile, and let them expire.
    results = read_beside_expiry(
        partial(compact_written, table, messages, env=env, identifier=identifier),
        lambda: table.snapshots,
    )
    try:
        made = commit(
            table,
            messages,
            user=user,
            env=env,
            identifier=identifier,
            watermark=watermark,
            properties=properties,
            ignore_empty=ignore_empty,
            rows_at=rows_at,
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
            properties=properties,
        )
    except CommitConflict as e:
        log.info("table=%s compaction after a write dropped: %s", table.name, e)
        delete_results(table, results)
        return made
    except Exception as e:
        if not made:
            raise
        # Whoever is told of an error writes the rows again.
        log.warning(
            "table=%s snapshot=%d has the rows, but their compaction failed: %s",
            table.name,
            made[-1].id,
            e,
        )
        return made
    return (*made, *compacted)


def delete_messages(table: FileStoreTable, messages: Iterable[CommitMessage]) -> None:
    """Delete the files of messages that are certain never to be committed."""
    for message in messages:
        delete_new_files(table, message)


def compact_written(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    *,
    env: Environment,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
) -> list[CompactResult]:
    """Compact the due buckets that the messages write to; a no-op for write-only tables.

    When a full compaction is due (`full_compaction_due`), it compacts what the messages write to
    and, in a stream, every bucket that is not compacted fully: the ones that this and other commits
    have written since the last time.  Like Java's core, this leaves bucket=-1 tables to the
    engines.  Others may have added columns since the writer began, so new files have the newest
    schema.
    """
    if table.options.value(WRITE_ONLY) or table.bucket_mode in (
        BucketMode.UNAWARE,
        BucketMode.POSTPONE,
    ):
        return []
    table, latest = table.at_newest_snapshot()
    if table.options.value(WRITE_ONLY):
        return []
    if table.options.value(SNAPSHOT_ORDERING):
        return []  # the new files have no numbers before the commit
    if any(True for _ in uncompactable_features(table)):
        return []
    buckets = _written_buckets(table, latest, messages)
    schemas = {file.schema_id for bucket in buckets for file in bucket.files}
    if older_than_replacement(table.schemas, schemas, table.schema):
        return []  # the commit refuses rows from before a replacement, a job names those of others
    full = full_compaction_due(table, identifier)
    if full and identifier != BATCH_COMMIT_IDENTIFIER:
        written = {(b.partition, b.bucket) for b in buckets}
        buckets += [b for b in buckets_of(table) if (b.partition, b.bucket) not in written]
    return compact_buckets(table, buckets, full=full, env=env, until_done=False)


def full_compaction_due(table: FileStoreTable, identifier: int) -> bool:
    """Return whether the commit with this identifier compacts fully.

    Java: Flink's `StoreSinkWrite` and `GlobalFullCompactionSinkWrite`; java-rules F7.  Streams do
    so every `full-compaction.delta-commits`, batches with each commit.  Tables whose changelog
    comes from full compactions do so with each commit unless the option says otherwise.
    """
    if not table.has_primary_key:
        return False
    every = table.options.value(FULL_COMPACTION_DELTA_COMMITS)
    if every is None:
        every = 1 if changelog_producer_of(table.options).top_level_only else None
    return every is not None and (identifier == BATCH_COMMIT_IDENTIFIER or identifier % every == 0)


def _written_buckets(
    table: FileStoreTable, latest: Snapshot | None, messages: Sequence[CommitMessage]
) -> list[BucketFiles]:
    """Return the buckets that got files, with their content in the newest snapshot."""
    new: dict[tuple[bytes, int], tuple[DataFileMeta, ...]] = {
        (m.partition, m.bucket): m.new_files for m in messages if m.new_files
    }
    totals = {(m.partition, m.bucket): m.total_buckets for m in messages}
    old: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
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


def replay_commits(
    table: FileStoreTable,
    pending: Mapping[int, Sequence[CommitMessage]],
    *,
    user: str,
    env: Environment,
    after: AfterCommit | None = None,
) -> tuple[Snapshot, ...]:
    """Commit prepared messages again after a failure, in the order of their identifiers.

    Those already committed are skipped (Java: `TableCommitImpl.filterAndCommit`).  Raises
    InvalidArgument, before anything is committed, if a file of the others is gone.
    """
    after = after or AfterCommit(table, env=env)
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
    if left:
        after.run(user=user, identifier=left[-1])
    return tuple(made)
