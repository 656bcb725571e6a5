"""Sorting with every single file operation failing once: before or after it took effect.

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
from maintenance.report import Report
from maintenance.runner import RunRequest, run_table
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table, open_table_at


def run(warehouse: Path, name: str, **arguments: object) -> Report:
    job = job_named(name)
    return run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
            force=True,
        )
    )


def sort(warehouse: Path) -> Report:
    # Each partition is a batch of its own.
    return run(
        warehouse, "sort_compact", order_by=["v", "k"], order_strategy="order", batch_bytes="1 b"
    )


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


KINDS: dict[str, dict[str, Any]] = {
    "append": {"primary_key": False, "options": {"bucket": "-1", "write-only": "true"}},
    "dynamic": {
        "options": {"bucket": "-1", "write-only": "true", "dynamic-bucket.target-row-num": "9"}
    },
}


@pytest.mark.crash
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dead", [False, True], ids=["alive", "dead"])
@pytest.mark.parametrize("when", ["before", "after"])
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
        report = sort(first)
    assert report.error is None, report.error
    assert len(report.snapshots) == 2
    assert rows(first) == expected
    assert counted.count > 10, "hardly anything was changed"
    live = open_table(str(first), "db.t")
    files = len(on_disk(Path(live.root)))
    assert files == len(referenced(first))
    for k in range(counted.count):
        warehouse = tmp_path / f"fail-{k}"
        shutil.copytree(pristine, warehouse)
        trigger = Trigger(at=k, when=when, dead=dead)
        with monkeypatch.context() as patch:
            with_failing_io(patch, trigger)
            sort(warehouse)
        assert trigger.fired
        assert rows(warehouse) == expected, f"call {k} failed {when} it took effect"
        assert_whole(warehouse)
        again = sort(warehouse)
        assert again.error is None, again.error
        assert rows(warehouse) == expected
        assert_whole(warehouse)
        for name, arguments in (
            ("expire_snapshots", {"retain_max": 1, "retain_min": 1}),
            ("remove_orphan_files", {"older_than": str(ENV.now_millis()), "allow_young": True}),
        ):
            report = run(warehouse, name, **arguments)
            assert report.error is None, report.error
        assert on_disk(Path(live.root.replace(str(first), str(warehouse)))) == referenced(warehouse)
        assert rows(warehouse) == expected
        shutil.rmtree(warehouse)
