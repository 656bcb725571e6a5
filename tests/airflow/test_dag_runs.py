"""Whole runs of caretaker_compact in this process, over a lake that is made up."""

from __future__ import annotations

import pytest

from paimon_airflow.tasks.results import TableResult

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

CONF = {"warehouse": "/lake"}
GB = 1024**3


def test_batches_run_side_by_side_and_the_report_sums_up(run_dag, fake_lake):
    lake = fake_lake(
        spark={"db.big": 30 * GB, "db.a": GB, "db.b": GB},
        in_process=["db.meta"],
        without_run=[TableResult(table="db.fresh", outcome="nothing")],
    )
    ran = run_dag(CONF)
    assert ran.state == "success"
    assert sorted(lake.applications) == [["db.a", "db.b"], ["db.big"]]
    assert lake.ran_in_process == ["db.meta"]
    assert ran.labels == [
        "db.big: files 40 -> 4 (spark: 30.0 GB to rewrite)",
        "db.a, db.b: files 80 -> 8 (spark: 2.0 GB to rewrite)",
    ]
    assert ran.report["outcome"] == "4 done, 1 nothing to do"
    assert ran.report["totals"]["files"] == [120, 12]
    assert ran.shown.startswith("4 done, 1 nothing to do\nfiles 120 -> 12, runs 60 -> 6")


def test_nothing_to_do_starts_nothing(run_dag, fake_lake):
    lake = fake_lake(without_run=[TableResult(table="db.fresh", outcome="nothing")])
    ran = run_dag(CONF)
    assert ran.state == "success"
    assert lake.applications == []
    assert ran.tasks == {
        "plan": "success",
        "in_process": "skipped",
        "on_spark": "skipped",
        "report": "success",
    }
    assert ran.report["outcome"] == "1 nothing to do"


def test_one_tables_failure_stops_no_other_and_fails_the_run(run_dag, fake_lake):
    lake = fake_lake(
        spark={"db.a": 3, "db.bad": 2, "db.b": 1, "db.big": 30 * GB},
        without_run=[
            TableResult(
                table="db.strange",
                outcome="failed",
                error="UnsupportedFeature",
                summary="unsupported table feature: row tracking",
            )
        ],
        ends={"db.bad": "CorruptTable"},
    )
    ran = run_dag(CONF, retries=2)
    assert ran.state == "failed"
    assert ran.tasks == {
        "plan": "success",
        "in_process": "skipped",
        "on_spark[0]": "success",
        "on_spark[1]": "failed",
        "report": "failed",
    }
    assert ran.report["counts"] == {"failed": 2, "done": 3}
    assert ran.report["failed"] == {
        "db.bad": "CorruptTable: CorruptTable of db.bad",
        "db.strange": "UnsupportedFeature: unsupported table feature: row tracking",
    }
    assert "db.bad      FAILED" in ran.shown
    assert ran.labels[1] == "db.a, db.bad, db.b: 1 FAILED, 2 done (spark: 6 B to rewrite)"
    # Neither failure is one that another try cures, so there was none.
    assert len(lake.applications) == 2


def test_a_retry_takes_only_what_it_may_cure(run_dag, fake_lake):
    lake = fake_lake(
        spark={"db.good": 4, "db.busy": 3, "db.killed": 2, "db.refused": 1},
        ends={
            "db.busy": ["CommitConflict", "done"],
            "db.killed": ["lost", "lost"],
            "db.refused": "GuardTripped",
        },
    )
    ran = run_dag(CONF, retries=1)
    assert lake.applications == [
        ["db.good", "db.busy", "db.killed", "db.refused"],
        ["db.busy", "db.killed"],
    ]
    assert ran.state == "failed"
    assert ran.tries["on_spark[0]"] == 2
    assert ran.report["counts"] == {"failed": 2, "done": 2}
    assert set(ran.report["failed"]) == {"db.killed", "db.refused"}
    assert ran.report["failed"]["db.killed"].startswith("SparkApplicationLost")


def test_a_wrong_request_fails_at_once(run_dag, fake_lake):
    lake = fake_lake(spark={"db.a": 1})
    ran = run_dag({"warehouse": "/lake", "partition_idle_time": "soon"}, retries=2)
    assert ran.tasks["plan"] == "failed"
    assert ran.tries["plan"] == 1
    assert ran.state == "failed"
    assert ran.tasks["report"] == "failed"
    assert lake.applications == []


def test_without_a_connection_the_task_says_so(run_dag, fake_lake):
    fake_lake(spark={"db.a": 1})
    ran = run_dag(CONF, retries=2, spark_connection="nowhere")
    assert ran.state == "failed"
    assert ran.tries["on_spark[0]"] == 1
    assert "db.a" in ran.report["failed"]


def test_a_store_that_is_down_is_tried_again_before_any_table_counts_as_failed(run_dag, fake_lake):
    down = {"outcome": "failed", "error": "ConnectionError", "summary": "no route to store"}
    fake_lake(without_run=[TableResult(table=f"db.{name}", **down) for name in "ab"])
    ran = run_dag(CONF, retries=1)
    assert ran.tries["plan"] == 2
    assert ran.tasks["plan"] == "failed"
    assert ran.state == "failed"
