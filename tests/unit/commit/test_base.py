"""Commits look back at the snapshot that they were made from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lakes import ENV, Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import CommitStateUnknown, CorruptTable, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.references import on_branch
from paimon_core.refs.tags import Tag
from paimon_core.snapshot.line import unbroken_ids
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.store import SnapshotStore

QUICK = replace(ENV, sleep_millis=lambda _: None)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key()
    lake.fill(5)
    return lake


def commit(table: FileStoreTable) -> Snapshot:
    request = CommitRequest(user="me", kind=CommitKind.COMPACT)
    return commit_changes(table, lambda _: ManifestChanges((), (), ()), request, env=QUICK)


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``once(before=..., after=...)``: what happens around the creation of the next snapshot."""

    def around(
        *, before: Callable[[], object] = lambda: None, after: Callable[[], object] = lambda: None
    ) -> None:
        plain = SnapshotStore.try_commit
        left = [1]

        def try_commit(self: SnapshotStore, snapshot: Snapshot, **how: Any) -> bool:
            first = bool(left and left.pop())
            if first:
                before()
            won = plain(self, snapshot, **how)
            if first:
                after()
            return won

        monkeypatch.setattr(SnapshotStore, "try_commit", try_commit)

    return around


def remove(lake: Lake, *ids: int) -> None:
    for number in ids:
        lake.table().snapshots.delete(number)


def test_a_commit_whose_base_was_rolled_back_is_made_again(
    lake: Lake, once: Callable[..., None]
) -> None:
    once(before=lambda: remove(lake, 5, 4))
    made = commit(lake.table())
    assert made.id == 4
    assert unbroken_ids(lake.table().snapshots) == [1, 2, 3, 4]


def test_a_commit_whose_base_was_replaced_is_made_again(
    lake: Lake, once: Callable[..., None]
) -> None:
    def roll_back_and_write() -> None:
        remove(lake, 5)
        lake.append({"k": [77], "v": ["theirs"]})

    once(before=roll_back_and_write)
    made = commit(lake.table())
    assert made.id == 6
    table = lake.table()
    theirs = table.snapshots.get(5)
    assert table.snapshots.get(6).total_record_count == theirs.total_record_count


def test_a_base_that_expired_is_no_reason(lake: Lake, once: Callable[..., None]) -> None:
    once(after=lambda: remove(lake, 1, 2, 3, 4, 5))
    assert commit(lake.table()).id == 6
    assert lake.table().snapshots.ids() == [6]


@pytest.mark.parametrize("others", [2, 4])
@pytest.mark.parametrize("first", [False, True])
def test_a_commit_that_others_have_passed_is_made_again(
    lake: Lake, once: Callable[..., None], *, first: bool, others: int
) -> None:
    """They had its number, which was free again when the snapshot was made."""
    if first:
        lake.primary_key("db.u")
    name = "db.u" if first else "db.t"

    def pass_by() -> None:
        lake.fill(others, name=name)
        for number in lake.table(name).snapshots.ids()[:-1]:
            lake.table(name).snapshots.delete(number)

    once(before=pass_by)
    made = commit(lake.table(name))
    newest = (0 if first else 5) + others
    table = lake.table(name)
    assert table.snapshots.ids() == [newest, newest + 1]
    assert made.id == newest + 1
    assert made.total_record_count == table.snapshots.get(newest).total_record_count
    assert table.snapshots.hints()[1] == made.id


@pytest.mark.parametrize("merged", [False, True])
def test_a_commit_that_others_build_on_once_its_base_expired_is_final(
    lake: Lake, once: Callable[..., None], *, merged: bool
) -> None:
    if merged:
        lake.change_options("db.t", "manifest.full-compaction-threshold-size", "1 b")

    def go_on() -> None:
        lake.fill(2)
        remove(lake, 1, 2, 3, 4, 5)

    once(after=go_on)
    assert commit(lake.table()).id == 6
    assert lake.table().snapshots.ids() == [6, 7, 8]


def test_a_commit_that_others_build_on_is_not_taken_back(
    lake: Lake, once: Callable[..., None]
) -> None:
    def build_on_it() -> None:
        lake.append({"k": [77], "v": ["theirs"]})
        remove(lake, 5)

    once(after=build_on_it)
    with pytest.raises(CommitStateUnknown, match=r"6 .*cannot be reverted.*committed on top"):
        commit(lake.table())
    assert lake.table().snapshots.ids() == [1, 2, 3, 4, 6, 7]


def test_a_commit_that_was_rolled_back_itself_is_unknown(
    lake: Lake, once: Callable[..., None]
) -> None:
    once(after=lambda: remove(lake, 6, 5, 4, 3, 2, 1))
    with pytest.raises(CommitStateUnknown, match="another job removed it afterwards"):
        commit(lake.table())


def test_a_lost_reply_looks_back_as_well(lake: Lake, once: Callable[..., None]) -> None:
    def lose() -> None:
        remove(lake, 5)
        raise OSError("no reply")

    once(after=lose)
    assert commit(lake.table()).id == 5
    assert unbroken_ids(lake.table().snapshots) == [1, 2, 3, 4, 5]


def test_a_commit_to_a_branch_that_was_deleted_leaves_no_broken_branch(
    lake: Lake, once: Callable[..., None]
) -> None:
    table = lake.table()
    table.tags.create(Tag("x", table.snapshots.get(2)))
    table.branches.create("b", tag="x")
    branch = on_branch(table, "b")
    once(before=lambda: table.branches.delete("b"))
    with pytest.raises(NotFound, match=r"branch b of table db.t was deleted"):
        commit(branch)
    assert table.branches.names() == []


def test_a_first_commit_to_a_branch_that_was_deleted_leaves_no_broken_branch(
    lake: Lake, once: Callable[..., None]
) -> None:
    """It has no base that could be gone: only the missing schema tells."""
    table = lake.table()
    table.branches.create("b")
    branch = on_branch(table, "b")
    once(before=lambda: table.branches.delete("b"))
    with pytest.raises(NotFound, match=r"branch b of table db.t was deleted"):
        commit(branch)
    assert table.branches.names() == []


@pytest.mark.parametrize("snapshots", [0, 5])
def test_a_commit_to_a_table_that_was_dropped_leaves_none_in_the_new_one(
    lake: Lake, once: Callable[..., None], snapshots: int
) -> None:
    """The new table has the same path and no snapshot, as if the base had expired."""
    catalog = FileSystemCatalog(str(lake.warehouse))

    def create_again() -> None:
        catalog.drop_table("db.t")
        lake.primary_key()

    if not snapshots:
        create_again()
    table = lake.table()
    once(before=create_again)
    with pytest.raises(NotFound, match="was dropped and created again"):
        commit(table)
    assert list(lake.table().snapshots.ids()) == []
    assert lake.table().snapshots.latest() is None
    assert not (lake.warehouse / "db.db/t/snapshot/LATEST").exists()
    lake.fill(1)
    assert list(lake.table().snapshots.ids()) == [1]


@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_commit_whose_reply_was_lost_and_that_was_rolled_back_is_not_made_again(
    lake: Lake, once: Callable[..., None], others: int
) -> None:
    """A rollback deletes the files of what it removes, and a tag of it may need them."""

    def roll_back() -> None:
        remove(lake, 6, 5)
        for number in range(others):
            lake.append({"k": [70 + number], "v": ["theirs"]})
        raise TimeoutError("the reply is lost")

    once(after=roll_back)
    with pytest.raises(CommitStateUnknown, match=r"snapshot 6 .*unknown"):
        commit(lake.table())
    snapshots = lake.table().snapshots
    assert snapshots.ids() == list(range(1, 5 + others))
    assert "me" not in {snapshots.get(number).commit_user for number in snapshots.ids()}


def test_a_lost_reply_is_tried_again_where_nothing_was_rolled_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = SnapshotStore.try_commit
    lost = [1]

    def try_commit(self: SnapshotStore, snapshot: Snapshot, **details: Any) -> bool:
        if lost and lost.pop():
            lake.append({"k": [77], "v": ["theirs"]})  # takes the number
            raise TimeoutError("the reply is lost")
        return plain(self, snapshot, **details)

    monkeypatch.setattr(SnapshotStore, "try_commit", try_commit)
    assert commit(lake.table()).id == 7


def test_a_folder_in_the_place_of_the_next_snapshot_is_named_at_once(lake: Lake) -> None:
    folder = Path(lake.table().paths.snapshot(6))
    folder.mkdir()
    started = time.monotonic()
    with pytest.raises(CorruptTable, match="snapshot-6 is a folder") as raised:
        lake.fill(1)
    assert time.monotonic() - started < 10
    assert raised.value.file == str(folder)
    folder.rmdir()
    lake.fill(1)
    assert lake.table().snapshots.latest_id() == 6


def test_a_commit_whose_base_goes_while_it_is_read_is_built_on_an_older_one(lake: Lake) -> None:
    """A rollback without a safety tag deletes the manifests, too."""
    seen: list[int] = []

    def provide(latest: Snapshot | None) -> ManifestChanges:
        assert latest is not None
        seen.append(latest.id)
        if len(seen) == 1:
            remove(lake, 5)
            for name in (latest.base_manifest_list, latest.delta_manifest_list):
                Path(lake.table().paths.manifest(name)).unlink()
        return ManifestChanges()

    request = CommitRequest(user="me", kind=CommitKind.COMPACT)
    made = commit_changes(lake.table(), provide, request, env=QUICK)
    assert (made.id, made.commit_user, seen) == (5, "me", [5, 4])


def test_a_commit_on_a_damaged_snapshot_is_not_tried_again(lake: Lake) -> None:
    latest = lake.table().latest_or_not_found()
    Path(lake.table().paths.manifest(latest.base_manifest_list)).unlink()
    with pytest.raises(CorruptTable, match="missing"):
        commit(lake.table())
    assert lake.table().snapshots.latest_id() == 5
