"""Indexes of primary-key tables, which follow the compacted files of each bucket.

Java 2.0: `index/pk/PrimaryKeyIndexDefinitions`, `PrimaryKeyIndexSourceMeta`; java-rules E13.

::

    level 5    file a: 3 rows     file b: 2 rows      sorted by name
    numbers    0 1 2              3 4                 of the rows that an index file of level 5 has

An index file covers all compacted files of one level.  Its entry in the index manifest names them,
and readers ignore an entry that names other files than the level has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from paimon_core.errors import InvalidArgument, SchemaError
from paimon_core.index.global_index import BITMAP, BTREE
from paimon_core.io.json_text import parse_json_object
from paimon_core.manifest.data_file import DataFileMeta, FileSource, IndexFileMeta
from paimon_core.options import PK_BITMAP_INDEX_COLUMNS, PK_BTREE_INDEX_COLUMNS, Option, Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import DataField

SOURCE_META: Final = "_SOURCE_META"
"""The field of a global index's metadata with the data files that it covers."""
_VERSION: Final = 1
_HEAD: Final = struct.Struct(">iii")
_NAME: Final = struct.Struct(">H")
_ROWS: Final = struct.Struct(">q")
COLUMNS: Final[Mapping[str, Option[tuple[str, ...]]]] = {
    BTREE: PK_BTREE_INDEX_COLUMNS,
    BITMAP: PK_BITMAP_INDEX_COLUMNS,
}
"""The options that name the columns with indexes, by index type."""


@dataclass(frozen=True, slots=True)
class LevelIndex:
    """The index of a column, its index type, and the options to build it."""

    kind: str
    field: DataField
    options: Options


@dataclass(frozen=True, slots=True)
class Sources:
    """The level that an index file covers: names and numbers of rows of its files, by name."""

    level: int
    files: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, level: int, files: Iterable[DataFileMeta]) -> Self:
        """Return these files of a level as sources."""
        return cls(level, tuple(sorted((f.file_name, f.row_count) for f in files)))

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.files)

    def encode(self) -> bytes:
        """Return the bytes of `_SOURCE_META`."""
        parts = [_HEAD.pack(_VERSION, self.level, len(self.files))]
        for name, rows in self.files:
            text = name.encode()  # Java writes modified UTF-8, which is the same for file names
            parts += (_NAME.pack(len(text)), text, _ROWS.pack(rows))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Self | None:
        """Return the sources; None for anything else, which readers ignore, too."""
        try:
            version, level, count = _HEAD.unpack_from(data)
            if version != _VERSION or level <= 0 or count <= 0:
                return None
            files, at = [], _HEAD.size
            for _ in range(count):
                (size,) = _NAME.unpack_from(data, at)
                at += _NAME.size
                name = data[at : at + size].decode()
                (rows,) = _ROWS.unpack_from(data, at + size)
                at += size + _ROWS.size
                files.append((name, rows))
        except (struct.error, UnicodeDecodeError):
            return None
        return cls(level, tuple(files)) if at == len(data) else None


def sources_of(file: IndexFileMeta) -> Sources | None:
    """Return what an index file covers; None if it is no readable index of a primary-key table."""
    data = (file.global_index or {}).get(SOURCE_META)
    return Sources.decode(data) if isinstance(data, bytes) else None


def has_sources(file: IndexFileMeta) -> bool:
    """Return whether an index file is one of a primary-key table."""
    return (file.global_index or {}).get(SOURCE_META) is not None


def is_indexed(file: DataFileMeta) -> bool:
    """Return whether indexes cover a data file (Java: `PrimaryKeyIndexSourcePolicy`)."""
    return file.level > 0 and file.file_source is FileSource.COMPACT


def level_indexes(schema: TableSchema) -> tuple[LevelIndex, ...]:
    """Return the indexes of the table that can be built here.

    SchemaError for an unknown column, one that is named twice, or bad options.
    """
    fields = {f.name: f for f in schema.fields}
    found: dict[str, LevelIndex] = {}
    for kind, option in COLUMNS.items():
        for column in schema.options.value(option):
            if column not in fields:
                raise SchemaError(f"{option.key} names the unknown column {column!r}")
            if column in found:
                raise SchemaError(f"{option.key} names the column {column!r}, which has an index")
            options = _options_of(schema.options, kind, column)
            found[column] = LevelIndex(kind, fields[column], options)
    return tuple(found.values())


def other_index_options(options: Options) -> Iterator[str]:
    """Yield the options that ask for indexes of primary-key tables which cannot be built here."""
    known = {option.key for option in COLUMNS.values()}
    for key, value in options.items():
        is_list = key.startswith("pk-") and key.endswith(".index.columns")
        if is_list and key not in known and value.strip():
            yield key


def _options_of(options: Options, kind: str, column: str) -> Options:
    """Return the table's options with those of one index."""
    key, prefix = f"fields.{column}.pk-{kind}.index.options", f"{kind}-index."
    text = options.get(key, "").strip()
    if not text:
        return options
    try:
        own = parse_json_object(text)
    except ValueError as e:
        raise SchemaError(f"{key} is no JSON object: {e}") from e
    except InvalidArgument as e:
        raise SchemaError(f"{key} is no JSON object: {e.message}") from e
    named = {k if k.startswith((prefix, "fields.")) else prefix + k: str(v) for k, v in own.items()}
    return Options({**options, **named})
