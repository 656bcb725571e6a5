from __future__ import annotations

import json

import pytest

from paimon_airflow.tasks.from_reports import from_report
from paimon_airflow.tasks.report_text import (
    change_text,
    count_text,
    detail_lines,
    failure_text,
    ordered,
    report_text,
    table_lines,
    totals,
)
from paimon_airflow.tasks.results import TableResult, lost, retry_helps
from paimon_core import errors
from paimon_maintenance.job.exit_codes import ExitCode, exit_code_of
from paimon_maintenance.job.report import Report, Size, Status


def report(**parts: object) -> dict[str, object]:
    fixed = {"job": "compact", "table": "db.t", "warehouse": "/lake", "run_id": "r"}
    return Report(**{**fixed, "status": Status.SUCCESS, **parts}).to_json()


def test_a_report_comes_down_to_what_xcom_keeps():
    result = from_report(
        report(
            snapshots=(6, 7),
            before=Size(files=480, bytes=12_900_000, rows=5, sorted_runs=40),
            after=Size(files=12, bytes=9_000_000, rows=5, sorted_runs=4),
            seconds={"plan": 0.25, "execute": 3.0},
        )
    )
    assert result.line() == (
        "db.t  done  files 480 -> 12  runs 40 -> 4  bytes 12.3 MB -> 8.6 MB  snapshot 7  3.2 s"
    )
    written = result.to_json()
    assert TableResult.from_json(json.loads(json.dumps(written))) == TableResult.from_json(written)
    assert len(json.dumps(written)) < 250


def test_tables_without_sorted_runs_have_no_figure_for_them():
    result = from_report(report(snapshots=(1,), before=Size(files=9), after=Size(files=1)))
    assert set(result.figures) == {"files", "bytes"}


def test_a_commit_that_rewrote_nothing_has_no_figures():
    details = {"dropped_partitions": ["dt=1"]}
    result = from_report(report(snapshots=(7,), before=Size(), after=Size(), details=details))
    assert result.line() == "db.t  done  dropped partitions dt=1  snapshot 7"


def test_a_failure_brings_its_reason_and_what_to_do():
    error = errors.GuardTripped("the plan rewrites 3 TB")
    result = from_report(report(status=Status.FAILED, error=error))
    assert result.outcome == "failed"
    assert result.error == "GuardTripped"
    assert result.summary == f"the plan rewrites 3 TB -> {error.next_step}"
    assert failure_text([result]) == f"1 table failed:\n  db.t: GuardTripped: {result.summary}"
    lost = errors.CorruptTable("a data file is missing", file="/lake/f.parquet", snapshot=3)
    summary = from_report(report(status=Status.FAILED, error=lost)).summary
    assert summary.startswith("a data file is missing [snapshot 3, file /lake/f.parquet] -> ")


def test_what_only_the_job_knows_is_told():
    details = {
        "expired_snapshots": [1, 2, 3, 4],
        "deleted_tags": ["a", "b"],
        "deleted_files": 1234,
        "deleted_bytes": 5 * 1024**2,
        "deleted_by_kind": {"data": 30},
        "deleted_folders": 0,
        "tagged_snapshot": 12,
        "safety_tag": "before",
        "positions_before": {"reader": 2},
    }
    result = from_report(report(details=details))
    assert result.summary == (
        "4 expired snapshots, deleted tags a, b, 1,234 deleted files, 5.0 MB deleted, "
        "tagged snapshot 12, safety tag before, positions before reader 2"
    )
    assert result.line() == f"db.t  done  {result.summary}"


def test_the_steps_of_a_job_made_of_others_are_told_one_by_one():
    parts = [
        {"job": "expire_partitions", "status": "not_due", "why": "the table is not partitioned"},
        {"job": "expire_consumers", "status": "failed", "error": {"message": "no", "type": "X"}},
        {"job": "expire_snapshots", "status": "skipped", "why": "tags"},
        {"job": "compact", "status": "success", "details": {}},
        {"job": "expire_tags", "status": "success", "details": {"deleted_tags": ["a"]}},
    ]
    written = {**report(), "parts": parts}
    assert from_report(written).lines == [
        "expire_consumers FAILED: no",
        "expire_snapshots skipped: tags",
        "compact: done",
        "expire_tags: deleted tags a",
    ]


def test_every_status_of_a_report_has_an_outcome():
    errors_of = {Status.FAILED: OSError("x"), Status.REFUSED: errors.UnsupportedFeature("x")}
    outcomes = {
        status: from_report(report(status=status, error=errors_of.get(status))).outcome
        for status in Status
    }
    assert outcomes == {
        Status.SUCCESS: "done",
        Status.NOTHING_TO_DO: "nothing",
        Status.DRY_RUN: "planned",
        Status.SKIPPED: "skipped",
        Status.REFUSED: "refused",
        Status.FAILED: "failed",
    }


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (errors.CommitConflict("x"), True),
        (errors.StalePlan("x"), True),
        (OSError("x"), True),
        (ConnectionError("x"), True),
        (errors.CommitStateUnknown("x"), False),
        (errors.UnsupportedFeature("x"), False),
        (errors.GuardTripped("x"), False),
        (errors.CorruptTable("x"), False),
        (errors.InvalidArgument("x"), False),
        (errors.NotFound("x"), False),
        (errors.SchemaError("x"), False),
        (errors.StorageAccessDenied("x"), False),
        (TypeError("x"), False),
    ],
)
def test_a_retry_is_made_only_where_it_helps(error, helps):
    assert retry_helps(type(error).__name__) is helps


def test_every_error_of_ours_was_thought_about():
    """Exit codes tell passing troubles from lasting ones too; both must agree."""
    passing = {ExitCode.CONFLICT, ExitCode.FAILURE}
    for kind in vars(errors).values():
        if (
            isinstance(kind, type)
            and issubclass(kind, errors.PaimonError)
            and kind.__subclasses__()
        ):
            continue  # only leaves are raised
        if kind is errors.StorageAccessDenied:
            continue  # a failure like any other to a script, and one that no retry cures
        if isinstance(kind, type) and issubclass(kind, errors.PaimonError):
            assert retry_helps(kind.__name__) == (exit_code_of(kind("x")) in passing), kind


def test_a_run_is_summed_up_failures_first():
    results = [
        TableResult(table="db.b", outcome="done", figures={"files": [4, 1], "bytes": [2048, 1024]}),
        TableResult(table="db.a", outcome="nothing", summary="keep snapshots (1): young"),
        TableResult(table="db.c", outcome="done", figures={"files": [6, 2]}),
        lost("db.d", "the driver ran out of memory"),
    ]
    assert [r.table for r in ordered(results)] == ["db.d", "db.b", "db.c", "db.a"]
    assert count_text(results) == "1 FAILED, 2 done, 1 nothing to do"
    assert change_text(totals(results)) == "files 10 -> 3, bytes 2.0 KB -> 1.0 KB"
    assert results[3].wants_retry
    heading, failed, *others = table_lines(ordered(results))
    assert heading == "table                 files   bytes"
    assert failed == "db.d   FAILED"
    assert detail_lines(results[3]) == ["SparkApplicationLost: the driver ran out of memory"]
    assert others == [
        "db.b   done           4 -> 1  2.0 KB -> 1.0 KB",
        "db.c   done           6 -> 2",
        "db.a   nothing to do  keep snapshots (1): young",
    ]


def test_why_a_table_failed_stands_below_it_and_fits_the_page():
    file = f"/lake/{'x' * 100}.parquet"
    summary = f"a data file is missing [snapshot 3, file {file}] -> read again -> or verify it"
    failed = TableResult(table="db.t", outcome="failed", error="CorruptTable", summary=summary)
    assert report_text([failed]).splitlines()[3:] == [
        "db.t   FAILED",
        "    CorruptTable: a data file is missing [snapshot 3, file",
        f"    {file}]",
        "    -> read again",
        "    -> or verify it",
    ]


def test_a_long_report_keeps_what_matters_most():
    results = [TableResult(table=f"db.t{n}", outcome="done") for n in range(400)]
    text = report_text(ordered([*results, lost("db.zzz", "why")]))
    assert len(text) < 4000
    assert text.splitlines()[0] == "1 FAILED, 400 done"
    assert text.splitlines()[3].startswith("db.zzz   FAILED")
    assert text.splitlines()[-1].startswith("... and ")


def test_a_very_long_reason_is_cut_and_not_left_out():
    one = TableResult(table="db.t", outcome="failed", error="OSError", summary="why " * 3000)
    text = report_text([one, lost("db.u", "gone")])
    assert "OSError: why why" in text
    assert "see the log" in text.splitlines()[-2]
    assert text.splitlines()[-1] == "... and 1 more: see the log"
    assert len(text) < 4096
