"""The ORC type tree of Paimon columns (Java: `format/orc/OrcTypeUtil`).

Types are numbered depth first; the root is a struct of the columns, number 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import Final

import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.orc.protobuf import blob, number, packed
from paimon_core.types.arrow import FIELD_ID, arrow_schema, map_types
from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from paimon_core.types.sql import type_to_sql

ATTRIBUTE: Final = "paimon.id"


class OrcKind(IntEnum):
    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


_KINDS: Final = {
    TypeRoot.CHAR: OrcKind.CHAR,
    TypeRoot.BOOLEAN: OrcKind.BOOLEAN,
    TypeRoot.BINARY: OrcKind.BINARY,
    TypeRoot.VARBINARY: OrcKind.BINARY,
    TypeRoot.DECIMAL: OrcKind.DECIMAL,
    TypeRoot.TINYINT: OrcKind.BYTE,
    TypeRoot.SMALLINT: OrcKind.SHORT,
    TypeRoot.INT: OrcKind.INT,
    TypeRoot.TIME: OrcKind.INT,
    TypeRoot.BIGINT: OrcKind.LONG,
    TypeRoot.FLOAT: OrcKind.FLOAT,
    TypeRoot.DOUBLE: OrcKind.DOUBLE,
    TypeRoot.DATE: OrcKind.DATE,
    TypeRoot.TIMESTAMP: OrcKind.TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ: OrcKind.TIMESTAMP_INSTANT,
}


@dataclass(frozen=True, slots=True)
class OrcType:
    """A node of the tree; `names` are those of a struct's children."""

    number: int
    kind: OrcKind
    children: tuple[OrcType, ...] = ()
    names: tuple[str, ...] = ()
    length: int | None = None
    precision: int = 0
    scale: int = 0
    field_id: bytes | None = None

    def nodes(self) -> Iterator[OrcType]:
        """Yield this node and all below it in the order of their numbers."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def encoded(self) -> bytes:
        """Return the node as a message of the file's footer."""
        out = number(1, self.kind)
        if self.children:
            out += packed(2, [c.number for c in self.children])
        for name in self.names:
            out += blob(3, name)
        if self.length is not None:
            out += number(4, self.length)
        if self.kind is OrcKind.DECIMAL:
            out += number(5, self.precision) + number(6, self.scale)
        if self.field_id is not None:
            out += blob(7, blob(1, ATTRIBUTE) + blob(2, self.field_id))
        return out


def orc_type(row_type: RowType) -> OrcType:
    """Return the type tree of a file with these columns."""
    return _Tree().row(row_type, arrow_schema(row_type), None)


class _Tree:
    def __init__(self) -> None:
        self._numbers = count()

    def row(self, t: RowType, fields: pa.Schema | pa.StructType, field_id: bytes | None) -> OrcType:
        own = next(self._numbers)
        children = tuple(self._node(f.type, a) for f, a in zip(t.fields, fields, strict=True))
        return OrcType(own, OrcKind.STRUCT, children, t.names, field_id=field_id)

    def _node(self, t: DataType, arrow: pa.Field) -> OrcType:
        field_id = (arrow.metadata or {}).get(FIELD_ID)
        match t:
            case RowType():
                return self.row(t, arrow.type, field_id)
            case ArrayType():
                own = next(self._numbers)
                child = self._node(t.element, arrow.type.value_field)
                return OrcType(own, OrcKind.LIST, (child,), field_id=field_id)
            case MapType() | MultisetType():
                own = next(self._numbers)
                key, value = map_types(t)
                children = (
                    self._node(key, arrow.type.key_field),
                    self._node(value, arrow.type.item_field),
                )
                return OrcType(own, OrcKind.MAP, children, field_id=field_id)
            case AtomicType():
                return self._atomic(t, field_id)
        raise UnsupportedFeature(f"{type_to_sql(t)} in ORC files")

    def _atomic(self, t: AtomicType, field_id: bytes | None) -> OrcType:
        if t.kind is TypeRoot.VARCHAR:
            if t.length == MAX_LENGTH:
                return OrcType(next(self._numbers), OrcKind.STRING, field_id=field_id)
            kind = OrcKind.VARCHAR
        elif t.kind in _KINDS:
            kind = _KINDS[t.kind]
        else:
            raise UnsupportedFeature(f"{type_to_sql(t)} in ORC files")
        return OrcType(
            next(self._numbers),
            kind,
            length=t.length if kind in (OrcKind.CHAR, OrcKind.VARCHAR) else None,
            precision=t.precision or 0,
            scale=t.scale or 0,
            field_id=field_id,
        )
