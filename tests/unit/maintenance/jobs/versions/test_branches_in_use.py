"""A branch whose rows are read with the table keeps its name: without it, readers miss these rows."""

from __future__ import annotations

import pytest
from command_line import caretaker
from lakes import Lake, append_to_branch

from paimon_maintenance.job.exit_codes import ExitCode

JOBS = {"delete_branch": ("--name", "b"), "rename_branch": ("--name", "b", "--new-name", "c")}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    "option",
    [
        "scan.fallback-branch",
        "scan.primary-branch",
        "scan.fallback-snapshot-branch",
        "scan.fallback-delta-branch",
    ],
)
def test_it_is_neither_deleted_nor_renamed(option: str, job: str, lake: Lake) -> None:
    lake.primary_key()
    assert caretaker("run", "create_branch", "db.t", "-w", lake.warehouse, "--name", "b").code == 0
    append_to_branch(lake, "b")
    lake.change_options("db.t", option, " b")
    ran = caretaker("run", job, "db.t", "-w", lake.warehouse, *JOBS[job])
    assert ran.code == ExitCode.USAGE
    assert f"branch 'b' of table db.t is in use as {option}" in ran.err
    assert f"unset {option} first" in ran.err
    assert lake.table().branches.names() == ["b"]
