"""A gap in the line of snapshots: found, refused by jobs that delete, and closed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.snapshot.line import unbroken_ids
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.registry import JOBS

MENDS = {"repair", "rollback"}
HARMLESS = {
    "expire_consumers",
    "reset_consumer",
    "clear_consumers",
    "mark_partition_done",
    "restore_orphan_files",
}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Snapshots 1 to 4 and 7: 5 and 6 were rolled back while 7 was made from 6."""
    lake.primary_key()
    for number in range(1, 8):
        lake.append({"k": [number], "v": [f"v{number}"]})
    table = lake.table()
    for number in (5, 6):
        table.snapshots.delete(number)
    table.snapshots.write_latest_hint(4)
    return lake


def keys(lake: Lake) -> list[int]:
    return sorted(row[1] for row in caretaker("read", "db.t", "-w", lake.warehouse).rows)


def run(lake: Lake, job: str, *words: object) -> tuple[int, str, str]:
    ran = caretaker("run", job, "db.t", "-w", lake.warehouse, "--engine", "local", *words)
    return ran.code, ran.out, ran.err


def test_readers_follow_the_hint(lake: Lake) -> None:
    assert keys(lake) == [1, 2, 3, 4]


def test_verify_and_inspect_name_it(lake: Lake) -> None:
    verified = caretaker("verify", "db.t", "-w", lake.warehouse, "--json")
    assert verified.code == ExitCode.CORRUPT_TABLE
    found = {f["problem"]: f for f in verified.json["findings"]}
    assert (found["snapshot_gap"]["severity"], found["snapshot_gap"]["snapshot"]) == ("error", 7)
    assert found["snapshot_gap"]["repair"] == "close_gap"
    shown = caretaker("inspect", "db.t", "-w", lake.warehouse)
    assert "gap between 4 and 7" in shown.out
    assert "--repair close_gap" in shown.out


def test_expiry_refuses_it_and_deletes_nothing(lake: Lake) -> None:
    code, _, err = run(lake, "expire_snapshots", "--retain-max", 1, "--retain-min", 1)
    assert code == ExitCode.CORRUPT_TABLE
    assert "has snapshot 7 but not 6" in err
    assert lake.table().snapshots.ids() == [1, 2, 3, 4, 7]


def test_every_job_that_deletes_or_commits_refuses_it() -> None:
    assert {n for n, job in JOBS.items() if not job.needs_line} == MENDS | HARMLESS


def test_repair_keeps_the_commit_beyond_it(lake: Lake) -> None:
    told = caretaker(
        "plan", "repair", "db.t", "-w", lake.warehouse, "--repair", "close_gap", "--json"
    )
    (action,) = told.json["actions"]
    assert (action["kept"], action["removed"]) == (7, [7])
    assert run(lake, "repair", "--repair", "close_gap")[0] == ExitCode.SUCCESS
    table = lake.table()
    assert unbroken_ids(table.snapshots) == [1, 2, 3, 4, 5]
    assert keys(lake) == [1, 2, 3, 4, 5, 6, 7]
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == ExitCode.SUCCESS


def test_an_interrupted_repair_is_finished(lake: Lake) -> None:
    kept = Path(lake.table().paths.snapshot(7)).read_bytes()
    assert run(lake, "repair", "--repair", "close_gap")[0] == ExitCode.SUCCESS
    # As if it had been killed before it removed 7.
    Path(lake.table().paths.snapshot(7)).write_bytes(kept)
    assert run(lake, "repair", "--repair", "close_gap")[0] == ExitCode.SUCCESS
    assert unbroken_ids(lake.table().snapshots) == [1, 2, 3, 4, 5]
    assert keys(lake) == [1, 2, 3, 4, 5, 6, 7]


def test_what_cannot_be_read_is_removed(lake: Lake) -> None:
    table = lake.table()
    Path(table.paths.manifest(table.snapshots.get(7).delta_manifest_list)).unlink()
    told = caretaker("plan", "repair", "db.t", "-w", lake.warehouse, "--repair", "close_gap")
    assert "their files are missing" in told.out
    assert run(lake, "repair", "--repair", "close_gap")[0] == ExitCode.SUCCESS
    assert unbroken_ids(lake.table().snapshots) == [1, 2, 3, 4]
    assert keys(lake) == [1, 2, 3, 4]


def test_a_storage_that_is_not_mounted_is_no_lost_content(lake: Lake) -> None:
    bucket = Path(lake.table().root) / "bucket-0"
    bucket.rename(lake.warehouse / "unmounted")
    told = caretaker("plan", "repair", "db.t", "-w", lake.warehouse, "--repair", "close_gap")
    assert "files on both sides of it are missing: mount the storage" in told.out
    code, _, err = run(lake, "repair", "--repair", "close_gap")
    assert code == ExitCode.CORRUPT_TABLE
    assert "mount or restore the storage" in err
    assert lake.table().snapshots.ids() == [1, 2, 3, 4, 7]
    (lake.warehouse / "unmounted").rename(bucket)
    assert run(lake, "repair", "--repair", "close_gap")[0] == ExitCode.SUCCESS
    assert keys(lake) == [1, 2, 3, 4, 5, 6, 7]


def test_a_rollback_drops_what_lies_beyond(lake: Lake) -> None:
    code, out, err = run(lake, "rollback", "--snapshot", 3, "--force", "--json")
    assert code == ExitCode.SUCCESS, err
    assert json.loads(out)["details"]["rolled_back_to"] == 3
    assert unbroken_ids(lake.table().snapshots) == [1, 2, 3]


def test_a_repair_that_was_not_asked_for_is_only_named(lake: Lake) -> None:
    code, out, _ = run(lake, "repair")
    assert code in (ExitCode.NOTHING_TO_DO, ExitCode.SUCCESS)
    assert "add --repair close_gap" in out
    assert lake.table().snapshots.ids() == [1, 2, 3, 4, 7]
