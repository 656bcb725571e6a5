"""The time that partition values represent (Java: `partition/PartitionTimeExtractor`).

A *pattern* combines the values ("$dt $hour:00:00", default: the first value).  A *formatter* (Java:
DateTimeFormatter) parses the result.  Times are milliseconds of a wall clock without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from paimon_core.retention.date_time_format import (
    DateTimeFormat,
    Field,
    Fraction,
    Literal,
    Number,
    Optional,
    Sign,
)


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
