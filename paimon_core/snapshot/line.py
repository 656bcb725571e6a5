"""The snapshot line of one branch: consecutive ids, from the earliest to the newest.

Commits add at the end, expiry removes at the start, rollback removes at the end.  A *gap* (4, 5, 6,
11) appears when a commit based on snapshot 10 lands after a rollback removed 7 to 10.  Java then
treats 6 as the newest snapshot, because the LATEST hint says so, commits 7 to 10 again, and jumps
to 11 when it reaches that number: the commits in between are lost.  So a job that removes history
refuses a table with a gap, and `repair` closes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from paimon_core.errors import CorruptTable, NotFound, StalePlan
from paimon_core.snapshot.snapshot import NO_SNAPSHOT, CommitKind, Identity, Snapshot
from paimon_core.snapshot.store import SnapshotStore

_WAITS_MILLIS: Final = (20, 100, 300)
"""A listing is not atomic: a gap caused by another job's deletions disappears soon."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The ids right before and right after missing ids."""

    before: int
    after: int


def gaps_in(ids: Sequence[int]) -> list[Gap]:
    """Return the gaps in these sorted ids."""
    return [Gap(a, b) for a, b in pairwise(ids) if b != a + 1]


def newest_first(
    snapshots: SnapshotStore, latest: Snapshot, *, down_to: int
) -> Iterator[tuple[int, Snapshot | None]]:
    """Yield the ids from that of `latest` to `down_to`, each with its snapshot or None.

    Snapshots are read one at a time, as the caller asks for them.
    """
    for number in range(latest.id, down_to - 1, -1):
        yield number, latest if number == latest.id else snapshots.get_or_none(number)


def committed_since(
    snapshots: SnapshotStore, seen: Identity, latest: Snapshot | None
) -> Iterator[Snapshot | None]:
    """Yield the snapshots that follow the snapshot `seen`, newest first.

    None is the last one if `seen`, or one after it, is no longer there: it expired, or a rollback
    removed it and gave its number to another commit.
    """
    known = seen[0]
    later = () if latest is None else newest_first(snapshots, latest, down_to=max(1, known))
    for number, snapshot in later:
        if snapshot is None or (number == known and snapshot.identity != seen):
            yield None
            return
        if number == known:
            return
        yield snapshot
    if seen != NO_SNAPSHOT:
        yield None


def wrote_since(
    snapshots: SnapshotStore, seen: Identity, latest: Snapshot, user: str | None
) -> bool:
    """Return whether rows of others than `user` may have been committed after the snapshot `seen`.

    A rollback counts, as it gives the numbers of removed snapshots to new ones.
    """
    return any(
        snapshot is None
        or (snapshot.commit_user != user and snapshot.commit_kind is not CommitKind.COMPACT)
        for snapshot in committed_since(snapshots, seen, latest)
    )


def unbroken_ids(snapshots: SnapshotStore) -> list[int]:
    """Return all snapshot ids, sorted; CorruptTable if there is a gap.

    A gap must persist over several listings, because a listing concurrent with deletions may show a
    gap that never existed.
    """
    ids = snapshots.ids()
    for wait in _WAITS_MILLIS:
        if not gaps_in(ids):
            return ids
        time.sleep(wait / 1000)
        ids = snapshots.ids()
    gaps = gaps_in(ids)
    if not gaps:
        return ids
    gap = gaps[0]
    raise CorruptTable(
        f"table {snapshots.table} has snapshot {gap.after} but not {gap.after - 1}: there is a gap "
        f"after {gap.before}; the next commit may take {gap.before + 1} and then run into "
        f"{gap.after}",
        table=snapshots.table,
        snapshot=gap.after,
        file=snapshots.paths.snapshot(gap.after),
        next_step="stop the writers, then run `caretaker run repair --repair close_gap` on the table",
    )


@dataclass(slots=True)
class NewestWatch:
    """Detects whether another job removed the newest snapshots since the last check.

    `newest` is the newest snapshot seen so far.
    """

    snapshots: SnapshotStore
    newest: Snapshot

    def check(self) -> None:
        """Raise StalePlan if the newest snapshots were removed since the last check."""
        problem = self.shortened()
        if problem is not None:
            raise StalePlan(
                f"table {self.snapshots.table} was shortened by another job: {problem}",
                table=self.snapshots.table,
                snapshot=self.newest.id,
            )

    def shortened(self) -> str | None:
        """Return what happened to the newest snapshot seen so far; None if it was not removed.

        Newer snapshots may follow it, and it may have expired because of them.
        """
        seen = self.newest
        try:
            now = self.snapshots.latest()
        except NotFound as e:
            return e.message
        if now is None:
            return f"table {self.snapshots.table} no longer has a snapshot"
        if now.id < seen.id:
            return f"snapshot {seen.id} was removed: the newest is {now.id}"
        there = now if now.id == seen.id else self.snapshots.get_or_none(seen.id)
        if there is None:
            earliest = self.snapshots.earliest_id()
            if earliest is None or earliest <= seen.id:
                return f"snapshot {seen.id} was removed, though {earliest} and {now.id} are there"
        elif there.identity != seen.identity:
            return f"snapshot {seen.id} was replaced by another commit"
        self.newest = now
        return None
