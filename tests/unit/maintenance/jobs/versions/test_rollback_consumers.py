"""A rollback, and a fast-forward, names the consumers that have read what it deletes."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake, append_to_branch


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.log("db.t")
    lake.fill(6)
    store = lake.table().consumers
    for name, position in (("behind", 2), ("next", 4), ("ahead", 6), ("done", 7)):
        store.set(name, position)
    Path(store.paths.consumer("broken").removeprefix("file:")).write_text("{")
    return lake


def test_plan_and_report_name_them(lake: Lake) -> None:
    words = ("rollback", "db.t", "-w", lake.warehouse, "--snapshot", "3", "--json", "--force")
    plan = caretaker("plan", *words[:-1])
    assert plan.code == 0, plan.err
    named = [k["what"] for k in plan.json["kept"] if "consumer" in k["what"]]
    assert named == [
        "consumer 'ahead', which continues with snapshot 6",
        "consumer 'done', which continues with snapshot 7",
    ]
    ran = caretaker("run", *words)
    assert ran.code == 0, ran.err
    assert ran.json["details"]["consumers_ahead"] == {"ahead": 6, "done": 7}
    assert lake.table().consumers.get("done").next_snapshot == 7


def test_nobody_is_named_if_nobody_has_read_so_far(lake: Lake) -> None:
    ran = caretaker("run", "rollback", "db.t", "-w", lake.warehouse, "--snapshot", "6", "--json")
    assert "consumers_ahead" not in ran.json.get("details", {})


def test_a_fast_forward_names_them(lake: Lake) -> None:
    place = ("db.t", "-w", lake.warehouse)
    assert caretaker("run", "create_tag", *place, "--tag", "three", "--snapshot", "3").code == 0
    made = caretaker("run", "create_branch", *place, "--name", "b", "--tag", "three")
    assert made.code == 0, made.err
    append_to_branch(lake, "b")
    ran = caretaker("run", "fast_forward", *place, "--name", "b", "--json", "--force")
    assert ran.code == 0, ran.err
    assert ran.json["details"]["consumers_ahead"] == {"ahead": 6, "done": 7}
