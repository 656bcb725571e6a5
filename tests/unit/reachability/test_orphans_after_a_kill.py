"""The orphan job on a table where another job was interrupted at any one of its changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, read_rows
from failing_io import FailingFileIO, Trigger
from lakes import Lake, age_all

import paimon_maintenance.run.request
from paimon_core.file_store_table import FileStoreTable
from paimon_core.retention import store_clock
from paimon_core.table.open import open_table_at
from paimon_maintenance.jobs.versions import inflight_commits

CHANGELOGS = {"changelog.num-retained.min": "9", "changelog.num-retained.max": "99"}
OPTIONS = {"bucket": "1", "write-only": "true", "changelog-producer": "input", **CHANGELOGS}
JOBS = {
    "rollback": ("--snapshot", 5),
    "expire_snapshots": ("--retain-max", 1, "--retain-min", 1),
    "expire_changelogs": ("--retain-max", 1, "--retain-min", 1),
}


def run(lake: Lake, job: str, *more: object) -> int:
    return caretaker("run", job, "db.t", "-w", lake.warehouse, "--force", *more).code


@pytest.mark.sampled
@pytest.mark.parametrize("job", JOBS)
def test_it_needs_no_manifest_that_only_a_changelog_list_names(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 0)
    monkeypatch.setattr(store_clock, "VALID_MILLIS", 0)
    made = Lake(tmp_path / "made")
    made.create(options=OPTIONS)
    made.fill(4)
    assert run(made, "expire_snapshots", "--retain-max", 2, "--retain-min", 2) == 0
    made.fill(2)
    plain = paimon_maintenance.run.request.open_table_of
    k = 0
    while True:
        lake = Lake(tmp_path / str(k))
        shutil.copytree(made.warehouse, lake.warehouse)
        trigger = Trigger(at=k, down=True)

        def opened(
            warehouse: str, name: str, trigger: Trigger = trigger, **options: Any
        ) -> FileStoreTable:
            root = plain(warehouse, name).root
            dynamic = options["dynamic_options"]
            return open_table_at(FailingFileIO(trigger), root, name, dynamic_options=dynamic)

        with monkeypatch.context() as patch:
            patch.setattr(paimon_maintenance.run.request, "open_table_of", opened)
            run(lake, job, *JOBS[job])
        if not trigger.fired:
            break
        (Path(lake.table().root) / "bucket-0" / "data-orphan.parquet").write_text("x")
        shutil.rmtree(Path(lake.table().root) / "caretaker" / "leases")
        age_all(lake.warehouse)
        ran = caretaker("run", "remove_orphan_files", "db.t", "-w", lake.warehouse, "--force")
        assert ran.code == 0, (k, ran.err)
        assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0, k
        assert len(read_rows(lake.warehouse)) == 10
        k += 1
    assert k > 5
