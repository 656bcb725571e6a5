"""A commit to main while it is moved to a branch is never written over."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.jobs.versions.schema_copy import SchemaCopy


def test_a_writer_that_takes_the_number_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill(2)
    where = ("db.t", "-w", lake.warehouse)
    assert caretaker("run", "create_tag", *where, "--tag", "x", "--snapshot", 1).code == 0
    assert caretaker("run", "create_branch", *where, "--name", "b", "--tag", "x").code == 0
    # The branch goes on from snapshot 1 with a snapshot 2 of its own, main has another one.
    branch = Path(lake.table().paths.branch_dir("b"))
    told = (branch / "snapshot" / "snapshot-1").read_text()
    told = told.replace('"id" : 1', '"id" : 2').replace('"commitUser" : "', '"commitUser" : "b')
    (branch / "snapshot" / "snapshot-2").write_text(told)
    original = SchemaCopy.copy

    def copy(self: SchemaCopy) -> None:
        original(self)
        lake.append({"k": [99], "v": ["in between"]})

    monkeypatch.setattr(SchemaCopy, "copy", copy)
    ran = caretaker("run", "fast_forward", *where, "--name", "b")
    assert ran.code == ExitCode.CONFLICT, ran
    assert "snapshot 2" in ran.err
    assert "in between" in caretaker("read", *where).out
