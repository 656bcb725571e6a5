"""Chooses the columns of a file that get a dictionary, based on a sample.

Encoding a column with many distinct values through a dictionary costs twice and saves nothing: the
dictionary overflows and the pages fall back to plain values.  So a few thousand values, evenly
spread over the first rows, are counted; the share of distinct ones gives an estimate of the
column's distinct values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.types.buffers import index_array

SAMPLE: Final = 8192
FEW: Final = 1024
"""If this number of values are all distinct, the column most likely has 100,000 or more."""
DICTIONARY_BYTES: Final = 512 * 1024
"""A dictionary expected to be larger than this would outgrow the page that Parquet gives it."""
LONG_DIGITS: Final = 18
"""Decimals of more digits are bytes of fixed length; others are integers in Parquet."""
REPEATS: Final = 4
"""The minimum average occurrence of a value for a dictionary to save space."""


def dictionary_columns(table: pa.Table) -> list[str]:
    """Return the paths of the leaf columns that should be written with a dictionary."""
    if table.num_rows == 0:
        return []  # Arrow imports pandas to combine no chunks
    return [
        path
        for name, column in zip(table.schema.names, table.columns, strict=True)
        if not _all_different(column)
        for path, leaf in leaves(name, sample(column))
        if repeats(leaf, table.num_rows)
    ]


def _all_different(column: pa.ChunkedArray) -> bool:
    """Return whether a quick check, cheaper than a sample, shows that nothing repeats."""
    if pa.types.is_nested(column.type) or len(column) <= FEW:
        return False
    few = column.take(spread(len(column), FEW))
    return bool(few.null_count == 0 and len(few.unique()) == FEW)


def leaves(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the leaf columns below a column with their paths in the Parquet schema."""
    kind = array.type
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from leaves(f"{path}.{kind.field(i).name}", array.field(i))
    elif pa.types.is_map(kind):
        yield from leaves(f"{path}.key_value.key", array.keys)
        yield from leaves(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(kind):
        yield from leaves(f"{path}.list.element", array.flatten())
    else:
        yield path, array


def sample(column: pa.ChunkedArray) -> pa.Array:
    """Return evenly spread values of the column: a quarter of them, but at most `SAMPLE`."""
    rows = len(column)
    size = min(SAMPLE, max(rows // REPEATS, 2 * FEW))
    if rows > size:
        column = column.take(spread(rows, size))
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


@lru_cache(maxsize=8)
def spread(rows: int, count: int) -> pa.Array:
    """Return `count` row numbers, evenly spread over the rows."""
    return index_array(np.linspace(0, rows - 1, count))


def repeats(leaf: pa.Array, rows: int) -> bool:
    """Return whether the sample's values repeat often enough for a dictionary to pay off.

    Never for decimals beyond 18 digits: Java looks up a filter's value in the dictionary by its
    shortest bytes (`ParquetFilters`), does not find values padded to the column's width, and skips
    the row group.  Its own writer uses no dictionary for such columns.
    """
    if pa.types.is_boolean(leaf.type) or pa.types.is_fixed_size_binary(leaf.type):
        return False
    if pa.types.is_decimal(leaf.type) and leaf.type.precision > LONG_DIGITS:
        return False
    leaf = leaf[:SAMPLE].drop_null()
    seen = len(leaf)
    few = leaf.take(spread(seen, FEW)) if seen > FEW else leaf
    if seen == 0 or (seen > FEW and len(few.unique()) == FEW):
        return False
    distinct = len(leaf.unique())
    total = min(_estimate(seen, distinct), max(rows, distinct))
    return bool(total * REPEATS <= rows and total * _width(leaf, seen) <= DICTIONARY_BYTES)


def _estimate(seen: int, distinct: int) -> float:
    """Estimate the distinct values of a column if `seen` random ones had `distinct` of them.

    Of D equally likely values, n draws show D * (1 - exp(-n / D)).
    """
    if distinct >= seen:
        return math.inf
    low, high = float(distinct), float(distinct) * seen
    for _ in range(30):
        middle = math.sqrt(low * high)
        if middle * -math.expm1(-seen / middle) < distinct:
            low = middle
        else:
            high = middle
    return high


def _width(leaf: pa.Array, seen: int) -> float:
    if pa.types.is_string(leaf.type) or pa.types.is_binary(leaf.type):
        return 4 + pc.sum(pc.binary_length(leaf)).as_py() / seen  # type: ignore[no-any-return]
    return leaf.type.bit_width / 8  # type: ignore[no-any-return]
