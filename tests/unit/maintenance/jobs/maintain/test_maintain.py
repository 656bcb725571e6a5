"""All that is due in one run: the order, what is shared, and what a failure stops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lakes import Lake

import paimon_core.reachability.files
import paimon_core.scan.manifests
import paimon_maintenance.run.runner
from paimon_core.errors import GuardTripped, InvalidArgument
from paimon_core.scan.scan import scan_files
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table
from paimon_maintenance.verify.check import check_table

ORDER = [
    "trigger_tag_automatic_creation",
    "expire_partitions",
    "expire_consumers",
    "expire_snapshots",
]


def request(lake: Lake, *, dry_run: bool = False, guards: Guards | None = None, **arguments):
    job = job_named("maintain")
    return RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments(arguments),
        dry_run=dry_run,
        guards=guards or Guards(),
    )


def statuses(report: Report) -> dict[str, str]:
    return {str(p["job"]): str(p["status"]) for p in report.parts}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key(
        partitioned=True,
        **{
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "2",
            "partition.expiration-time": "7 d",
            "partition.timestamp-formatter": "yyyy-MM-dd",
            "consumer.expiration-time": "1 d",
        },
    )
    for _ in range(4):
        lake.append({"k": [1, 2], "v": ["a", "b"], "dt": ["2020-01-01", "2999-01-01"]})
    return lake


def set_old_consumer(lake: Lake, next_snapshot: int) -> None:
    import os

    table = lake.table()
    table.consumers.set("dead", next_snapshot)
    os.utime(table.paths.consumer("dead"), (0, 0))


def test_what_one_step_frees_the_next_takes(lake):
    set_old_consumer(lake, 2)
    report = run_table(request(lake))
    assert report.status is Status.SUCCESS, report.error
    assert [p["job"] for p in report.parts] == ORDER
    assert statuses(report) == {
        "trigger_tag_automatic_creation": "nothing_to_do",
        "expire_partitions": "success",
        "expire_consumers": "success",
        "expire_snapshots": "success",
    }
    table = lake.table()
    # The partition's expiry made snapshot 5; the consumer no longer held back snapshot 2.
    assert table.snapshots.ids() == [4, 5]
    assert report.snapshots == (5,)
    assert check_table(table).findings == []
    assert lake.on_disk() == lake.referenced()


def test_a_second_run_has_nothing_to_do(lake):
    run_table(request(lake))
    assert run_table(request(lake)).status is Status.NOTHING_TO_DO


def test_a_dry_run_shows_all_plans_and_changes_nothing(lake):
    set_old_consumer(lake, 2)
    before = sorted(p for p in Path(lake.table().root).rglob("*") if p.is_file())
    report = run_table(request(lake, dry_run=True, also=["compact_manifest"]))
    assert report.status is Status.DRY_RUN
    steps = {s["job"]: s for s in report.plan["steps"]}
    assert list(steps) == [*ORDER, "compact_manifest"]
    assert steps["expire_partitions"]["plan"]["actions"]
    assert steps["expire_consumers"]["plan"]["actions"]
    assert "consumer dead" in json.dumps(steps["expire_snapshots"]["plan"]["kept"])
    assert sorted(p for p in Path(lake.table().root).rglob("*") if p.is_file()) == before


def test_only_what_the_options_ask_for_is_due(tmp_path):
    lake = Lake(tmp_path)
    lake.log()
    lake.fill(2)
    plan = plan_table(request(lake))
    assert {p.job.name: p.why for p in plan.steps if p.why} == {
        "expire_partitions": "the table is not partitioned",
        "expire_consumers": "consumer.expiration-time is not set",
    }
    assert plan.is_empty


def test_compaction_comes_first_and_the_rest_sees_it(lake):
    report = run_table(
        request(lake, compact="full", also=["compact_manifest", "remove_orphan_files"])
    )
    assert report.status is Status.SUCCESS, report.error
    assert [p["job"] for p in report.parts] == [
        "compact",
        *ORDER,
        "compact_manifest",
        "remove_orphan_files",
    ]
    assert lake.table().snapshots.ids()[0] > 4
    assert check_table(lake.table()).findings == []
    assert report.before.files > report.after.files


def test_steps_take_their_own_arguments(lake):
    report = run_table(
        request(
            lake,
            without=["expire_partitions"],
            step_arguments={
                "expire_snapshots.retain-max": "3",
                "expire_snapshots.max_deletes": "9",
            },
        )
    )
    assert "expire_partitions" not in statuses(report)
    assert lake.table().snapshots.ids() == [2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"also": ["rollback"]}, "'rollback' is not one of expire_changelogs"),
        ({"step_arguments": {"retain_max": "3"}}, "not STEP.ARGUMENT"),
        ({"step_arguments": {"expire_snapshots.x": "3"}}, "expire_snapshots: unknown argument 'x'"),
        ({"step_arguments": {"expire_snapshots.retain_max": "x"}}, "step expire_snapshots: arg"),
        ({"without": ["expire-all"]}, "--without: 'expire_all' is not one of compact, "),
    ],
)
def test_wrong_arguments_are_refused_before_anything_happens(lake, arguments, reason):
    with pytest.raises(InvalidArgument, match=reason):
        plan_table(request(lake, **arguments))


def test_no_snapshot_expires_when_tags_could_not_be_made(lake):
    report = run_table(
        request(
            lake,
            also=["remove_orphan_files", "compact_manifest"],
            options={"tag.automatic-creation": "sometimes"},
        )
    )
    assert report.status is Status.FAILED
    assert isinstance(report.error, InvalidArgument)
    assert statuses(report) == {
        "trigger_tag_automatic_creation": "failed",
        "expire_partitions": "success",
        "expire_consumers": "nothing_to_do",
        "expire_snapshots": "skipped",
        "compact_manifest": "success",
        "remove_orphan_files": "skipped",
    }
    assert lake.table().snapshots.ids() == [1, 2, 3, 4, 5, 6]
    assert "trigger_tag_automatic_creation did not succeed" in "\n".join(report.lines())


def test_a_dry_run_with_a_step_that_cannot_be_planned_fails_but_shows_the_others(lake):
    report = run_table(request(lake, dry_run=True, options={"tag.automatic-creation": "sometimes"}))
    assert report.exit_code == 2
    assert "expire 2 snapshots" in "\n".join(report.plan_lines)


def test_each_step_has_its_own_guard(lake):
    for _ in range(8):
        lake.append({"k": [1, 2], "v": ["a", "b"], "dt": ["2020-01-01", "2999-01-01"]})
    report = run_table(request(lake, guards=Guards(max_deleted_share=0.1)))
    assert isinstance(report.error, GuardTripped)
    assert statuses(report)["expire_partitions"] == "failed"
    assert statuses(report)["expire_snapshots"] == "success"
    plan = plan_table(request(lake, guards=Guards(max_deleted_share=0.1)))
    assert any("a guard stops this" in line for line in plan.lines())


def test_tags_are_made_before_snapshots_expire(lake):
    report = run_table(
        request(
            lake, options={"tag.automatic-creation": "process-time", "tag.creation-period": "daily"}
        )
    )
    assert report.status is Status.SUCCESS, report.error
    assert statuses(report)["trigger_tag_automatic_creation"] == "success"
    (tag,) = lake.table().tags.all()
    assert tag.snapshot.id == 1
    assert 1 not in lake.table().snapshots.ids()
    assert check_table(lake.table()).findings == []


def test_every_manifest_and_list_is_read_once(lake, monkeypatch):
    read: list[str] = []

    def counting(inner):
        def counted(io, path, *more, **named):
            read.append(path)
            return inner(io, path, *more, **named)

        return counted

    for module, name in (
        (paimon_core.scan.manifests, "read_sized_manifest"),
        (paimon_core.scan.manifests, "read_manifest_list"),
        (paimon_core.reachability.files, "read_manifest_list"),
    ):
        monkeypatch.setattr(module, name, counting(getattr(module, name)))
    monkeypatch.setattr(
        paimon_maintenance.run.runner, "check_table", lambda *_: type("V", (), {"findings": []})
    )
    report = run_table(request(lake, also=["compact_manifest"]))
    assert report.status is Status.SUCCESS, report.error
    assert read
    assert len(read) == len(set(read))


def test_rows_that_leave_the_postpone_bucket_are_compacted_in_the_same_run(tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key(buckets=-2)
    lake.fill(2)
    report = run_table(request(lake, compact="full"))
    assert report.status is Status.SUCCESS, report.error
    assert {e.file.level for e in live_entries(lake)} == {5}
    assert run_table(request(lake, compact="full")).status is Status.NOTHING_TO_DO


def test_a_replay_that_fails_is_tried_once(tmp_path):
    """In a process of its own, as a loop without end could not be told from here."""
    lake = Lake(tmp_path)
    lake.primary_key(buckets=-2)
    lake.fill(2)
    for file in Path(lake.table().root).rglob("bucket-postpone/data-*"):
        file.write_bytes(file.read_bytes()[:100])
    words = ["run", "maintain", "db.t", "-w", str(tmp_path), "--compact", "minor", "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "paimon_maintenance.cli", *words],
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert ended.returncode == ExitCode.CORRUPT_TABLE, ended.stderr.decode()
    (report,) = map(json.loads, ended.stdout.splitlines())
    assert {p["job"]: p["status"] for p in report["parts"]}["compact"] == "failed"
    assert lake.table().snapshots.latest_id() == 2


def live_entries(lake: Lake):
    table = lake.table()
    return scan_files(table, table.latest_or_not_found())


def test_a_clustered_table_is_compacted_by_sorting(tmp_path: Path) -> None:
    """Java's `compact` sorts such a table; `compact` here names the job that does."""
    lake = Lake(tmp_path)
    lake.log(**{"clustering.incremental": "true", "clustering.columns": "v"})
    lake.fill(3)
    plan = plan_table(request(lake, compact="full"))
    assert [s["job"] for s in plan.to_json()["steps"]] == ["sort_compact", *ORDER]
    report = run_table(request(lake, compact="full"))
    assert report.error is None, report.error
    assert statuses(report)["sort_compact"] == "success"
    assert [e.file.level for e in scan_files(lake.table(), lake.table().latest_or_not_found())] == [
        5
    ]
