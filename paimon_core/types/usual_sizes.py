"""How many bytes a value of a type usually has, for estimates (Java: `DataType.defaultSize`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from paimon_core.types.decimals import COMPACT_PRECISION

_SIZES: Final[Mapping[TypeRoot, int]] = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
    TypeRoot.VARIANT: 2048,
    TypeRoot.BLOB: 1024 * 1024,
}
_TEXT: Final = 20


def usual_size(data_type: DataType) -> int:
    """The bytes of a value."""
    match data_type:
        case AtomicType(kind=TypeRoot.DECIMAL, precision=precision):
            return 8 if (precision or 0) <= COMPACT_PRECISION else 16
        case AtomicType(length=int(length)):
            return _TEXT if length == MAX_LENGTH else length
        case AtomicType(kind=kind):
            return _SIZES[kind]
        case ArrayType(element=element):
            return usual_size(element)
        case VectorType(element=element, length=length):
            return usual_size(element) * length
        case MultisetType(element=element):
            return usual_size(element) + 4
        case MapType(key=key, value=value):
            return usual_size(key) + usual_size(value)
        case RowType(fields=fields):
            return sum(usual_size(f.type) for f in fields)
    raise AssertionError(data_type)
