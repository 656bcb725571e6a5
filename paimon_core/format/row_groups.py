"""The ends of a Parquet file's row groups, by a column that the file is sorted by.

A search for keys in a sorted file starts at the row group that may hold them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.format.data_format import decoding, format_of, open_data_file
from paimon_core.format.parquet.footer import read_checked_footer
from paimon_core.io.file_io import FileIO
from paimon_core.types.arrow import arrow_type
from paimon_core.types.data_types import (
    INTEGER_TYPES,
    DataField,
    TypeRoot,
)

Value = int | bytes

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)


@dataclass(frozen=True, slots=True)
class RowGroupEnds:
    """The first row of each row group, and its greatest value of the column.

    The list ends before the first row group with an unknown greatest value.
    """

    first_rows: tuple[int, ...] = ()
    greatest: tuple[Value, ...] = ()

    def first_row_for(self, value: Value) -> int:
        """Return the first row of the row group that may hold this value.

        Earlier rows are smaller.
        """
        if not self.first_rows:
            return 0
        group = bisect_left(self.greatest, value)
        return self.first_rows[min(group, len(self.first_rows) - 1)]


def row_group_ends(
    io: FileIO, path: str, column: DataField, *, size: int | None = None
) -> RowGroupEnds:
    """Return the ends of a file's row groups; empty if they are unknown for the file or type.

    Values are integers, or bytes of strings.  Raises CorruptTable if the footer cannot be read.
    """
    is_text = column.type.root in _TEXTS
    if not (is_text or column.type.root in INTEGER_TYPES) or format_of(path) != "parquet":
        return RowGroupEnds()
    with decoding(path), open_data_file(io, path, size) as source:
        return _ends(read_checked_footer(source), column)


def _ends(metadata: pq.FileMetaData, column: DataField) -> RowGroupEnds:
    place = next((i for i, name in enumerate(metadata.schema.names) if name == column.name), None)
    if place is None or metadata.num_row_groups < 2:
        return RowGroupEnds()
    first_rows: list[int] = []
    greatest: list[Value] = []
    row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(place).statistics
        if statistics is None or not statistics.has_min_max:
            break
        value = pa.scalar(statistics.max, arrow_type(column.type)).as_py()
        greatest.append(value.encode() if isinstance(value, str) else value)
        first_rows.append(row)
        row += group.num_rows
    return RowGroupEnds(tuple(first_rows), tuple(greatest))
