"""A commit to main while it is moved to a branch is never written over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import known_holes
import pyarrow as pa
import pytest
from command_line import caretaker
from disk import assert_no_leftovers, assert_whole
from failing_io import Trigger
from known_holes import each_call
from lakes import ENV, Lake, append_to_branch

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.schema_change import change_from_object
from paimon_core.errors import NotFound, StalePlan
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.report import Report, Status
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
    append_to_branch(lake, "b")
    original = SchemaCopy.copy

    def copy(self: SchemaCopy) -> None:
        original(self)
        lake.append({"k": [99], "v": ["in between"]})

    monkeypatch.setattr(SchemaCopy, "copy", copy)
    ran = caretaker("run", "fast_forward", *where, "--name", "b")
    assert ran.code == ExitCode.CONFLICT, ran
    assert "snapshot 2" in ran.err
    assert "in between" in caretaker("read", *where).out


@pytest.fixture
def tagged(lake: Lake) -> Lake:
    """Branch b has gone on from snapshot 3 of main, and has a tag v1 of its own."""
    lake.primary_key()
    lake.fill(1)
    run(lake, "create_tag", tag="first")
    run(lake, "compact", strategy="full")
    lake.fill(1)
    run(lake, "create_tag", tag="base")
    run(lake, "create_branch", branch_name="b", tag="base")
    append_to_branch(lake, "b")
    run(lake, "create_tag", tag="v1", branch="b")
    return lake


def run(lake: Lake, name: str, **arguments: Any) -> Report:
    report = known_holes.run(lake.warehouse, name, **arguments)
    assert report.status is Status.SUCCESS, report.error
    return report


def rows(lake: Lake, tag: str) -> list[str]:
    return sorted(caretaker("read", "db.t", "-w", lake.warehouse, "--tag", tag).out.splitlines())


def test_the_plan_names_an_older_tag_that_is_replaced(tagged: Lake) -> None:
    run(tagged, "rename_tag", tag="first", target_tag="v1")
    run(tagged, "expire_snapshots", retain_max=1, retain_min=1)
    ran = caretaker("plan", "fast_forward", "db.t", "-w", tagged.warehouse, "--name", "b")
    assert "delete tag 'v1' of main" in ran.out
    run(tagged, "fast_forward", branch_name="b")
    assert tagged.table().tags.get("v1").snapshot.id == 4
    assert_no_leftovers(tagged.warehouse)


def test_a_tag_that_is_made_meanwhile_stays(tagged: Lake) -> None:
    """Before every single change: main has a tag of the name that a tag of the branch has."""
    before = rows(tagged, "first")
    kept = 0
    for report in each_call(
        tagged.warehouse,
        lambda: known_holes.run(tagged.warehouse, "create_tag", tag="v1", snapshot=1),
        lambda trigger: known_holes.run(
            tagged.warehouse, "fast_forward", meanwhile=trigger, branch_name="b"
        ),
        reads=False,
    ):
        assert report.error is None, report.error
        if tagged.table().tags.get("v1").snapshot.id == 1:
            kept += 1
            assert report.details["tags_not_copied"] == ["v1"]
            assert rows(tagged, "v1") == before
        assert_whole(tagged.warehouse)
    assert kept


@pytest.mark.parametrize("columns", [("main",), ("main", "b")])
def test_a_writer_whose_schema_is_replaced_is_refused(
    columns: tuple[str, ...], tagged: Lake
) -> None:
    """All snapshots of the branch are older than the files of the writer."""
    catalog = FileSystemCatalog(str(tagged.warehouse))
    for number, branch in enumerate(columns):
        change = change_from_object({"change": "add_column", "name": f"of_{branch}", "type": "INT"})
        # Schemas of one number are told apart by their times.
        now = ENV.now_millis() + number
        catalog.alter_table("db.t", [change], now_millis=now, branch=branch)
    table = tagged.table()
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([99], pa.int32()), "v": ["late"]}))
    messages = writer.prepare_commit()
    run(tagged, "fast_forward", branch_name="b")
    with pytest.raises(NotFound, match="a fast-forward replaced its schema"):
        commit(table, messages, user="u", env=ENV)
    assert_whole(tagged.warehouse)
    assert "late" not in caretaker("read", "db.t", "-w", tagged.warehouse).out


def test_a_branch_that_is_half_deleted_does_not_become_main(tagged: Lake) -> None:
    """Its tags are gone by then."""
    branch = Path(tagged.table().paths.branch_dir("b"))
    before = tagged.table().latest_or_not_found()
    for failing in (Trigger(at=at, when="after", down=True) for at in range(99)):
        known_holes.run(tagged.warehouse, "delete_branch", meanwhile=failing, branch_name=["b"])
        if not (branch / "tag").exists():
            break
    assert (branch / "snapshot").exists()
    moved = known_holes.run(tagged.warehouse, "fast_forward", branch_name="b")
    assert isinstance(moved.error, StalePlan), moved.error
    assert "run that job again first" in str(moved.error)
    assert tagged.table().latest_or_not_found() == before
    run(tagged, "delete_branch", branch_name=["b"])
    assert_no_leftovers(tagged.warehouse)
