from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.errors import InvalidArgument
from paimon_core.types.date_time_format import DateTimeFormat
from paimon_core.types.partition_time import DEFAULT_FORMAT, put_together


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("formatter", "text", "expected"),
    [
        ("yyyyMMdd", "20240131", "2024-01-31"),
        ("yyyy-MM-dd", "2024-01-31", "2024-01-31"),
        ("yyyyMMddHH", "2024013107", "2024-01-31 07:00:00"),
        ("yyyy-MM-dd HH:mm:ss", "2024-01-31 07:08:09", "2024-01-31 07:08:09"),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-01-31 07:08:09.123", "2024-01-31 07:08:09.123"),
        ("yyyy-M-d", "2024-1-5", "2024-01-05"),
        ("yyyy-MM-dd'T'HH", "2024-01-31T07", "2024-01-31 07:00:00"),
        ("yyyy/MM/dd", "2024/01/31", "2024-01-31"),
        ("yyyyMMdd", "20240231", "2024-02-29"),  # Java's SMART resolver: the month's last day
        ("yyyyMMdd", "20241301", None),
        ("yyyyMMdd", "2024-01-31", None),
        ("yyyyMM", "202401", None),
        ("yyyy-MM-dd HH:mm:ss", "2024-01-31", None),
        ("yyyyMMdd[HH]", "20240131", "2024-01-31"),
        ("yyyyMMdd[HH]", "2024013107", None),  # the year takes six digits, and wants a plus then
        ("yyyyMMdd[ HH]", "20240131 07", "2024-01-31 07:00:00"),
        ("yyyyMMdd[", "20240131", "2024-01-31"),
        ("yyyy-MM-dd", "0000-01-01", None),  # an era has no year 0
        ("y-M-d", "00-01-01", None),
        ("y-M-d", "-5-01-01", None),
        ("uuuu-MM-dd", "0001-01-01", "0001-01-01"),
        ("yyyyMMdd", "120240131", None),
        ("yyyyMMddHHmmssSSS", "20240131070809123", "2024-01-31 07:08:09.123"),
        ("yyyy-MM-dd HH:mm", "2024-01-31 24:00", "2024-02-01"),
        ("yyyy-MM-dd HH:mm", "2024-01-31 24:01", None),
        ("yyyy-MM-dd mm", "2024-01-31 05", "2024-01-31"),  # no time without an hour, but a date
        ("yyyy-MM-dd mm", "2024-01-31 60", None),
        ("yyyy-MM-dd HH ss", "2024-01-31 25 61", "2024-01-31"),
        ("yyyy-yyyy MM dd", "2024-2024 01 31", "2024-01-31"),
        ("yyyy-yyyy MM dd", "2024-2023 01 31", None),
        ("dMMuuuu", "1012024", None),  # the day takes all digits, as the year may have any number
        ("yyyy-MM-dd", "\u0662\u0660\u0662\u0664-01-31", None),
        ("yyMMdd", "990131", "2099-01-31"),
        ("yyyyMMMdd", "2024Jan31", "2024-01-31"),
        ("yyyyDDD", "2024366", "2024-12-31"),
        ("yyyyDDD", "2023366", None),
        ("yyyy-MM-DD", "2024-01-31", "2024-01-31"),
        ("yyyy-MM-DD", "2024-02-01", None),  # the first day of the year is in no February
        ("yyyyMMdd", "00010131", "0001-01-31"),
    ],
)
def test_javas_letters(formatter: str, text: str, expected: str | None) -> None:
    assert DateTimeFormat.of(formatter).millis(text) == (expected and at(expected))


@pytest.mark.parametrize(
    "formatter",
    ["EEE dd", "yyyy-MM-dd a", "yyyy-MMMM-dd", "yyyyMMddd", "yyyyMMdd]", "yyyy'MM", "{yyyy}"],
)
def test_formatters_that_are_refused(formatter: str) -> None:
    with pytest.raises(InvalidArgument, match="timestamp formatter"):
        DateTimeFormat.of(formatter)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31", "2024-01-31"),
        ("2024-1-3", "2024-01-03"),
        ("2024-01-31 7:8:9", "2024-01-31 07:08:09"),
        ("2024-01-31 07:08:09.5", "2024-01-31 07:08:09.500"),
        ("2024-01-32", "2024-02-01"),  # lenient
        ("2024-13-01", "2025-01-01"),
        ("2024-01-31 25:60:60", "2024-02-01 02:01:00"),
        ("2024--1-01", "2023-11-01"),
        ("2024-01-31 07:08:09.", None),
        ("+2024-01-31", None),
        ("-0-01-31", None),
        ("9999999999-01-31", None),
        ("20240131", None),
        ("2024-01-31 07", None),
        ("nonsense", None),
    ],
)
def test_the_default(text: str, expected: str | None) -> None:
    assert DEFAULT_FORMAT.millis(text) == (expected and at(expected))


def test_several_columns_make_one_time() -> None:
    values = {"year": "2024", "month": "1", "day": "31", "hour": "7"}
    text = put_together("$year-$month-$day $hour:00:00", values)
    assert DEFAULT_FORMAT.millis(text) == at("2024-01-31 07:00:00")
    assert put_together(None, values) == "2024"


def test_values_that_javas_replacement_cannot_take_in() -> None:
    assert put_together("$d 00:00:00", {"d": r"2024\-01-31"}) == "2024-01-31 00:00:00"
    assert put_together("$d", {"d": "2024$1"}) is None
    assert put_together("$d", {"d": "2024\\"}) is None
    assert put_together("$d", {"d": "2024", "e": "$"}) == "2024"


@given(st.datetimes())
def test_round_trips(time: datetime) -> None:
    second = time.replace(microsecond=0, tzinfo=UTC)
    text = f"{second:%H:%M:%S}"
    day = f"{second.year:04}-{second.month:02}-{second.day:02}"
    expected = round(second.timestamp()) * 1000
    assert DEFAULT_FORMAT.millis(f"{day} {text}") == expected
    assert DateTimeFormat.of("yyyy-MM-dd HH:mm:ss").millis(f"{day} {text}") == expected
