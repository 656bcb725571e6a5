"""Ages and times in `--older-than`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path

import pytest
from lakes import Lake

from paimon_core.environment import local_clock, system_environment
from paimon_core.errors import InvalidArgument
from paimon_core.types.datetimes import wall_clock_text
from paimon_maintenance.registry import job_named
from paimon_maintenance.rules.times import parse_older_than
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table

NOW = 1_760_000_000_000
ENV = replace(
    system_environment(),
    now_millis=lambda: NOW,
    local_millis=lambda: NOW + 2 * 3_600_000,
    local_at=None,
)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1 d", NOW - 86_400_000),
        ("0 s", NOW),
        ("90min", NOW - 90 * 60_000),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-15 00:13:20", 1_700_000_000_000),
        ("2023-11-15", 1_699_999_200_000),
    ],
)
def test_an_age_or_a_time_of_the_zone(text: str, millis: int):
    assert parse_older_than(text, ENV) == millis


@pytest.mark.parametrize("text", ["yesterday", "1 fortnight", "", "-1 d", "²", "9" * 30])
def test_nonsense_is_refused(text: str):
    with pytest.raises(InvalidArgument):
        parse_older_than(text, ENV)


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "1970-01-01 00:00:00"),
        (1_706_702_400_999, "2024-01-31 12:00:00"),
        (-62_167_219_200_001, "-001-12-31 23:59:59"),
        (10**15, "33658-09-27 01:46:40"),
    ],
)
def test_every_time_can_be_said(millis: int, text: str):
    assert wall_clock_text(millis) == text


@pytest.mark.parametrize(
    "arguments", [{"older_than": "1 d"}, {"older_than": "0 s", "allow_young": True}]
)
def test_a_clock_that_goes_on_makes_no_age_too_young(tmp_path: Path, arguments: dict[str, object]):
    """Orphans are as old as a day, and "0 s" is not in the future, a millisecond later too."""
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill(1)
    clock = count(NOW)
    env = replace(ENV, now_millis=lambda: next(clock))
    job = job_named("remove_orphan_files")
    request = RunRequest(
        job=job,
        warehouse=str(tmp_path),
        table="db.t",
        arguments=job.read_arguments(arguments),
    )
    assert plan_table(request, RunServices(env=env)).is_empty


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2024-01-31 12:00:00", "2024-01-31T11:00:00Z"),
        ("2024-07-31 12:00:00", "2024-07-31T10:00:00Z"),  # whatever the season is now
        ("2024-10-27 02:30:00", "2024-10-27T00:30:00Z"),  # the first of two
        ("2024-03-31 02:30:00", "2024-03-31T01:30:00Z"),  # a time that never was
        ("2024-07-31 12:00:00+05:30", "2024-07-31T06:30:00Z"),
        ("2024-07-31T12:00:00Z", "2024-07-31T12:00:00Z"),
    ],
)
def test_the_zone_of_that_time(text: str, instant: str):
    env = system_environment("Europe/Berlin")
    expected = round(datetime.fromisoformat(instant).timestamp() * 1000)
    assert parse_older_than(text, env) == expected


def test_the_wall_clock_of_an_instant():
    env = system_environment("America/New_York")
    assert wall_clock_text(local_clock(1_700_000_000_000, env)) == "2023-11-14 17:13:20"
    assert wall_clock_text(local_clock(1_690_000_000_000, env)) == "2023-07-22 00:26:40"
    assert local_clock(10**17, env) > 10**17 - 86_400_000
