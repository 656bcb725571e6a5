from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_core.errors import CorruptTable, NotFound
from paimon_core.io import read_retry
from paimon_core.io.file_io import FileIO, FileStat
from paimon_core.io.local import LocalFileIO
from paimon_core.paths import TablePaths
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_to_json
from paimon_core.snapshot.store import SnapshotStore

GOLDEN = Path(__file__).parents[2] / "golden"


def _snapshot(snapshot_id: int, *, user: str = "u", time: int | None = None) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=time if time is not None else snapshot_id * 100,
    )


def _store(root: Path, io: FileIO | None = None) -> SnapshotStore:
    return SnapshotStore(io or LocalFileIO(), TablePaths(root=str(root)), "db.t")


def _filled(root: Path, *ids: int) -> SnapshotStore:
    folder = root / "snapshot"
    folder.mkdir()
    for i in ids:
        (folder / f"snapshot-{i}").write_text(snapshot_to_json(_snapshot(i)))
    return _store(root)


class HookedIO(LocalFileIO):
    """Local files, with something happening before a file is read or after one is listed."""

    before_read: Callable[[str], None] = staticmethod(lambda path: None)
    after_list: Callable[[str], None] = staticmethod(lambda path: None)
    after_create: Callable[[str], None] = staticmethod(lambda path: None)

    def read_bytes(self, path: str) -> bytes:
        self.before_read(path)
        return LocalFileIO.read_bytes(self, path)

    def list_dir(self, path: str) -> list[FileStat]:
        found = LocalFileIO.list_dir(self, path)
        self.after_list(path)
        return found

    def create_if_absent(self, path: str, data: bytes) -> bool:
        created = LocalFileIO.create_if_absent(self, path, data)
        self.after_create(path)
        return created


def test_an_empty_table_has_no_snapshots(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.latest() is None
    assert store.earliest() is None
    assert store.latest_id() is None
    assert store.earliest_id() is None
    assert store.ids() == []
    assert store.all() == []
    assert store.at_or_before_time(1000) is None


def test_commits_make_the_next_snapshot_and_move_the_hint(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.try_commit(_snapshot(1))
    assert not store.try_commit(_snapshot(1, user="other"))
    assert store.try_commit(_snapshot(2))
    assert store.latest() == _snapshot(2)
    assert store.earliest() == _snapshot(1)
    assert store.get(1).commit_user == "u"
    assert (tmp_path / "snapshot" / "LATEST").read_text() == "2"
    assert (tmp_path / "snapshot" / "snapshot-1").read_text() == snapshot_to_json(_snapshot(1))


@pytest.mark.parametrize(
    ("ids", "latest_hint", "earliest_hint"),
    [
        ((3, 4, 5), None, None),
        ((3, 4, 5), "5", "3"),
        ((3, 4, 5), "4", "3"),  # a later commit's hint is missing
        ((3, 4, 5), "9", "1"),  # rolled back and expired
        ((3, 4, 5), "2", "2"),  # expired past both
        ((3, 4, 5), "5", "4"),  # older snapshots came by a fast-forward
        ((3, 5), "3", "3"),  # a gap: 4 is missing, and the hint points below it
        ((3, 4, 5), "", "x"),
        ((3, 4, 5), "-5", "0"),
        ((3, 4, 5), "\u0665", "three"),
    ],
)
def test_hints_are_only_hints(
    tmp_path: Path, ids: tuple[int, ...], latest_hint: str | None, earliest_hint: str | None
) -> None:
    store = _filled(tmp_path, *ids)
    if latest_hint is not None:
        (tmp_path / "snapshot" / "LATEST").write_text(latest_hint)
    if earliest_hint is not None:
        (tmp_path / "snapshot" / "EARLIEST").write_text(earliest_hint)
    if ids == (3, 5) and latest_hint == "3":
        # What Java says too: nothing tells this from a table whose newest snapshot is 3.
        assert store.latest_id() == 3
        (tmp_path / "snapshot" / "LATEST").unlink()
    assert store.latest_id() == 5
    assert store.latest() == _snapshot(5)
    assert store.earliest_id() == 3
    assert store.earliest() == _snapshot(3)
    assert store.ids() == list(ids)


def test_other_files_in_the_folder_are_passed_over(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1, 2)
    for name in (
        ".snapshot-3.uuid.tmp",
        "snapshot-3.tmp",
        "snapshot-",
        "snapshot-x",
        "xsnapshot-9",
    ):
        (tmp_path / "snapshot" / name).write_text("")
    (tmp_path / "snapshot" / "snapshot-x12").mkdir()
    assert store.ids() == [1, 2]
    assert store.latest_id() == 2


def test_a_folder_with_a_number_stops_the_listing(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1, 2)
    (tmp_path / "snapshot" / "snapshot-12").mkdir()
    with pytest.raises(CorruptTable, match="snapshot-12 is a folder"):
        store.ids()


def test_a_hint_that_cannot_be_written_does_not_undo_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(LocalFileIO, "overwrite", fail)
    store = _store(tmp_path)
    assert store.try_commit(_snapshot(1))
    assert store.latest_id() == 1


def test_an_unknown_outcome_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise OSError("connection reset")

    monkeypatch.setattr(LocalFileIO, "create_if_absent", fail)
    with pytest.raises(OSError, match="reset"):
        _store(tmp_path).try_commit(_snapshot(1))


def test_a_commit_that_java_replaced_at_once_is_lost(tmp_path: Path) -> None:
    """Java's local rename replaces what came between its check and its rename."""
    io = HookedIO()
    store = _store(tmp_path, io)
    theirs = snapshot_to_json(_snapshot(1, user="java"))
    object.__setattr__(io, "after_create", lambda path: Path(path).write_text(theirs))
    assert not store.try_commit(_snapshot(1))
    object.__setattr__(io, "after_create", lambda path: None)
    assert store.try_commit(_snapshot(2))
    assert [s.commit_user for s in store.all()] == ["java", "u"]


def test_missing_and_broken_snapshots_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", (0, 0))
    store = _filled(tmp_path, 1, 2, 3, 4)
    folder = tmp_path / "snapshot"
    (folder / "snapshot-2").write_text("")
    (folder / "snapshot-3").write_text('{"version" : 3, "id" : 3}')
    (folder / "snapshot-4").write_text(snapshot_to_json(_snapshot(7)))
    with pytest.raises(NotFound, match="snapshot 9 of table") as missing:
        store.get(9)
    assert missing.value.snapshot == 9
    with pytest.raises(CorruptTable, match="empty") as empty:
        store.get(2)
    assert (empty.value.table, empty.value.snapshot) == ("db.t", 2)
    assert empty.value.file == str(folder / "snapshot-2")
    assert "caretaker verify" in str(empty.value)
    with pytest.raises(CorruptTable, match="schemaId"):
        store.get(3)
    with pytest.raises(CorruptTable, match="says that it is snapshot 7"):
        store.get(4)
    with pytest.raises(CorruptTable):
        store.all()


def test_a_file_that_is_just_being_written_is_read_again(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1)
    path = tmp_path / "snapshot" / "snapshot-1"
    whole = path.read_text()
    path.write_text(whole[:40])
    reads = []

    def finish(_: str) -> None:
        reads.append(1)
        if len(reads) == 2:
            path.write_text(whole)

    io = HookedIO()
    object.__setattr__(io, "before_read", finish)
    assert _store(tmp_path, io).get(1) == _snapshot(1)
    assert store.get(1) == _snapshot(1)


def test_snapshots_that_expire_while_they_are_read_are_left_out(tmp_path: Path) -> None:
    _filled(tmp_path, 1, 2, 3, 4)
    io = HookedIO()

    def expire(_: str) -> None:
        for i in (1, 2):
            (tmp_path / "snapshot" / f"snapshot-{i}").unlink(missing_ok=True)

    object.__setattr__(io, "after_list", expire)
    assert [s.id for s in _store(tmp_path, io).all()] == [3, 4]


def test_snapshots_that_vanish_otherwise_are_an_error(tmp_path: Path) -> None:
    """A listing must never pass for complete when it is not: a cleaner would delete live files."""
    _filled(tmp_path, 1, 2, 3, 4)
    io = HookedIO()
    object.__setattr__(
        io,
        "after_list",
        lambda _: (tmp_path / "snapshot" / "snapshot-3").unlink(missing_ok=True),
    )
    with pytest.raises(NotFound, match=r"snapshot 3 of table .* disappeared"):
        _store(tmp_path, io).all()


def test_everything_may_expire_while_it_is_read(tmp_path: Path) -> None:
    _filled(tmp_path, 1, 2)
    io = HookedIO()

    def drop(_: str) -> None:
        for i in (1, 2):
            (tmp_path / "snapshot" / f"snapshot-{i}").unlink(missing_ok=True)

    object.__setattr__(io, "after_list", drop)
    assert _store(tmp_path, io).all() == []
    assert _store(tmp_path, io).latest() is None


def test_snapshots_by_time(tmp_path: Path) -> None:
    store = _filled(tmp_path, 2, 3, 5, 8)
    found = {
        t: s and s.id
        for t, s in ((t, store.at_or_before_time(t)) for t in (199, 200, 299, 550, 9999))
    }
    assert found == {199: None, 200: 2, 299: 2, 550: 5, 9999: 8}
    after = {
        t: s and s.id for t, s in ((t, store.at_or_after_time(t)) for t in (0, 200, 301, 800, 801))
    }
    assert after == {0: 2, 200: 2, 301: 5, 800: 8, 801: None}


def test_delete_and_hints(tmp_path: Path) -> None:
    store = _filled(tmp_path, 1, 2, 3)
    store.write_earliest_hint(2)
    store.write_latest_hint(3)
    assert store.hints() == (2, 3)
    assert store.delete(1)
    assert not store.delete(1)
    store.delete_latest_hint()
    assert store.hints() == (2, None)
    assert store.ids() == [2, 3]
    assert store.exists(2)
    assert not store.exists(1)


def test_a_branch_has_snapshots_of_its_own(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.try_commit(_snapshot(1))
    branch = store.of_branch("b1")
    assert branch.latest() is None
    assert branch.try_commit(replace(_snapshot(1), commit_user="branch"))
    assert (tmp_path / "branch/branch-b1/snapshot/snapshot-1").exists()
    assert store.get(1).commit_user == "u"


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_golden_snapshots(version: str) -> None:
    tables = sorted((GOLDEN / version).iterdir())
    assert len(tables) > 60
    for table in tables:
        expected = json.loads((table / "expected.json").read_text())
        store = _store(table / "warehouse/db.db/t")
        _check(store, expected["snapshots"])
        for branch, content in expected.get("branch_snapshots", {}).items():
            _check(store.of_branch(branch), content["snapshots"])


def _check(store: SnapshotStore, expected: list[dict[str, object]]) -> None:
    found = [json.loads(snapshot_to_json(s)) for s in store.all()]
    assert found == expected
    newest = store.latest()
    assert (newest and newest.id) == (expected[-1]["id"] if expected else None)
    oldest = store.earliest()
    assert (oldest and oldest.id) == (expected[0]["id"] if expected else None)


def test_a_snapshot_that_was_moved_aside_may_go_as_an_orphan(tmp_path: Path) -> None:
    """The orphan job of somebody else takes the file for one that a killed run left."""
    _filled(tmp_path, 1, 2)
    content = (tmp_path / "snapshot" / "snapshot-1").read_bytes()

    class Cleaned(HookedIO):
        @staticmethod
        def before_read(path: str) -> None:
            if "caretaker" in path:
                Path(path).unlink()

    store = _store(tmp_path, Cleaned())
    assert store.delete_unchanged(1, content)
    assert store.ids() == [2]
