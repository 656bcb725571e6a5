"""Rows into new files, ready to commit (Java: `table/sink/TableWriteImpl`, `MergeTreeWriter`).

Nothing written here is part of the table before `paimon_core.commit` says so; what is never
committed is an orphan.  The writer never compacts: it behaves as with `write-only`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.features import check_writable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.lsm.key_order import key_digits, sort_rows
from paimon_core.lsm.merge_engine import DELETE, UPDATE_BEFORE
from paimon_core.lsm.sort_merge import merge_sorted
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.options import (
    BUCKET,
    CHANGELOG_PRODUCER,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
)
from paimon_core.scan.engine import merge_engine_for
from paimon_core.scan.scan import scan_files
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.types.arrow import arrow_schema
from paimon_core.write.data_file_writer import RollingAppendWriter, RollingKeyValueWriter
from paimon_core.write.route import Routed, route

BUFFER_BYTES = 256 * 1024**2
BucketKey = tuple[bytes, int]


@dataclass(slots=True)
class _KeyValueBucket:
    """Rows of one bucket that wait for being sorted, and the files made so far."""

    next_sequence: int
    total_buckets: int
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    files: list[DataFileMeta] = field(default_factory=list)
    changelog: list[DataFileMeta] = field(default_factory=list)


class TableWriter:
    """Collects rows; `prepare_commit` closes the files and says what to commit.

    Memory: primary-key rows wait in memory up to `buffer_bytes` over all buckets, then the fullest
    bucket is sorted, merged and written as a level-0 file.  Append rows go to their files at once.
    With `overwrite`, sequence numbers start anew, as the partitions written will hold nothing else.
    """

    def __init__(
        self,
        table: FileStoreTable,
        *,
        env: Environment,
        overwrite: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        check_writable(table)
        self._table = table
        self._env = env
        self._overwrite = overwrite
        self._buffer_bytes = buffer_bytes
        self._latest = None if overwrite else table.snapshots.latest()
        self._existing: dict[bytes, dict[int, int]] = {}
        self._continued: dict[BucketKey, int] = {}
        self._buckets: dict[BucketKey, _KeyValueBucket] = {}
        self._appenders: dict[BucketKey, RollingAppendWriter] = {}
        self._schema = arrow_schema(table.schema.row_type)
        self._engine = merge_engine_for(table).engine

    def write(
        self, rows: pa.RecordBatch | pa.Table, kinds: npt.NDArray[np.int8] | None = None
    ) -> None:
        """Take the rows in; `kinds` are row kinds (0 +I, 1 -U, 2 +U, 3 -D), all +I if None.

        Columns are found by name; a nullable one may be missing.  InvalidArgument for unknown
        columns, values that do not fit, nulls where none may be, and deletes in append tables.
        """
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        offset = 0
        for batch in _conform(self._table, table, self._schema).to_batches():
            part = None if kinds is None else kinds[offset : offset + batch.num_rows]
            offset += batch.num_rows
            self._write_batch(batch, part)

    def prepare_commit(self) -> list[CommitMessage]:
        """One message a bucket that got rows; the writer is empty and usable again."""
        messages: list[CommitMessage] = []
        for (partition, bucket), state in self._buckets.items():
            self._flush(partition, bucket, state)
            messages.append(
                CommitMessage(
                    partition=partition,
                    bucket=bucket,
                    total_buckets=state.total_buckets,
                    new_files=tuple(state.files),
                    changelog_files=tuple(state.changelog),
                )
            )
            state.files, state.changelog = [], []
        for (partition, bucket), writer in self._appenders.items():
            buckets = self._table.options.value(BUCKET)
            files = writer.close()
            messages.append(
                CommitMessage(
                    partition=partition,
                    bucket=bucket,
                    total_buckets=buckets,
                    new_files=tuple(files),
                )
            )
            if files:
                self._continued[partition, bucket] = files[-1].max_sequence_number + 1
        self._appenders.clear()
        return [m for m in messages if not m.is_empty]

    def abort(self) -> None:
        """Delete every file written since the last `prepare_commit`."""
        for writer in self._appenders.values():
            writer.abort()
        for (partition, bucket), state in self._buckets.items():
            paths = self._table.paths
            for file in (*state.files, *state.changelog):
                self._table.io.delete(paths.data_file(partition, bucket, file))
                for extra in file.extra_files:
                    self._table.io.delete(paths.extra_file(partition, bucket, file, extra))
        self._appenders.clear()
        self._buckets.clear()

    def _write_batch(self, batch: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None) -> None:
        table = self._table
        if kinds is not None:
            keep = _kept_kinds(table, kinds)
            if keep is not None:
                batch, kinds = batch.filter(pa.array(keep)), kinds[keep]
            if not table.has_primary_key and np.isin(kinds, (UPDATE_BEFORE, DELETE)).any():
                raise InvalidArgument(
                    f"append table {table.name} takes +I and +U rows only", table=table.name
                )
        for routed in route(table, batch):
            rows = (
                batch if len(routed.rows) == batch.num_rows else batch.take(pa.array(routed.rows))
            )
            if table.has_primary_key:
                part = np.zeros(rows.num_rows, np.int8) if kinds is None else kinds[routed.rows]
                self._buffer(routed, rows, part)
            else:
                self._append(routed, rows)

    def _append(self, routed: Routed, rows: pa.RecordBatch) -> None:
        key = (routed.partition, routed.bucket)
        writer = self._appenders.get(key)
        if writer is None:
            # Unaware buckets are never read in order, so Java counts from 0 there.
            first = (
                0
                if self._table.bucket_mode is BucketMode.UNAWARE
                else self._next_sequence(routed.partition, routed.bucket)
            )
            writer = RollingAppendWriter(
                self._table.io,
                self._table.paths,
                routed.partition,
                routed.bucket,
                self._table.schema,
                file_source=FileSource.APPEND,
                new_uuid=self._env.new_uuid,
                creation_time=self._env.local_millis,
                first_sequence_number=first,
            )
            self._appenders[key] = writer
        writer.write(rows)

    def _buffer(self, routed: Routed, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> None:
        key = (routed.partition, routed.bucket)
        state = self._buckets.get(key)
        if state is None:
            state = _KeyValueBucket(
                next_sequence=self._next_sequence(*key),
                total_buckets=self._table.options.value(BUCKET),
            )
            self._buckets[key] = state
        sequence = np.arange(
            state.next_sequence, state.next_sequence + rows.num_rows, dtype=np.int64
        )
        state.next_sequence += rows.num_rows
        state.waiting.append(
            pa.RecordBatch.from_arrays(
                [pa.array(sequence), pa.array(kinds, pa.int8()), *rows.columns],
                names=[SEQUENCE_NUMBER, VALUE_KIND, *rows.schema.names],
            )
        )
        state.waiting_bytes += state.waiting[-1].nbytes
        if sum(s.waiting_bytes for s in self._buckets.values()) > self._buffer_bytes:
            (partition, bucket), fullest = max(
                self._buckets.items(), key=lambda item: item[1].waiting_bytes
            )
            self._flush(partition, bucket, fullest)

    def _flush(self, partition: bytes, bucket: int, state: _KeyValueBucket) -> None:
        if not state.waiting:
            return
        schema = self._table.schema
        batch = pa.concat_batches(state.waiting)
        keys = [batch.column(k) for k in schema.trimmed_primary_keys]
        order, _ = sort_rows(key_digits(keys))
        ordered = batch.take(pa.array(order))
        if self._table.options.value(CHANGELOG_PRODUCER) == "input":
            # The changelog of producer `input` is what came in, before it is merged.
            state.changelog += self._write_files(partition, bucket, iter([ordered]), changelog=True)
        merged = merge_sorted(
            [iter([ordered])],
            key=schema.key_type,
            sequence_fields=schema.options.value(SEQUENCE_FIELD),
            descending=schema.options.value(SEQUENCE_FIELD_SORT_ORDER) == "descending",
            engine=self._engine,
        )
        state.files += self._write_files(partition, bucket, merged, changelog=False)
        state.waiting, state.waiting_bytes = [], 0

    def _write_files(
        self, partition: bytes, bucket: int, rows: Iterator[pa.RecordBatch], *, changelog: bool
    ) -> list[DataFileMeta]:
        writer = RollingKeyValueWriter(
            self._table.io,
            self._table.paths,
            partition,
            bucket,
            self._table.schema,
            level=0,
            file_source=FileSource.APPEND,
            new_uuid=self._env.new_uuid,
            creation_time=self._env.local_millis,
            changelog=changelog,
        )
        try:
            for batch in rows:
                writer.write(batch)
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    def _next_sequence(self, partition: bytes, bucket: int) -> int:
        """One more than the greatest sequence number in the bucket (JAVA_RULES D2)."""
        continued = self._continued.get((partition, bucket))
        if continued is not None:
            return continued
        if self._latest is None:
            return 0
        known = self._existing.get(partition)
        if known is None:
            known = self._scan_partition(partition)
            self._existing[partition] = known
        return known.get(bucket, -1) + 1

    def _scan_partition(self, partition: bytes) -> dict[int, int]:
        if self._latest is None:
            return {}
        newest: dict[int, int] = {}
        buckets = self._table.options.value(BUCKET)
        for entry in scan_files(self._table, self._latest, partitions=[partition]):
            if entry.total_buckets not in (buckets, -1) and entry.total_buckets > 0:
                where = self._table.paths.partition_path(partition) or "the table"
                raise InvalidArgument(
                    f"{where} of table {self._table.name} has {entry.total_buckets} buckets, but "
                    f"the table's option asks for {buckets}",
                    table=self._table.name,
                    next_step="rescale the partition first (caretaker run rescale)",
                )
            newest[entry.bucket] = max(newest.get(entry.bucket, -1), entry.file.max_sequence_number)
        return newest


def _kept_kinds(table: FileStoreTable, kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_] | None:
    """Which rows the writer keeps; None for all (Java: `utils/RowKindFilter`)."""
    if table.options.value(IGNORE_DELETE):
        return np.isin(kinds, (UPDATE_BEFORE, DELETE), invert=True)
    if table.options.value(IGNORE_UPDATE_BEFORE):
        return np.not_equal(kinds, UPDATE_BEFORE)
    return None


def _conform(table: FileStoreTable, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    unknown = [n for n in rows.schema.names if n not in schema.names]
    if unknown:
        raise InvalidArgument(
            f"table {table.name} has no column {', '.join(unknown)}", table=table.name
        )
    columns: list[pa.ChunkedArray] = []
    for f, data_field in zip(schema, table.schema.fields, strict=True):
        if f.name in rows.schema.names:
            column = rows.column(f.name)
            if column.type != f.type:
                try:
                    column = column.cast(f.type)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
                    raise InvalidArgument(
                        f"column {f.name} of table {table.name}: {e}", table=table.name
                    ) from e
        else:
            column = pa.chunked_array([pa.nulls(rows.num_rows, f.type)])
        if column.null_count and not data_field.type.nullable:
            raise InvalidArgument(
                f"null in column {f.name} of table {table.name}, which is NOT NULL",
                table=table.name,
            )
        columns.append(column)
    return pa.table(columns, schema=schema)
