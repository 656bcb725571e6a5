"""Removal.replace: a snapshot takes the place of another one with the same id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paimon_core.errors import StalePlan
from paimon_core.io.local import LocalFileIO
from paimon_core.paths import TablePaths
from paimon_core.snapshot.removal import Removal, Side, undone
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.store import SnapshotStore


def _snapshot(snapshot_id: int, user: str) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=snapshot_id,
    )


OLD, NEW = _snapshot(3, "old"), _snapshot(3, "new")


class Racing(SnapshotStore):
    """Another writer commits right after the replacement."""

    def replace(self, snapshot: Snapshot) -> None:
        SnapshotStore.replace(self, snapshot)
        self.create(_snapshot(snapshot.id + 1, "racing"))


def _removal(root: Path, store: type[SnapshotStore] = SnapshotStore) -> Removal:
    snapshots = store(LocalFileIO(), TablePaths(root=str(root)), "db.t")
    snapshots.create(OLD)
    return Removal(snapshots, Side.END)


def test_replaces_the_snapshot(tmp_path: Path):
    removal = _removal(tmp_path)
    removal.replace(OLD, NEW)
    assert removal.snapshots.all() == [NEW]


def test_put_back_restores_it_with_what_followed(tmp_path: Path):
    removal = _removal(tmp_path)
    followed = _snapshot(4, "old")
    removal.snapshots.create(followed)
    removal.remove([followed])
    removal.replace(OLD, NEW)
    removal.add(_snapshot(4, "new"))
    assert removal.put_back() == ([3, 4], [])
    assert removal.snapshots.all() == [OLD, followed]


def test_a_commit_that_follows_keeps_its_base(tmp_path: Path):
    removal = _removal(tmp_path, Racing)
    with pytest.raises(StalePlan, match=r"4 of table db\.t was committed on top of 3"):
        removal.replace(OLD, NEW)
    assert removal.snapshots.all() == [OLD, _snapshot(4, "racing")]


def test_a_commit_on_the_new_one_keeps_it(tmp_path: Path):
    removal = _removal(tmp_path)
    removal.replace(OLD, NEW)
    racing = _snapshot(4, "racing")
    removal.snapshots.create(racing)
    error = undone(removal, StalePlan("snapshot 4 was committed meanwhile"))
    assert "snapshot 3 was not put back" in error.message
    assert removal.snapshots.all() == [NEW, racing]


@pytest.mark.parametrize("now", [None, replace(OLD, commit_user="other")])
def test_another_snapshot_is_not_replaced(now: Snapshot | None, tmp_path: Path):
    removal = _removal(tmp_path)
    removal.snapshots.delete(3)
    if now is not None:
        removal.snapshots.create(now)
    with pytest.raises(StalePlan):
        removal.replace(OLD, NEW)
    assert removal.snapshots.all() == ([] if now is None else [now])
