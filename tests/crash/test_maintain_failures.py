"""All that is due, with every change failing once: before or after it took effect.

What is left reads the same, nothing dangles, and the next run ends where a clean one does.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from failing_io import FailingFileIO, Trigger, When
from lakes import Lake

import maintenance.runner
from maintenance.jobs.verify.check import check_table
from maintenance.jobs.verify.findings import Severity
from maintenance.registry import job_named
from maintenance.report import Report, Status
from maintenance.runner import RunRequest, run_table
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table, open_table_at

pytestmark = pytest.mark.crash

OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "partition.expiration-time": "7 d",
    "partition.timestamp-formatter": "yyyy-MM-dd",
    "consumer.expiration-time": "1 d",
    "tag.automatic-creation": "process-time",
    "tag.num-retained-max": "3",
}


def maintain(warehouse: Path) -> Report:
    job = job_named("maintain")
    return run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.t",
            arguments=job.read_arguments({"compact": "full", "also": ["compact_manifest"]}),
        )
    )


def use(monkeypatch: pytest.MonkeyPatch, trigger: Trigger) -> None:
    def opened(warehouse: str, name: str, **options: object) -> FileStoreTable:
        root = open_table(warehouse, name).root
        return open_table_at(FailingFileIO(trigger), root, name)

    monkeypatch.setattr(maintenance.runner, "open_table", opened)


def build(warehouse: Path) -> None:
    lake = Lake(warehouse)
    lake.primary_key(partitioned=True, **OPTIONS)
    for _ in range(4):
        lake.append({"k": [1, 2], "v": ["a", "b"], "dt": ["2020-01-01", "2999-01-01"]})
    table = lake.table()
    table.consumers.set("dead", 2)
    os.utime(table.paths.consumer("dead"), (0, 0))


def state(warehouse: Path) -> dict[str, object]:
    table = open_table(str(warehouse), "db.t")
    latest = table.latest_or_not_found()
    rows = [str(r) for b in read_table(table, latest) for r in b.to_pylist()]
    return {
        "rows": sorted(rows),
        "tags": sorted(t.name for t in table.tags.all()),
        "consumers": [c.id for c in table.consumers.all()],
        "files": len(scan_files(table, latest)),
    }


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_next_run_ends_where_a_clean_one_does(
    when: When, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "origin")
    shutil.copytree(tmp_path / "origin", tmp_path / "clean")
    counter = Trigger()
    use(monkeypatch, counter)
    report = maintain(tmp_path / "clean")
    assert report.status is Status.SUCCESS, report.error
    assert {p["status"] for p in report.parts} == {"success"}
    monkeypatch.undo()
    wanted = state(tmp_path / "clean")
    assert wanted["consumers"] == []
    for at in range(counter.count):
        broken = tmp_path / f"{at}"
        shutil.copytree(tmp_path / "origin", broken)
        use(monkeypatch, Trigger(at=at, when=when, dead=True))
        maintain(broken)
        monkeypatch.undo()
        assert errors(broken) == [], at
        for _ in range(3):
            report = maintain(broken)
            assert report.status is not Status.FAILED, (at, report.error)
        assert errors(broken) == [], at
        assert state(broken) == wanted, at
        assert len(open_table(str(broken), "db.t").snapshots.ids()) <= 2
        shutil.rmtree(broken)


def errors(warehouse: Path) -> list[str]:
    findings = check_table(open_table(str(warehouse), "db.t")).findings
    return [f.message for f in findings if f.severity is Severity.ERROR]
