"""Puts maps together that a file stores as rows with shared columns.

Java 2.0: `data/shredding/MapSharedShreddingReadPlan`, `MapSharedShreddingUtils`; java-rules G7.

A file numbers the keys of such a column, in the metadata of the column.  A row holds the values of
some keys in columns that all keys share, and says which; the rest is in a map by number::

    keys              {"a": 0, "b": 1, "c": 2}
    {"b": 5, "a": 7}  __field_mapping [0, 1], __col_0 7, __col_1 5, __overflow null
    {"c": 8}          __field_mapping [-1, 2], __col_0 null, __col_1 8, __overflow null
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import UNREADABLE, CorruptTable, UnsupportedFeature
from paimon_core.format.bounded import inflate
from paimon_core.io.json_text import parse_json_object
from paimon_core.options import MAP_LAYOUT, SHARED_MAPS
from paimon_core.types.buffers import binary_array, fixed_values, take_values, valid_rows

_LAYOUT: Final = b"paimon.map.storage-layout"
_PREFIX: Final = b"paimon.map.shared-shredding."
_VERSION: Final = "1"
_FIELD_MAPPING: Final = "__field_mapping"
_COLUMN: Final = "__col_"
_OVERFLOW: Final = "__overflow"
_UNUSED: Final = -1
_CODECS: Final = {"none": "null", "zstd": "zstandard", "lz4": "lz4"}
_LZ4_HEADER_BYTES: Final = 8
"""Java writes the compressed and the original length before LZ4 data."""
_MOST_BYTES: Final = 64 * 1024 * 1024
"""More than the names of a column's keys take, which Java holds in memory."""
_MOST_COLUMNS: Final = 100_000
_KEPT: Final = 64
Ints = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a column in one file: sorted numbers, the name of each, and the columns."""

    numbers: Ints
    names: pa.Array
    columns: int

    def positions(self, numbers: Ints) -> Ints:
        """Return the position of each number; -1 for those that no key has, as in Java."""
        if not len(self.numbers):
            return np.full(len(numbers), _UNUSED)
        at = np.searchsorted(self.numbers, numbers)
        at[at == len(self.numbers)] = 0
        found: Ints = np.where(self.numbers[at] == numbers, at, _UNUSED)
        return found


def is_shared(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a column of this type in a file holds maps in the shared layout."""
    if not pa.types.is_map(target) or not pa.types.is_struct(source):
        return False
    return bool(source.get_field_index(_FIELD_MAPPING) >= 0)


def assembled_maps(
    array: pa.StructArray,
    metadata: Mapping[bytes, bytes] | None,
    convert: Callable[[pa.Array], pa.Array],
) -> pa.MapArray:
    """Return the maps of a column; `metadata` is that of the column, `convert` is for the values.

    Raises CorruptTable if the metadata contradicts the column, UnsupportedFeature if there is none,
    or for the layout of a later version.
    """
    keys = _keys_of(tuple(sorted((metadata or {}).items())))
    valid = array.filter(array.is_valid()) if array.null_count else array
    fields = dict(zip((f.name for f in array.type), valid.flatten(), strict=True))
    try:
        mapping = fields[_FIELD_MAPPING]
        values = [convert(fields[f"{_COLUMN}{i}"]) for i in range(keys.columns)]
    except KeyError as e:
        raise CorruptTable(f"a column of shared maps lacks the field {e.args[0]}") from e
    rows = len(valid)
    key = keys.positions(_mapped(mapping, keys.columns))
    row = np.repeat(np.arange(rows), keys.columns)
    # The value of a row in a column is at the place of the row, after the rows of earlier columns.
    value = row + np.tile(np.arange(keys.columns) * rows, rows)
    overflow = fields.get(_OVERFLOW)
    if overflow is not None and overflow.null_count < rows:
        more_rows, numbers, items = _entries(overflow)
        values.append(convert(items))
        key = np.concatenate([key, keys.positions(numbers)])
        row = np.concatenate([row, more_rows])
        value = np.concatenate([value, keys.columns * rows + np.arange(len(items))])
    order = np.flatnonzero(key != _UNUSED)
    order = order[np.argsort(row[order], kind="stable")]
    counts = np.zeros(len(array), np.int64)
    counts[valid_rows(array)] = np.bincount(row[order], minlength=rows)
    return pa.MapArray.from_arrays(
        pa.Array.from_buffers(
            pa.int32(),
            len(array) + 1,
            [None, pa.py_buffer(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))],
        ),
        take_values(keys.names, key[order]),
        take_values(pa.concat_arrays(values), value[order]),
        mask=array.is_null() if array.null_count else None,
    )


def _mapped(mapping: pa.Array, columns: int) -> Ints:
    """Return the numbers of the keys in the columns, one row after the other."""
    is_list = pa.types.is_list(mapping.type) and mapping.type.value_type == pa.int32()
    lengths = np.diff(fixed_values(mapping, np.int32, extra=1)) if is_list else np.zeros(0)
    if not is_list or mapping.null_count or (lengths != columns).any():
        raise CorruptTable(f"{_FIELD_MAPPING} does not have a number for each of {columns} columns")
    numbers = mapping.flatten()
    if numbers.null_count:
        raise CorruptTable(f"{_FIELD_MAPPING} has nulls")
    return fixed_values(numbers, np.int32)


def _entries(overflow: pa.Array) -> tuple[Ints, Ints, pa.Array]:
    """Return the row of each entry of the maps, its number, and its value."""
    if not pa.types.is_map(overflow.type) or overflow.type.key_type != pa.int32():
        raise CorruptTable(f"{_OVERFLOW} is a column of {overflow.type}")
    offsets = fixed_values(overflow, np.int32, extra=1)
    here = slice(int(offsets[0]), int(offsets[-1]))
    rows = np.repeat(np.arange(len(overflow)), np.diff(offsets))
    numbers, items = overflow.keys[here], overflow.items[here]
    if numbers.null_count:
        raise CorruptTable(f"{_OVERFLOW} has null keys")
    held = np.flatnonzero(valid_rows(overflow)[rows])
    return rows[held], fixed_values(numbers, np.int32)[held], take_values(items, held)


@lru_cache(_KEPT)
def _keys_of(metadata: tuple[tuple[bytes, bytes], ...]) -> _Keys:
    found = dict(metadata)
    if found.get(_LAYOUT) != SHARED_MAPS.encode():
        raise UnsupportedFeature(f"{MAP_LAYOUT}={SHARED_MAPS} without metadata of the column")

    def value(name: str) -> str:
        try:
            return found[_PREFIX + name.encode()].decode()
        except (KeyError, UnicodeDecodeError) as e:
            raise CorruptTable(f"a column of shared maps has no valid metadata {name}") from e

    if value("version") != _VERSION:
        raise UnsupportedFeature(f"{MAP_LAYOUT}={SHARED_MAPS}, version {value('version')}")
    codec = _CODECS.get(value("field-dict-compression").lower())
    if codec is None:
        raise UnsupportedFeature(f"map keys with compression {value('field-dict-compression')}")
    try:
        columns, size = int(value("num-columns")), int(value("field-dict-original-size"))
        data = value("field-dict").encode("latin-1")
        if not 0 < columns <= _MOST_COLUMNS or not 0 <= size <= _MOST_BYTES:
            raise ValueError(f"{columns:,} columns, {size:,} bytes of keys")
        if codec == "lz4":
            data = data[_LZ4_HEADER_BYTES:]
        return _keys(parse_json_object(inflate(codec, data, size)), columns)
    except UNREADABLE as e:
        raise CorruptTable(f"the metadata of a column of shared maps is damaged: {e}") from e


def _keys(numbers: Mapping[str, Any], columns: int) -> _Keys:
    names = {number: name for name, number in numbers.items()}
    ordered = sorted(names)
    texts = [names[n].encode() for n in ordered]
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return _Keys(
        numbers=np.fromiter(ordered, np.int32, len(ordered)),
        names=binary_array(sizes, b"".join(texts)).cast(pa.string()),
        columns=columns,
    )
