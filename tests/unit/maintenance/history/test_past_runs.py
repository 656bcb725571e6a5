"""What the history says of a table's last search for orphans and its last sort."""

from __future__ import annotations

from dataclasses import replace

from paimon_maintenance.health.measurement import Orphans
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.past_runs import last_orphans, last_sort
from paimon_maintenance.history.store import SqlHistory

HERE = {"table": "db.t", "warehouse": "/lake"}
SEARCH = Entry(
    at_millis=1,
    event="plan",
    job="remove_orphan_files",
    table="db.t",
    warehouse="/lake",
    status="planned",
    run_id="r",
    details={"effect": {"deleted_files": 3, "deleted_bytes": 30}},
)
SORT = replace(SEARCH, event="run", job="sort_compact", status="success")


def test_the_newest_of_this_table_counts_whatever_other_lakes_did_since(url: str) -> None:
    history = SqlHistory(url)
    assert last_orphans(history, **HERE) is None
    assert last_sort(history, **HERE) is None
    history.add([SEARCH, SORT])
    others = [
        replace(one, warehouse="/other", at_millis=2) for one in (SEARCH, SORT) for _ in range(30)
    ]
    history.add(others)
    assert last_orphans(history, **HERE) == Orphans(files=3, bytes=30, at_millis=1)
    assert last_sort(history, **HERE) == 1
    history.add([replace(SEARCH, event="run", status="failed", at_millis=3)])
    assert last_orphans(history, **HERE) == Orphans(files=3, bytes=30, at_millis=1)
    history.add([replace(SEARCH, event="run", status="success", at_millis=4)])
    assert last_orphans(history, **HERE) == Orphans(files=0, bytes=0, at_millis=4)


def test_a_plan_to_sort_and_another_branch_are_no_sort(url: str) -> None:
    history = SqlHistory(url)
    history.add([SORT, replace(SORT, branch="b", at_millis=2)])
    history.add([replace(SORT, event="plan", at_millis=3)])
    assert last_sort(history, **HERE) == 1
    assert last_sort(history, **HERE, branch="b") == 2


def test_without_a_history_nothing_is_known() -> None:
    for history in (None, SqlHistory("sqlite:////nowhere/at/all/history.db")):
        assert last_orphans(history, **HERE) is None
        assert last_sort(history, **HERE) is None
