"""A branch is made whole or not at all, whatever happens to its tag meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import known_holes
import pytest
from command_line import caretaker
from disk import assert_no_leftovers, assert_whole
from failing_io import Trigger
from known_holes import each_call
from lakes import Lake

from paimon_core.errors import AlreadyExists, CorruptTable, NotFound, StalePlan
from paimon_core.table.open import open_table
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Problem


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Tag t on snapshot 2, which has expired: its files are there for the tag alone."""
    lake.primary_key()
    lake.fill(2)
    run(lake, "create_tag", tag="t")
    run(lake, "compact", strategy="full")
    lake.append({"k": [1, 50], "v": ["new", "new"]})
    run(lake, "expire_snapshots", retain_max=1, retain_min=1, max_deletes=99)
    return lake


def run(lake: Lake, name: str, **arguments: Any) -> Report:
    report = known_holes.run(lake.warehouse, name, **arguments)
    assert report.status is Status.SUCCESS, report.error
    return report


def create_branch(lake: Lake, meanwhile: Trigger | None = None) -> Report:
    return known_holes.run(
        lake.warehouse, "create_branch", meanwhile=meanwhile, branch_name="b", tag="t"
    )


def rows(lake: Lake, *words: object) -> list[str]:
    ran = caretaker("read", "db.t", "-w", lake.warehouse, *words)
    assert ran.code == 0, ran.err
    return sorted(ran.out.splitlines())


OTHERS: dict[str, tuple[str, dict[str, object]]] = {
    "delete_tag": ("delete_tag", {"tag": ["t"]}),
    "replace_tag": ("replace_tag", {"tag": "t"}),
}


@pytest.mark.sampled
@pytest.mark.parametrize("calls", ["changes", "reads"])
@pytest.mark.parametrize("other", OTHERS)
def test_a_branch_is_whole_or_not_there_when_its_tag_goes(
    other: str, calls: str, lake: Lake
) -> None:
    """Before every single call that making the branch takes."""
    job, arguments = OTHERS[other]
    before, newest = rows(lake, "--tag", "t"), rows(lake)
    source = lake.table().tags.get("t")
    made = refused = 0
    for report in each_call(
        lake.warehouse,
        lambda: known_holes.run(lake.warehouse, job, **arguments),
        lambda trigger: create_branch(lake, trigger),
        reads=calls == "reads",
    ):
        if report.error is None:
            made += 1
            (first,) = lake.table().snapshots.of_branch("b").all()
            # A tag that was moved before the plan read it is the newest snapshot.
            moved = first.identity != source.snapshot.identity
            assert rows(lake, "--branch", "b") == (newest if moved else before)
            run(lake, "delete_branch", branch_name=["b"])
        else:
            refused += 1
            assert isinstance(report.error, NotFound | StalePlan | CorruptTable), report.error
            assert lake.table().branches.names() == []
            assert not list(Path(lake.table().root).glob("branch/branch-*"))
        assert_whole(lake.warehouse)
        run(lake, "compact", strategy="full")
        run(lake, "expire_snapshots", retain_max=1, retain_min=1)
    assert made > 0
    assert refused > 0


def test_a_tag_that_was_moved_since_the_plan_makes_no_branch(lake: Lake) -> None:
    report = create_branch(lake, Trigger(action=lambda: run(lake, "replace_tag", tag="t"), at=0))
    assert isinstance(report.error, StalePlan)
    assert lake.table().branches.names() == []
    assert_no_leftovers(lake.warehouse)


def test_a_hollow_tag_makes_no_branch(lake: Lake) -> None:
    table = lake.table()
    Path(table.paths.manifest(table.tags.get("t").snapshot.base_manifest_list)).unlink()
    report = create_branch(lake)
    assert isinstance(report.error, CorruptTable)
    assert "no branch was created" in str(report.error)
    assert table.branches.names() == []


def test_a_writer_that_comes_too_early_keeps_its_commit(lake: Lake) -> None:
    """The branch is there once it has a schema: whoever writes then makes snapshot 1."""

    def write() -> None:
        branch = open_table(str(lake.warehouse), "db.t", branch="b")
        other = lake.table().latest_or_not_found()
        early = Path(branch.paths.snapshot(1))
        early.parent.mkdir(parents=True)
        early.write_bytes(Path(lake.table().paths.snapshot(other.id)).read_bytes())

    # The marker, then the schema, then the tag, then the snapshot.
    report = create_branch(lake, Trigger(at=3, action=write))
    assert isinstance(report.error, AlreadyExists)
    snapshots = Path(lake.table().paths.branch_dir("b")) / "snapshot"
    assert [p.name for p in snapshots.iterdir()] == ["snapshot-1"]


def test_an_unfinished_branch_is_found_and_can_be_deleted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed right after its references were written, while its tag and their files went."""
    trigger = Trigger(at=3, action=lambda: run(lake, "delete_tag", tag=["t"]))
    with monkeypatch.context() as patch:
        patch.setattr("paimon_core.refs.branches.BranchStore._revert", _killed)
        with pytest.raises(KeyboardInterrupt):
            create_branch(lake, trigger)
    assert lake.table().branches.names() == ["b"]
    found = check_table(lake.table()).findings
    (unfinished,) = [f for f in found if f.problem is Problem.UNFINISHED_BRANCH]
    assert unfinished.branch == "b"
    assert "delete_branch" in unfinished.message
    again = create_branch(lake)
    assert isinstance(again.error, NotFound)
    assert "delete_branch" in str(again.error)
    run(lake, "delete_branch", branch_name=["b"])
    assert_no_leftovers(lake.warehouse)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_finished_branch_is_not_called_unfinished(lake: Lake) -> None:
    run(lake, "create_branch", branch_name="b", tag="t")
    assert check_table(lake.table()).findings == []
