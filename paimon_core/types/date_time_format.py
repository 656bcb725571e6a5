"""Reads times as Java's `java.time.format.DateTimeFormatter` does (Java 9 and later).

A formatter is a sequence of parsers.  Each parser consumes characters from a position and records
fields.  Three rules of Java decide which texts are valid; a regular expression cannot express them:

- *Adjacent values*: in `yyyyMMdd` the year leaves the last four digits to month and day.  An
  optional section is not adjacent to the value before it: `yyyyMMdd[HH]` does not match
  `2024013107`.
- *Signs*: `y` and `yyyy` accept a minus sign; `yyyy` accepts more than four digits only with a
  plus.
- *Resolution*: `y` is the year of an era, so year 0 is invalid.  The smart style of `ofPattern`
  maps day 31 of a shorter month to its last day, and 24:00 to the start of the next day.  The
  lenient style lets every field overflow into the next larger one.

Supported letters: y u M d D H m s S, and MMM.  Other letters raise InvalidArgument.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Final, Protocol, cast

from paimon_core.errors import InvalidArgument
from paimon_core.types.datetimes import civil_from_days, days_from_civil

MILLIS_OF_DAY: Final = 86_400_000
_MOST_DIGITS: Final = 19
_LONG: Final = 2**63
_LAST_YEAR: Final = 999_999_999
_REDUCED_FROM: Final = 2000
"""The base year of two-digit years."""
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


class Field(StrEnum):
    """The supported fields of `ChronoField`."""

    YEAR_OF_ERA = "year of era"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    DAY_OF_YEAR = "day of year"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    NANO = "nano"


_RANGES: Final = {
    Field.YEAR_OF_ERA: (1, _LAST_YEAR + 1),
    Field.YEAR: (-_LAST_YEAR, _LAST_YEAR),
    Field.MONTH: (1, 12),
    Field.DAY: (1, 31),
    Field.DAY_OF_YEAR: (1, 366),
    Field.HOUR: (0, 23),
    Field.MINUTE: (0, 59),
    Field.SECOND: (0, 59),
    Field.NANO: (0, 999_999_999),
}
_TIME_FIELDS: Final = (Field.HOUR, Field.MINUTE, Field.SECOND, Field.NANO)
_LETTERS: Final = {
    "y": Field.YEAR_OF_ERA,
    "u": Field.YEAR,
    "M": Field.MONTH,
    "d": Field.DAY,
    "D": Field.DAY_OF_YEAR,
    "H": Field.HOUR,
    "m": Field.MINUTE,
    "s": Field.SECOND,
    "S": Field.NANO,
}
_MOST_LETTERS: Final = {"y": 19, "u": 19, "M": 3, "D": 3, "S": 9}
"""How often a letter may be repeated; the default is twice."""


class Sign(Enum):
    """The accepted signs of a number (Java: `SignStyle`)."""

    NORMAL = "minus"
    NOT_NEGATIVE = "none"
    EXCEEDS_PAD = "minus, or plus if there are more digits than letters"


class _NoTime(Exception):
    """The text does not match the formatter."""


Fields = dict[Field, int]


def _note(fields: Fields, name: Field, value: int) -> bool:
    """Record the value; False if the field already has a different one."""
    return fields.setdefault(name, value) == value


# --- parsers ------------------------------------------------------------------------------------


class Parser(Protocol):
    def parse(self, text: str, at: int, fields: Fields) -> int | None:
        """The position after the match, with the fields recorded; None without a match."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str

    def parse(self, text: str, at: int, _: Fields) -> int | None:
        return at + len(self.text) if text.startswith(self.text, at) else None


@dataclass(frozen=True, slots=True)
class MonthName:
    def parse(self, text: str, at: int, fields: Fields) -> int | None:
        name = text[at : at + 3]
        if name not in _MONTHS or not _note(fields, Field.MONTH, _MONTHS.index(name) + 1):
            return None
        return at + 3


@dataclass(frozen=True, slots=True)
class Fraction:
    """A fraction of a second, with or without a decimal point (Java: `FractionPrinterParser`)."""

    least: int
    most: int
    point: bool = False
    adjacent: int = 0

    def parse(self, text: str, at: int, fields: Fields) -> int | None:
        if self.point:
            if not text.startswith(".", at):
                return None
            at += 1
        count = _digits(text, at, self.most)
        if count < self.least:
            return None
        nanos = int(text[at : at + count].ljust(9, "0"))
        return at + count if _note(fields, Field.NANO, nanos) else None


@dataclass(frozen=True, slots=True)
class Number:
    """A signed number (Java: `NumberPrinterParser`, and `ReducedPrinterParser` if `reduced`).

    `adjacent` is the number of digits to leave to the adjacent values that follow.
    """

    name: Field
    least: int
    most: int
    sign: Sign
    reduced: bool = False
    adjacent: int = 0

    def parse(self, text: str, at: int, fields: Fields) -> int | None:
        sign = text[at : at + 1] if text[at : at + 1] in ("+", "-") else ""
        if sign == "-" and self.sign is Sign.NOT_NEGATIVE:
            return None
        if sign == "+" and self.sign is not Sign.EXCEEDS_PAD:
            return None
        at += len(sign)
        count = _digits(text, at, self.most + self.adjacent)
        if count < self.least:
            return None
        count = max(self.least, count - self.adjacent)
        value = int(text[at : at + count])
        if sign == "-" and value == 0:
            return None
        if self.sign is Sign.EXCEEDS_PAD and sign != "-" and (sign == "+") != (count > self.least):
            return None
        value = -value if sign == "-" else value
        if not -_LONG <= value < _LONG:  # as Java, leave the last digit to what follows
            value, count = int(text[at : at + count - 1]), count - 1
            value = -value if sign == "-" else value
        if self.reduced and count == self.least:
            value += _REDUCED_FROM
        return at + count if _note(fields, self.name, value) else None


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional section: it matches as a whole or not at all."""

    parsers: tuple[Parser, ...]

    def parse(self, text: str, at: int, fields: Fields) -> int | None:
        inside = dict(fields)
        end = _parse_all(self.parsers, text, at, inside)
        if end is None:
            return at
        fields.update(inside)
        return end


def _parse_all(parsers: Sequence[Parser], text: str, at: int, fields: Fields) -> int | None:
    end: int | None = at
    for parser in parsers:
        if end is None:
            return None
        end = parser.parse(text, end, fields)
    return end


_DIGITS: Final = re.compile(r"\d*", re.ASCII)


def _digits(text: str, at: int, most: int) -> int:
    """The number of digits at the position, at most `most`."""
    match = _DIGITS.match(text, at, at + most)
    return 0 if match is None else match.end() - at


# --- the formatter ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DateTimeFormat:
    """A compiled formatter, lenient or smart (as from `DateTimeFormatter.ofPattern`)."""

    parsers: tuple[Parser, ...]
    lenient: bool = False

    @classmethod
    def of(cls, formatter: str) -> DateTimeFormat:
        """The formatter of a Java pattern; InvalidArgument if Java rejects the pattern or it uses
        unsupported letters.
        """
        return cls(_compile(formatter))

    def millis(self, text: str) -> int | None:
        """The wall-clock time in the text, milliseconds since 1970; None if Java cannot parse it.

        A day without an hour means the start of the day.  Digits beyond milliseconds are cut off.
        """
        fields: Fields = {}
        if _parse_all(self.parsers, text, 0, fields) != len(text):
            return None
        try:
            days, nanos = self._date(fields), self._nanos(fields)
        except _NoTime:
            return None
        return None if days is None else days * MILLIS_OF_DAY + nanos // 1_000_000

    def _date(self, fields: Fields) -> int | None:
        """Days since 1970; None without a complete date (`IsoChronology.resolveDate`)."""
        of_era = fields.pop(Field.YEAR_OF_ERA, None)
        if of_era is not None:
            self._check(Field.YEAR_OF_ERA, of_era)
            year = fields.get(Field.YEAR)
            era_year = of_era if year is None or year > 0 else 1 - of_era
            if not _note(fields, Field.YEAR, era_year):
                raise _NoTime
        year = fields.get(Field.YEAR)
        if year is None:
            return None
        month, day = fields.get(Field.MONTH), fields.get(Field.DAY)
        of_year = fields.get(Field.DAY_OF_YEAR)
        if month is not None and day is not None:
            days = self._month_and_day(year, month, day)
        elif of_year is not None:
            _check(Field.YEAR, year)
            _check(Field.DAY_OF_YEAR, of_year)
            days = days_from_civil(year, 1, 1) + of_year - 1
            if days >= days_from_civil(year + 1, 1, 1):
                raise _NoTime
        else:
            return None
        # The remaining fields must agree, even in the lenient style.
        found_year, found_month, found_day = civil_from_days(days)
        found = {
            Field.MONTH: found_month,
            Field.DAY: found_day,
            Field.DAY_OF_YEAR: days - days_from_civil(found_year, 1, 1) + 1,
        }
        used = (Field.MONTH, Field.DAY) if month is not None and day is not None else ()
        if any(k not in used and fields.get(k, v) != v for k, v in found.items()):
            raise _NoTime
        return days

    def _month_and_day(self, year: int, month: int, day: int) -> int:
        _check(Field.YEAR, year)
        if self.lenient:
            months = year * 12 + month - 1
            year, month = months // 12, months % 12 + 1
            _check(Field.YEAR, year)
            return days_from_civil(year, month, 1) + day - 1
        _check(Field.MONTH, month)
        _check(Field.DAY, day)
        start = days_from_civil(year, month, 1)
        end = days_from_civil(year + month // 12, month % 12 + 1, 1)
        return start + min(day, end - start) - 1

    def _nanos(self, fields: Fields) -> int:
        """Nanoseconds since the start of the day (`Parsed.resolveTimeLenient`).

        With a gap, such as seconds without minutes, only the date counts; Java does not check the
        fields after the hour.
        """
        present = [k in fields for k in _TIME_FIELDS]
        values = [fields.get(k, 0) for k in _TIME_FIELDS]
        whole = present == sorted(present, reverse=True)
        if present[0] and not whole:
            return 0
        if values != [24, 0, 0, 0]:
            for name, value in zip(_TIME_FIELDS, values, strict=True):
                self._check(name, value)
        if not whole:
            return 0
        hour, minute, second, nano = values
        return (hour * 3600 + minute * 60 + second) * 10**9 + nano

    def _check(self, name: Field, value: int) -> None:
        if not self.lenient:
            _check(name, value)


def _check(name: Field, value: int) -> None:
    low, high = _RANGES[name]
    if not low <= value <= high:
        raise _NoTime


# --- letters ------------------------------------------------------------------------------------

_TOKENS: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)


class _Sequence:
    """A sequence of parsers under construction (Java: `DateTimeFormatterBuilder`), with the open
    value that leaves digits to adjacent values.
    """

    def __init__(self) -> None:
        self.parsers: list[Parser] = []
        self._open: int | None = None

    def add(self, parser: Parser) -> None:
        """Append a parser other than a value; it ends adjacency."""
        self.parsers.append(parser)
        self._open = None

    def add_value(self, value: Number | Fraction, *, fixed: bool) -> None:
        """Append a value; a value of fixed width takes its digits from the open value."""
        if self._open is not None:
            base = cast("Number | Fraction", self.parsers[self._open])
            # A following value of variable width cancels the digits of the fixed ones before it.
            adjacent = base.adjacent + value.most if fixed else 0
            self.parsers[self._open] = replace(base, adjacent=adjacent)
        if self._open is None or not fixed:
            self._open = len(self.parsers)
        self.parsers.append(value)

    def close(self) -> None:
        """End adjacency at the start of an optional section, even of an empty one."""
        self._open = None


def _compile(formatter: str) -> tuple[Parser, ...]:
    outer: list[_Sequence] = []
    current = _Sequence()
    for match in _TOKENS.finditer(formatter):
        part = match.group()
        if match.group(1):
            _add_letters(current, part, formatter)
        elif part == "[":
            current.close()
            outer.append(current)
            current = _Sequence()
        elif part == "]":
            if not outer:
                raise _refused(formatter, "unmatched closing bracket")
            current = _leave(outer, current)
        elif part[0] == "'":
            if len(part) == 1:
                raise _refused(formatter, "unterminated quote")
            current.add(Literal(part[1:-1].replace("''", "'") or "'"))
        elif part in "{}#":
            raise _refused(formatter, f"{part!r} is reserved; quote it")
        else:
            current.add(Literal(part))
    while outer:  # as in Java, brackets need not be closed
        current = _leave(outer, current)
    return tuple(current.parsers)


def _leave(outer: list[_Sequence], inner: _Sequence) -> _Sequence:
    around = outer.pop()
    if inner.parsers:
        around.add(Optional(tuple(inner.parsers)))
    return around


def _add_letters(current: _Sequence, part: str, formatter: str) -> None:
    letter, count = part[0], len(part)
    name = _LETTERS.get(letter)
    if name is None or count > _MOST_LETTERS.get(letter, 2):
        raise _refused(formatter, f"{part!r} is not supported (supported: y u M d D H m s S, MMM)")
    if letter == "S":
        current.add_value(Fraction(count, count), fixed=True)
    elif letter in "yu" and count == 2:
        current.add_value(Number(name, 2, 2, Sign.NOT_NEGATIVE, reduced=True), fixed=True)
    elif letter in "yu" and count > 3:
        current.add_value(Number(name, count, _MOST_DIGITS, Sign.EXCEEDS_PAD), fixed=False)
    elif letter in "yu" or count == 1:
        current.add_value(Number(name, count, _MOST_DIGITS, Sign.NORMAL), fixed=False)
    elif letter == "M" and count == 3:
        current.add(MonthName())
    else:
        most = 3 if letter == "D" else count
        current.add_value(Number(name, count, most, Sign.NOT_NEGATIVE), fixed=count == most)


def _refused(formatter: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"timestamp formatter {formatter!r}: {why}",
        next_step="change timestamp_formatter, or partition.timestamp-formatter of the table",
    )
