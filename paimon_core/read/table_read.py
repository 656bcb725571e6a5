"""The rows of a snapshot (Java: `table/source/KeyValueTableRead`, `operation/MergeFileSplitRead`).

Append tables are read file by file.  A primary-key table is read bucket by bucket: its files are
cut into sections whose key ranges do not meet, and in each section all versions of a key are
merged, newest last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_core.errors import InvalidArgument
from paimon_core.features import check_readable, check_snapshot_readable
from paimon_core.file_store_table import POSTPONE_BUCKET, FileStoreTable
from paimon_core.lsm.engines import merge_engine_of
from paimon_core.lsm.interval_partition import interval_partition
from paimon_core.lsm.sort_merge import merge_sorted
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import SEQUENCE_FIELD, SEQUENCE_FIELD_SORT_ORDER
from paimon_core.predicate import Predicate, evaluate, fields_of
from paimon_core.read.data_file import read_data_file
from paimon_core.scan.scan import scan_files
from paimon_core.scan.splits import batch_splits
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.data_types import RowType

BATCH_ROWS = 65_536


def read_table(
    table: FileStoreTable,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of `_VALUE_KIND` (int8: 0 +I, 2 +U) and the wanted columns, in no promised order.

    Rows match `predicate` exactly.  Memory stays bounded by a few batches of each sorted run of
    one section.  UnsupportedFeature before the first batch if the table needs what is not known.
    """
    check_readable(table)
    check_snapshot_readable(table, snapshot)
    wanted = _wanted(table, columns)
    # Checked above and at once, not when the first batch is asked for.
    return _limited(_read(table, snapshot, wanted, predicate), limit)


def _wanted(table: FileStoreTable, columns: Sequence[str] | None) -> RowType:
    row_type = table.schema.row_type
    if columns is None:
        return row_type
    unknown = [c for c in columns if row_type.get(c) is None]
    if unknown:
        raise InvalidArgument(
            f"table {table.name} has no column {', '.join(unknown)}; "
            f"it has {', '.join(row_type.names)}",
            table=table.name,
        )
    return row_type.project(columns)


def _read(
    table: FileStoreTable, snapshot: Snapshot, wanted: RowType, predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    entries = [
        e for e in scan_files(table, snapshot, predicate=predicate) if e.bucket != POSTPONE_BUCKET
    ]
    needed = set(wanted.names) | (fields_of(predicate) if predicate is not None else set())
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry)
    for files in buckets.values():
        for batch in read_bucket(table, files, needed):
            chosen = batch
            if predicate is not None:
                chosen = batch.filter(evaluate(predicate, batch))
            if chosen.num_rows:
                yield chosen.select([VALUE_KIND, *wanted.names])


def read_bucket(
    table: FileStoreTable, entries: Sequence[ManifestEntry], needed: set[str]
) -> Iterator[pa.RecordBatch]:
    """The merged rows of one bucket: `_VALUE_KIND` and at least the `needed` columns."""
    if table.has_primary_key:
        return _merged(table, entries, needed)
    return _appended(table, entries, needed)


def _appended(
    table: FileStoreTable, entries: Sequence[ManifestEntry], needed: set[str]
) -> Iterator[pa.RecordBatch]:
    read_type = table.schema.row_type.project([n for n in table.schema.names if n in needed])
    for entry in sorted(entries, key=lambda e: e.file.min_sequence_number):
        for batch in _read_file(table, entry, read_type, key_value=False):
            kinds = pa.array(np.zeros(batch.num_rows, np.int8))
            yield pa.RecordBatch.from_arrays(
                [kinds, *batch.columns], names=[VALUE_KIND, *batch.schema.names]
            )


def _merged(
    table: FileStoreTable, entries: Sequence[ManifestEntry], needed: set[str]
) -> Iterator[pa.RecordBatch]:
    schema = table.schema
    sequence = table.options.value(SEQUENCE_FIELD)
    engine = merge_engine_of(schema)
    fields = needed | set(schema.trimmed_primary_keys) | set(sequence) | set(engine.needs)
    read_type = schema.row_type.project([n for n in schema.names if n in fields])
    by_name = {e.file.file_name: e for e in entries}

    def run(files: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        for file in files:
            yield from _read_file(table, by_name[file.file_name], read_type, key_value=True)

    files = [e.file for e in entries]
    for split in batch_splits(files, schema.key_type, schema.options, never_merged=False):
        if split.raw:
            for batch in run(split.files):
                yield _all_inserted(batch)
            continue
        for section in interval_partition(split.files, schema.key_type):
            yield from merge_sorted(
                [run(r.files) for r in section],
                key=schema.key_type,
                sequence_fields=sequence,
                descending=table.options.value(SEQUENCE_FIELD_SORT_ORDER) == "descending",
                engine=engine.engine,
                drop_deletes=True,
            )


def _all_inserted(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pa.array(np.zeros(batch.num_rows, np.int8))
    return batch.set_column(batch.schema.get_field_index(VALUE_KIND), VALUE_KIND, kinds)


def _read_file(
    table: FileStoreTable, entry: ManifestEntry, read_type: RowType, *, key_value: bool
) -> Iterator[pa.RecordBatch]:
    file = entry.file
    schema = (
        table.schema if file.schema_id == table.schema.id else table.schemas.get(file.schema_id)
    )
    return read_data_file(
        table.io,
        table.paths.data_file(entry.partition, entry.bucket, file),
        file,
        file_schema=schema,
        read_type=read_type,
        key_value=key_value,
        batch_rows=BATCH_ROWS,
        partition=entry.partition,
    )


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    left = limit
    while left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows
