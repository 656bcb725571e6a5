"""Paimon's data types as frozen values (Java: `org.apache.paimon.types`).

`paimon_core.types.sql` parses and prints the SQL text of a type ("DECIMAL(10, 2) NOT NULL"), or the
JSON objects of nested types in schema files.

Inside the core, a single value has its *internal* form, as in Paimon's BinaryRow:

=====================  ==========================================================
BOOLEAN                bool
TINYINT .. BIGINT      int
FLOAT, DOUBLE          float
DECIMAL                decimal.Decimal, always with exactly `scale` digits
CHAR, VARCHAR          str
BINARY, VARBINARY      bytes
DATE                   int, days since 1970-01-01
TIME                   int, milliseconds of the day
TIMESTAMP, LTZ         int, nanoseconds since 1970-01-01T00:00:00 (LTZ: in UTC)
VARIANT                (value, metadata), both bytes
ARRAY, VECTOR          list;  MAP and MULTISET: list of (key, value);  ROW: tuple
=====================  ==========================================================

Columns are Arrow arrays; the mapping is in `paimon_core.types.arrow`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from paimon_core.errors import InvalidArgument


class TypeRoot(StrEnum):
    """The kind of a type, written as in SQL."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP WITH LOCAL TIME ZONE"
    VARIANT = "VARIANT"
    BLOB = "BLOB"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    VECTOR = "VECTOR"


MAX_LENGTH = 2**31 - 1
"""The length of STRING and BYTES: VARCHAR and VARBINARY of the maximum length."""


CHARACTER_TYPES: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
BINARY_TYPES: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)
INTEGER_TYPES: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
FLOAT_TYPES: Final = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
TIMESTAMP_TYPES: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
INTEGER_BOUNDS: Final = {
    TypeRoot.TINYINT: 2**7,
    TypeRoot.SMALLINT: 2**15,
    TypeRoot.INT: 2**31,
    TypeRoot.BIGINT: 2**63,
}
"""Values of an integer type are at least the negative bound and less than the bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType:
    """Base of all types; equality includes nullability."""

    nullable: bool = True

    @property
    def root(self) -> TypeRoot:
        raise TypeError(f"{type(self).__name__} has no root")

    def with_nullable(self, nullable: bool) -> DataType:  # noqa: FBT001 - the one thing it sets
        """Return the same type with this nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicType(DataType):
    """A type without children.

    `length` for CHAR, VARCHAR, BINARY, VARBINARY; `precision` for DECIMAL, TIME, TIMESTAMP and
    TIMESTAMP_LTZ; `scale` for DECIMAL; None everywhere else.
    """

    kind: TypeRoot
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    @property
    def root(self) -> TypeRoot:
        return self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType(DataType):
    element: DataType

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.ARRAY


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorType(DataType):
    element: DataType
    length: int

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.VECTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType(DataType):
    key: DataType
    value: DataType

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.MAP


@dataclass(frozen=True, slots=True, kw_only=True)
class MultisetType(DataType):
    """Stored as a map from the element to its count (INT NOT NULL)."""

    element: DataType

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.MULTISET


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """A column, or a field of a ROW: `id` never changes, the name may.

    `unknown` holds the attributes in the schema file that this version does not know.
    """

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None
    unknown: Mapping[str, object] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowType(DataType):
    """Fields with different names; InvalidArgument for a repeated name, as Java's constructor."""

    fields: tuple[DataField, ...] = field(default=())

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.fields):
            repeated = next(n for n, times in Counter(self.names).items() if times > 1)
            raise InvalidArgument(f"several columns have the name {repeated!r}")

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.ROW

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(f.type for f in self.fields)

    def __iter__(self) -> Iterator[DataField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def get(self, name: str) -> DataField | None:
        """Return the field of this name, or None."""
        return next((f for f in self.fields if f.name == name), None)

    def project(self, names: Sequence[str]) -> RowType:
        """Return the row type of these fields in this order; KeyError for an unknown name."""
        by_name = {f.name: f for f in self.fields}
        return RowType(nullable=self.nullable, fields=tuple(by_name[n] for n in names))


def type_roots(data_type: DataType) -> Iterator[TypeRoot]:
    """Yield the roots of a type and of all types in it."""
    yield data_type.root
    match data_type:
        case RowType(fields=fields):
            for f in fields:
                yield from type_roots(f.type)
        case ArrayType(element=e) | MultisetType(element=e) | VectorType(element=e):
            yield from type_roots(e)
        case MapType(key=k, value=v):
            yield from type_roots(k)
            yield from type_roots(v)
        case _:
            return
