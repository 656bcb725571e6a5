from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound, StalePlan
from paimon_core.io.local import LocalFileIO
from paimon_core.paths import TablePaths
from paimon_core.refs.branches import BranchStore
from paimon_core.refs.tags import TagStore
from paimon_core.schema.store import SchemaStore
from paimon_core.snapshot.store import SnapshotStore

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with schema 0, snapshots 3 to 5 and the tags t1 (snapshot 1, expired), t2, latest."""
    root = tmp_path / "t"
    shutil.copytree(GOLDEN / "1.4.2/tags_branches/warehouse/db.db/t", root)
    return root


def _store(root: Path) -> BranchStore:
    return BranchStore(LocalFileIO(), TablePaths(root=str(root)), "db.t")


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_golden_branches(version: str) -> None:
    for table in sorted((GOLDEN / version).iterdir()):
        expected = json.loads((table / "expected.json").read_text())["branches"]
        assert _store(table / "warehouse/db.db/t").names() == sorted(expected)


def test_an_empty_branch_has_the_schemas_and_nothing_else(table: Path) -> None:
    store = _store(table)
    store.create("fresh")
    assert store.names() == ["b1", "empty", "fresh"]
    assert store.all_with_main() == ["main", "b1", "empty", "fresh"]
    assert (table / "branch/branch-fresh/schema/schema-0").read_bytes() == (
        table / "schema/schema-0"
    ).read_bytes()
    assert [p.name for p in (table / "branch/branch-fresh").iterdir()] == ["schema"]


@pytest.mark.parametrize("tag", ["t1", "t2", "latest-tag"])
def test_a_branch_from_a_tag_starts_at_its_snapshot(table: Path, tag: str) -> None:
    """Even from a tag whose snapshot has expired, where Java fails."""
    store = _store(table)
    store.create("b2", tag=tag)
    paths = store.paths.of_branch("b2")
    tagged = TagStore(store.io, store.paths, "db.t").get(tag)
    assert SnapshotStore(store.io, paths, "db.t").all() == [tagged.snapshot]
    assert TagStore(store.io, paths, "db.t").all() == [tagged]
    assert [s.id for s in SchemaStore(store.io, paths, "db.t").all()] == [0]


def test_branches_are_renamed_and_deleted(table: Path) -> None:
    store = _store(table)
    with pytest.raises(AlreadyExists):
        store.rename("b1", "empty")
    store.rename("b1", "b9")
    store.delete("empty")
    assert store.names() == ["b9"]
    assert store.exists("b9")
    assert store.exists("main")
    assert not store.exists("b1")


def test_what_is_missing_or_taken(table: Path) -> None:
    store = _store(table)
    for missing in (
        lambda: store.delete("x"),
        lambda: store.rename("x", "y"),
        lambda: store.create("x", tag="none"),
    ):
        with pytest.raises(NotFound):
            missing()
    with pytest.raises(AlreadyExists):
        store.create("b1")
    assert store.names() == ["b1", "empty"]


@pytest.mark.parametrize("name", ["main", "", " ", "20231007", "a/b"])
def test_names_that_java_refuses(table: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        _store(table).create(name)
    with pytest.raises(InvalidArgument):
        _store(table).rename("b1", name)


def test_main_stays(table: Path) -> None:
    with pytest.raises(InvalidArgument):
        _store(table).delete("main")
    with pytest.raises(InvalidArgument):
        _store(table).rename("main", "x")


def test_an_interrupted_creation_is_taken_up_by_the_same_call_only(table: Path) -> None:
    store = _store(table)
    store.create("b2", tag="t2")
    folder = table / "branch/branch-b2"
    (folder / "snapshot").joinpath("snapshot-2").unlink()
    (folder / ".creating").write_text("t2")
    for tag in (None, "t1"):
        with pytest.raises(AlreadyExists, match="not finished"):
            store.create("b2", tag=tag)
    store.create("b2", tag="t2")
    assert (folder / "snapshot/snapshot-2").exists()
    assert not (folder / ".creating").exists()
    with pytest.raises(AlreadyExists):
        store.create("b2", tag="t2")


def test_a_folder_without_metadata_is_no_branch(table: Path) -> None:
    store = _store(table)
    (table / "branch/branch-husk/schema").mkdir(parents=True)
    (table / "branch/branch-husk/snapshot").mkdir()
    assert store.names() == ["b1", "empty"]
    store.create("husk")
    assert store.names() == ["b1", "empty", "husk"]
    (table / "branch/branch-broken/tag").mkdir(parents=True)
    (table / "branch/branch-broken/tag/tag-x").write_text("{}")
    assert "broken" in store.names(), "what has a tag has to be looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCommit(LocalFileIO):
    """A snapshot is committed to a branch right after its files were deleted or moved."""

    snapshot: Path
    times: list[None] = field(default_factory=lambda: [None])

    def _land(self) -> None:
        if self.times:
            self.times.pop()
            self.snapshot.parent.mkdir(parents=True, exist_ok=True)
            self.snapshot.write_text("{}")

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        done = LocalFileIO.delete_dir(self, path, recursive=recursive)
        self._land()
        return done

    def rename(self, src: str, dst: str) -> bool:
        done = LocalFileIO.rename(self, src, dst)
        self._land()
        return done


def _late(root: Path, number: int, times: int = 1) -> BranchStore:
    snapshot = root / f"branch/branch-b1/snapshot/snapshot-{number}"
    return replace(_store(root), io=LateCommit(snapshot=snapshot, times=[None] * times))


def _newest(root: Path, branch: str) -> int:
    paths = TablePaths(root=str(root), branch=branch)
    return SnapshotStore(LocalFileIO(), paths, "db.t").ids()[-1]


def test_a_commit_that_lands_while_its_branch_is_deleted_goes_too(table: Path) -> None:
    _late(table, _newest(table, "b1") + 1).delete("b1")
    assert _store(table).names() == ["empty"]


def test_a_branch_whose_writers_go_on_is_not_called_deleted(table: Path) -> None:
    with pytest.raises(StalePlan, match=r"'b1' .* is committed to") as caught:
        _late(table, 9, times=99).delete("b1")
    assert "stop the writers" in caught.value.next_step


def test_a_commit_that_lands_under_the_old_name_of_a_branch_follows(table: Path) -> None:
    number = _newest(table, "b1") + 1
    _late(table, number).rename("b1", "b9")
    assert _store(table).names() == ["b9", "empty"]
    assert _newest(table, "b9") == number


def test_a_commit_that_builds_on_nothing_does_not_follow(table: Path) -> None:
    """Its writer found no snapshot any more, and takes it back."""
    before = _newest(table, "b1")
    _late(table, before + 5).rename("b1", "b9")
    assert _newest(table, "b9") == before
