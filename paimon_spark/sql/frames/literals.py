"""Literals that Spark compares with a column as the core does.

Spark first brings both sides to one type: FLOAT and a number to DOUBLE, BIGINT and a number with an
exponent too, DECIMAL(38, s) and a number with more digits to fewer digits than either has.  It
casts texts by rules of its own, and in a list it casts the column to text instead.
"""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from typing import Any, Final

from paimon_core.types.data_types import AtomicType, DataType, TypeRoot

_WHOLE: Final = re.compile(r"0|-?[1-9]\d{0,8}")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{0,5}[1-9])?")
_TEXTS: Final = {
    TypeRoot.INT: _WHOLE,
    TypeRoot.BIGINT: _WHOLE,
    TypeRoot.DATE: _DAY,
    TypeRoot.TIMESTAMP: _MOMENT,
}
"""Columns that are no texts, and the texts that mean the same whichever side is cast."""
_NOT_FROM_TEXT: Final = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
    TypeRoot.TIME,
)
_QUOTED: Final = re.compile(r"'[^']*'|`[^`]*`")
_EXPONENT: Final = re.compile(r"(?<![\w.])[\d.]+[eE][+-]?\d")
_NANOS_OF_MICRO: Final = 1000


def compared_alike(data_type: DataType, kind: str, value: Any) -> bool:
    """Whether Spark compares a column of this type with a `parse_where` literal as the core."""
    if not isinstance(data_type, AtomicType):
        return False
    root = data_type.root
    match kind:
        case "string" if root in _NOT_FROM_TEXT:
            return False
        case "string" if root in _TEXTS:
            return _TEXTS[root].fullmatch(value) is not None
        case "number" if root is TypeRoot.FLOAT:
            return _is_float(value)
        case "number" if root is TypeRoot.DECIMAL:
            exponent = value.as_tuple().exponent
            return isinstance(exponent, int) and -exponent <= (data_type.scale or 0)
        case "timestamp":
            return bool(value % _NANOS_OF_MICRO == 0)
    return True


def has_exponent(condition: str) -> bool:
    """Whether a number of the condition is a DOUBLE by its exponent."""
    return _EXPONENT.search(_QUOTED.sub("", condition)) is not None


def _is_float(number: Decimal) -> bool:
    """Whether a FLOAT has exactly this value."""
    try:
        (value,) = struct.unpack("f", struct.pack("f", float(number)))
    except OverflowError:
        return False
    return Decimal(value) == number
