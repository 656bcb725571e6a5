"""caretaker_compact on small tables: the worker does the work, Spark none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from lakes import Lake

from paimon_airflow.tasks.links import CaretakerLink

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

TABLES = [f"db.t{number}" for number in range(12)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    for name in TABLES:
        made.primary_key(name)
        made.fill(3, rows=5, name=name)
    return made


def named(lake: Lake) -> str:
    return urlencode({"warehouse": str(lake.warehouse)})


def events_of(run: Any) -> list[tuple[str, dict[str, object]]]:
    """The assets to which a run added events, with what the events say."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(AssetEvent).where(AssetEvent.source_run_id == run.run_id)
        return [(event.name, dict(event.extra)) for event in session.scalars(query)]


def test_they_run_in_the_worker_and_the_run_says_why(run_dag, lake):
    broken = Path(lake.table("db.t3").root) / "snapshot" / "snapshot-3"
    broken.write_text("{")
    ran = run_dag({"warehouse": str(lake.warehouse), "strategy": "full"})
    assert ran.tasks == {
        "plan": "success",
        "in_process": "success",
        "on_spark": "skipped",
        "report": "failed",
    }
    assert ran.report["counts"] == {"failed": 1, "done": 11}
    assert ran.report["totals"]["files"] == [33, 11]
    done = [t for t in ran.report["tables"] if t["outcome"] == "done"]
    assert all(t["engine"].startswith("local: ") for t in done)
    assert all(t["engine"].endswith("to rewrite, below spark_threshold 256 MB") for t in done)
    assert "local" in ran.shown
    lines = ran.rendered("in_process")["engine"]
    assert "spark_threshold 256 MB" in lines
    assert {name: lake.table(name).snapshots.latest_id() for name in TABLES if name != "db.t3"} == {
        name: 4 for name in TABLES if name != "db.t3"
    }
    # The link of the task leads to the lake, and with one table to its page.
    assert ran.link("in_process", CaretakerLink()) == f"/caretaker/?{named(lake)}&branch=main"
    one = run_dag({"warehouse": str(lake.warehouse), "strategy": "full", "tables": ["db.t1"]})
    assert one.tasks["in_process"] == "skipped"  # it has nothing to do
    lake.fill(2, rows=5, name="db.t1")
    one = run_dag({"warehouse": str(lake.warehouse), "strategy": "full", "tables": ["db.t1"]})
    page = f"/caretaker/table?{named(lake)}&table=db.t1&branch=main"
    assert one.link("in_process", CaretakerLink()) == page
    # Others can wait for the table: its event has the snapshot.
    made = {"table": "db.t1", "warehouse": str(lake.warehouse), "snapshot": 7, "job": "compact"}
    assert events_of(one.run) == [("paimon/lake/db.t1", made)]


def test_a_typed_threshold_of_0_means_spark(lake):
    from paimon_airflow.runs import jobs
    from paimon_airflow.tasks.job_request import request_from

    def planned(**typed: object) -> jobs.Planned:
        params = {
            "warehouse": str(lake.warehouse),
            "tables": ["db.t0"],
            "strategy": "full",
            **typed,
        }
        request = request_from("compact", params, storage={}, timezone=None)
        (plan,) = jobs.plan_tables(request, ["db.t0"])
        return plan

    plan = planned(spark_threshold="0")
    assert (plan.where, plan.rule) == ("spark", "spark_threshold 0 B")
    assert plan.engine.endswith("to rewrite, not below spark_threshold 0 B")
    assert planned().where == "in_process"
    assert planned(engine="spark").where == "spark"
    assert planned(engine="local", spark_threshold="0").where == "in_process"
