"""Reads the rows of a snapshot.

Java: `table/source/KeyValueTableRead`, `operation/MergeFileSplitRead`.

Append tables are read file by file.  Primary-key tables are read bucket by bucket: the files are
split into sections with disjoint key ranges, and in each section all versions of a key are merged,
newest last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from paimon_core.errors import InvalidArgument
from paimon_core.features import check_rows_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import (
    Positions,
    read_deletion_vectors,
    without_deleted,
)
from paimon_core.lsm.chosen_engine import ChosenEngine
from paimon_core.lsm.merge_engine import without_deletes
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.options import (
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_MERGE_ON_READ,
    SEQUENCE_FIELD,
)
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.predicate import Predicate, evaluate, fields_of
from paimon_core.read.damaged_files import readable_rows
from paimon_core.read.data_evolution import (
    check_whole,
    has_data_evolution,
    matching_groups,
    read_group,
    row_groups,
)
from paimon_core.read.data_file import read_table_file
from paimon_core.read.managed_blobs import with_managed_blobs
from paimon_core.read.version_reader import VersionReader
from paimon_core.scan.engine import merge_engine_for
from paimon_core.scan.file_index import without_ruled_out
from paimon_core.scan.global_index import matching_rows
from paimon_core.scan.scan import in_plan_order, partition_condition, scan_files
from paimon_core.scan.splits import (
    are_sorted_by_key,
    batch_splits,
    never_merges,
    skips_level_0,
)
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.key_value import SEQUENCE_FIELD as SEQUENCE_NUMBER_FIELD
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.buffers import int8_array
from paimon_core.types.data_types import RowType

BATCH_ROWS = 65_536
BucketKey = tuple[bytes, int]
"""Partition (stored row bytes) and bucket."""


def read_table(
    table: FileStoreTable,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    keep_deletes: bool = False,
    min_level: int | None = None,
    keep: Callable[[ManifestEntry], bool] | None = None,
    lenient: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of `_VALUE_KIND` (int8: 0 +I, 2 +U) and the wanted columns, in any order.

    Of a primary-key table, `_SEQUENCE_NUMBER` can be one of the columns.  Rows match `predicate`
    exactly.  With `keep_deletes`, keys whose newest row is a delete are included (kinds 1 -U, 3
    -D), as in an audit log.  Files below `min_level` are skipped (default: level 0 if batch reads
    wait for compaction, else none), and so are files that `keep` rejects.  A `lenient` read leaves
    out rows of missing and damaged files if the table's options allow it.  Memory is bounded by a
    few batches of each sorted run of one section.  Raises UnsupportedFeature before the first batch
    if the table uses an unsupported feature.
    """
    wanted = _wanted(table, columns)
    needed = {*wanted.names, *(fields_of(predicate) if predicate is not None else ())}
    check_rows_readable(table, snapshot, needed)
    check_whole(table, keep)
    # Checked above immediately, not when the first batch is requested.
    lowest = min_level
    if lowest is None:
        lowest = least_level(table)

    def read(entry: ManifestEntry) -> bool:
        return (
            entry.bucket != POSTPONE_BUCKET
            and entry.file.level >= lowest
            and (keep is None or keep(entry))
        )

    return _read(
        table, snapshot, wanted, predicate, read, keep_deletes=keep_deletes, lenient=lenient
    )


def _wanted(table: FileStoreTable, columns: Sequence[str] | None) -> RowType:
    row_type = table.schema.row_type
    if columns is None:
        return row_type
    if table.has_primary_key:
        row_type = RowType(fields=(SEQUENCE_NUMBER_FIELD, *row_type.fields))
    unknown = [c for c in columns if row_type.get(c) is None]
    if unknown:
        raise InvalidArgument(
            f"table {table.name} has no column {', '.join(unknown)}; "
            f"it has {', '.join(table.schema.names)}",
            table=table.name,
        )
    return row_type.project(columns)


def _read(
    table: FileStoreTable,
    snapshot: Snapshot,
    wanted: RowType,
    predicate: Predicate | None,
    keep: Callable[[ManifestEntry], bool],
    *,
    keep_deletes: bool,
    lenient: bool,
) -> Iterator[pa.RecordBatch]:
    pruned = pruning(table, predicate)
    found = (e for e in scan_files(table, snapshot, predicate=pruned) if keep(e))
    entries = in_plan_order(table, found)
    needed = set(wanted.names) | (fields_of(predicate) if predicate is not None else set())
    buckets: dict[BucketKey, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry)
    index_files = vector_files(table, snapshot)
    engine = merge_engine_for(table) if table.has_primary_key else None
    matching = matching_rows(table, snapshot, predicate)
    for bucket, files in buckets.items():
        left = files if predicate is None else by_file_indexes(table, files, predicate)
        if predicate is not None and has_data_evolution(table):
            groups = matching_groups(table, row_groups(left, table), predicate, matching)
            left = list(chain(*groups))
        vectors = bucket_vectors(table, bucket, index_files.get(bucket, ())) if left else {}
        rows = read_bucket(
            table, left, needed, vectors, engine=engine, keep_deletes=keep_deletes, lenient=lenient
        )
        yield from chosen_rows(rows, wanted.names, predicate)


def chosen_rows(
    batches: Iterator[pa.RecordBatch],
    columns: Sequence[str],
    predicate: Predicate | None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield up to `limit` matching rows: `_VALUE_KIND` and the columns in this order."""
    matching = batches if predicate is None else (b.filter(evaluate(predicate, b)) for b in batches)
    return _limited((b.select([VALUE_KIND, *columns]) for b in matching if b.num_rows), limit)


def pruning(table: FileStoreTable, predicate: Predicate | None) -> Predicate | None:
    """Return the predicate that files can be pruned by.

    Where columns are in several files, it has conditions on partitions only (`matching_groups`).
    """
    return partition_condition(table, predicate) if has_data_evolution(table) else predicate


def by_file_indexes(
    table: FileStoreTable, entries: list[ManifestEntry], predicate: Predicate
) -> list[ManifestEntry]:
    """The files of a bucket without those whose file indexes rule out a match.

    All of them where rows of one file hide rows of another.
    """
    if has_data_evolution(table):
        return entries
    if table.has_primary_key:
        files = [e.file for e in entries]
        if not never_merges(table, files):
            return entries
    return without_ruled_out(table, entries, predicate)


def read_bucket(
    table: FileStoreTable,
    entries: Sequence[ManifestEntry],
    needed: Collection[str],
    vectors: Mapping[str, Positions],
    *,
    engine: ChosenEngine | None = None,
    keep_deletes: bool = False,
    lenient: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of these files of one bucket: `_VALUE_KIND`, at least `needed` columns.

    `vectors` holds the deleted positions of its data files by file name; `lenient` as in
    `read_table`.
    """
    if not entries:
        return iter(())
    if table.has_primary_key:
        rows = _merged(
            table,
            entries,
            needed,
            vectors,
            engine,
            keep_deletes=keep_deletes,
            lenient=lenient,
        )
        return with_managed_blobs(table, rows, BATCH_ROWS)
    return _appended(table, entries, needed, vectors, lenient=lenient)


def _appended(
    table: FileStoreTable,
    entries: Sequence[ManifestEntry],
    needed: Collection[str],
    vectors: Mapping[str, Positions],
    *,
    lenient: bool,
) -> Iterator[pa.RecordBatch]:
    if has_data_evolution(table):
        for group in row_groups(entries, table):
            for batch in read_group(table, group, needed, vectors):
                yield _with_kind(batch)
        return
    read_type = table.schema.row_type.project([n for n in table.schema.names if n in needed])
    for entry in sorted(entries, key=lambda e: e.file.min_sequence_number):
        file = entry.file
        batches = read_table_file(table, entry.partition, entry.bucket, file, read_type)
        if lenient:
            path = table.paths.data_file(entry.partition, entry.bucket, file)
            batches = readable_rows(table, path, batches)
        for batch in without_deleted(batches, vectors.get(file.file_name)):
            yield _with_kind(batch)


def _with_kind(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [_inserted(batch.num_rows), *batch.columns], names=[VALUE_KIND, *batch.schema.names]
    )


def _merged(
    table: FileStoreTable,
    entries: Sequence[ManifestEntry],
    needed: Collection[str],
    vectors: Mapping[str, Positions],
    engine: ChosenEngine | None,
    *,
    keep_deletes: bool,
    lenient: bool,
) -> Iterator[pa.RecordBatch]:
    schema = table.schema
    chosen = engine or merge_engine_for(table)
    fields = {
        *needed,
        *schema.trimmed_primary_keys,
        *table.options.value(SEQUENCE_FIELD),
        *chosen.needs,
    }
    reader = VersionReader(
        table=table,
        partition=entries[0].partition,
        bucket=entries[0].bucket,
        read_type=schema.row_type.project([n for n in schema.names if n in fields]),
        vectors=vectors,
        with_levels=chosen.with_levels,
        lenient=lenient,
    )
    files = [e.file for e in entries]
    merges = are_sorted_by_key(table, files)
    for split in batch_splits(table, files):
        if merges and (keep_deletes or not split.raw):
            for section in interval_partition(split.files, schema.key_type):
                yield from reader.merged(section, chosen.of_files, drop_deletes=not keep_deletes)
            continue
        for file in split.files:
            for batch in reader.file(file, BATCH_ROWS):
                if keep_deletes:
                    yield batch
                    continue
                rows = batch if split.raw else without_deletes(batch)
                position = rows.schema.get_field_index(VALUE_KIND)
                yield rows.set_column(position, VALUE_KIND, _inserted(rows.num_rows))


def least_level(table: FileStoreTable) -> int:
    """Return the lowest level that a batch read includes."""
    options = table.options
    merges = options.value(DELETION_VECTORS_ENABLED) and options.value(
        DELETION_VECTORS_MERGE_ON_READ
    )
    return 1 if skips_level_0(table) and not merges else 0


def deletion_vectors(
    table: FileStoreTable, snapshot: Snapshot, buckets: Collection[BucketKey] | None = None
) -> dict[str, Positions]:
    """Return the deleted positions of the snapshot's data files by file name.

    `buckets` limits this to some buckets, because all vectors of a large table take much memory.
    """
    files = vector_files(table, snapshot)
    vectors: dict[str, Positions] = {}
    for bucket in files if buckets is None else buckets:
        vectors.update(bucket_vectors(table, bucket, files.get(bucket, ())))
    return vectors


def bucket_vectors(
    table: FileStoreTable, bucket: BucketKey, index_files: Iterable[IndexFileMeta]
) -> dict[str, Positions]:
    """Return the deleted positions in these index files of a bucket by data file name."""
    vectors: dict[str, Positions] = {}
    for file in index_files:
        if file.dv_ranges:
            where = table.paths.index_file(*bucket, file)
            vectors.update(read_deletion_vectors(table.io, where, file))
    return vectors


def _inserted(rows: int) -> pa.Array:
    return int8_array(np.zeros(rows, np.int8))


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
