"""DAGs of jobs that only touch metadata, on real tables: no Spark anywhere in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import Lake

from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.store import SqlHistory

pytestmark = [pytest.mark.airflow, pytest.mark.slow]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two tables of ten snapshots, and one that is broken."""
    made = Lake(tmp_path / "lake")
    for name in ("db.a", "db.b"):
        made.primary_key(name, snapshot_num__retained_min="1")
        made.fill(10, rows=3, name=name)
    made.primary_key("db.strange", snapshot_num__retained_min="1")
    made.fill(1, name="db.strange")
    (Path(made.table("db.strange").root) / "snapshot" / "snapshot-1").write_text("{")
    return made


def snapshots(lake: Lake, name: str) -> list[int]:
    return [snapshot.id for snapshot in lake.table(name).snapshots.all()]


def test_snapshots_of_many_tables_expire_in_one_task_and_one_is_broken(run_dag, lake):
    tables = {"tables": ["*.*"], "dry_run": False}
    conf = {"warehouse": str(lake.warehouse), "retain_max": 4, **tables}
    ran = run_dag(conf, job="expire_snapshots")
    assert ran.tasks == {"plan": "success", "in_process": "success", "report": "failed"}
    assert {name: snapshots(lake, f"db.{name}") for name in "ab"} == {
        "a": [7, 8, 9, 10],
        "b": [7, 8, 9, 10],
    }
    assert ran.report["failed"].keys() == {"db.strange"}
    assert ran.report["failed"]["db.strange"].startswith("CorruptTable")
    assert ran.report["change"] == "no data was rewritten"
    done = next(t for t in ran.report["tables"] if t["table"] == "db.a")
    assert "6 expired snapshots" in done["summary"]
    assert "deleted files" in ran.shown


def test_a_dry_run_of_a_rollback_shows_what_would_go_and_nothing_goes(run_dag, lake):
    conf = {
        "warehouse": str(lake.warehouse),
        "tables": ["db.a"],
        "snapshot": 4,
        "dry_run": True,
    }
    ran = run_dag(conf, job="rollback")
    assert ran.state == "success"
    assert ran.tasks["in_process"] == "skipped"
    (planned,) = ran.report["tables"]
    assert planned["outcome"] == "planned"
    assert planned["lines"]
    assert snapshots(lake, "db.a") == list(range(1, 11))
    assert lake.table("db.a").tags.names() == []


def test_by_hand_a_run_without_tables_is_refused(run_dag, lake):
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises((ParamValidationError, ValueError), match="tables"):
        run_dag({"warehouse": str(lake.warehouse), "tag": "x"}, job="create_tag")


def test_a_tag_over_many_tables_of_which_one_has_it_already(run_dag, lake):
    conf = {"warehouse": str(lake.warehouse), "tables": ["db.?"], "tag": "before"}
    first = run_dag({**conf, "tables": ["db.a"]}, job="create_tag")
    assert first.state == "success"
    again = run_dag(conf, job="create_tag", retries=1)
    assert again.state == "failed"
    assert again.tries["plan"] == 1
    assert again.report["failed"]["db.a"].startswith("ReferenceExists")
    assert [lake.table(f"db.{name}").tags.names() for name in "ab"] == [["before"], ["before"]]


def test_the_schedule_expires_and_the_form_as_it_opens_does_nothing(run_dag, lake, monkeypatch):
    monkeypatch.setenv("CARETAKER_WAREHOUSE", str(lake.warehouse))
    by_hand = run_dag({}, job="expire_tags")
    assert by_hand.tasks == {
        "plan": "failed",
        "in_process": "upstream_failed",
        "report": "failed",
    }
    # Only a dry run, until somebody switches that off.
    tables = run_dag({"tables": ["db.a"], "retain_max": 4}, job="expire_snapshots")
    assert tables.report["counts"] == {"planned": 1}
    assert snapshots(lake, "db.a") == list(range(1, 11))
    lake.change_options("db.a", "snapshot.num-retained.max", "4")
    ran = run_dag({}, job="expire_snapshots", by_schedule=True)
    assert ran.tasks == {"plan": "success", "in_process": "success", "report": "failed"}
    assert ran.report["failed"].keys() == {"db.strange"}
    assert snapshots(lake, "db.a") == [7, 8, 9, 10]


def test_a_run_keeps_the_retention_of_the_history(run_dag, lake, monkeypatch, tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    old = {"at_millis": 1, "event": "run", "job": "compact", "table": "db.a", "status": "success"}
    history = SqlHistory(url)
    history.add([Entry(**old, warehouse=str(lake.warehouse), run_id="r")])
    run_dag({"warehouse": str(lake.warehouse), "tables": ["db.a"]}, job="expire_snapshots")
    assert "r" not in {entry.run_id for entry in history.newest(limit=None)}
