"""Rescaling with every single file operation failing once: before or after it took effect.

Whatever fails, the table reads the same; a second run finishes the job and leaves no more files
than a run without a failure, those aside that the orphan job removes.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from disk import assert_whole, on_disk, referenced
from failing_io import FailingFileIO, Trigger, When
from lakes import ENV, Lake

import maintenance.runner
from maintenance.registry import job_named
from maintenance.report import Report, Status
from maintenance.runner import RunRequest, run_table
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table, open_table_at

RESCALE = job_named("rescale")
KINDS: dict[str, dict[str, Any]] = {
    "primary_key": {"options": {"bucket": "2", "write-only": "true"}},
    "append": {
        "primary_key": False,
        "options": {"bucket": "2", "bucket-key": "k", "write-only": "true"},
    },
}


def rescale(warehouse: Path) -> Report:
    return run_table(
        RunRequest(
            job=RESCALE,
            warehouse=str(warehouse),
            table="db.t",
            # Each partition is a batch of its own.
            arguments=RESCALE.read_arguments({"bucket_num": 3, "batch_bytes": "1 b"}),
        )
    )


def remove_orphans(warehouse: Path) -> None:
    job = job_named("remove_orphan_files")
    arguments = {"older_than": str(ENV.now_millis()), "allow_young": True, "mode": "delete"}
    report = run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
            force=True,
        )
    )
    assert report.error is None, report.error


def rows(warehouse: Path) -> list[str]:
    table = open_table(str(warehouse), "db.t")
    found = read_table(table, table.latest_or_not_found(), columns=["k", "v", "dt"])
    return sorted(str((r["k"], r["v"], r["dt"])) for b in found for r in b.to_pylist())


def with_failing_io(monkeypatch: pytest.MonkeyPatch, trigger: Trigger) -> None:
    def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
        plain = open_table(warehouse, name)
        return open_table_at(
            FailingFileIO(trigger), plain.root, name, dynamic_options=options["dynamic_options"]
        )

    monkeypatch.setattr(maintenance.runner, "open_table", opened)


def layouts(warehouse: Path) -> set[int]:
    table = open_table(str(warehouse), "db.t")
    return {e.total_buckets for e in scan_files(table, table.latest_or_not_found())}


@pytest.mark.crash
@pytest.mark.parametrize("dead", [False, True], ids=["alive", "dead"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_failure_leaves_the_table_whole(
    kind: str,
    when: When,
    dead: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pristine = tmp_path / "pristine"
    lake = Lake(pristine)
    lake.create(partitioned=True, **KINDS[kind])
    lake.fill(2)
    expected = rows(pristine)
    counted = Trigger()
    first = tmp_path / "counted"
    shutil.copytree(pristine, first)
    with monkeypatch.context() as patch:
        with_failing_io(patch, counted)
        report = rescale(first)
    assert report.error is None, report.error
    assert len(report.snapshots) == 2
    assert rows(first) == expected
    clean = len(referenced(first))
    assert counted.count > 10, "hardly anything was changed"
    for k in range(counted.count):
        warehouse = tmp_path / f"fail-{k}"
        shutil.copytree(pristine, warehouse)
        trigger = Trigger(at=k, when=when, dead=dead)
        with monkeypatch.context() as patch:
            with_failing_io(patch, trigger)
            failed = rescale(warehouse)
        assert trigger.fired
        assert rows(warehouse) == expected, f"call {k} failed {when} it took effect"
        assert_whole(warehouse)
        option = open_table(str(warehouse), "db.t").options["bucket"]
        if not dead and failed.status is Status.FAILED and layouts(warehouse) == {2}:
            assert option == "2", f"call {k}: nothing was rewritten, but the option stayed"
        again = rescale(warehouse)
        assert again.error is None, again.error
        assert rows(warehouse) == expected
        assert layouts(warehouse) == {3}
        assert open_table(str(warehouse), "db.t").options["bucket"] == "3"
        assert_whole(warehouse)
        assert len(referenced(warehouse)) == clean
        remove_orphans(warehouse)
        root = Path(open_table(str(warehouse), "db.t").root)
        assert on_disk(root) == referenced(warehouse)
        assert rows(warehouse) == expected
        shutil.rmtree(warehouse)
