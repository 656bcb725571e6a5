"""A tag that changes between a plan and what the plan does to it keeps its files."""

from __future__ import annotations

import os
import time
from typing import Any

import known_holes
import pytest
from command_line import caretaker
from disk import assert_whole
from failing_io import Trigger
from known_holes import each_call
from lakes import Lake

from paimon_core.errors import AlreadyExists, StalePlan
from paimon_core.reachability.garbage import find_garbage
from paimon_core.refs.tags import Tag
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.jobs.versions import rollback


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Tag t on snapshot 2, which has expired: its files are there for the tag alone."""
    lake.primary_key()
    lake.fill(2)
    run(lake, "create_tag", tag="t", time_retained="1 ms")
    run(lake, "compact", strategy="full")
    lake.append({"k": [1, 50], "v": ["new", "new"]})
    run(lake, "expire_snapshots", retain_max=1, retain_min=1, max_deletes=99)
    return lake


def run(lake: Lake, name: str, **arguments: Any) -> Report:
    report = known_holes.run(lake.warehouse, name, **arguments)
    assert report.status is Status.SUCCESS, report.error
    return report


def rows(lake: Lake, tag: str) -> list[str]:
    ran = caretaker("read", "db.t", "-w", lake.warehouse, "--tag", tag)
    assert ran.code == 0, ran.err
    return sorted(ran.out.splitlines())


@pytest.mark.parametrize("calls", ["changes", "reads"])
def test_a_rename_to_a_name_that_is_taken_meanwhile(calls: str, lake: Lake) -> None:
    """Before every single call of the rename: the tag must not go without a copy of it."""
    before = rows(lake, "t")
    done: list[Report] = []

    def other() -> None:
        done.append(known_holes.run(lake.warehouse, "create_tag", tag="new"))

    refused = 0
    for report in each_call(
        lake.warehouse,
        other,
        lambda trigger: known_holes.run(
            lake.warehouse, "rename_tag", meanwhile=trigger, tag="t", target_tag="new"
        ),
        reads=calls == "reads",
    ):
        renamed = report.status is Status.SUCCESS
        assert renamed or isinstance(report.error, AlreadyExists), report.error
        refused += not renamed
        assert rows(lake, "new" if renamed else "t") == before
        assert lake.table().tags.names() == (["new"] if renamed else ["new", "t"])
        assert_whole(lake.warehouse)
    assert refused
    assert any(report.status is Status.SUCCESS for report in done)


@pytest.mark.parametrize("job", ["expire_tags", "trigger_tag_automatic_creation"])
def test_a_tag_that_is_to_live_longer_stays(job: str, lake: Lake) -> None:
    """Before every single read of the job."""
    before = rows(lake, "t")
    done: list[Report] = []

    def other() -> None:
        done.append(
            known_holes.run(
                lake.warehouse, "replace_tag", tag="t", snapshot=2, time_retained="30 d"
            )
        )

    kept = 0
    for report in each_call(
        lake.warehouse,
        other,
        lambda trigger: known_holes.run(lake.warehouse, job, meanwhile=trigger),
        reads=True,
    ):
        assert report.error is None, report.error
        if done.pop().status is Status.SUCCESS:
            kept += 1
            assert rows(lake, "t") == before
        assert_whole(lake.warehouse)
    assert kept


def test_a_tag_that_is_made_anew_stays(lake: Lake) -> None:
    """Before every single read of a job that goes by the time of the tag's file: nothing else differs."""
    number = lake.table().latest_or_not_found().id
    run(lake, "create_tag", tag="old", snapshot=number)
    done: list[Report] = []

    def expire(trigger: Trigger) -> Report:
        three_days_ago = time.time() - 3 * 86_400
        os.utime(lake.table().paths.tag("old"), (three_days_ago, three_days_ago))
        return known_holes.run(lake.warehouse, "expire_tags", meanwhile=trigger, older_than="2 d")

    def other() -> None:
        done.append(known_holes.run(lake.warehouse, "replace_tag", tag="old", snapshot=number))

    kept = 0
    for report in each_call(lake.warehouse, other, expire, reads=True):
        assert report.error is None, report.error
        if done.pop().status is Status.SUCCESS:
            kept += 1
            assert lake.table().tags.exists("old")
    assert kept


def test_a_tag_that_came_too_late_and_was_replaced_stays(lake: Lake) -> None:
    """Before every single call of `create_tag`, whose snapshot expires."""
    lake.append({"k": [2], "v": ["newer"]})
    number = lake.table().snapshots.ids()[0]
    newest = lake.table().latest_or_not_found()
    done: list[Report] = []

    def other() -> None:
        known_holes.run(lake.warehouse, "expire_snapshots", retain_max=1, retain_min=1)
        done.append(known_holes.run(lake.warehouse, "replace_tag", tag="new"))

    kept = 0
    for reads in (True, False):
        for _ in each_call(
            lake.warehouse,
            other,
            lambda trigger: known_holes.run(
                lake.warehouse, "create_tag", meanwhile=trigger, tag="new", snapshot=number
            ),
            reads=reads,
        ):
            if done.pop().status is Status.SUCCESS:
                kept += 1
                assert lake.table().tags.get("new").snapshot.identity == newest.identity
            assert_whole(lake.warehouse)
    assert kept


def test_a_rollback_to_a_tag_that_names_a_later_version_by_now(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go to the version that nobody wants any more, or delete the tag, which is later."""
    for value in "abc":
        lake.append({"k": [2], "v": [value]})
    first, wanted = (lake.table().snapshots.get(i) for i in lake.table().snapshots.ids()[-3:-1])
    run(lake, "create_tag", tag="good", snapshot=first.id)

    def later(*given: Any) -> Any:
        monkeypatch.undo()
        lake.table().tags.replace(Tag("good", wanted))
        return find_garbage(*given)

    monkeypatch.setattr(rollback, "find_garbage", later)
    report = known_holes.run(lake.warehouse, "rollback", tag="good")
    assert isinstance(report.error, StalePlan), report.error
    run(lake, "rollback", tag="good")
    assert lake.table().latest_or_not_found() == wanted
    assert lake.table().tags.get("good").snapshot == wanted
