"""Parses and prints dates, times and timestamps like Java Paimon.

Java: `DateTimeUtils` (SQL text, used by casts) and `java.time`'s `toString` (ISO text).  Values are
internal: days, milliseconds of the day, nanoseconds since the epoch.  Python's `datetime` is
limited to the years 1 to 9999, Paimon is not, hence the calendar arithmetic.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from paimon_core.errors import InvalidArgument

NANOS_OF_SECOND: Final = 10**9
NANOS_OF_DAY: Final = 86_400 * NANOS_OF_SECOND
MILLIS_OF_DAY: Final = 86_400_000


# --- the calendar -------------------------------------------------------------------------------


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the proleptic Gregorian calendar."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    return year_of_era + era * 400 + (month <= 2), month, day


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01; the date must exist."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return (
        era * 146_097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + day_of_year
        - 719_468
    )


def _month_length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


# --- ISO text (java.time) -----------------------------------------------------------------------


def iso_date(days: int) -> str:
    """`2024-01-31`; years beyond 9999 get a sign (Java: `LocalDate.toString`)."""
    year, month, day = civil_from_days(days)
    if 0 <= year <= 9999:
        return f"{year:04}-{month:02}-{day:02}"
    return f"{'-' if year < 0 else '+'}{abs(year):04}-{month:02}-{day:02}"


def iso_time(millis: int) -> str:
    """`12:34:56.789`, always with milliseconds."""
    seconds, milli = divmod(millis, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milli:03}"


def iso_timestamp(nanos: int, precision: int) -> str:
    """`2024-01-31T12:34:56.123` with exactly `precision` digits, none and no dot for 0."""
    days, rest = divmod(nanos, NANOS_OF_DAY)
    seconds, nano = divmod(rest, NANOS_OF_SECOND)
    text = f"{iso_date(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{nano:09}"[: len(text) + 1 + precision] if precision else text


def local_date_time_text(nanos: int) -> str:
    """`2024-01-31T12:34`, seconds and fraction only where needed (`LocalDateTime.toString`).

    The fraction has 3, 6 or 9 digits.
    """
    days, rest = divmod(nanos, NANOS_OF_DAY)
    seconds, nano = divmod(rest, NANOS_OF_SECOND)
    text = f"{iso_date(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if not nano:
        return f"{text}:{seconds % 60:02}" if seconds % 60 else text
    digits = f"{nano:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}:{seconds % 60:02}.{digits}"


_ISO_DATE: Final = re.compile(r"([+-]?\d{4,9})-(\d{2})-(\d{2})", re.ASCII)
_ISO_TIME: Final = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", re.ASCII)


def wall_clock_text(local_millis: int) -> str:
    """Return a wall clock time as text, for any year: "2024-01-31 12:00:00"."""
    days, seconds = divmod(local_millis // 1000, 86_400)
    year, month, day = civil_from_days(days)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"


def parse_iso_date(text: str) -> int:
    """Days of `2024-01-31`; InvalidArgument for anything else."""
    match = _ISO_DATE.fullmatch(text)
    if match:
        year, month, day = map(int, match.groups())
        if 1 <= month <= 12 and 1 <= day <= _month_length(year, month):
            return days_from_civil(year, month, day)
    raise InvalidArgument(f"not a date: {text!r} (expected for example '2024-01-31')")


def parse_iso_time_nanos(text: str) -> int:
    """Nanoseconds of the day of `12:34` up to `12:34:56.123456789`."""
    match = _ISO_TIME.fullmatch(text)
    if match:
        hour, minute, second = (int(g or 0) for g in match.groups()[:3])
        if hour < 24 and minute < 60 and second < 60:
            nano = int((match.group(4) or "").ljust(9, "0"))
            return (hour * 3600 + minute * 60 + second) * NANOS_OF_SECOND + nano
    raise InvalidArgument(f"not a time: {text!r} (expected for example '12:34:56.789')")


def parse_iso_timestamp(text: str) -> int:
    """Nanoseconds of `2024-01-31T12:34:56.123`; a space may stand for the T, a Z may follow."""
    date, separator, time = text.replace(" ", "T").removesuffix("Z").partition("T")
    if not separator:
        raise InvalidArgument(
            f"not a timestamp: {text!r} (expected for example '2024-01-31T12:34:56')"
        )
    return parse_iso_date(date) * NANOS_OF_DAY + parse_iso_time_nanos(time)


# --- SQL text (DateTimeUtils) -------------------------------------------------------------------


def sql_date(days: int) -> str:
    """`2024-01-31`; Java prints the last four digits of the year."""
    year, month, day = civil_from_days(days)
    return f"{year % 10_000:04}-{month:02}-{day:02}"


def sql_time(millis: int, precision: int) -> str:
    """`12:34:56.78`: up to `precision` digits, trailing zeros cut, but at least one."""
    millis %= MILLIS_OF_DAY
    seconds, milli = divmod(millis, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if precision <= 0:
        return text
    digits = f"{milli:03}"[:precision].ljust(min(precision, 3), "0")
    return f"{text}.{digits.rstrip('0') or '0'}"


def sql_timestamp(nanos: int, precision: int) -> str:
    """`2024-01-31 12:34:56.123`: `precision` digits, more where they are not zero."""
    days, rest = divmod(nanos, NANOS_OF_DAY)
    seconds, nano = divmod(rest, NANOS_OF_SECOND)
    text = f"{sql_date(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f"{nano:09}"
    fraction = fraction[:precision] + fraction[precision:].rstrip("0")
    return f"{text}.{fraction}" if fraction else text


_TRIMMED: Final = "".join(map(chr, range(33)))
"""The characters that Java's `String.trim` removes."""
_MOST_DIGITS: Final = 100


def _digits(text: str) -> int | None:
    text = text.strip(_TRIMMED)
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number < 2**31 else None


def parse_sql_date(text: str) -> int | None:
    """Days of `2024-1-31`, `2024-1` or `2024`, a time after a space ignored; None if unreadable."""
    space = text.find(" ")
    if space > 0:
        text = text[:space]
    parts = [_digits(p) for p in text.split("-", 2)]
    if None in parts:
        return None
    year, month, day = (*(p or 0 for p in parts), *(1, 1)[len(parts) - 1 :])
    if year > 9999 or not 1 <= month <= 12 or not 1 <= day <= _month_length(year, month):
        return None
    return days_from_civil(year, month, day)


def parse_sql_time(text: str) -> int | None:
    """Milliseconds of `12:34:56.789`, less may be given; None if unreadable.

    As in Java, hours and minutes are not checked, an offset is *added* (`+01:00` gives a later
    time), and the result wraps around in 32 bits.
    """
    at = text.find("-")
    sign = -1
    if at < 0:
        at, sign = text.find("+"), 1
    offset_hour: int | None = 0
    offset_minute: int | None = 0
    if at >= 0:
        hour_text, colon, minute_text = text[at + 1 :].partition(":")
        offset_hour = _digits(hour_text)
        offset_minute = _digits(minute_text) if colon else 0
        text = text[:at]
    parts = text.split(":", 2)
    milli = 0
    if len(parts) == 3 and "." in parts[2]:
        parts[2], fraction = parts[2].split(".", 1)
        milli = _millis_of_fraction(fraction.strip())
    numbers = [_digits(p) for p in parts]
    if None in numbers or offset_hour is None or offset_minute is None:
        return None
    hour, minute, second = (*(n or 0 for n in numbers), *(0, 0)[len(numbers) - 1 :])
    hour += sign * offset_hour
    minute += sign * offset_minute
    total = hour * 3_600_000 + minute * 60_000 + second * 1000 + milli
    return (total + 2**31) % 2**32 - 2**31


def _millis_of_fraction(text: str) -> int:
    """Three digits of a fraction, the fourth rounds (Java: `parseFraction`)."""
    digits = [int(c) if "0" <= c <= "9" else 0 for c in text[:3]]
    milli = sum(d * m for d, m in zip(digits, (100, 10, 1), strict=False))
    return milli + (len(text) > 3 and text[3] >= "5")


_SQL_TIMESTAMP: Final = re.compile(
    r"(\d{4}|\+\d{5,9})-(\d{2}|\d)?-(\d{2}|\d)?"
    r"(?: (\d{2}|\d)?:(\d{2}|\d)?:(\d{2}|\d)?(?:\.(\d{0,9}))?)?",
    re.ASCII,
)


def parse_sql_timestamp(text: str, precision: int) -> int:
    """Nanoseconds of `2024-1-31 1:02:03.5`, digits beyond `precision` cut; the time may be missing.

    InvalidArgument if Java's formatter (`yyyy-[MM][M]-[dd][d] [HH][H]:[mm][m]:[ss][s]` and a
    fraction) would not read it.
    """
    match = _SQL_TIMESTAMP.fullmatch(text)
    if not match:
        raise InvalidArgument(
            f"not a timestamp: {text!r} (expected for example '2024-01-31 12:34:56')"
        )
    year_text, *rest = match.groups()
    month, day = (int(g or 1) for g in rest[:2])
    hour, minute, second = (int(g or 0) for g in rest[2:5])
    nano = int((rest[5] or "").ljust(9, "0")[:precision].ljust(9, "0"))
    year = int(year_text)
    end_of_day = (hour, minute, second, nano) == (24, 0, 0, 0)
    on_clock = end_of_day or (hour < 24 and minute < 60 and second < 60)
    if not (on_clock and year >= 1 and 1 <= month <= 12 and 1 <= day <= 31):
        raise InvalidArgument(f"not a timestamp: {text!r} (a field is out of range)")
    # The formatter uses smart resolution: a day beyond the month's end becomes its last day.
    days = days_from_civil(year, month, min(day, _month_length(year, month)))
    return days * NANOS_OF_DAY + (hour * 3600 + minute * 60 + second) * NANOS_OF_SECOND + nano


# --- zones --------------------------------------------------------------------------------------


def _offset_seconds(local_or_utc_seconds: int, zone: tzinfo, *, is_local: bool) -> int:
    """Return the zone's offset at that second; years outside Python's range use the nearest one."""
    low, high = -62_135_510_400, 253_402_214_400  # one day inside the years 1 and 9999
    seconds = min(max(local_or_utc_seconds, low), high)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    moment = moment.replace(tzinfo=zone) if is_local else moment.astimezone(zone)
    offset = moment.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def local_to_utc(nanos: int, zone: tzinfo) -> int:
    """Convert the zone's wall clock to an instant; skipped times move forward, as in Java."""
    if zone is UTC:
        return nanos
    seconds = nanos // NANOS_OF_SECOND
    return nanos - _offset_seconds(seconds, zone, is_local=True) * NANOS_OF_SECOND


def utc_to_local(nanos: int, zone: tzinfo) -> int:
    """Convert an instant to the zone's wall clock."""
    if zone is UTC:
        return nanos
    seconds = nanos // NANOS_OF_SECOND
    return nanos + _offset_seconds(seconds, zone, is_local=False) * NANOS_OF_SECOND
