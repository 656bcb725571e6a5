from __future__ import annotations

import errno
import json
import os

import pytest

from paimon_core.errors import CommitConflict, UnsupportedFeature
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.report import BucketChange, Report, Size, Status, total
from paimon_maintenance.job.text import human_bytes
from paimon_maintenance.run.metrics import Metrics

BEFORE = Size(files=10, bytes=4096, rows=100, sorted_runs=5)
AFTER = Size(files=1, bytes=1024, rows=90, sorted_runs=1)


def report(**rest) -> Report:
    given = {
        "job": "compact",
        "table": "db.t",
        "warehouse": "/w",
        "run_id": "r",
        "status": Status.SUCCESS,
        "snapshots": (7,),
        "before": BEFORE,
        "after": AFTER,
        "buckets": (BucketChange(partition="dt=1", bucket=0, before=BEFORE, after=AFTER),),
        "seconds": {"plan": 0.25, "execute": 1.5},
    }
    return Report(**{**given, **rest})


def test_sizes_add_up():
    assert total([BEFORE, AFTER]) == Size(files=11, bytes=5120, rows=190, sorted_runs=6)
    assert total([Size(files=1), Size(files=2)]).sorted_runs is None


def test_a_report_is_json_and_text():
    value = json.loads(json.dumps(report().to_json()))
    assert value["exit_code"] == 0
    assert value["snapshots"] == [7]
    assert value["buckets"][0]["after"]["files"] == 1
    text = "\n".join(report().lines())
    assert "snapshot 7" in text
    assert "dt=1 bucket 0" in text


def test_what_only_the_job_knows_is_told_to_people():
    cost = {"files": 9, "total_bytes": 4096}
    details = {
        "expired_snapshots": [3, 4, 5],
        "deleted_tags": ["a", "b"],
        "deleted_bytes": 2048,
        "deleted_by_kind": {"data": 2, "manifest_list": 4},
        "positions_before": {"reader": 2},
        "range_query_on_k": {"before": cost, "after": {**cost, "files": 1}},
        "orphans": [f"f{n}" for n in range(12)],
        "deleted_folders": 0,
        "already_there": [],
    }
    lines = list(report(details=details).lines())
    assert lines[lines.index("  expired snapshots 3 to 5") :][:-1] == [
        "  expired snapshots 3 to 5",
        "  deleted tags a, b",
        "  deleted bytes 2.0 KB",
        "  deleted by kind data 2, manifest list 4",
        "  positions before reader 2",
        "  range query on k before (files 9, total bytes 4.0 KB), after (files 1, total bytes 4.0 KB)",
        f"  orphans {', '.join(f'f{n}' for n in range(10))} and 2 more",
    ]


def test_nothing_to_do_says_why():
    plan = ("expire_snapshots db.t from snapshot 3: nothing to do", "  keep snapshots (3): young")
    idle = report(status=Status.NOTHING_TO_DO, plan_lines=plan, snapshots=(), after=BEFORE)
    assert "  keep snapshots (3): young" in list(idle.lines())


def test_the_exit_code_follows_error_and_status():
    assert report(status=Status.NOTHING_TO_DO, snapshots=()).exit_code is ExitCode.NOTHING_TO_DO
    failed = report(status=Status.FAILED, error=CommitConflict("c", table="db.t"))
    assert failed.exit_code is ExitCode.CONFLICT
    assert failed.to_json()["error"]["next_step"]


def test_errors_name_their_place():
    told = error_json(UnsupportedFeature("row tracking", table="db.t"))
    assert told["type"] == "UnsupportedFeature"
    assert told["feature"] == "row tracking"
    assert told["table"] == "db.t"
    assert error_json(ValueError())["message"] == "ValueError"
    refused = error_json(PermissionError(13, "Permission denied", "/w/db.db/t/snapshot/LATEST"))
    assert refused["file"] == "/w/db.db/t/snapshot/LATEST"
    assert "storage" in refused["next_step"]


@pytest.mark.parametrize(
    ("code", "next_step"),
    [(errno.ENOSPC, "free some space"), (errno.EROFS, "mount"), (errno.EIO, "reachable")],
)
def test_the_next_step_follows_the_cause_of_a_failed_file_operation(code, next_step):
    told = error_json(OSError(code, os.strerror(code), "/lake/db.db/t/snapshot/snapshot-1"))
    assert next_step in told["next_step"]
    assert told["file"] == "/lake/db.db/t/snapshot/snapshot-1"


def test_metrics_are_prometheus_text():
    metrics = Metrics()
    metrics.record(report(attempts=3), now_millis=5000)
    metrics.record(report(table='d"b.t'), now_millis=6000)
    text = metrics.to_text()
    assert 'paimon_maintenance_commit_retries_total{job="compact",table="db.t"} 2\n' in text
    assert 'files_deleted_total{job="compact",kind="logical",table="db.t"} 10\n' in text
    assert 'bytes_reclaimed_total{job="compact",table="db.t"} 3072\n' in text
    assert 'duration_seconds{job="compact",phase="execute",table="db.t"} 1.5\n' in text
    assert 'last_success_timestamp_seconds{job="compact",table="d\\"b.t"} 6\n' in text
    assert text.count("# TYPE paimon_maintenance_runs_total counter") == 1


def test_metrics_count_what_went_from_storage():
    metrics = Metrics()
    gone = {"deleted_files": 4, "deleted_bytes": 100}
    metrics.record(
        report(
            job="expire_snapshots",
            snapshots=(),
            details={**gone, "finished": {"deleted_files": 1, "deleted_bytes": 10}},
            parts=({"job": "expire_tags", "details": gone}, {"job": "compact", "status": "failed"}),
        ),
        now_millis=0,
    )
    text = metrics.to_text()
    assert 'deleted_total{job="expire_snapshots",kind="storage",table="db.t"} 5\n' in text
    assert 'reclaimed_total{job="expire_snapshots",table="db.t"} 110\n' in text
    assert 'deleted_total{job="expire_tags",kind="storage",table="db.t"} 4\n' in text


def test_metrics_are_written_whole(tmp_path):
    metrics = Metrics()
    metrics.record(report(), now_millis=0)
    target = tmp_path / "caretaker.prom"
    metrics.write(str(target))
    assert target.read_text() == metrics.to_text()
    assert [p.name for p in tmp_path.iterdir()] == ["caretaker.prom"]


def test_bytes_for_people():
    assert [human_bytes(n) for n in (0, 1023, 1024, 1536 * 1024**2, 3000 * 1024**3)] == [
        "0 B",
        "1023 B",
        "1.0 KB",
        "1.5 GB",
        "2.9 TB",
    ]
