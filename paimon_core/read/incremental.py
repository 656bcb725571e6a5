"""Compares two snapshots (Java: `IncrementalDiffStartingScanner`).

The rows of each bucket are merged for both snapshots, and the two streams, each in key order, are
merged again: a key whose row has changed is returned with its new row.  Memory is bounded as in any
merge.

As in Java, files in both snapshots are left out on both sides before anything is merged.  So with
the merge engines aggregation and partial-update, a row shows only the values of the later files.
If Java 1.4 writes the table, a row must also be the later one by sequence number: an overwrite,
which restarts the sequence numbers, can hide its changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import InvalidArgument
from paimon_core.features import check_readable, check_snapshot_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions
from paimon_core.lsm.changelog import equality
from paimon_core.lsm.key_column import BoolArray, Rows, kind_values
from paimon_core.lsm.merge_engine import DELETE, MergeSlice, is_retract
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.sort_merge import MergeOrder, merge_slices
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import BUCKET, SEQUENCE_FIELD, SEQUENCE_FIELD_SORT_ORDER
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.predicate import Predicate
from paimon_core.read.table_read import bucket_vectors, chosen_rows, least_level, read_table
from paimon_core.read.version_reader import VersionReader
from paimon_core.scan.engine import merge_engine_for
from paimon_core.scan.scan import scan_files
from paimon_core.scan.splits import are_sorted_by_key, cannot_merge
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.buffers import index_array, int8_array

_BEFORE: Final = 0
_AFTER: Final = 1
_Bucket = tuple[bytes, int]


def read_diff(
    table: FileStoreTable,
    before: Snapshot,
    after: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    keep_deletes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `after` that are new or changed since `before`: `_VALUE_KIND` and the columns.

    Of a primary-key table, `_SEQUENCE_NUMBER` can be one of the columns.
    With `keep_deletes`, removed keys are included as -D with their last row.  For an append table,
    these are the rows of the files that `before` does not hold.  Raises InvalidArgument if the
    number of buckets changed in between.
    """
    check_readable(table)
    for snapshot in (before, after):
        check_snapshot_readable(table, snapshot)
    if has_other_buckets(table, before, after):
        raise InvalidArgument(
            f"the number of buckets of table {table.name} changed between snapshots {before.id} "
            f"and {after.id}",
            table=table.name,
        )
    if not table.has_primary_key:
        old = {(e.file.file_name, e.file.level) for e in scan_files(table, before)}
        return read_table(
            table,
            after,
            columns=columns,
            predicate=predicate,
            keep=lambda e: (e.file.file_name, e.file.level) not in old,
        )
    names = table.schema.names if columns is None else columns
    rows = _differing(table, before, after, keep_deletes=keep_deletes)
    return chosen_rows(rows, names, predicate)


def has_other_buckets(table: FileStoreTable, before: Snapshot, after: Snapshot) -> bool:
    """Whether the number of buckets changed in between: only equal ones can be compared."""
    ids = {before.schema_id, after.schema_id}
    return len({table.schema_of(i).options.value(BUCKET) for i in ids}) > 1


def _differing(
    table: FileStoreTable, before: Snapshot, after: Snapshot, *, keep_deletes: bool
) -> Iterator[pa.RecordBatch]:
    options = table.options
    by_2_0 = table.latest_or_not_found().written_by_2_0
    lowest = 0 if by_2_0 else least_level(table)
    old, new = _live(table, before, lowest), _live(table, after, lowest)
    index_files = [vector_files(table, before), vector_files(table, after)]
    order = MergeOrder(
        key=table.schema.key_type,
        sequence_fields=options.value(SEQUENCE_FIELD),
        descending=options.value(SEQUENCE_FIELD_SORT_ORDER) == "descending",
    )
    for bucket in {**new, **old}:
        held, found = old.get(bucket, []), new.get(bucket, [])
        common = {(f.file_name, f.level) for f in held} & {(f.file_name, f.level) for f in found}
        left = [f for f in held if (f.file_name, f.level) not in common]
        added = [f for f in found if (f.file_name, f.level) not in common]
        vectors = [bucket_vectors(table, bucket, side.get(bucket, ())) for side in index_files]
        streams = [
            merged_files(table, bucket, files, dvs, keep_deletes=keep_deletes)
            for files, dvs in zip((left, added), vectors, strict=True)
        ]
        for piece in merge_slices(streams, order):
            batch = _changed(piece, table.schema.names, by_run=by_2_0, keep_deletes=keep_deletes)
            if batch is not None:
                yield batch


def _live(
    table: FileStoreTable, snapshot: Snapshot, lowest: int
) -> dict[_Bucket, list[DataFileMeta]]:
    files: dict[_Bucket, list[DataFileMeta]] = defaultdict(list)
    for entry in scan_files(table, snapshot):
        if entry.bucket != POSTPONE_BUCKET and entry.file.level >= lowest:
            files[entry.partition, entry.bucket].append(entry.file)
    return files


def merged_files(
    table: FileStoreTable,
    bucket: tuple[bytes, int],
    files: Sequence[DataFileMeta],
    vectors: Mapping[str, Positions],
    *,
    keep_deletes: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of some files of a bucket in key order, as key-value batches."""
    if not files:
        return
    if not are_sorted_by_key(table, files):
        raise cannot_merge(table, next_step="set incremental-between-scan-mode=delta")
    chosen = merge_engine_for(table)
    reader = VersionReader(
        table=table,
        partition=bucket[0],
        bucket=bucket[1],
        # Changes are detected in all columns, not only in the wanted ones.
        read_type=table.schema.row_type,
        vectors=vectors,
        with_levels=chosen.with_levels,
    )
    for section in interval_partition(files, table.schema.key_type):
        yield from reader.merged(section, chosen.of_files, drop_deletes=not keep_deletes)


def _changed(
    piece: MergeSlice, names: Sequence[str], *, by_run: bool, keep_deletes: bool
) -> pa.RecordBatch | None:
    """Return the changes in a slice of both streams, in key order; None for no change."""
    runs = piece.runs[piece.ordered()]
    rows = piece.ordered()
    starts, ends = piece.group_starts(), piece.group_ends()
    batch = piece.batch
    kinds = kind_values(batch.column(VALUE_KIND)).copy()
    first, last = rows[starts], rows[ends - 1]
    single = ends - starts == 1
    only_after = single & (runs[starts] == _AFTER)
    both = ~single
    picked = np.where(only_after, last, -1)
    if both.any():
        newer = runs[ends[both] - 1] == _AFTER
        later = np.where(newer, last[both], first[both])
        unlike = ~_same_rows(batch, first[both], last[both], names) & (newer | by_run)
        picked[np.flatnonzero(both)[unlike]] = later[unlike]
    retracts = is_retract(kinds)
    if keep_deletes:
        gone = single & (runs[starts] == _BEFORE) & ~retracts[last]
        picked = np.where(gone, last, picked)
        kinds[last[gone]] = DELETE
        chosen = picked[picked >= 0]
    else:
        chosen = picked[picked >= 0]
        chosen = chosen[~retracts[chosen]]
    if not len(chosen):
        return None
    taken = batch.take(index_array(chosen))
    shown = [*names, SEQUENCE_NUMBER]
    columns = [taken.column(n) for n in shown]
    return pa.RecordBatch.from_arrays([int8_array(kinds[chosen]), *columns], [VALUE_KIND, *shown])


def _same_rows(batch: pa.RecordBatch, old: Rows, new: Rows, names: Sequence[str]) -> BoolArray:
    """Return whether the rows are equal byte by byte, and both live or both deleted."""
    kinds = is_retract(kind_values(batch.column(VALUE_KIND)))
    same = kinds[old] == kinds[new]
    bits = pa.RecordBatch.from_arrays([_as_bits(batch.column(n)) for n in names], list(names))
    equal = equality(names)
    result: BoolArray = same & equal(bits.take(index_array(old)), bits.take(index_array(new)))
    return result


def _as_bits(column: pa.Array) -> pa.Array:
    # NaN equals NaN, and -0.0 differs from 0.0: Java compares the bytes of the row.
    if pa.types.is_float64(column.type):
        return column.view(pa.int64())
    return column.view(pa.int32()) if pa.types.is_float32(column.type) else column
