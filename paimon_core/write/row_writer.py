"""Writes rows to new files, ready to commit.

Java: `table/sink/TableWriteImpl`, `AbstractFileStoreWrite`.

The files become part of the table when `paimon_core.commit` commits them; uncommitted files are
orphans.  This writer never compacts: `paimon_core.table.sink.write_session` does, for tables that
are not `write-only`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.features import check_writable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.index.hash_index import Hashes, read_hash_index, write_hash_index
from paimon_core.io.file_io import delete_abandoned
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.merge_engine import DELETE, UPDATE_BEFORE
from paimon_core.manifest.data_file import DataFileMeta, FileSource, IndexFileMeta
from paimon_core.options import (
    BUCKET,
    DYNAMIC_PARTITION_OVERWRITE,
    WRITE_BUFFER_MAX_DISK_SIZE,
    WRITE_BUFFER_SIZE,
    WRITE_BUFFER_SPILLABLE,
    WRITE_MAX_WRITERS_TO_SPILL,
)
from paimon_core.scan.engine import merge_engine_for
from paimon_core.schema.tracked import tracked_schema
from paimon_core.snapshot.line import wrote_since
from paimon_core.snapshot.snapshot import NO_SNAPSHOT, Identity
from paimon_core.types.data_types import TypeRoot, type_roots
from paimon_core.write.blob_writer import RollingBlobWriter, blob_content
from paimon_core.write.bucket_sink import BucketSink, MergingSink, RollingWriter, StreamingSink
from paimon_core.write.data_file_writer import RollingAppendWriter, RollingKeyValueWriter
from paimon_core.write.dynamic_buckets import BucketRules, Buckets, PartitionBuckets
from paimon_core.write.global_index import GlobalIndex
from paimon_core.write.incoming_rows import Kinds, fit_to_schema, kept_rows, row_kinds
from paimon_core.write.managed_blobs import BlobPacks
from paimon_core.write.postpone import MOST_WRITER_ID, postpone_schema
from paimon_core.write.restore import ExistingBuckets
from paimon_core.write.route import Routed, by_bucket, partition_codes, route
from paimon_core.write.row_buffer import RowBuffer, SpillFolder
from paimon_core.write.strict_partitions import partition_check
from paimon_core.write.tracked_writer import RollingTrackedWriter

INDEX_PREFIX: Final = "index-"
BucketKey = tuple[bytes, int]


class RowWriter:
    """Collects rows; `prepare_commit` closes the files and returns what to commit.

    Memory: rows of primary-key tables, and of more than `write-max-writers-to-spill` buckets of
    others, wait in memory up to `buffer_bytes` (default: `write-buffer-size`) over all buckets;
    then those of the fullest bucket go to local disk, or to level 0 if the table is not
    `write-buffer-spillable`.  Rows of other tables go directly to their files.

    With `overwrite`, sequence numbers and hash indexes start empty, because the written partitions
    will hold nothing else.  `user` and `writer_id` are part of the names of postpone files: rows of
    one writer are replayed in their order.  `first_sequence` numbers the rows of every bucket from
    there on, whatever exists.  `sequence_offset` is added to the first number of each bucket, so
    that concurrent writers never use a number twice.  `global_index` holds the key locations of a
    cross-partition table (`table.index_bootstrap`).  `spill_dir` is a local folder (default: the
    system's).

    With `tracked`, the rows of a table with row tracking have the columns `_ROW_ID` and
    `_SEQUENCE_NUMBER`, and keep these numbers; a null sequence number becomes that of the commit.
    """

    def __init__(
        self,
        table: FileStoreTable,
        *,
        env: Environment,
        overwrite: bool = False,
        buffer_bytes: int | None = None,
        user: str | None = None,
        writer_id: int | None = None,
        first_sequence: int | None = None,
        sequence_offset: int = 0,
        global_index: GlobalIndex | None = None,
        spill_dir: str | None = None,
        tracked: bool = False,
    ) -> None:
        check_writable(table)
        cross_partition = table.bucket_mode is BucketMode.CROSS_PARTITION
        if cross_partition and overwrite and table.options.value(DYNAMIC_PARTITION_OVERWRITE):
            raise UnsupportedFeature(
                "overwriting partitions of a cross-partition table",
                f"keys of the new rows of table {table.name} may lie in partitions that are not "
                "overwritten: only the whole table can be overwritten",
                table=table.name,
                next_step=f"set {DYNAMIC_PARTITION_OVERWRITE.key}=false (in SQL: "
                "spark.sql.sources.partitionOverwriteMode=static) to overwrite all of it",
            )
        if cross_partition and global_index is None:
            raise InvalidArgument(
                f"table {table.name} has keys across partitions: its writer needs a global index",
                table=table.name,
                next_step="make the writer with paimon_core.table.sink.write_session.new_writer",
            )
        options = table.options
        self._table = table
        self._env = env
        self._buffer_bytes = buffer_bytes or options.value(WRITE_BUFFER_SIZE)
        self._disk_bytes = options.value(WRITE_BUFFER_MAX_DISK_SIZE)
        self._spillable = options.value(WRITE_BUFFER_SPILLABLE)
        self._folder = SpillFolder(spill_dir)
        self._first = first_sequence
        self._sequence_offset = sequence_offset
        self._global_index = global_index
        # An overwrite removes all keys, whoever wrote them.
        self._overwrite = overwrite
        # The commit of an overwrite has no changelog, in Java neither.
        self._has_changelog = changelog_producer_of(table.options).by_writer and not overwrite
        self._keys_at: Identity | None = None
        if global_index is not None and not overwrite:
            read = global_index.snapshot
            self._keys_at = NO_SNAPSHOT if read is None else read.identity
        self._user = user
        self._blind = overwrite or first_sequence is not None or _appends_blindly(table)
        seen = None if self._blind else table.snapshots.latest()
        self._seen = NO_SNAPSHOT if seen is None else seen.identity
        self._existing = ExistingBuckets(table, seen)
        self._prepared = False
        self._continued: dict[BucketKey, int] = {}
        self._sinks: dict[BucketKey, BucketSink] = {}
        blobs = TypeRoot.BLOB in type_roots(table.schema.row_type)
        self._has_packs = blobs and table.has_primary_key
        self._packs: dict[BucketKey, BlobPacks] = {}
        self._indexes: dict[bytes, PartitionBuckets] = {}
        self._index_files: dict[BucketKey, IndexFileMeta] = {}
        self._new_indexes: dict[BucketKey, str] = {}
        self._engine = merge_engine_for(table).engine
        self._file_schema = table.schema
        self._check_partition = partition_check(table)
        self._tracked = tracked
        if tracked:
            self._file_schema = tracked_schema(table.schema, new_numbers=True)
        if table.bucket_mode is BucketMode.POSTPONE:
            if writer_id is None:
                writer_id = int(env.jitter() * MOST_WRITER_ID)
            self._file_schema = postpone_schema(
                table.schema, user=user or env.new_uuid(), writer_id=writer_id
            )

    @property
    def table(self) -> FileStoreTable:
        """The table that is written to, as of the creation of the writer."""
        return self._table

    def write(
        self,
        rows: pa.RecordBatch | pa.Table,
        kinds: Kinds | None = None,
        *,
        bucket: int | None = None,
    ) -> None:
        """Write rows; `kinds` are row kinds (0 +I, 1 -U, 2 +U, 3 -D), all +I if None.

        Columns are matched by name; a nullable one may be missing.  `bucket` sends all rows to one
        bucket, whatever their keys.  Raises InvalidArgument for unknown columns, values that do not
        fit, nulls in NOT NULL columns, and deletes in append tables.
        """
        if bucket is not None and self._table.bucket_mode is BucketMode.DYNAMIC:
            raise InvalidArgument(
                f"rows of table {self._table.name} cannot be sent to a named bucket: its index "
                "assigns keys to buckets",
                table=self._table.name,
            )
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        tracked_type = self._file_schema.row_type if self._tracked else None
        table = fit_to_schema(self._table, table, tracked_type)
        kinds = row_kinds(self._table, table, kinds)
        offset = 0
        for batch in table.to_batches():
            part = None if kinds is None else kinds[offset : offset + batch.num_rows]
            offset += batch.num_rows
            self._write_batch(batch, part, bucket)

    def prepare_commit(self) -> list[CommitMessage]:
        """Return one message per bucket with rows; the writer is then empty and can be reused.

        On failure, finished files are deleted again, and the writer can only be aborted.
        """
        messages: list[CommitMessage] = []
        try:
            self._finish(messages)
        except BaseException:
            for message in messages:
                delete_new_files(self._table, message)
            raise
        self._sinks.clear()
        self._packs.clear()
        self._new_indexes.clear()
        self._folder.clear()
        self._prepared = True
        return [m for m in messages if not m.is_empty]

    def _finish(self, messages: list[CommitMessage]) -> None:
        """Close the files of every bucket and add their messages."""
        followed = self._followed_indexes()
        for packs in self._packs.values():
            packs.close()
        for key, sink in self._sinks.items():
            files, changelog = sink.finish()
            if isinstance(sink, MergingSink):
                self._continued[key] = sink.next_sequence
            elif files and files[-1].max_sequence_number >= 0:
                self._continued[key] = files[-1].max_sequence_number + 1
            old, new = self._written_index(*key)
            messages.append(
                CommitMessage(
                    partition=key[0],
                    bucket=key[1],
                    total_buckets=self._table.options.value(BUCKET),
                    new_files=tuple(files),
                    changelog_files=tuple(changelog),
                    new_index_files=() if new is None else (new,),
                    deleted_index_files=() if old is None else (old,),
                    keys_at=self._keys_at,
                    hash_indexes=followed.get(key[0]),
                    buckets_at=None if self._blind else self._seen,
                )
            )

    def abort(self) -> None:
        """Delete every file written since the last `prepare_commit`."""
        table = self._table
        paths = list(self._new_indexes.values())
        for (partition, bucket), sink in self._sinks.items():
            sink.abort()
            for file in sink.written():
                paths += data_file_paths(table, partition, bucket, file)
        delete_abandoned(table.io, paths)
        for packs in self._packs.values():
            packs.abort()
        self._sinks.clear()
        self._packs.clear()
        self._indexes.clear()
        self._new_indexes.clear()
        self._folder.clear()

    # --- rows ---

    def _write_batch(self, batch: pa.RecordBatch, kinds: Kinds | None, bucket: int | None) -> None:
        table = self._table
        if kinds is not None:
            keep = kept_rows(table, kinds)
            if keep is not None:
                batch, kinds = batch.filter(pa.array(keep)), kinds[keep]
            if not table.has_primary_key and np.isin(kinds, (UPDATE_BEFORE, DELETE)).any():
                raise InvalidArgument(
                    f"append table {table.name} takes +I and +U rows only", table=table.name
                )
        if batch.num_rows == 0:
            return
        if kinds is None:
            kinds = np.zeros(batch.num_rows, np.int8)
        if self._prepared:
            self._catch_up()
        if self._global_index is not None and bucket is None:
            assigned = self._global_index.assign(batch, kinds)
            batch, kinds = assigned.rows, assigned.kinds
            if batch.num_rows == 0:
                return
            self._existing.load(assigned.partitions)
            parts = by_bucket(assigned.partitions, assigned.codes, assigned.buckets)
        else:
            self._existing.load(partition_codes(table, batch)[0])
            parts = route(table, batch, dynamic=self._assign, bucket=bucket)
        for routed in parts:
            whole = len(routed.rows) == batch.num_rows
            rows = batch if whole else batch.take(pa.array(routed.rows))
            of_rows = kinds if whole else kinds[routed.rows]
            sink = self._sink(routed)
            if self._has_packs:
                packs = self._packs[routed.partition, routed.bucket]
                rows = packs.externalized(rows, of_rows)
            sink.add(rows, of_rows)
        self._relieve()

    def _catch_up(self) -> None:
        """Look at the commits since the last look, so that the next rows get greater numbers.

        Otherwise a row could lose against one that another writer committed before.  In Java, only
        a bucket without rows in a commit looks again (`AbstractFileStoreWrite.prepareCommit`).
        """
        self._prepared = False
        snapshots = self._table.snapshots
        latest = None if self._blind else snapshots.latest()
        if latest is not None and wrote_since(snapshots, self._seen, latest, self._user):
            self._existing = ExistingBuckets(self._table, latest)
        self._seen = NO_SNAPSHOT if latest is None else latest.identity

    def _relieve(self) -> None:
        """Move rows out of memory until the rest fits."""
        while sum(s.memory for s in self._sinks.values()) > self._buffer_bytes:
            fullest = max(self._sinks.values(), key=lambda s: s.memory)
            disk = sum(s.disk for s in self._sinks.values())
            fits = self._disk_bytes is None or disk + fullest.memory <= self._disk_bytes
            fullest.relieve(spill=self._spillable and fits)

    # --- sinks ---

    def _sink(self, routed: Routed) -> BucketSink:
        key = (routed.partition, routed.bucket)
        sink = self._sinks.get(key)
        if sink is None:
            sink = self._sinks[key] = self._new_sink(*key)
            if self._has_packs:
                self._packs[key] = BlobPacks(self._table, *key, env=self._env)
        return sink

    def _new_sink(self, partition: bytes, bucket: int) -> BucketSink:
        table = self._table
        if self._check_partition is not None:
            self._check_partition(partition)
        postponed = table.bucket_mode is BucketMode.POSTPONE
        if table.has_primary_key and not postponed:
            return MergingSink(
                table,
                self._engine,
                RowBuffer(self._folder, table.schema.key_type),
                lambda changelog: self._key_value_writer(partition, bucket, changelog=changelog),
                self._next_sequence(partition, bucket),
                has_changelog=self._has_changelog,
            )
        open_writer: Callable[[], RollingWriter]
        if postponed:
            open_writer = lambda: self._key_value_writer(partition, bucket)  # noqa: E731
        else:
            first = self._next_sequence(partition, bucket)
            open_writer = lambda: self._append_writer(partition, bucket, first)  # noqa: E731
        many = len(self._sinks) >= self._table.options.value(WRITE_MAX_WRITERS_TO_SPILL)
        return StreamingSink(
            RowBuffer(self._folder) if many else None, open_writer, key_value=postponed
        )

    def _key_value_writer(
        self, partition: bytes, bucket: int, *, changelog: bool = False
    ) -> RollingKeyValueWriter:
        return RollingKeyValueWriter(
            self._table.io,
            self._table.paths,
            partition,
            bucket,
            self._file_schema,
            level=0,
            file_source=FileSource.APPEND,
            env=self._env,
            changelog=changelog,
        )

    def _append_writer(self, partition: bytes, bucket: int, first: int) -> RollingAppendWriter:
        make: Callable[..., RollingAppendWriter] = RollingAppendWriter
        if self._tracked:
            make = RollingTrackedWriter
        elif TypeRoot.BLOB in type_roots(self._file_schema.row_type):
            table = self._table
            content = partial(blob_content, table.io, table.root, table.options)
            make = partial(RollingBlobWriter, content=content)
        return make(
            self._table.io,
            self._table.paths,
            partition,
            bucket,
            self._file_schema,
            file_source=FileSource.APPEND,
            env=self._env,
            first_sequence_number=first,
        )

    def _next_sequence(self, partition: bytes, bucket: int) -> int:
        # Bucket-unaware tables are never read in order, so Java counts from 0 there.
        if self._table.bucket_mode is BucketMode.UNAWARE:
            return 0
        first = self._first or self._existing.next_sequence(partition, bucket)
        return max(first + self._sequence_offset, self._continued.get((partition, bucket), 0))

    # --- hash indexes of dynamic buckets ---

    def _assign(self, partition: bytes, hashes: Hashes) -> Buckets:
        index = self._indexes.get(partition)
        if index is None:
            files = self._existing.partition(partition).hash_indexes
            for bucket, file in files.items():
                self._index_files.setdefault((partition, bucket), file)
            index = self._indexes[partition] = PartitionBuckets.load(
                BucketRules.of(self._table.options),
                self._table.name,
                self._read_indexes(partition),
            )
        return index.assign(hashes)

    def _read_indexes(self, partition: bytes) -> Iterator[tuple[int, Hashes]]:
        table = self._table
        for (owner, bucket), file in self._index_files.items():
            if owner == partition:
                path = table.paths.index_file(partition, bucket, file)
                yield bucket, read_hash_index(table.io, path, file)

    def _followed_indexes(self) -> dict[bytes, tuple[tuple[int, IndexFileMeta], ...]]:
        """Return the index files that decided about the buckets of rows, by partition."""
        if self._overwrite:
            return {}
        found: dict[bytes, list[tuple[int, IndexFileMeta]]] = {p: [] for p in self._indexes}
        for (partition, bucket), file in self._index_files.items():
            if partition in found:
                found[partition].append((bucket, file))
        return {partition: tuple(files) for partition, files in found.items()}

    def _written_index(
        self, partition: bytes, bucket: int
    ) -> tuple[IndexFileMeta | None, IndexFileMeta | None]:
        """Return a bucket's (removed index file, added index file); neither if no key is new."""
        index = self._indexes.get(partition)
        if index is None or bucket not in index.changed:
            return None, None
        path = self._table.paths.index(f"{INDEX_PREFIX}{self._env.new_uuid()}-0")
        self._new_indexes[partition, bucket] = path
        new = write_hash_index(self._table.io, path, index.of_bucket(bucket))
        old = self._index_files.get((partition, bucket))
        self._index_files[partition, bucket] = new
        index.changed.discard(bucket)
        return old, new


def _appends_blindly(table: FileStoreTable) -> bool:
    """Return whether a writer can append without reading the existing state."""
    return table.bucket_mode in (BucketMode.UNAWARE, BucketMode.POSTPONE)


def data_file_paths(
    table: FileStoreTable, partition: bytes, bucket: int, file: DataFileMeta
) -> Iterator[str]:
    """Return the paths of a data file and its extra files."""
    yield table.paths.data_file(partition, bucket, file)
    for extra in file.extra_files:
        yield table.paths.extra_file(partition, bucket, file, extra)


def new_paths(table: FileStoreTable, message: CommitMessage) -> Iterator[str]:
    """Yield the paths of the files that exist only because of a message."""
    for file in message.written_files():
        yield from data_file_paths(table, message.partition, message.bucket, file)
    for index in (*message.new_index_files, *message.compact_new_index_files):
        yield table.paths.index_file(message.partition, message.bucket, index)


def delete_new_files(table: FileStoreTable, message: CommitMessage) -> None:
    """Delete the new files of a message that will not be committed."""
    delete_abandoned(table.io, new_paths(table, message))
