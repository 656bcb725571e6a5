"""Dates, times and timestamps as Java reads and prints them."""

from __future__ import annotations

from datetime import UTC, date, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.errors import InvalidArgument
from paimon_core.types import datetimes as dt

BERLIN = ZoneInfo("Europe/Berlin")


@given(st.dates())
def test_the_calendar_is_pythons(day: date) -> None:
    days = (day - date(1970, 1, 1)).days
    assert dt.days_from_civil(day.year, day.month, day.day) == days
    assert dt.civil_from_days(days) == (day.year, day.month, day.day)
    assert dt.iso_date(days) == dt.sql_date(days) == day.isoformat()
    assert dt.parse_iso_date(day.isoformat()) == days
    assert dt.parse_sql_date(day.isoformat()) == days


@given(st.integers(-(2**31), 2**31 - 1))
def test_the_calendar_goes_on_beyond_pythons(days: int) -> None:
    year, month, day = dt.civil_from_days(days)
    assert dt.days_from_civil(year, month, day) == days
    assert dt.parse_iso_date(dt.iso_date(days)) == days


@given(st.integers(-(2**63), 2**63 - 1))
def test_iso_timestamps_read_back(nanos: int) -> None:
    assert dt.parse_iso_timestamp(dt.iso_timestamp(nanos, 9)) == nanos
    assert dt.parse_iso_timestamp(dt.local_date_time_text(nanos)) == nanos
    assert dt.parse_sql_timestamp(dt.sql_timestamp(nanos, 3), 9) == nanos


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-1-3", "2024-01-03"),
        ("2024", "2024-01-01"),
        ("2024-02", "2024-02-01"),
        (" 2024-02-29", "2024-02-29"),
        ("2024-02-29 anything", "2024-02-29"),
        ("2023-02-29", None),
        ("2024-13-01", None),
        ("10000-01-01", None),
        ("2024-01-x", None),
        ("", None),
    ],
)
def test_sql_dates(text: str, expected: str | None) -> None:
    days = dt.parse_sql_date(text)
    assert (None if days is None else dt.iso_date(days)) == expected


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("12:34:56.7896", 45_296_790),
        ("12", 43_200_000),
        ("12:34", 45_240_000),
        ("25:61:61", 93_721_000),
        ("12:34:56+01:00", 48_896_000),
        ("12:34:56-01", 41_696_000),
        ("12:x", None),
        ("a", None),
    ],
)
def test_sql_times(text: str, millis: int | None) -> None:
    assert dt.parse_sql_time(text) == millis


@pytest.mark.parametrize(
    ("millis", "precision", "text"),
    [
        (45_296_789, 0, "12:34:56"),
        (45_296_789, 2, "12:34:56.78"),
        (45_296_700, 3, "12:34:56.7"),
        (45_296_000, 3, "12:34:56.0"),
        (45_296_001, 9, "12:34:56.001"),
        (-1, 3, "23:59:59.999"),
    ],
)
def test_sql_time_text(millis: int, precision: int, text: str) -> None:
    assert dt.sql_time(millis, precision) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31 12:34:56.123456789", "2024-01-31T12:34:56.123456789"),
        ("2024-1-3 1:2:3", "2024-01-03T01:02:03.000000000"),
        ("2024-02-30", "2024-02-29T00:00:00.000000000"),
        ("2024-01-31 24:00:00", "2024-02-01T00:00:00.000000000"),
        ("2024-- :5:", "2024-01-01T00:05:00.000000000"),
    ],
)
def test_sql_timestamps(text: str, expected: str) -> None:
    assert dt.iso_timestamp(dt.parse_sql_timestamp(text, 9), 9) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("2024-01-31T12:34:56", "10000-01-01", "0000-01-01", "2024-01-31 24:00:01", "2024-13-01"),
        *("2024-01-31 12:34", "24-01-31", "", "2024-01-31 12:34:56.1234567891"),
    ],
)
def test_what_javas_formatter_refuses(text: str) -> None:
    with pytest.raises(InvalidArgument):
        dt.parse_sql_timestamp(text, 9)


def test_digits_beyond_the_precision_are_cut() -> None:
    assert dt.parse_sql_timestamp("1970-01-01 00:00:00.987654321", 3) == 987_000_000
    assert dt.parse_sql_timestamp("1970-01-01 00:00:00.987654321", 0) == 0


def test_zones() -> None:
    hour = 3600 * 10**9
    summer = dt.days_from_civil(2024, 7, 1) * dt.NANOS_OF_DAY
    assert dt.utc_to_local(summer, BERLIN) == summer + 2 * hour
    assert dt.local_to_utc(summer, BERLIN) == summer - 2 * hour
    assert dt.utc_to_local(summer, UTC) == dt.local_to_utc(summer, UTC) == summer
    # Years that Python's calendar lacks take the offset of its first and last days.
    assert dt.utc_to_local(20_000 * 365 * dt.NANOS_OF_DAY, BERLIN) % hour == 0


def test_an_hour_that_the_clock_skips_moves_on() -> None:
    # 2024-03-31 02:30 does not exist in Berlin; Java takes it as 03:30.
    night = dt.parse_iso_timestamp("2024-03-31T02:30:00")
    moved = dt.utc_to_local(dt.local_to_utc(night, BERLIN), BERLIN)
    assert moved - night == timedelta(hours=1).total_seconds() * 10**9
