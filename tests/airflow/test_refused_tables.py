"""Refused tables in DAGs: red when they are new, then amber, and listed either way."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import Lake

from paimon_airflow.runs import jobs
from paimon_airflow.tasks.from_reports import from_report
from paimon_airflow.tasks.job_request import request_from
from paimon_airflow.tasks.report_text import refusal_text, summary_of_changes
from paimon_airflow.tasks.results import TableResult, lost


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    made = Lake(tmp_path / "lake")
    for name in ("db.a", "db.strange"):
        made.primary_key(name)
        made.fill(2, name=name)
    made.change_options("db.strange", "tag.callbacks", "org.example.Callback")
    return made


def planned(lake: Lake, run_id: str, **parts: object) -> TableResult:
    """What the planning task of this run of a DAG makes of the refused table."""
    params = {"warehouse": str(lake.warehouse), "tables": ["db.*"], "tag": "x"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AIRFLOW_CTX_DAG_RUN_ID", run_id)
        patched.setenv("AIRFLOW_CTX_DAG_ID", "caretaker_create_tag")
        request = request_from("create_tag", params, storage={}, timezone=None, **parts)
        (result,) = [p.result for p in jobs.plan_tables(request, ["db.strange"])]
    assert result is not None
    return result


def test_a_refusal_is_red_in_the_run_that_meets_it_first(lake):
    for _ in range(2):  # a task that is tried again meets it again
        first = planned(lake, "one")
        assert (first.outcome, first.is_red, first.wants_retry) == ("refused", True, False)
    second = planned(lake, "two")
    assert (second.outcome, second.is_red) == ("refused", False)
    assert "tag.callbacks" in refusal_text([second])


def test_the_policy_decides_first(lake, tmp_path):
    policy = tmp_path / "policy.yaml"
    for word, red in (("skip", False), ("fail", True)):
        policy.write_text(f"version: 1\nrules:\n  - {{tables: 'db.*', on_refused: {word}}}\n")
        assert planned(lake, f"{word} one", policy=str(policy)).is_red is red
        assert planned(lake, f"{word} two", policy=str(policy)).is_red is red


def test_what_was_done_before_a_failure_is_in_the_result():
    report = {
        "table": "db.t",
        "status": "failed",
        "snapshots": [7],
        "changes": {"snapshots": [7], "removed": ["snapshot 3"], "deleted_files": 2},
        "error": {"type": "CorruptTable", "message": "a file is cut", "next_step": "verify"},
    }
    assert from_report(report).summary == (
        "a file is cut (before that: committed snapshot 7; removed snapshot 3; deleted 2 files) "
        "-> verify"
    )
    untouched = {**report, "snapshots": [], "changes": {"snapshots": []}}
    assert "(nothing of the table was changed)" in from_report(untouched).summary
    assert "changed" not in from_report({**report, "changes": None}).summary


def test_nothing_was_changed_is_said_only_where_that_is_known():
    failed = {"table": "db.t", "status": "failed", "error": {"type": "OSError", "message": "no"}}
    deleted = from_report({**failed, "changes": {"removed": ["snapshot 3"], "deleted_files": 2}})
    untouched = from_report({**failed, "changes": {"removed": [], "deleted_files": 0}})
    unknown = from_report(failed)
    assert summary_of_changes([untouched]) == "nothing was changed"
    for result in (deleted, unknown, lost("db.t", "the driver is gone")):
        assert "may have been changed" in summary_of_changes([untouched, result])
        assert TableResult.from_json(result.to_json()).changed


@pytest.mark.airflow
@pytest.mark.slow
def test_a_run_is_red_once_and_amber_from_then_on(run_dag, lake):
    conf = {"warehouse": str(lake.warehouse), "tables": ["db.*"]}
    first = run_dag({**conf, "tag": "one"}, job="create_tag")
    assert first.state == "failed"
    assert first.tasks == {"plan": "success", "in_process": "success", "report": "failed"}
    assert first.report["failed"] == {}
    assert first.report["refused"].keys() == {"db.strange"}
    second = run_dag({**conf, "tag": "two"}, job="create_tag")
    assert second.state == "success"
    assert second.tasks == {"plan": "success", "in_process": "success", "report": "skipped"}
    assert second.report["counts"] == {"refused": 1, "done": 1}
    assert second.report["refused"]["db.strange"].startswith("UnsupportedFeature: ")
    assert "db.strange" in second.shown
    assert lake.table("db.a").tags.names() == ["one", "two"]
    assert lake.table("db.strange").tags.names() == []
