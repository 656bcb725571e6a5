"""A branch is made whole or not at all, whatever happens to its tag meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from disk import assert_no_leftovers, assert_whole
from failing_io import FailingFileIO, Trigger
from lakes import Lake

import maintenance.runner
from maintenance.jobs.verify.check import check_table
from maintenance.jobs.verify.findings import Problem
from maintenance.registry import job_named
from maintenance.report import Report, Status
from maintenance.runner import RunRequest, run_table
from paimon_core.errors import AlreadyExists, CorruptTable, NotFound, PaimonError, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table, open_table_at

MOST_CALLS = 80


@dataclass
class Meanwhile(Trigger):
    """Does something else before one call of the job, which then goes on."""

    other: Callable[[], object] = lambda: None

    def fire(self, what: str) -> None:
        if not self.fired:
            self.fired = True
            self.other()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Tag t on snapshot 2, which has expired: its files are there for the tag alone."""
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill(2)
    run(lake, "create_tag", tag="t")
    run(lake, "compact", strategy="full")
    lake.append({"k": [1, 50], "v": ["new", "new"]})
    run(lake, "expire_snapshots", retain_max=1, retain_min=1, max_deletes=99)
    return lake


def run(lake: Lake, name: str, *, check: bool = True, **arguments: object) -> Report:
    job = job_named(name)
    report = run_table(
        RunRequest(
            job=job,
            warehouse=str(lake.warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
            force=True,
        )
    )
    if check:
        assert report.status is Status.SUCCESS, report.error
    return report


def create_branch(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, trigger: Trigger, name: str = "b"
) -> Report:
    def opened(warehouse: str, name: str, **_: Any) -> FileStoreTable:
        root = open_table(warehouse, name).root
        return open_table_at(FailingFileIO(trigger), root, name)

    with monkeypatch.context() as patch:
        patch.setattr(maintenance.runner, "open_table", opened)
        return run(lake, "create_branch", check=False, branch_name=name, tag="t")


def rows(lake: Lake, *words: object) -> list[str]:
    ran = caretaker("read", "db.t", "-w", lake.warehouse, *words)
    assert ran.code == 0, ran.err
    return sorted(ran.out.splitlines())


OTHERS: dict[str, tuple[str, dict[str, object]]] = {
    "delete_tag": ("delete_tag", {"tag": ["t"]}),
    "replace_tag": ("replace_tag", {"tag": "t"}),
}


@pytest.mark.parametrize("calls", ["changes", "reads"])
@pytest.mark.parametrize("other", OTHERS)
def test_a_branch_is_whole_or_not_there_when_its_tag_goes(
    other: str, calls: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before every single call that making the branch takes."""
    job, arguments = OTHERS[other]
    before, newest = rows(lake, "--tag", "t"), rows(lake)
    source = lake.table().tags.get("t")
    root = Path(lake.table().root)
    pristine = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    made = refused = 0
    for at in range(MOST_CALLS):
        trigger = Meanwhile(
            at=at,
            reads=calls == "reads",
            other=lambda: run(lake, job, check=False, **arguments),
        )
        report = create_branch(lake, monkeypatch, trigger)
        if not trigger.fired:
            break
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
            assert not list((root / "branch").glob("branch-*"))
        assert_whole(lake.warehouse)
        run(lake, "expire_snapshots", check=False, retain_max=1, retain_min=1)
        restore(root, pristine)
    else:
        pytest.fail(f"create_branch takes more than {MOST_CALLS} calls")
    assert made > 0
    assert refused > 0


def restore(root: Path, files: dict[Path, bytes]) -> None:
    for path in root.rglob("*"):
        if path.is_file() and path not in files:
            path.unlink()
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_a_tag_that_was_moved_since_the_plan_makes_no_branch(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = job_named("create_branch").load()
    assert steps.recheck is not None
    trigger = Meanwhile(at=0, other=lambda: run(lake, "replace_tag", tag="t"))
    report = create_branch(lake, monkeypatch, trigger)
    assert isinstance(report.error, PaimonError)
    assert lake.table().branches.names() == []
    assert_no_leftovers(lake.warehouse)


def test_a_hollow_tag_makes_no_branch(lake: Lake) -> None:
    table = lake.table()
    Path(table.paths.manifest(table.tags.get("t").snapshot.base_manifest_list)).unlink()
    report = run(lake, "create_branch", check=False, branch_name="b", tag="t")
    assert isinstance(report.error, CorruptTable)
    assert "no branch was made" in str(report.error)
    assert table.branches.names() == []


def test_a_writer_that_comes_too_early_keeps_its_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch is there once it has a schema: whoever writes then makes snapshot 1."""

    def write() -> None:
        branch = open_table(str(lake.warehouse), "db.t", branch="b")
        other = lake.table().latest_or_not_found()
        early = Path(branch.paths.snapshot(1))
        early.parent.mkdir(parents=True)
        early.write_bytes(Path(lake.table().paths.snapshot(other.id)).read_bytes())

    # The marker, then the schema, then the tag, then the snapshot.
    report = create_branch(lake, monkeypatch, Meanwhile(at=3, other=write))
    assert isinstance(report.error, AlreadyExists)
    snapshots = Path(lake.table().paths.branch_dir("b")) / "snapshot"
    assert [p.name for p in snapshots.iterdir()] == ["snapshot-1"]


def test_an_unfinished_branch_is_found_and_can_be_deleted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed right after its references were written, while its tag and their files went."""
    trigger = Meanwhile(at=3, other=lambda: run(lake, "delete_tag", tag=["t"]))
    with monkeypatch.context() as patch:
        patch.setattr("paimon_core.refs.branches.BranchStore._take_back", _killed)
        with pytest.raises(KeyboardInterrupt):
            create_branch(lake, monkeypatch, trigger)
    assert lake.table().branches.names() == ["b"]
    found = check_table(lake.table()).findings
    (unfinished,) = [f for f in found if f.problem is Problem.UNFINISHED_BRANCH]
    assert unfinished.branch == "b"
    assert "delete_branch" in unfinished.message
    again = run(lake, "create_branch", check=False, branch_name="b", tag="t")
    assert isinstance(again.error, NotFound)
    assert "delete_branch" in str(again.error)
    run(lake, "delete_branch", branch_name=["b"])
    assert_no_leftovers(lake.warehouse)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_finished_branch_is_not_called_unfinished(lake: Lake) -> None:
    run(lake, "create_branch", branch_name="b", tag="t")
    assert check_table(lake.table()).findings == []
