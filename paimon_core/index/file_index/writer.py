"""Builds the indexes that a table's options select while a file is written.

Java: `FileIndexOptions`, `io/DataFileIndexWriter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.index.file_index.bitmap import BitmapWriter
from paimon_core.index.file_index.bloom import BloomWriter
from paimon_core.index.file_index.bsi import BsiWriter
from paimon_core.index.file_index.container import encode_indexes
from paimon_core.index.file_index.range_bitmap import RangeBitmapWriter
from paimon_core.options import Options
from paimon_core.types.data_types import (
    CHARACTER_TYPES,
    DataType,
    MapType,
    RowType,
)

INDEX_SUFFIX: Final = ".index"
_NESTED: Final = re.compile(r"(.*?)\[(.*)\]")
_CORRECT: Final = "correct the table options that begin with 'file-index.'"


class _Writer(Protocol):
    def write(self, array: pa.Array) -> None: ...

    def finish(self) -> bytes: ...


_WRITERS: Final[dict[str, Callable[[DataType, Mapping[str, str]], _Writer]]] = {
    "bloom-filter": BloomWriter,
    "bitmap": BitmapWriter,
    "bsi": BsiWriter,
    "range-bitmap": RangeBitmapWriter,
}


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """One index to build: its kind, the column (or one key of a map column), its options."""

    kind: str
    column: str
    map_key: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the column's name inside the container."""
        return self.column if self.map_key is None else f"{self.column}[{self.map_key}]"


def indexed_columns(options: Options) -> tuple[IndexedColumn, ...]:
    """Return the columns of `file-index.KIND.columns` with their options.

    `file-index.KIND.COLUMN.OPTION` sets an option; that of a map column applies to its keys too.
    """
    wanted: list[tuple[str, str, str | None]] = []
    for kind, text in options.matching("file-index.", ".columns").items():
        for name in text.split(","):
            if not name.strip():
                raise InvalidArgument(
                    f"an empty column name in file-index.{kind}.columns", next_step=_CORRECT
                )
            nested = _NESTED.fullmatch(name.strip())
            column, key = nested.groups() if nested else (name.strip(), None)
            wanted.append((kind, column, key))
    settings: dict[tuple[str, str], dict[str, str]] = {}
    for key_, value in options.items():
        parts = key_.removeprefix("file-index.").split(".")
        if key_.startswith("file-index.") and len(parts) == 3 and parts[2] != "columns":
            settings.setdefault((parts[0], parts[1]), {})[parts[2]] = value
    result = tuple(
        IndexedColumn(
            kind,
            column,
            key,
            {
                **settings.get((kind, column), {}),
                **(settings.get((kind, f"{column}[{key}]"), {}) if key is not None else {}),
            },
        )
        for kind, column, key in wanted
    )
    known = {(c.kind, name) for c in result for name in (c.column, c.name)}
    for kind, column in settings:
        if (kind, column) not in known:
            raise InvalidArgument(
                f"options for a {kind} index on {column}, which is not among its columns",
                next_step=_CORRECT,
            )
    return result


class FileIndexWriter:
    """Builds all indexes of one file."""

    def __init__(self, row_type: RowType, wanted: Sequence[IndexedColumn]) -> None:
        """Raise InvalidArgument for a missing column or one that cannot have such an index."""
        self._parts: list[tuple[IndexedColumn, int, _Writer]] = []
        for want in wanted:
            column = row_type.get(want.column)
            if column is None:
                raise InvalidArgument(
                    f"a {want.kind} index on {want.column}, which is not a column",
                    next_step=_CORRECT,
                )
            make = _WRITERS.get(want.kind)
            if make is None:
                raise UnsupportedFeature(f"file index {want.kind}")
            data_type = column.type
            if want.map_key is not None:
                if not isinstance(data_type, MapType) or data_type.key.root not in CHARACTER_TYPES:
                    raise InvalidArgument(
                        f"a {want.kind} index on {want.name}, which is not a map with string keys",
                        next_step=_CORRECT,
                    )
                data_type = data_type.value
            at = row_type.names.index(want.column)
            try:
                writer = make(data_type, want.options)
            except InvalidArgument:
                raise
            except (ValueError, ArithmeticError) as e:
                raise InvalidArgument(
                    f"the options of the {want.kind} index on {want.name} cannot be used: {e}",
                    next_step=_CORRECT,
                ) from e
            self._parts.append((want, at, writer))
        self._empty = True

    def update(self, values: Sequence[pa.Array]) -> None:
        """Add the next rows of the file: its columns in order."""
        for want, at, writer in self._parts:
            array = values[at]
            self._empty = self._empty and len(array) == 0
            if want.map_key is not None:
                array = pc.map_lookup(array, pa.scalar(want.map_key), "first")
            writer.write(array)

    def finish(self) -> bytes:
        """Return the container with all indexes."""
        indexes: dict[str, dict[str, bytes | None]] = {}
        for want, _, writer in self._parts:
            data = None if self._empty else writer.finish()
            indexes.setdefault(want.name, {})[want.kind] = data
        return encode_indexes(indexes)
