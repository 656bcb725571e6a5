"""Validates the layouts of maps (Java 2.0: `SchemaValidation.validateMapStorageLayout`).

Java 1.4.2 ignores the options.
"""

from __future__ import annotations

from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_core.options import (
    BUCKET,
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    MAP_LAYOUT,
    MAP_LAYOUTS,
    SHARED_MAPS,
)
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import MapType, TypeRoot, type_roots

_MAX_COLUMNS: Final = "map.shared-shredding.max-columns"
_PLACEMENT: Final = "map.shared-shredding.column-placement-policy"
FIELD_OPTIONS: Final = (MAP_LAYOUT, _MAX_COLUMNS, _PLACEMENT)
"""The options `fields.COLUMN.*` that go with the column when it is renamed or dropped."""
_PLACEMENTS: Final = ("plain", "sequential", "lru")
_FORMATS: Final = ("parquet", "orc")
_COMPRESSIONS: Final = ("none", "lz4", "zstd")
_NOT_BESIDE: Final = frozenset({TypeRoot.VARIANT, TypeRoot.MULTISET})
_NOT_INSIDE: Final = frozenset({TypeRoot.BLOB, TypeRoot.VECTOR})


def check_map_layouts(schema: TableSchema) -> None:
    """Raise InvalidArgument for a layout that the column, or the table, cannot have."""
    shared = [
        name
        for name, layout in schema.options.matching("fields.", f".{MAP_LAYOUT}").items()
        if _layout(schema, name, layout) == SHARED_MAPS
    ]
    for name in shared:
        _check_shared(schema, name)
    if shared:
        _check_table(schema, shared[0])


def _layout(schema: TableSchema, name: str, value: str) -> str:
    layout = value.strip().lower()
    if layout not in MAP_LAYOUTS:
        raise InvalidArgument(
            f"fields.{name}.{MAP_LAYOUT} is {value!r}: must be one of {', '.join(MAP_LAYOUTS)}"
        )
    column = schema.row_type.get(name)
    if column is not None and not isinstance(column.type, MapType):
        raise InvalidArgument(f"column {name} has fields.{name}.{MAP_LAYOUT}, but is no MAP")
    return layout


def _check_shared(schema: TableSchema, name: str) -> None:
    column = next(f.type for f in schema.fields if f.name == name)
    assert isinstance(column, MapType)
    key, value = column.key, column.value
    if key.root is not TypeRoot.VARCHAR or key.nullable:
        raise InvalidArgument(
            f"column {name} has {MAP_LAYOUT}={SHARED_MAPS}, but is no MAP<STRING NOT NULL, ...>"
        )
    inside = _NOT_INSIDE & set(type_roots(value))
    if inside:
        raise InvalidArgument(
            f"column {name} has {MAP_LAYOUT}={SHARED_MAPS}, but its values are {min(inside)}"
        )
    most = schema.options.get(f"fields.{name}.{_MAX_COLUMNS}", "256").strip()
    if not most.isdecimal() or int(most) < 1:
        raise InvalidArgument(f"fields.{name}.{_MAX_COLUMNS} is {most!r}: must be a number above 0")
    policy = schema.options.get(f"fields.{name}.{_PLACEMENT}", "lru").strip().lower()
    if policy not in _PLACEMENTS:
        raise InvalidArgument(
            f"fields.{name}.{_PLACEMENT} is {policy!r}: must be one of {', '.join(_PLACEMENTS)}"
        )


def _check_table(schema: TableSchema, name: str) -> None:
    options, why = schema.options, f"column {name} has {MAP_LAYOUT}={SHARED_MAPS}"
    formats = {options.value(FILE_FORMAT), *options.value(FILE_FORMAT_PER_LEVEL).values()}
    formats.add(options.value(CHANGELOG_FILE_FORMAT) or "parquet")
    compressions = {
        options.value(FILE_COMPRESSION),
        *options.value(FILE_COMPRESSION_PER_LEVEL).values(),
    }
    compressions.add(options.value(CHANGELOG_FILE_COMPRESSION) or "zstd")
    for what, found, known in (
        ("file format", formats, _FORMATS),
        ("compression", compressions, _COMPRESSIONS),
    ):
        wrong = {one.strip().lower() for one in found} - {*known, ""}
        if wrong:
            raise InvalidArgument(
                f"{why}, which the {what} {min(wrong)} does not have; use {' or '.join(known)}"
            )
    beside = _NOT_BESIDE & set(type_roots(schema.row_type))
    if beside:
        raise InvalidArgument(f"{why}, which cannot be beside a column of {min(beside)}")
    if options.value(BUCKET) == POSTPONE_BUCKET:
        raise InvalidArgument(f"{why}, which tables with bucket={POSTPONE_BUCKET} cannot have")
