"""The line of snapshots of one branch: consecutive ids, from the earliest to the newest.

Commits add at its end, expiry removes at its beginning, rollback removes at its end.  A *gap*
(4, 5, 6, 11) appears when a commit that was based on snapshot 10 lands after a rollback removed 7
to 10.  Java then takes 6 for the newest snapshot, because the LATEST hint says so, commits 7 to 10
again, and jumps to 11 when it meets that number: the commits in between are lost.  So a job that
removes history refuses a table with a gap, and `repair` closes it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from paimon_core.errors import CorruptTable, NotFound, StalePlan
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.store import SnapshotStore

_WAITS_MILLIS: Final = (20, 100, 300)
"""A listing is no atomic view: a gap that another job's deletions cause is soon over."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The ids right before and right after a hole in the line."""

    before: int
    after: int


def gaps_in(ids: Sequence[int]) -> list[Gap]:
    """The holes in these sorted ids."""
    return [Gap(a, b) for a, b in pairwise(ids) if b != a + 1]


def unbroken_ids(snapshots: SnapshotStore) -> list[int]:
    """All snapshot ids, sorted; CorruptTable if the line has a gap.

    A gap must persist over several listings, because a listing that runs beside deletions may
    show one that never was.
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
    """Tells whether the line was shortened at its end since the last look.

    `newest` is the newest snapshot seen so far.
    """

    snapshots: SnapshotStore
    newest: Snapshot

    def check(self) -> None:
        """StalePlan if the line was shortened at its end since the last look."""
        problem = self.shortened()
        if problem is not None:
            raise StalePlan(
                f"table {self.snapshots.table} was shortened by another job: {problem}",
                table=self.snapshots.table,
                snapshot=self.newest.id,
            )

    def shortened(self) -> str | None:
        """What happened to the newest snapshot seen so far; None if nothing removed it.

        That newer ones follow it is fine, and so is that it expired because of them.
        """
        seen = self.newest
        try:
            now = self.snapshots.latest()
        except NotFound as e:
            return e.message
        if now is None:
            return f"table {self.snapshots.table} has no snapshot any more"
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
