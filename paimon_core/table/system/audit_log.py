"""Rows with their kinds as columns (Java: `table/system/AuditLogTable`, `BinlogTable`).

The audit log puts the row kind in front of each row.  The binlog turns an update into one row whose
columns are arrays [before, after]; inserts and deletes have [value].  With
`table-read.sequence-number.enabled`, the sequence number follows the kind; of an update in the
binlog, it is that of the row before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import READ_SEQUENCE_NUMBER
from paimon_core.schema.key_value import SEQUENCE_FIELD
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.buffers import int8_array
from paimon_core.types.data_types import ArrayType, DataField, RowType
from paimon_core.types.sql import parse_type

AUDIT_LOG: Final = "audit_log"
BINLOG: Final = "binlog"
ROW_KINDS: Final = ("+I", "-U", "+U", "-D")
_BEFORE: Final = 1
_ROW_KIND: Final = DataField(id=2**31 - 1 - 4, name="rowkind", type=parse_type("STRING"))

Batches = Iterator[pa.RecordBatch]


def viewed_type(table: FileStoreTable, row_type: RowType) -> RowType:
    """Return what the views read of rows of this type: maybe also their sequence number, first."""
    numbered = table.has_primary_key and table.options.value(READ_SEQUENCE_NUMBER)
    return RowType(fields=(SEQUENCE_FIELD, *row_type.fields)) if numbered else row_type


def audit_log_type(row_type: RowType) -> RowType:
    """Return the audit log's columns for rows of this type (`viewed_type`)."""
    return RowType(nullable=False, fields=(_ROW_KIND, *row_type.fields))


def audit_log(batches: Batches, row_type: RowType) -> Batches:
    """Turn rows with kinds into rows of the audit log; each of them is an insert."""
    schema = _with_kind(audit_log_type(row_type))
    for batch in batches:
        columns = [batch.column(name) for name in row_type.names]
        kinds = np.asarray(batch.column(VALUE_KIND))
        yield pa.RecordBatch.from_arrays(
            [_inserts(len(kinds)), _kind_texts(kinds), *columns], schema=schema
        )


def binlog_type(row_type: RowType) -> RowType:
    """Return the binlog's columns for rows of this type (`viewed_type`)."""
    fields = (f if f.name == SEQUENCE_NUMBER else _as_array(f) for f in row_type.fields)
    return RowType(nullable=False, fields=(_ROW_KIND, *fields))


def _as_array(field: DataField) -> DataField:
    return replace(field, type=ArrayType(element=field.type.with_nullable(True)))


def binlog(batches: Batches, row_type: RowType, *, packed: bool) -> Batches:
    """Turn rows with kinds into rows of the binlog.

    `packed`: every -U forms one row with the row after it, as in a stream; otherwise each row is
    separate, as in a batch read.
    """
    schema = _with_kind(binlog_type(row_type))
    held: pa.RecordBatch | None = None
    for batch in batches:
        rows = batch
        if held is not None:
            rows = pa.concat_batches([held.cast(batch.schema), batch])
            held = None
        kinds = np.asarray(rows.column(VALUE_KIND))
        if packed and len(kinds) and kinds[-1] == _BEFORE:
            held, rows, kinds = (
                rows.slice(len(kinds) - 1),
                rows.slice(0, len(kinds) - 1),
                kinds[:-1],
            )
        if rows.num_rows:
            yield _lists(rows, _ends(kinds) if packed else np.arange(len(kinds)), row_type, schema)
    if held is not None:
        yield _lists(held, np.zeros(1, np.int64), row_type, schema)


def _ends(kinds: np.ndarray) -> np.ndarray:
    """Return the last row of each group: the row after a -U belongs to it, whatever its kind."""
    before = kinds == _BEFORE
    if not (before[1:] & before[:-1]).any():
        return np.flatnonzero(~before)
    ends = []
    at = 0
    while at < len(kinds):
        at += 1 if before[at] and at + 1 < len(kinds) else 0
        ends.append(at)
        at += 1
    return np.array(ends)


def _lists(
    rows: pa.RecordBatch, ends: np.ndarray, row_type: RowType, schema: pa.Schema
) -> pa.RecordBatch:
    # The two rows of an update are adjacent, so the lists are slices of the columns.
    offsets = pa.array(np.concatenate([[0], ends + 1]).astype(np.int32))
    columns = [
        rows.column(name).take(offsets[:-1])
        if name == SEQUENCE_NUMBER
        else pa.ListArray.from_arrays(offsets, rows.column(name), type=schema.field(name).type)
        for name in row_type.names
    ]
    kinds = np.asarray(rows.column(VALUE_KIND))[ends]
    return pa.RecordBatch.from_arrays(
        [_inserts(len(ends)), _kind_texts(kinds), *columns], schema=schema
    )


def _inserts(rows: int) -> pa.Array:
    return int8_array(np.zeros(rows, np.int8))


def _kind_texts(kinds: np.ndarray) -> pa.Array:
    return pa.array(ROW_KINDS, pa.string()).take(pa.array(kinds))


def _with_kind(row_type: RowType) -> pa.Schema:
    return arrow_schema(row_type).insert(0, pa.field(VALUE_KIND, pa.int8()))
