"""Compaction of tables with data evolution: picks the files, and puts their columns together.

Java: `append/dataevolution/DataEvolutionCompactCoordinator`, `DataEvolutionNormalCompactTask`;
java-rules E11.

Files with the same row ids form a group.  Neighbouring groups become one file with all columns of
their rows, which keep their ids: it has the row ids from the first group's on.  So no group of
another partition, and no gap, may lie between them::

    row ids     0..9    10..19   20..29    (gap)    40..49   50..59
    rows        a b c   a b c    a b c              a b c    a b c
    updates       b     a                             b
                |---- one file a b c ----|          |-- another --|

Deleted rows are copied, too, so that no id changes; their deletion vectors move to the new file
(`compaction.vectors`).  With `data-evolution.compaction.rewrite-row-ids`, neighbours of which one
has deleted rows are written without these, and the commit gives the rows that are left new ids
(Java: `DataEvolutionMaterializeDeletionCompactTask`).

BLOBs stay in the files that they are in, which name the rows by their ids, unless rows get new ids
or `blob-compaction.enabled` is on (`blob_files`).  A group has them for all of its rows or for
none, so groups from before and after a column of BLOBs was added stay apart, even once it is
dropped.  Java merges them, and then it cannot read the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from paimon_core.commit.row_group_conflict import partly_held_column
from paimon_core.compaction.append_coordinator import FileVector
from paimon_core.compaction.blob_files import blob_field, blob_files_to_merge, row_ids
from paimon_core.compaction.unit import CompactUnit
from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import dedicated_columns
from paimon_core.index.deletion_vectors import Positions
from paimon_core.manifest.data_file import DataFileMeta, FileKind, ManifestEntry
from paimon_core.options import (
    BLOB_AS_DESCRIPTOR,
    BLOB_COMPACTION_ENABLED,
    COMPACTION_MIN_FILE_NUM,
    DATA_EVOLUTION_ENABLED,
    DELETION_VECTORS_ENABLED,
    OPEN_FILE_COST,
    REWRITE_ROW_IDS,
)
from paimon_core.read.blob_column import read_blob_column
from paimon_core.read.data_evolution import (
    BATCH_ROWS,
    Group,
    anchor,
    deleted_rows,
    files_of_lost_ids,
    has_data_evolution,
    held_columns,
    is_blob_file,
    is_dedicated,
    read_group,
    row_groups,
)
from paimon_core.schema.table_schema import TableSchema
from paimon_core.write.file_layout import target_file_size

_LEAST_FILES: Final = 2


def least_files(table: FileStoreTable) -> int:
    """Return how many files a data file is made of at least.

    Java takes one if `compaction.min.file-num` is 1, and would write it again in every run.
    """
    return max(_LEAST_FILES, table.options.value(COMPACTION_MIN_FILE_NUM))


def rewrites_row_ids(table: FileStoreTable) -> bool:
    """Return whether compaction drops deleted rows, and gives the other rows new ids."""
    options = table.options
    return options.value(DELETION_VECTORS_ENABLED) and options.value(REWRITE_ROW_IDS)


def pick_evolving(
    table: FileStoreTable,
    files: Sequence[DataFileMeta],
    *,
    partition: bytes,
    bucket: int,
    total_buckets: int,
    vectors: Mapping[str, FileVector] | None = None,
) -> list[CompactUnit]:
    """Return the files of one partition to merge, one unit for each new file.

    `vectors` are the deletion vectors by data file.  UnsupportedFeature as in `row_ranges`.
    """
    hidden = (vectors or {}) if rewrites_row_ids(table) else {}
    target = target_file_size(table.options, primary_key=False)
    cost = table.options.value(OPEN_FILE_COST)
    bins: list[list[Group]] = []
    for neighbours in row_ranges(table, files, partition=partition, bucket=bucket):
        waiting: list[Group] = []
        held = 0
        for group in neighbours:
            weight = _weight(group, hidden, cost)
            if weight > target:
                bins += [waiting, [group]]
                waiting, held = [], 0
                continue
            waiting.append(group)
            held += weight
            if held > target:
                bins.append(waiting)
                waiting, held = [], 0
        bins.append(waiting)
    unit = partial(CompactUnit, partition=partition, bucket=bucket, total_buckets=total_buckets)
    units = []
    for groups in bins:
        if any(anchor(g).file.file_name in hidden for g in groups):
            every = tuple(e.file for g in groups for e in g)
            units.append(unit(append_files=every, new_row_ids=True, reason="deleted rows"))
            continue
        own = tuple(f for g in groups for f in data_files(g))
        merges = len(own) >= least_files(table)
        if merges:
            units.append(unit(append_files=own, reason="neighbouring row ids"))
        if table.options.value(BLOB_COMPACTION_ENABLED):
            units += (
                unit(append_files=tuple(blobs), reason="BLOB files")
                for neighbours in ([groups] if merges else [[g] for g in groups])
                for blobs in blob_files_to_merge(table, dedicated_files(neighbours))
            )
    return units


def _weight(group: Group, hidden: Mapping[str, FileVector], cost: int) -> int:
    """Return the estimated bytes that a group adds to a new file, as far as its rows are left."""
    files = data_files(group)
    rows = files[0].row_count
    vector = hidden.get(anchor(group).file.file_name)
    left = 1.0
    if vector is not None and vector.cardinality is not None and rows > 0:
        left = max(0, rows - vector.cardinality) / rows
    return sum(max(math.ceil(f.file_size * left), cost) for f in files)


def data_files(group: Group) -> list[DataFileMeta]:
    """Return the files of a group without those of BLOBs."""
    return [e.file for e in group if not is_dedicated(e.file)]


def dedicated_files(groups: Iterable[Group]) -> Iterator[DataFileMeta]:
    """Yield the files of BLOBs of groups."""
    return (e.file for group in groups for e in group if is_dedicated(e.file))


def row_ranges(
    table: FileStoreTable, files: Sequence[DataFileMeta], *, partition: bytes, bucket: int
) -> list[list[Group]]:
    """Return the groups by what may be merged, ordered by row ids.

    UnsupportedFeature for groups that cannot be read, and for vectors in files of their own.
    """
    ranges: list[list[Group]] = []
    before: tuple[int, frozenset[int]] | None = None
    schema = table.schema
    names = dedicated_columns(schema.row_type, schema.options)
    dedicated = frozenset(f.id for f in schema.fields if f.name in names)
    inside = frozenset(f.id for f in schema.fields) - dedicated
    for group in _groups(table, files, partition, bucket):
        rows = data_files(group)[0]
        apart = _columns_apart(table, rows, group, dedicated=dedicated, inside=inside)
        first = rows.first_row_id or 0
        if (first, apart) != before:
            ranges.append([])
        ranges[-1].append(group)
        before = first + rows.row_count, apart
    return ranges


def _columns_apart(
    table: FileStoreTable,
    rows: DataFileMeta,
    group: Group,
    *,
    dedicated: frozenset[int],
    inside: frozenset[int],
) -> frozenset[int]:
    """Return the ids of the columns that have files of their own in the group, for all of its rows.

    `dedicated` and `inside` are the columns that new files have in files of their own, and the
    others.  UnsupportedFeature if some rows lack them, or if a column is elsewhere: then it would
    be lost.
    """
    lacking = partly_held_column(table, [rows], (e.file for e in group))
    if lacking is not None:
        raise _uncompactable(table, "BLOB files that lack some rows", lacking[1])
    found: set[int] = set()
    for entry in group:
        own = is_dedicated(entry.file)
        held = held_columns(table, entry.file) if dedicated or own else frozenset()
        if held & (inside if own else dedicated):
            raise _uncompactable(table, "BLOBs beside and inside of data files", entry.file)
        if own:
            found |= held
    return frozenset(found)


def merged_schema(table: FileStoreTable) -> TableSchema:
    """Return the schema of merged files: without the columns that have files of their own."""
    schema = table.schema
    apart = dedicated_columns(schema.row_type, schema.options)
    return replace(schema, fields=tuple(f for f in schema.fields if f.name not in apart))


def unit_groups(
    table: FileStoreTable, unit: CompactUnit, vectors: Mapping[str, Positions]
) -> Sequence[Group]:
    """Return the groups of the unit's files; UnsupportedFeature as in `deleted_rows`."""
    groups = _groups(table, unit.append_files, unit.partition, unit.bucket)
    for group in groups:
        deleted_rows(table, group, vectors)
    return groups


def group_rows(
    table: FileStoreTable, names: Sequence[str], group: Group
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a group, deleted ones too, with these columns, those of `merged_schema`."""
    return read_group(table, group, names, {})


def merged_blob_file(unit: CompactUnit, written: Sequence[DataFileMeta]) -> DataFileMeta:
    """Return the metadata of the one BLOB file that was written for the unit.

    CorruptTable unless it has as many rows as the files that it replaces.
    """
    (file,) = written
    rows = row_ids(unit.append_files)
    if file.row_count != len(rows):
        raise CorruptTable(
            f"BLOB files of {len(rows)} rows became one of {file.row_count}",
            file=unit.append_files[0].file_name,
        )
    return _numbered(file, unit, rows.start)


def _numbered(file: DataFileMeta, unit: CompactUnit, first_row_id: int | None) -> DataFileMeta:
    """Return the new file with its row ids, and with the sequence numbers of those it replaces."""
    return replace(
        file,
        first_row_id=first_row_id,
        min_sequence_number=min(f.min_sequence_number for f in unit.append_files),
        max_sequence_number=max(f.max_sequence_number for f in unit.append_files),
    )


def remaining_rows(
    table: FileStoreTable, group: Group, vectors: Mapping[str, Positions]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a group that are not deleted, with all columns and the bytes of BLOBs."""
    return read_group(_with_content(table), group, table.schema.names, vectors)


def merged_blobs(table: FileStoreTable, unit: CompactUnit) -> Iterator[pa.RecordBatch]:
    """Yield the column of the unit's BLOB files for all rows, the bytes of BLOBs as they are."""
    entries = [
        ManifestEntry(FileKind.ADD, unit.partition, unit.bucket, unit.total_buckets, file)
        for file in unit.append_files
    ]
    field = blob_field(table, unit.append_files)
    rows = row_ids(unit.append_files)
    return read_blob_column(_with_content(table), field, entries, rows, BATCH_ROWS)


def _with_content(table: FileStoreTable) -> FileStoreTable:
    """Return the table so that reads have the bytes of BLOBs, not their places."""
    options = {BLOB_AS_DESCRIPTOR.key: "false"}
    return replace(table, schema=table.schema.with_options(options))


def merged_file(
    table: FileStoreTable, unit: CompactUnit, written: Sequence[DataFileMeta]
) -> DataFileMeta:
    """Return the metadata of the one file that was written for the unit.

    Its sequence number decides which later updates hide its columns, so it is the greatest of those
    that were read.  As in Java, a writer is the source of the file.
    """
    (file,) = written
    names = merged_schema(table).names
    numbered = _numbered(file, unit, unit.append_files[0].first_row_id)
    return replace(numbered, write_cols=None if names == table.schema.names else names)


def distinct_rows(files: Sequence[DataFileMeta]) -> int:
    """Return the number of rows in the files, each counted once however many files hold it."""
    rows: dict[int | str, int] = {}
    for file in files:
        if not is_dedicated(file):
            # Files of rows that have no ids yet share none.
            key = file.file_name if file.first_row_id is None else file.first_row_id
            rows[key] = file.row_count
    return sum(rows.values())


def rows_left(
    before: Sequence[DataFileMeta], after: Sequence[DataFileMeta], deleted: Mapping[str, int]
) -> int:
    """Return how many rows new files must have in place of others.

    `deleted` has the number of deleted rows by data file; they count where ids are kept.
    """
    dropped = files_of_lost_ids(before, after)
    return distinct_rows(before) - sum(deleted.get(f.file_name, 0) for f in dropped)


def rows_of(table: FileStoreTable, files: Sequence[DataFileMeta]) -> int:
    """Return the number of rows in the files; under data evolution, each row is counted once."""
    return distinct_rows(files) if has_data_evolution(table) else sum(f.row_count for f in files)


def _groups(
    table: FileStoreTable, files: Sequence[DataFileMeta], partition: bytes, bucket: int
) -> Sequence[Group]:
    for file in files:
        if is_dedicated(file) and not is_blob_file(file):
            raise _uncompactable(table, "vectors in files of their own", file)
    return row_groups(
        (ManifestEntry(FileKind.ADD, partition, bucket, 1, file) for file in files), table
    )


def _uncompactable(table: FileStoreTable, what: str, file: DataFileMeta) -> UnsupportedFeature:
    feature = f"{DATA_EVOLUTION_ENABLED.key} with {what}"
    return UnsupportedFeature(
        feature,
        f"table {table.name} cannot be compacted: it uses {feature}, which is not supported",
        table=table.name,
        file=file.file_name,
    )
