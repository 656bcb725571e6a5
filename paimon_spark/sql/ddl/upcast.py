"""What Spark allows before it asks the catalog to change a column's type.

Spark: `CheckAnalysis.checkAlterTableCommand`, `UpCastRule.canUpCast`.  Paimon allows more, which
Spark never passes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)

_PRECEDENCE: Final = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
)
_DIGITS: Final = {
    TypeRoot.TINYINT: 3,
    TypeRoot.SMALLINT: 5,
    TypeRoot.INT: 10,
    TypeRoot.BIGINT: 20,
}
"""Decimal digits of the integers, as Spark counts them."""
_EXACT: Final = {TypeRoot.FLOAT: (14, 7), TypeRoot.DOUBLE: (30, 15)}
"""Precision and scale of the decimals that FLOAT and DOUBLE are for Spark."""
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def field_at(
    row_type: RowType, path: Sequence[str], *, sensitive: bool = False
) -> DataField | None:
    """The field at a path, whatever its case unless `sensitive`; None if there is none.

    `element`, `key` and `value` lead into arrays and maps, as in Spark.
    """
    folded = path if sensitive else [name.lower() for name in path]
    field = next(
        (f for f in row_type.fields if (f.name if sensitive else f.name.lower()) == folded[0]), None
    )
    for name in folded[1:]:
        field = None if field is None else _inside(field.type, name, sensitive=sensitive)
    return field


def _inside(data_type: DataType, name: str, *, sensitive: bool) -> DataField | None:
    match data_type:
        case RowType():
            return field_at(data_type, [name], sensitive=sensitive)
        case ArrayType() if name == "element":
            return DataField(id=0, name=name, type=data_type.element)
        case MapType() if name in ("key", "value"):
            part = data_type.key if name == "key" else data_type.value
            return DataField(id=0, name=name, type=part)
    return None


def fits_into(old: DataType, new: DataType) -> bool:
    """Whether Spark lets a column of the old type become one of the new."""
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    a, b = old.kind, new.kind
    if b is TypeRoot.VARCHAR and new.length == MAX_LENGTH:
        return True
    if a in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return b is TypeRoot.VARCHAR and (old.length or 0) <= (new.length or 0)
    if a is TypeRoot.DATE or a in _TIMESTAMPS:
        return b in _TIMESTAMPS
    if a is TypeRoot.BINARY or a is TypeRoot.VARBINARY:
        return b in (TypeRoot.BINARY, TypeRoot.VARBINARY)
    if a in _PRECEDENCE and b in _PRECEDENCE:
        return _PRECEDENCE.index(a) <= _PRECEDENCE.index(b)
    ours, theirs = _exact(old), _exact(new)
    if ours is None or theirs is None or TypeRoot.DECIMAL not in (a, b):
        return False
    whole, fraction = ours[0] - ours[1], ours[1]
    if a is TypeRoot.DECIMAL and b in _DIGITS:
        # Numbers with as many digits as the integer may be too large for it.
        return fraction == 0 and ours[0] < theirs[0]
    return whole <= theirs[0] - theirs[1] and fraction <= theirs[1]


def _exact(data_type: AtomicType) -> tuple[int, int] | None:
    """Precision and scale of a number; None for what is no number."""
    if data_type.kind is TypeRoot.DECIMAL:
        return data_type.precision or 0, data_type.scale or 0
    if data_type.kind in _DIGITS:
        return _DIGITS[data_type.kind], 0
    return _EXACT.get(data_type.kind)
