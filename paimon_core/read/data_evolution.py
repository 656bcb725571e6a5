"""Reads tables with data evolution (Java: `operation/DataEvolutionSplitRead`).

An update of some columns writes a file with only these columns, for the same rows: it has the row
ids of the file whose rows it updates.  So files with the same range of row ids form a group, whose
rows are put together column by column.  The file with the greatest sequence number that has a
column wins.  The deletion vector of a group belongs to its oldest file, the anchor.  BLOB columns
are in files of their own, each with a part of the rows.  Vectors in files of a format of their own
are not supported; columns in other files can be read without them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions, without_deleted
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.manifest.entries.records import unknown_of
from paimon_core.manifest.unknown_fields import valued
from paimon_core.options import DATA_EVOLUTION_ENABLED
from paimon_core.predicate import Predicate, may_match
from paimon_core.read.blob_column import read_blob_column
from paimon_core.read.data_file import read_data_file
from paimon_core.scan.global_index import MatchingRows, RowRange
from paimon_core.scan.prune import ColumnStats, statistics_of
from paimon_core.scan.row_ranges import impossible_row_ids
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import RowType

BATCH_ROWS: Final = 65_536
Group = Sequence[ManifestEntry]
"""Files with the same rows: newest first, then those of BLOBs and vectors."""


def has_data_evolution(table: FileStoreTable) -> bool:
    """Return whether several files of the table may hold columns of the same rows."""
    return table.options.value(DATA_EVOLUTION_ENABLED)


def check_whole(table: FileStoreTable, keep: object) -> None:
    """Raise UnsupportedFeature if a read leaves out files, which may hold newer columns."""
    if keep is not None and has_data_evolution(table):
        raise _unsupported(table, "a read of some files only")


def row_groups(entries: Iterable[ManifestEntry], table: FileStoreTable) -> Sequence[Group]:
    """Return the groups of one bucket's files by their row ids, each with its newest file first.

    Raises UnsupportedFeature for files without row ids, and for files that overlap in rows without
    having the same ones; CorruptTable for row ids that no table has.
    """
    groups: list[list[ManifestEntry]] = []
    end = -1
    ordered = sorted(entries, key=lambda e: _range(e.file, table)[0])
    for entry in ordered:
        first, last = _range(entry.file, table)
        if first > end:
            groups.append([])
        groups[-1].append(entry)
        end = max(end, last)
    for group in groups:
        group.sort(
            key=lambda e: (is_dedicated(e.file), -e.file.max_sequence_number, e.file.file_name)
        )
        rows = {_range(e.file, table) for e in group if not is_dedicated(e.file)}
        if len(rows) != 1:
            raise _unsupported(table, "files that share only some rows", group[0].file)
    return groups


def matching_groups(
    table: FileStoreTable,
    groups: Sequence[Group],
    predicate: Predicate | None,
    matching: MatchingRows | None,
) -> Sequence[Group]:
    """Return the groups that may hold rows that match, by statistics and global indexes."""
    if predicate is not None:
        statistics = _GroupStatistics(table)
        groups = [
            g
            for g in groups
            if may_match(predicate, g[0].file.row_count, partial(statistics.of, g))
        ]
    if matching is None:
        return groups
    return [g for g in groups if not matching.none_in(rows_of_group(g))]


class _GroupStatistics:
    """The statistics of groups: those of a column are in the newest file that has it.

    Java: `DataEvolutionFileStoreScan.evolutionStats`.
    """

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        # Files need not hold partition columns.
        keys = frozenset(table.schema.partition_keys)
        self._ids = {f.name: f.id for f in table.schema.fields if f.name not in keys}
        self._held: dict[tuple[int, tuple[str, ...] | None], frozenset[int]] = {}

    def of(self, group: Group, name: str) -> ColumnStats | None:
        """Return the statistics of a column by its name; None if nothing is known."""
        field_id = self._ids.get(name)
        if field_id is None:
            return None
        holding = [e.file for e in group if field_id in self._columns(e.file)]
        if not holding:
            return None, None, group[0].file.row_count  # it was added later
        if any(map(is_dedicated, holding)):
            return None
        return statistics_of(self._table, holding[0])(name)

    def _columns(self, file: DataFileMeta) -> frozenset[int]:
        key = file.schema_id, None if file.write_cols is None else tuple(file.write_cols)
        if key not in self._held:
            self._held[key] = held_columns(self._table, file)
        return self._held[key]


def rows_of_group(group: Group) -> RowRange:
    """Return the ids of the rows of a group."""
    file = next(e.file for e in group if not is_dedicated(e.file))
    assert file.first_row_id is not None  # `row_groups` refuses others
    return RowRange(file.first_row_id, file.first_row_id + file.row_count - 1)


def is_dedicated(file: DataFileMeta) -> bool:
    """Return whether the file holds BLOBs or vectors in a format of their own."""
    return is_blob_file(file) or ".vector." in file.file_name


def is_blob_file(file: DataFileMeta) -> bool:
    """Return whether the file holds one column of BLOBs."""
    return file.file_name.endswith(".blob")


def files_of_lost_ids(
    removed: Iterable[DataFileMeta], added: Iterable[DataFileMeta]
) -> list[DataFileMeta]:
    """Return the removed data files whose row ids no added file has: their rows got new ids."""
    ranges = sorted(
        (f.first_row_id, f.first_row_id + f.row_count)
        for f in added
        if f.first_row_id is not None and not is_dedicated(f)
    )
    lost = []
    for file in removed:
        first = file.first_row_id
        if first is None or is_dedicated(file):
            continue
        before = bisect_right(ranges, (first, math.inf)) - 1
        if before < 0 or ranges[before][1] <= first:
            lost.append(file)
    return lost


def anchor(group: Group) -> ManifestEntry:
    """Return the file of a group whose deletion vector is that of all its rows.

    Java: `DataEvolutionUtils.retrieveAnchorFile`.
    """
    own = (e for e in group if not is_dedicated(e.file))
    return min(own, key=lambda e: (e.file.max_sequence_number, e.file.file_name))


def deleted_rows(
    table: FileStoreTable, group: Group, vectors: Mapping[str, Positions]
) -> Positions | None:
    """Return the positions of a group's deleted rows; None if it has none.

    Raises UnsupportedFeature for a vector of another file than the anchor,
    which Java does not read.
    """
    name = anchor(group).file.file_name
    for entry in group:
        if entry.file.file_name != name and entry.file.file_name in vectors:
            raise _unsupported(table, "a deletion vector of an update", entry.file)
    return vectors.get(name)


def held_columns(table: FileStoreTable, file: DataFileMeta) -> frozenset[int]:
    """Return the ids of the columns that the file holds, dropped ones included."""
    stored = table.schema_of(file.schema_id).fields
    names = file.write_cols
    return frozenset(f.id for f in stored if names is None or f.name in names)


def read_group(
    table: FileStoreTable,
    group: Group,
    needed: Collection[str],
    vectors: Mapping[str, Positions],
) -> Iterator[pa.RecordBatch]:
    """Yield the needed columns of a group's rows, in the order of the table's columns.

    `vectors` holds the deletion vectors by file name; without them, deleted rows come, too.  Raises
    UnsupportedFeature for columns in files of vectors, and as `deleted_rows`.
    """
    rows = _all_rows(table, group, needed)
    return without_deleted(rows, deleted_rows(table, group, vectors))


def _all_rows(
    table: FileStoreTable, group: Group, needed: Collection[str]
) -> Iterator[pa.RecordBatch]:
    wanted = [f for f in table.schema.fields if f.name in needed]
    schemas = {e.file.file_name: _stored(table, e.file) for e in group}
    ids = {name: {f.id for f in schema.fields} for name, schema in schemas.items()}
    plain = [e for e in group if not is_dedicated(e.file)]
    sources: dict[str, list[str]] = {e.file.file_name: [] for e in plain}
    blobs: dict[str, list[ManifestEntry]] = {}
    keys = set(table.schema.partition_keys)
    for field in wanted:
        # As in Java, a file of BLOBs counts if no other file has the column.
        having = [e for e in group if field.id in ids[e.file.file_name]]
        if field.name in keys or not having:
            sources[plain[0].file.file_name].append(field.name)
        elif not is_dedicated(having[0].file):
            sources[having[0].file.file_name].append(field.name)
        elif all(is_blob_file(e.file) for e in having):
            blobs[field.name] = having
        else:
            name = having[0].file.file_name
            raise _unsupported(table, f"column {field.name} in {name}", having[0].file)
    used = [e for e in plain if sources[e.file.file_name]] or ([] if blobs else plain[:1])
    chosen_among = [*used, *(e for having in blobs.values() for e in having)]
    if len(chosen_among) > 1 and any(valued(unknown_of(e)) for e in chosen_among):
        name = next(n for e in chosen_among for n in valued(unknown_of(e)))
        raise _unsupported(table, f"metadata field {name}", chosen_among[0].file)

    def read(entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
        names = set(sources[entry.file.file_name])
        return read_data_file(
            table.io,
            table.paths.data_file(entry.partition, entry.bucket, entry.file),
            entry.file,
            file_schema=schemas[entry.file.file_name],
            read_type=RowType(nullable=False, fields=tuple(f for f in wanted if f.name in names)),
            key_value=False,
            batch_rows=BATCH_ROWS,
            partition=entry.partition,
        )

    order = [f.name for f in wanted]
    if len(used) == 1 and not blobs:
        yield from (b.select(order) if order else b for b in read(used[0]))
        return
    first, last = _range(plain[0].file, table)
    rows = range(first, last + 1)
    columns = [
        read_blob_column(table, f, blobs[f.name], rows, BATCH_ROWS)
        for f in wanted
        if f.name in blobs
    ]
    yield from _side_by_side([*map(read, used), *columns], order, plain[0].file.file_name)


def _side_by_side(
    readers: Sequence[Iterator[pa.RecordBatch]], order: Sequence[str], file: str
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns of all readers, which have the same number of rows."""
    parts: list[pa.RecordBatch | None] = [None] * len(readers)
    while True:
        for i, reader in enumerate(readers):
            part = parts[i]
            while part is None or not part.num_rows:
                part = next(reader, None)
                if part is None:
                    break
            parts[i] = part
        present = [p for p in parts if p is not None]
        if not present:
            return
        if len(present) < len(parts):
            raise CorruptTable("files of the same rows have different numbers of rows", file=file)
        rows = min(p.num_rows for p in present)
        columns = {n: p.column(n).slice(0, rows) for p in present for n in p.schema.names}
        yield pa.RecordBatch.from_arrays([columns[n] for n in order], names=list(order))
        parts = [p.slice(rows) for p in present]


def _range(file: DataFileMeta, table: FileStoreTable) -> tuple[int, int]:
    if file.first_row_id is None:
        raise _unsupported(table, "files without row ids", file)
    if min(file.first_row_id, file.row_count) < 0:
        raise impossible_row_ids(table, file.file_name)
    return file.first_row_id, file.first_row_id + file.row_count - 1


def _stored(table: FileStoreTable, file: DataFileMeta) -> TableSchema:
    """Return the schema of the columns that the file holds."""
    schema = table.schema_of(file.schema_id)
    if file.write_cols is None:
        return schema
    kept = {*file.write_cols, *schema.partition_keys}
    return replace(schema, fields=tuple(f for f in schema.fields if f.name in kept))


def _unsupported(
    table: FileStoreTable, what: str, file: DataFileMeta | None = None
) -> UnsupportedFeature:
    feature = f"data-evolution.enabled with {what}"
    return UnsupportedFeature(
        feature,
        f"table {table.name} cannot be read: it uses {feature}, which is not supported",
        table=table.name,
        file=None if file is None else file.file_name,
    )
