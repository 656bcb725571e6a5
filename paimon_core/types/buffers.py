"""Converts Arrow arrays to numpy arrays and back, buffer by buffer.

`np.asarray(array)`, `array.to_numpy()` and `pa.array(values)` do the same, but pyarrow imports
pandas on their first call, which takes about a second per process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BoolArray = npt.NDArray[np.bool_]
RecordBatches = Iterator[pa.RecordBatch]


def fixed_values(array: pa.Array, dtype: Any, *, extra: int = 0) -> npt.NDArray[Any]:
    """Return the values of a fixed-width buffer without a copy; undefined for nulls.

    `extra` elements follow those of the rows: there is one more offset than rows.
    """
    buffer = array.buffers()[1]
    count = len(array) + extra
    if buffer is None or len(array) == 0:
        return np.zeros(count, dtype=dtype)
    item = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype=dtype, count=count, offset=array.offset * item)


def bool_values(array: pa.Array) -> BoolArray:
    """Return a column of booleans; the values of nulls are undefined."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype=np.bool_)
    return _bits(buffer, array.offset, len(array))


def valid_rows(array: pa.Array) -> BoolArray:
    """Return, for each row, whether it is not null."""
    buffer = array.buffers()[0]
    if buffer is None or array.null_count == 0:
        return np.ones(len(array), dtype=np.bool_)
    return _bits(buffer, array.offset, len(array))


def _bits(buffer: Any, offset: int, count: int) -> BoolArray:
    octets = np.frombuffer(buffer, dtype=np.uint8)[offset // 8 : (offset + count + 7) // 8]
    bits = np.unpackbits(octets, bitorder="little")[offset % 8 : offset % 8 + count]
    return bits.view(np.bool_)


def index_array(rows: npt.NDArray[Any]) -> pa.Array:
    """Return row numbers as an Arrow array without a copy."""
    return pa.Array.from_buffers(
        pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows, dtype=np.int64))]
    )


def take_values(
    values: pa.Array | pa.ChunkedArray, rows: npt.NDArray[Any]
) -> pa.Array | pa.ChunkedArray:
    """Return the values of these rows in their order; chunks stay chunks if the rows are ascending.

    Arrow's `take` copies all chunks into one first, however few rows it takes.
    """
    if not isinstance(values, pa.ChunkedArray) or (rows[1:] < rows[:-1]).any():
        return values.take(index_array(rows))
    parts: list[pa.Array] = []
    first = start = 0
    for chunk in values.chunks:
        end = int(np.searchsorted(rows, start + len(chunk)))
        if end > first:
            parts.append(chunk.take(index_array(rows[first:end] - start)))
        first, start = end, start + len(chunk)
    return pa.chunked_array(parts, values.type)


def binary_array(sizes: npt.NDArray[Any], content: Any) -> pa.Array:
    """Return large binary values of these sizes, which follow each other in `content`."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def int8_array(values: npt.NDArray[Any]) -> pa.Array:
    """Return row kinds and other small numbers as an Arrow array without a copy."""
    return pa.Array.from_buffers(
        pa.int8(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, dtype=np.int8))]
    )
