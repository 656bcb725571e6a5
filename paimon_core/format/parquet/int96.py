"""INT96, Paimon's encoding of TIMESTAMP(7) to TIMESTAMP(9) in Parquet files.

A value has twelve bytes: eight for the nanoseconds of the day, four for the Julian day number, both
little-endian.  Java Paimon (`ParquetRowDataWriter.timestampToInt96`) divides towards zero, so
before 1970 the nanoseconds are negative; other writers round down.  Both forms are supported.

pyarrow has one switch that turns *all* timestamps of a file into INT96, and when reading, it
silently wraps around outside the years 1677 to 2262.  So pyarrow gets the columns as 12 plain
bytes, and the footer is changed accordingly: INT96 to FIXED_LEN_BYTE_ARRAY(12) when reading, the
reverse when writing.  Pages need no change: both forms store the same bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.parquet.footer import (
    CHUNK_META,
    ELEMENT_LENGTH,
    ELEMENT_TYPE,
    FILE_ROW_GROUPS,
    FILE_SCHEMA,
    GROUP_COLUMNS,
    META_STATISTICS,
    META_TYPE,
    footer_bytes,
    metadata_of,
    structs_of,
)
from paimon_core.format.parquet.thrift_compact import (
    I32,
    Field,
    Struct,
    decode_struct,
    field_value,
)
from paimon_core.types.buffers import valid_rows

WIDTH: Final = 12
RAW_TYPE: Final = pa.binary(WIDTH)

_DTYPE: Final = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_EPOCH_DAY: Final = 2_440_588
_DAY_NANOS: Final = 86_400 * 10**9
_DAY_MICROS: Final = 86_400 * 10**6
# The last microseconds that 64 bits of nanoseconds can represent, and the nanoseconds within.
_FIRST_MICROS, _FIRST_REST = divmod(-(2**63), 1000)
_LAST_MICROS, _LAST_REST = divmod(2**63 - 1, 1000)

# Field numbers of parquet.thrift.
_INT96, _FIXED = 3, 7


def to_timestamps(raw: pa.Array) -> pa.Array:
    """Convert 12-byte values to timestamps in nanoseconds.

    Raises UnsupportedFeature for a time beyond the range of 64-bit nanoseconds.
    """
    if len(raw) == 0:
        return pa.array([], pa.timestamp("ns"))
    start = raw.offset * WIDTH
    buffer = raw.buffers()[1]
    if buffer is None:
        return pa.nulls(len(raw), pa.timestamp("ns"))
    values = np.frombuffer(buffer, np.uint8, len(raw) * WIDTH, start).view(_DTYPE)
    valid = None if raw.null_count == 0 else valid_rows(raw)
    days = values["day"].astype(np.int64) - _EPOCH_DAY
    nanos = values["nanos"]
    if valid is not None:
        days = np.where(valid, days, 0)
        nanos = np.where(valid, nanos, 0)
    micros = np.clip(days, -200_000, 200_000) * _DAY_MICROS + nanos // 1000
    rest = nanos % 1000
    if (
        (micros < _FIRST_MICROS)
        | ((micros == _FIRST_MICROS) & (rest < _FIRST_REST))
        | (micros > _LAST_MICROS)
        | ((micros == _LAST_MICROS) & (rest > _LAST_REST))
    ).any():
        raise UnsupportedFeature(
            "TIMESTAMP beyond microseconds outside the years 1678 to 2261",
            "a TIMESTAMP(7..9) column holds a time before 1678 or after 2261",
        )
    times = pa.array(days * _DAY_NANOS + nanos, pa.int64())
    if valid is not None:
        times = pa.Array.from_buffers(
            pa.int64(), len(raw), [pa.array(valid).buffers()[1], times.buffers()[1]]
        )
    return times.view(pa.timestamp("ns"))


def from_timestamps(times: pa.Array) -> pa.Array:
    """Convert timestamps in nanoseconds to 12-byte values."""
    numbers = times.view(pa.int64())
    nanos = np.asarray(numbers.fill_null(0))
    values = np.empty(len(times), _DTYPE)
    days = nanos // _DAY_NANOS
    values["nanos"] = nanos - days * _DAY_NANOS
    values["day"] = days + _EPOCH_DAY
    validity = (
        None if times.null_count == 0 else pa.array(np.asarray(times.is_valid())).buffers()[1]
    )
    return pa.Array.from_buffers(RAW_TYPE, len(times), [validity, pa.py_buffer(values)])


def raw_metadata(source: Any) -> pq.FileMetaData:
    """Return the metadata of a Parquet file with its INT96 columns as 12 plain bytes."""
    return metadata_of(with_raw_int96(decode_struct(footer_bytes(source))))


def with_raw_int96(footer: Struct) -> Struct:
    """Return the footer, changed in place, with its INT96 columns as 12 plain bytes."""
    return _retyped(footer, _INT96, _FIXED)


def with_int96(footer: Struct) -> Struct:
    """Return the footer, changed in place, with its columns of 12 plain bytes as INT96."""
    return _retyped(footer, _FIXED, _INT96)


def _retyped(metadata: Struct, old: int, new: int) -> Struct:
    """Return the footer with 12-byte columns changed from one physical type to the other."""
    leaves = [
        _retype_element(element, old, new)
        for element in structs_of(metadata, FILE_SCHEMA)
        if field_value(element, ELEMENT_TYPE) is not None
    ]
    for group in structs_of(metadata, FILE_ROW_GROUPS):
        for changed, chunk in zip(leaves, structs_of(group, GROUP_COLUMNS), strict=True):
            if changed:
                meta = field_value(chunk, CHUNK_META)
                if not isinstance(meta, list):
                    raise CorruptTable("a column chunk of a Parquet file has no metadata")
                _set_type(meta, new)
                # INT96 has no order, so its minimum and maximum are meaningless.
                meta[:] = [f for f in meta if f.id != META_STATISTICS]
    return metadata


def _set_type(meta: Struct, new: int) -> None:
    for field in meta:
        if field.id == META_TYPE:
            field.value = new


def _retype_element(element: Struct, old: int, new: int) -> bool:
    kind = next(f for f in element if f.id == ELEMENT_TYPE)
    length = field_value(element, ELEMENT_LENGTH)
    annotated = any(f.id in (6, 10) for f in element)
    if kind.value != old or annotated or (old == _FIXED and length != WIDTH):
        return False
    kind.value = new
    element[:] = [f for f in element if f.id != ELEMENT_LENGTH]
    if new == _FIXED:
        element.insert(1, Field(ELEMENT_LENGTH, I32, WIDTH))
    return True
