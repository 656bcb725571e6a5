from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maintenance.partition_time import TimeFormat, default_millis, put_together
from paimon_core.errors import InvalidArgument


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
        ("yyyyMMdd[HH]", "2024013107", "2024-01-31 07:00:00"),
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
    assert TimeFormat.of(formatter).millis(text) == (expected and at(expected))


@pytest.mark.parametrize(
    "formatter", ["EEE dd", "yyyy-MM-dd a", "yyyy-yyyy", "yyyy-MMMM-dd", "yyyy[MMdd"]
)
def test_letters_that_are_not_known(formatter: str) -> None:
    with pytest.raises(InvalidArgument):
        TimeFormat.of(formatter)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31", "2024-01-31"),
        ("2024-1-3", "2024-01-03"),
        ("2024-01-31 7:8:9", "2024-01-31 07:08:09"),
        ("2024-01-31 07:08:09.5", "2024-01-31 07:08:09.500"),
        ("2024-01-32", "2024-02-01"),  # lenient
        ("2024-13-01", "2025-01-01"),
        ("20240131", None),
        ("2024-01-31 07", None),
        ("nonsense", None),
    ],
)
def test_the_default(text: str, expected: str | None) -> None:
    assert default_millis(text) == (expected and at(expected))


def test_several_columns_make_one_time() -> None:
    values = {"year": "2024", "month": "1", "day": "31", "hour": "7"}
    text = put_together("$year-$month-$day $hour:00:00", values)
    assert default_millis(text) == at("2024-01-31 07:00:00")
    assert put_together(None, values) == "2024"


@given(st.datetimes())
def test_round_trips(time: datetime) -> None:
    second = time.replace(microsecond=0, tzinfo=UTC)
    text = f"{second:%H:%M:%S}"
    day = f"{second.year:04}-{second.month:02}-{second.day:02}"
    expected = round(second.timestamp()) * 1000
    assert default_millis(f"{day} {text}") == expected
    assert TimeFormat.of("yyyy-MM-dd HH:mm:ss").millis(f"{day} {text}") == expected
