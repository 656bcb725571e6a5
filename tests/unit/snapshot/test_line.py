"""Lines of snapshots, and what removes their ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import Lake

from paimon_core.errors import CorruptTable, StalePlan
from paimon_core.snapshot.line import Gap, NewestWatch, gaps_in, unbroken_ids
from paimon_core.snapshot.removal import Removal, Side, remove_newest, remove_oldest, undone
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.store import SnapshotStore


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key()
    lake.fill(6)
    return lake


@pytest.fixture
def store(lake: Lake) -> SnapshotStore:
    return lake.table().snapshots


def some(store: SnapshotStore, *ids: int) -> list[Snapshot]:
    return [store.get(i) for i in ids]


def another(store: SnapshotStore, number: int) -> None:
    """Another commit takes a number that is free."""
    text = Path(store.paths.snapshot(1 if store.exists(1) else store.ids()[0])).read_text("utf-8")
    first = text.split('"id" : ')[1].split(",")[0]
    text = text.replace(f'"id" : {first},', f'"id" : {number},')
    Path(store.paths.snapshot(number)).write_text(text.replace('User" : "', 'User" : "another-'))


def test_gaps_are_found() -> None:
    assert gaps_in([]) == gaps_in([4]) == gaps_in([4, 5, 6]) == []
    assert gaps_in([4, 6, 7, 11]) == [Gap(4, 6), Gap(7, 11)]


def test_a_gap_is_refused_with_what_to_do(store: SnapshotStore) -> None:
    assert unbroken_ids(store) == [1, 2, 3, 4, 5, 6]
    store.delete(4)
    with pytest.raises(CorruptTable, match=r"has snapshot 5 but not 4.*--repair close_gap"):
        unbroken_ids(store)


def test_what_is_removed_at_the_end_leaves_the_rest(store: SnapshotStore) -> None:
    remove_newest(Removal(store, Side.END), some(store, 5, 6), back_to=4)
    assert store.ids() == [1, 2, 3, 4]


def test_a_proof_that_fails_puts_everything_back(store: SnapshotStore) -> None:
    before = {i: Path(store.paths.snapshot(i)).read_bytes() for i in store.ids()}

    def prove() -> None:
        if not store.exists(5):
            raise StalePlan("the target is gone")

    with pytest.raises(StalePlan, match="the target is gone; snapshots 5 to 6 were put back"):
        remove_newest(Removal(store, Side.END), some(store, 4, 5, 6), back_to=3, prove=prove)
    assert {i: Path(store.paths.snapshot(i)).read_bytes() for i in store.ids()} == before
    assert store.hints() == (1, 6)


def test_a_commit_on_top_of_what_goes_gets_its_base_back(store: SnapshotStore) -> None:
    going = some(store, 5, 6)
    seen = []

    def prove() -> None:
        seen.append(store.ids())
        if len(seen) == 2:  # 6 is gone
            another(store, 6)

    with pytest.raises(StalePlan, match=r"6 of table db.t was committed on top of 5") as stopped:
        remove_newest(Removal(store, Side.END), going, back_to=4, prove=prove)
    assert "snapshot 6 was not put back" in stopped.value.message
    assert store.ids() == [1, 2, 3, 4, 5, 6]
    assert store.get(6).commit_user.startswith("another-")


def test_the_error_names_what_was_put_back_and_what_was_not(store: SnapshotStore) -> None:
    removal = Removal(store, Side.END)
    removal.remember(some(store, 3))
    removal.remove(some(store, 4, 5, 6))
    another(store, 5)
    error = undone(removal, StalePlan("the target is gone"))
    assert "; snapshots 5 to 6 were not put back, because" in error.message
    assert error.message.endswith("; snapshot 4 was put back")


def test_the_error_names_numbers_that_do_not_follow_each_other(store: SnapshotStore) -> None:
    removal = Removal(store, Side.END)
    removal.remove(some(store, 4, 6))
    another(store, 4)
    error = undone(removal, StalePlan("the target is gone"))
    assert "; snapshots 4, 6 were not put back, because" in error.message


def test_a_straggler_gets_its_whole_line_back(store: SnapshotStore) -> None:
    with pytest.raises(StalePlan, match=r"snapshot 7 .*; snapshots 4 to 6 were put back"):
        remove_newest(
            Removal(store, Side.END),
            some(store, 4, 5, 6),
            back_to=3,
            settle=lambda: another(store, 7),
        )
    assert unbroken_ids(store) == [1, 2, 3, 4, 5, 6, 7]


def test_a_straggler_behind_a_new_commit_is_reported_as_a_gap(store: SnapshotStore) -> None:
    def settle() -> None:
        another(store, 4)
        another(store, 7)

    with pytest.raises(StalePlan, match=r"gap between 4 and 7.*close_gap"):
        remove_newest(Removal(store, Side.END), some(store, 4, 5, 6), back_to=3, settle=settle)
    # 5 and 6 do not build on the new 4: in line with it they would hide its rows.
    assert store.ids() == [1, 2, 3, 4, 7]


def test_new_commits_after_a_rollback_are_fine(store: SnapshotStore) -> None:
    remove_newest(
        Removal(store, Side.END), some(store, 5, 6), back_to=4, settle=lambda: another(store, 5)
    )
    assert unbroken_ids(store) == [1, 2, 3, 4, 5]


def test_another_snapshot_of_the_number_is_not_removed(store: SnapshotStore) -> None:
    going = some(store, 6)
    store.delete(6)
    another(store, 6)
    with pytest.raises(StalePlan, match=r"6 of table db.t has changed"):
        remove_newest(Removal(store, Side.END), going, back_to=5)
    assert store.exists(6)


def test_expiry_stops_when_the_end_is_removed(lake: Lake, store: SnapshotStore) -> None:
    watch = NewestWatch(store, store.get(6))
    removed: list[int] = []

    class RolledBack(Removal):
        def remove(self, going: list[Snapshot]) -> None:
            super().remove(going)
            removed.extend(s.id for s in going)
            if going[0].id == 2:
                for number in (6, 5, 4):
                    store.delete(number)

    with pytest.raises(StalePlan, match="snapshot 6 was removed: the newest is 3"):
        remove_oldest(RolledBack(store, Side.BEGINNING), some(store, 1, 2, 3), watch)
    assert removed == [1, 2]
    assert unbroken_ids(store) == [1, 2, 3]


def test_expiry_puts_back_the_target_of_a_rollback(store: SnapshotStore) -> None:
    watch = NewestWatch(store, store.get(6))

    class RolledBack(Removal):
        def remove(self, going: list[Snapshot]) -> None:
            super().remove(going)
            if going[0].id == 3:
                for number in (6, 5, 4):
                    store.delete(number)

    with pytest.raises(StalePlan, match="no longer has a snapshot; snapshots 1 to 3 were put back"):
        remove_oldest(RolledBack(store, Side.BEGINNING), some(store, 1, 2, 3), watch)
    assert unbroken_ids(store) == [1, 2, 3]


def test_what_expired_because_others_follow_is_not_put_back(store: SnapshotStore) -> None:
    going = some(store, 5, 6)

    def prove() -> None:
        if not store.exists(6):
            another(store, 6)
            for number in range(1, 6):
                store.delete(number)
            raise StalePlan("the target expired")

    with pytest.raises(StalePlan):
        remove_newest(Removal(store, Side.END), going, back_to=4, prove=prove)
    assert store.ids() == [6]


def test_the_newest_may_grow_and_its_past_may_expire(lake: Lake, store: SnapshotStore) -> None:
    watch = NewestWatch(store, store.get(6))
    lake.fill(2)
    for number in range(1, 8):
        store.delete(number)
    watch.check()
    assert watch.newest.id == 8


def test_a_fence_is_asked_before_every_change(store: SnapshotStore) -> None:
    asked: list[list[int]] = []
    remove_newest(
        Removal(store, Side.END, fence=lambda: asked.append(store.ids())),
        some(store, 5, 6),
        back_to=4,
    )
    assert asked == [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5]]


def test_nothing_goes_back_behind_a_snapshot_that_was_replaced(store: SnapshotStore) -> None:
    going = some(store, 5, 6)

    def prove() -> None:
        if not store.exists(6) and not store.get(5).commit_user.startswith("another-"):
            store.delete(5)
            another(store, 5)

    with pytest.raises(
        StalePlan, match=r"5 of table db.t has changed.*snapshot 6 was not put back"
    ):
        remove_newest(Removal(store, Side.END), going, back_to=4, prove=prove)
    # 6 was built on the old 5: behind the new one it would hide its rows.
    assert store.ids() == [1, 2, 3, 4, 5]


def test_only_what_was_made_here_is_taken_away_again(store: SnapshotStore) -> None:
    (there,) = some(store, 6)
    removal = Removal(store, Side.END)
    removal.add(there)
    assert removal.put_back() == ([], [])
    assert store.exists(6)
