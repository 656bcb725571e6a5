from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakes import ENV, Lake

from paimon_core.errors import InvalidArgument
from paimon_core.options import Options
from paimon_core.retention.tag_schedule import (
    Moment,
    TaggedSnapshot,
    TagPeriod,
    automatic_tags,
    schedule_tags,
)
from paimon_core.retention.tags import tag_clock

HOUR = 3_600_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "2023-10-06"),
        ({"tag.period-formatter": "without_dashes"}, "20231006"),
        ({"tag.creation-period": "hourly"}, "2023-10-07 14"),
        (
            {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
            "20231007 14",
        ),
        (
            {
                "tag.creation-period": "hourly",
                "tag.period-formatter": "without_dashes_and_spaces",
            },
            "2023100714",
        ),
        ({"tag.creation-period": "two-hours"}, "2023-10-07 12"),
        ({"tag.creation-period-duration": "10 min"}, "202310071530"),
    ],
)
def test_names(options: dict[str, str], name: str) -> None:
    period = TagPeriod.of(Options(options))
    begin = period.last_complete(at("2023-10-07 15:44:00"))
    assert period.name_of(begin) == name
    assert period.time_of(name) == begin


@pytest.mark.parametrize(
    ("time", "name"), [("1969-12-31 23:59:59", "1969-12-31"), ("0077-03-01 00:00:00", "0077-02-28")]
)
def test_names_of_early_periods(time: str, name: str) -> None:
    period = TagPeriod.of(Options({}))
    begin = period.last_complete(at(time))
    assert period.name_of(begin) == name
    assert period.time_of(name) == begin


@pytest.mark.parametrize("zone", ["+05:45", "GMT+5:45", "UTC+0545", "Asia/Kathmandu"])
def test_the_zones_that_java_takes(lake: Lake, zone: str) -> None:
    lake.primary_key(**{"sink.process-time-zone": zone})
    clock = tag_clock(lake.table(), "process-time", ENV)
    assert clock(at("2024-01-01 00:00:00")) == at("2024-01-01 05:45:00")


@pytest.mark.parametrize("zone", ["Mars", "+05:99:", ""])
def test_no_zone(lake: Lake, zone: str) -> None:
    lake.primary_key(**{"sink.watermark-time-zone": zone})
    with pytest.raises(InvalidArgument, match="time zone"):
        tag_clock(lake.table(), "watermark", ENV)


@pytest.mark.parametrize(
    "options",
    [
        {"tag.creation-period": "hourly", "tag.creation-delay": "1 h"},
        {"tag.creation-period": "weekly"},
        {"tag.period-formatter": "dotted"},
    ],
)
def test_what_cannot_be(options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        TagPeriod.of(Options(options))


def test_only_names_of_the_period_are_automatic() -> None:
    period = TagPeriod.of(Options({}))
    tags = [("2023-10-07", 4), ("2023-10-06", 2), ("mine", 3), ("2023-13-01", 1), ("2023-1-1", 1)]
    assert automatic_tags(tags, period) == [
        TaggedSnapshot("2023-10-06", 2),
        TaggedSnapshot("2023-10-07", 4),
    ]


def test_completion_makes_up_for_one_period_a_snapshot() -> None:
    period = TagPeriod(HOUR, "%Y-%m-%d %H")
    existing = [TaggedSnapshot("2023-10-07 10", 1)]
    moments = [Moment(i, at("2023-10-07 15:30:00")) for i in (2, 3)]
    made = schedule_tags(existing, moments, period, completion=True).create
    assert [t.name for t in made] == ["2023-10-07 11", "2023-10-07 12"]
    made = schedule_tags(existing, moments, period).create
    assert [t.name for t in made] == ["2023-10-07 14"]


@given(
    minutes=st.lists(st.integers(0, 90), min_size=1, max_size=40),
    delay=st.integers(0, 59),
    most=st.none() | st.integers(1, 4),
)
def test_in_pieces_or_at_once(minutes: list[int], delay: int, most: int | None) -> None:
    """Running after every commit and running once lead to the same tags."""
    period = TagPeriod(HOUR, "%Y-%m-%d %H", delay * 60_000)
    now = at("2023-10-07 10:00:00")
    moments = []
    for number, minute in enumerate(minutes, 1):
        now += minute * 60_000
        moments.append(Moment(number, now))
    at_once = schedule_tags([], moments, period, retained_max=most)
    tags: list[TaggedSnapshot] = []
    for moment in moments:
        step = schedule_tags(tags, [moment], period, retained_max=most)
        tags = [t for t in (*tags, *step.create) if t.name not in step.delete]
    assert tags == list(at_once.create)
    times = [period.time_of(t.name) for t in tags]
    assert times == sorted(set(times))
    assert most is None or len(tags) <= most
    for tag in tags:
        time = dict(moments)[tag.snapshot_id]
        assert time is not None
        assert period.time_of(tag.name) + HOUR <= time
