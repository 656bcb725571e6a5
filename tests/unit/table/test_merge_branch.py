"""`merge_branch` while another job works on one of the two branches.

The other job is done before the k-th read, or the k-th change, for every k.
"""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
from failing_io import FailingFileIO, Trigger
from harness import do, errors, rows, run_job

from paimon_core.environment import system_environment
from paimon_core.errors import PaimonError
from paimon_core.table.merge_branch import merge_branch
from paimon_core.table.open import open_table, open_table_at

COLUMNS = [{"name": "k", "type": "INT"}]
OPTIONS = {"write-only": "true", "compaction.min.file-num": "2", "bucket": "-1"}
FULL = {"strategy": "full"}
UNMERGED, MERGED = ["[1]", "[3]"], ["[1]", "[2]", "[3]"]
OTHERS = {
    "the target is compacted": ("main", "compact", FULL),
    "the source is compacted": ("b", "compact", FULL),
    "the source is deleted": ("main", "delete_branch", {"branch_name": "b"}),
    "the source is rolled back": ("b", "rollback", {"snapshot": 1, "safety_tag": "0 s"}),
}
"""The branch of a job, its name and its arguments."""


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    """A row in both branches, and another one in each, with a file for each row."""
    warehouse = tmp_path / "pristine"
    do(warehouse, "create_table", columns=COLUMNS, options=OPTIONS)
    do(warehouse, "write", rows=[[1]])
    do(warehouse, "create_tag", name="t", snapshot=1)
    do(warehouse, "create_branch", name="b", tag="t")
    do(warehouse, "write", rows=[[2]], branch="b")
    do(warehouse, "write", rows=[[3]])
    return warehouse


@pytest.mark.sampled
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("reads", [True, False], ids=["each read", "each change"])
def test_no_row_comes_twice_and_no_file_is_missing(
    pristine: Path,
    other: str,
    reads: bool,  # noqa: FBT001 - an example
    tmp_path: Path,
) -> None:
    branch, job, arguments = OTHERS[other]
    outcomes = set()
    for k in itertools.count():
        warehouse = tmp_path / "w"
        shutil.copytree(pristine, warehouse)

        def work(warehouse: Path = warehouse) -> None:
            run_job(warehouse, job, arguments, branch=branch)

        trigger = Trigger(at=k, reads=reads, action=work)
        root = open_table(str(warehouse), "db.t").root
        try:
            source, target = (
                open_table_at(FailingFileIO(trigger), root, "db.t", branch=b) for b in ("b", None)
            )
            made = merge_branch(source, target, env=system_environment())
            outcomes.add("merged" if made else "nothing to do")
            assert rows(warehouse) == (MERGED if made else UNMERGED), (other, k)
        except PaimonError:
            outcomes.add("refused")
            assert rows(warehouse) == UNMERGED, (other, k)
        assert not errors(warehouse), (other, k)
        shutil.rmtree(warehouse)
        if not trigger.fired:
            break
    assert "merged" in outcomes
    assert k > 2, "hardly anything was done"
