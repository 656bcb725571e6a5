"""The hidden columns that show where a row is.

=====================  =========================================================================
__paimon_file_path     the data file; of a primary-key table only where nothing has to be merged
__paimon_row_index     the position in that file, deleted rows counted; as above
__paimon_partition     a struct of the partition columns
__paimon_bucket        the bucket
_ROW_ID                the row's id, of tables with row tracking
_SEQUENCE_NUMBER       the number of the snapshot that wrote the row, of tables with row tracking
=====================  =========================================================================

Java: `PaimonMetadataColumn`, `SparkTable.metadataColumns`, `SpecialFields`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.schema.tracked import ROW_ID
from paimon_core.table.source.placed_rows import TRACKED_FIELDS, PlacedRows
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import MAX_LENGTH, AtomicType, DataField, TypeRoot

FILE_PATH: Final = "__paimon_file_path"
ROW_INDEX: Final = "__paimon_row_index"
PARTITION: Final = "__paimon_partition"
BUCKET: Final = "__paimon_bucket"
METADATA_COLUMNS: Final = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET, ROW_ID, SEQUENCE_NUMBER)
OF_FILES: Final = frozenset({FILE_PATH, ROW_INDEX})
"""Those that a row of a group of files does not have."""
OF_ROWS: Final = frozenset({*OF_FILES, ROW_ID, SEQUENCE_NUMBER})
"""Those that a merged row does not have."""
_ATOMIC: Final = {
    FILE_PATH: AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH),
    ROW_INDEX: AtomicType(kind=TypeRoot.BIGINT),
    BUCKET: AtomicType(kind=TypeRoot.INT),
}


def metadata_columns_in(text: str) -> frozenset[str]:
    """The hidden columns that the text of a query names."""
    lowered = text.lower()
    return frozenset(c for c in METADATA_COLUMNS if c.lower() in lowered)


def metadata_fields(table: FileStoreTable, wanted: Collection[str]) -> list[DataField]:
    """The hidden columns `wanted`, as far as the table has them."""
    partition = DataField(id=0, name=PARTITION, type=table.schema.partition_type)
    fields = {name: DataField(id=0, name=name, type=kind) for name, kind in _ATOMIC.items()}
    fields[PARTITION] = partition
    if table.options.value(ROW_TRACKING_ENABLED):
        fields |= {f.name: f for f in TRACKED_FIELDS}
    return [fields[name] for name in METADATA_COLUMNS if name in wanted and name in fields]


def metadata_of(placed: PlacedRows, wanted: Collection[str]) -> list[tuple[DataField, pa.Array]]:
    """The columns of `metadata_fields` with the values of the rows."""
    return [(f, _values(placed, f.name)) for f in metadata_fields(placed.table, wanted)]


def _values(placed: PlacedRows, name: str) -> pa.Array:
    match name:
        case "__paimon_file_path":
            return _paths(placed)
        case "__paimon_row_index":
            return pa.array(placed.positions)
        case "__paimon_partition":
            return _partitions(placed)
        case "__paimon_bucket":
            buckets = np.array([e.bucket for e in placed.entries], np.int32)
            return pa.array(_of_entries(buckets, placed.files))
    tracked = placed.row_ids if name == ROW_ID else placed.sequences
    # Merged rows are of primary-key tables, which have no row tracking.
    assert tracked is not None
    return pa.array(tracked)


def _of_entries(
    values: npt.NDArray[np.int32], files: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    return values[files] if len(values) else np.empty(0, np.int32)


def _paths(placed: PlacedRows) -> pa.Array:
    """The path of each row's file, empty for merged rows."""
    table = placed.table
    paths = [table.paths.data_file(e.partition, e.bucket, e.file) for e in placed.entries]
    places = np.where(placed.positions < 0, len(paths), placed.files)
    return pa.array([*paths, ""], pa.string()).take(pa.array(places))


def _partitions(placed: PlacedRows) -> pa.Array:
    row_type = placed.table.schema.partition_type
    if not row_type.fields:
        return pa.array([{}] * len(placed.files), pa.struct([]))
    decoded = [decode_row(e.partition, row_type.types) for e in placed.entries]
    schema = arrow_schema(row_type)
    places = pa.array(placed.files)
    columns = [
        column_from_internal([row[i] for row in decoded], f.type.with_nullable(True))
        .cast(schema.field(i).type)
        .take(places)
        for i, f in enumerate(row_type.fields)
    ]
    return pa.StructArray.from_arrays(columns, fields=[f.with_nullable(True) for f in schema])
