"""The time that partition values represent (Java: `partition/PartitionTimeExtractor`).

A *pattern* combines the values ("$dt $hour:00:00", default: the first value).  A *formatter* (Java:
DateTimeFormatter) parses the result.  Times are milliseconds of a wall clock without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import DataType, RowType, TypeRoot
from paimon_core.types.date_time_format import (
    DateTimeFormat,
    Field,
    Fraction,
    Literal,
    Number,
    Optional,
    Sign,
)
from paimon_core.types.partition_text import partition_text

_DAY: Final = 86_400_000


def _number(name: Field, most: int = 2) -> Number:
    return Number(name, 1, most, Sign.NORMAL)


DEFAULT_FORMAT: Final = DateTimeFormat(
    (
        *(_number(Field.YEAR, 10), Literal("-"), _number(Field.MONTH)),
        *(Literal("-"), _number(Field.DAY)),
        Optional(
            (
                *(Literal(" "), _number(Field.HOUR), Literal(":"), _number(Field.MINUTE)),
                *(Literal(":"), _number(Field.SECOND)),
                Optional((Fraction(1, 9, point=True),)),
            )
        ),
    ),
    lenient=True,
)
"""`yyyy-MM-dd` with or without `HH:mm:ss` and a fraction.  Digits may be missing;
days and months may overflow.
"""

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def put_together(pattern: str | None, values: Mapping[str, str]) -> str | None:
    """The text to parse: the pattern with each $key replaced, or the first value.

    None if Java's `replaceAll` fails on a value with `$` or a trailing backslash.  Another
    backslash escapes the next character and is removed.
    """
    if pattern is None:
        return next(iter(values.values()))
    for key, value in values.items():
        if f"${key}" not in pattern:
            continue
        unescaped = _ESCAPED.sub("", value)
        if "$" in unescaped or "\\" in unescaped:
            return None
        pattern = pattern.replace(f"${key}", _ESCAPED.sub(r"\1", value))
    return pattern


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """Reads the times of partitions by a pattern and a formatter."""

    pattern: str | None
    formatter: DateTimeFormat

    @classmethod
    def of(cls, pattern: str | None, formatter: str | None) -> PartitionTimes:
        """InvalidArgument for a formatter that is none; the defaults for None."""
        form = DEFAULT_FORMAT if formatter is None else DateTimeFormat.of(formatter)
        return cls(pattern, form)

    def time_of(self, partition_type: RowType, row: bytes) -> int | str:
        """The time that the values of a stored row represent, or the reason why there is none."""
        fields = partition_type.fields
        values = dict(
            zip((f.name for f in fields), decode_row(row, [f.type for f in fields]), strict=True)
        )
        if self.pattern is None:
            first = fields[0]
            direct = _direct_millis(values[first.name], first.type)
            if direct is not None:
                return direct
        texts = {}
        for field in fields:
            value = values[field.name]
            if value is None and (self.pattern is not None or field is fields[0]):
                return f"{field.name} is null"
            text = "" if value is None else partition_text(value, field.type, legacy_name=False)
            texts[field.name] = text or ""
        text = put_together(self.pattern, texts)
        if text is None:
            return f"timestamp_pattern {self.pattern!r} does not accept its values"
        time = self.formatter.millis(text)
        return f"cannot parse {text!r} as a time" if time is None else time


def _direct_millis(value: object, data_type: DataType) -> int | None:
    """The time of a DATE or TIMESTAMP column.

    Java treats their internal numbers as text, so such partitions never expire (decision 0008).
    """
    if value is None:
        return None
    if data_type.root is TypeRoot.DATE:
        return cast("int", value) * _DAY
    if data_type.root is TypeRoot.TIMESTAMP:
        return cast("int", value) // 1_000_000
    return None
