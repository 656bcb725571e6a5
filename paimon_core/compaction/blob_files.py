"""Files of BLOBs to merge, with `blob-compaction.enabled` (java-rules E11).

Java: `append/dataevolution/DataEvolutionCompactCoordinator`, `DataEvolutionBlobCompactTask`.

The files of a column that hold the same rows, because of updates, become one; small ones become one
with their neighbours, up to the target size::

    rows      0..9   10..19   20..29      0..9   10..29
    BLOBs     4 MB   1 MB     1 MB    ->  5 MB   2 MB
    updates   1 MB

The new file has the row ids of those that it replaces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import dedicated_columns
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.data_evolution import held_columns
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import DataField
from paimon_core.write.blob_writer import blob_target

_LEAST_FILES: Final = 2


def blob_files_to_merge(
    table: FileStoreTable, files: Iterable[DataFileMeta]
) -> list[list[DataFileMeta]]:
    """Return the files of BLOBs to merge into one each, by column and row ids.

    `files` are those of neighbouring rows.  Files of dropped columns stay.
    """
    current = {f.id for f in _dedicated_fields(table.schema)}
    by_column: dict[int, list[DataFileMeta]] = defaultdict(list)
    for file in files:
        (column,) = held_columns(table, file)
        if column in current:
            by_column[column].append(file)
    target = blob_target(table.options, primary_key=False)
    return [merged for column in by_column.values() for merged in _of_column(column, target)]


def blob_field(table: FileStoreTable, files: Sequence[DataFileMeta]) -> DataField:
    """Return the column of files of BLOBs, by its present name and type."""
    (column,) = held_columns(table, files[0])
    return next(f for f in _dedicated_fields(table.schema) if f.id == column)


def row_ids(files: Iterable[DataFileMeta]) -> range:
    """Return the ids of the rows in files that leave out none between them."""
    ranges = [
        range(first, first + f.row_count) for f in files if (first := f.first_row_id) is not None
    ]
    return range(min(r.start for r in ranges), max(r.stop for r in ranges))


def _dedicated_fields(schema: TableSchema) -> list[DataField]:
    names = dedicated_columns(schema.row_type, schema.options)
    return [f for f in schema.fields if f.name in names]


def _of_column(files: Sequence[DataFileMeta], target: int) -> list[list[DataFileMeta]]:
    found: list[list[DataFileMeta]] = []
    single: list[DataFileMeta] = []
    for same_rows in _overlapping(files):
        if len(same_rows) >= _LEAST_FILES:
            found.append(same_rows)
        else:
            single += same_rows
    for small in _small_neighbours(single, target):
        found += _packed(small, target)
    return sorted(found, key=lambda group: group[0].first_row_id or 0)


def _overlapping(files: Sequence[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
    """Yield the files that share rows, directly or through others, in the order of their rows."""
    group: list[DataFileMeta] = []
    end = -1
    for file in sorted(files, key=lambda f: (f.first_row_id or 0, f.max_sequence_number)):
        first = file.first_row_id or 0
        if group and first >= end:
            yield group
            group = []
        group.append(file)
        end = max(end, first + file.row_count)
    if group:
        yield group


def _small_neighbours(files: Sequence[DataFileMeta], target: int) -> Iterator[list[DataFileMeta]]:
    """Yield the files below the target size that follow each other without a gap."""
    group: list[DataFileMeta] = []
    end = -1
    for file in files:
        is_small, first = file.file_size < target, file.first_row_id or 0
        if group and (not is_small or first != end):
            yield group
            group = []
        if is_small:
            group.append(file)
            end = first + file.row_count
    if group:
        yield group


def _packed(files: Sequence[DataFileMeta], target: int) -> Iterator[list[DataFileMeta]]:
    """Yield parts of at least two files, each ending with the one that reaches the target."""
    part: list[DataFileMeta] = []
    size = 0
    for file in files:
        part.append(file)
        size += file.file_size
        if len(part) >= _LEAST_FILES and size >= target:
            yield part
            part, size = [], 0
    if len(part) >= _LEAST_FILES:
        yield part
