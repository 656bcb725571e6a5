"""Converts partition values to and from the text of folder names.

Legacy names are the internal value (a DATE is its day number), others the cast to STRING.
Java: `InternalRowPartitionComputer`.
"""

from __future__ import annotations

from decimal import InvalidOperation
from typing import Any, Final, cast

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types import datetimes
from paimon_core.types.data_types import (
    INTEGER_BOUNDS,
    MAX_LENGTH,
    AtomicType,
    DataType,
    TypeRoot,
)
from paimon_core.types.decimals import fit
from paimon_core.types.java_numbers import (
    double_text,
    float_text,
    parse_decimal,
    parse_exact_float,
    parse_float,
    parse_integer,
)
from paimon_core.types.sql import type_to_sql


def partition_text(value: Any, data_type: DataType, *, legacy_name: bool) -> str | None:
    """Return the text of a partition value; None if the table's default name replaces it.

    This applies to nulls and to empty or blank strings.
    """
    if value is None:
        return None
    text = _legacy_text(value, data_type) if legacy_name else sql_text(value, data_type)
    return text if text.strip(_JAVA_BLANKS) else None


_JAVA_BLANKS: Final = " \t\n\x0b\x0c\r\x1c\x1d\x1e\x1f" + "".join(
    chr(c)
    for c in (
        0x1680,
        *range(0x2000, 0x2007),
        *range(0x2008, 0x200B),
        0x2028,
        0x2029,
        0x205F,
        0x3000,
    )
)
"""The characters that `Character.isWhitespace` accepts (without no-break spaces)."""


def _legacy_text(value: Any, data_type: DataType) -> str:
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.FLOAT:
            return float_text(value)
        case TypeRoot.DOUBLE:
            return double_text(value)
        case TypeRoot.DECIMAL:
            return f"{value:f}"
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return datetimes.local_date_time_text(value)
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.DATE | TypeRoot.TIME:
            return str(value)
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return str(value)
    # Java prints the array's address: a different folder in every process.
    raise UnsupportedFeature(
        f"partition columns of type {type_to_sql(data_type)} with legacy names",
        next_step="create the table with partition.legacy-name=false",
    )


def sql_text(value: Any, data_type: DataType) -> str:
    """Cast a non-null atomic value to STRING, with LTZ in UTC."""
    if not isinstance(data_type, AtomicType):
        raise UnsupportedFeature(f"partition columns of type {type_to_sql(data_type)}")
    match data_type.kind:
        case TypeRoot.DATE:
            return datetimes.sql_date(value)
        case TypeRoot.TIME:
            return datetimes.sql_time(value, data_type.precision or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return datetimes.sql_timestamp(value, data_type.precision or 0)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return cast("str", value.decode(errors="replace"))
    return _legacy_text(value, data_type)


def parse_partition_text(text: str, data_type: DataType) -> Any:
    """Return the internal value of a partition's text, in either kind of name.

    Java: `TypeUtils.castFromString`.  Two differences: the ISO text of legacy names is accepted
    too, and a DECIMAL with too many digits is refused, while Java returns null.  The caller handles
    the default name, which means null.  Raises InvalidArgument if the text is invalid for the type.
    """
    if not isinstance(data_type, AtomicType):
        raise UnsupportedFeature(f"partition columns of type {type_to_sql(data_type)}")
    cause: Exception | None = None
    value = None
    try:
        value = _parse_atomic(text, data_type)
    except (ValueError, InvalidOperation, OverflowError) as e:
        cause = e
    if value is None:
        raise InvalidArgument(
            f"the text {text!r} is not a value of the type {type_to_sql(data_type)}"
        ) from cause
    return value


def _parse_atomic(text: str, t: AtomicType) -> Any:
    match t.kind:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return None if t.length != MAX_LENGTH and len(text) > (t.length or 0) else text
        case TypeRoot.BOOLEAN:
            return parse_boolean(text)
        case TypeRoot.BINARY:
            return text.encode()
        case TypeRoot.VARBINARY:
            encoded = text.encode()
            return None if len(encoded) > (t.length or 0) else encoded
        case TypeRoot.DECIMAL:
            number = parse_decimal(text)
            return None if number is None else fit(number, t.precision or 0, t.scale or 0)
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return _bounded(text, t.kind)
        case TypeRoot.FLOAT:
            return parse_exact_float(text)
        case TypeRoot.DOUBLE:
            return parse_float(text, single=False)
        case TypeRoot.DATE if is_numeric(text):
            return _bounded(text, TypeRoot.INT)
        case TypeRoot.DATE:
            return datetimes.parse_sql_date(text)
        case TypeRoot.TIME if is_numeric(text):
            return _bounded(text, TypeRoot.INT)
        case TypeRoot.TIME:
            return datetimes.parse_sql_time(text)
        case TypeRoot.TIMESTAMP if is_numeric(text):
            epoch = _bounded(text, TypeRoot.BIGINT)
            return None if epoch is None else epoch_to_nanos(epoch, t.precision or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            # Legacy names hold ISO text, whose seconds may be missing.
            if "T" in text:
                return datetimes.parse_iso_timestamp(text)
            return datetimes.parse_sql_timestamp(text, t.precision or 0)
    raise UnsupportedFeature(f"partition columns of type {type_to_sql(t)}")


def _bounded(text: str, root: TypeRoot) -> int | None:
    number = parse_integer(text)
    return (
        number
        if number is not None and -INTEGER_BOUNDS[root] <= number < INTEGER_BOUNDS[root]
        else None
    )


def is_numeric(text: str) -> bool:
    """Return whether Java's casts parse the text as a plain number for a date or time."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()


_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")


def parse_boolean(text: str) -> bool | None:
    """Parse Java's words for True and False in any case; None for other words."""
    lowered = text.lower()
    return True if lowered in _TRUE else False if lowered in _FALSE else None


def epoch_to_nanos(epoch: int, precision: int) -> int:
    """Convert epoch digits in the unit of the precision (0, 3, 6 or 9) to nanoseconds."""
    if precision not in (0, 3, 6, 9):
        raise InvalidArgument(f"a number cannot be read as TIMESTAMP({precision})")
    if precision == 0:
        # Java converts seconds to milliseconds in 64 bits, which wrap around.
        return ((epoch * 1000 + 2**63) % 2**64 - 2**63) * 1_000_000
    nanos: int = epoch * 10 ** (9 - precision)
    return nanos
