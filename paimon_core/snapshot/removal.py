"""Removes snapshot files so that a race with another job leaves a readable table.

Nothing locks a table against Java, so every removal is checked afterwards:

- *at the end* (rollback, fast-forward; newest first): the target of the caller is checked before
  the first removal and after each one; after each removal, no commit may have followed the removed
  snapshot;
- *at the beginning* (expiry; oldest first): the newest snapshot seen so far is checked before and
  after.

When a check fails, the removed files are restored with the bytes that were read right before their
removal, as far as their ids are free.  Two jobs that remove each other's base both notice it,
because each removes first and checks afterwards.  Data files and manifests must be deleted later,
when all removals are final.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from paimon_core.errors import CorruptTable, LeaseLost, StalePlan
from paimon_core.io.file_io import map_parallel
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.snapshot.line import NewestWatch, gaps_in
from paimon_core.snapshot.metadata_files import first_missing_metadata
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_from_json, snapshot_to_json
from paimon_core.snapshot.store import SnapshotStore

log = logging.getLogger(__name__)

Prove = Callable[[], None]
"""Raises StalePlan if a reference that the removal relies on is gone."""


def always() -> None:
    """Check nothing and wait for nothing."""


class Side(StrEnum):
    """The end of the snapshot line that is removed, and where a restore starts."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(slots=True)
class Removal:
    """The snapshots of one branch that a job has removed so far, with the means to restore them.

    `fence` is called before each change of the table; it raises if the job must stop.
    """

    snapshots: SnapshotStore
    side: Side
    fence: Prove = always
    _line: dict[int, Snapshot] = field(default_factory=dict)
    """The line before the removal: a snapshot is restored only next to the same neighbour."""
    _removed: dict[int, bytes] = field(default_factory=dict)
    _added: list[tuple[Snapshot, bool]] = field(default_factory=list)
    """The snapshots that were added, and whether another snapshot already followed them."""
    _replaced: set[int] = field(default_factory=set)
    """The ids of the added snapshots that replaced another one."""

    def add(self, snapshot: Snapshot) -> None:
        """Create the snapshot's file if it is missing; StalePlan if another snapshot has its id.

        `put_back` deletes the file again if this call created it.
        """
        self.fence()
        followed = self.snapshots.exists(snapshot.id + 1)
        if self.snapshots.create(snapshot):
            self._added.append((snapshot, followed))
            return
        now = self.snapshots.get_or_none(snapshot.id)
        if now is None or now.identity != snapshot.identity:
            raise StalePlan(
                f"snapshot {snapshot.id} of table {self.snapshots.table} was committed meanwhile",
                table=self.snapshots.table,
                snapshot=snapshot.id,
            )

    def replace(self, old: Snapshot, new: Snapshot) -> None:
        """Overwrite the newest snapshot `old` with `new`, which has the same id.

        Raises StalePlan, with `old` in its place, if `old` is gone or another commit follows it.
        """
        self.remember([old])
        _check_not_followed(self.snapshots, old)
        content = self._content(old)
        if content is None:
            raise StalePlan(
                f"snapshot {old.id} of table {self.snapshots.table} was removed meanwhile",
                table=self.snapshots.table,
                snapshot=old.id,
            )
        self.fence()
        self.snapshots.replace(new)
        newer = [i for i in self.snapshots.ids() if i > old.id]
        if newer:
            self._take_replacement_back(old, content, new, followed=newer[0] == old.id + 1)
            raise _followed(self.snapshots.table, old.id, newer[0])
        self._removed[old.id] = content
        self._added.append((new, False))
        self._replaced.add(new.id)

    def _take_replacement_back(
        self, old: Snapshot, content: bytes, new: Snapshot, *, followed: bool
    ) -> None:
        if not followed:
            # `old` had expired already, after commits on top of it.
            self.snapshots.delete_unchanged(new.id, snapshot_to_json(new).encode())
        elif self._is_whole(old) or not self._is_whole(new):
            # The commit began before the replacement, so it builds on `old`.
            self._restore(old.id, content)

    def _restore(self, number: int, content: bytes) -> None:
        self.snapshots.io.overwrite(self.snapshots.paths.snapshot(number), content)

    def remember(self, snapshots: Iterable[Snapshot]) -> None:
        """Record snapshots of the line before the removal."""
        self._line.update((s.id, s) for s in snapshots)

    def remove(self, going: Sequence[Snapshot]) -> None:
        """Delete the files of these snapshots in order; missing ones are skipped.

        Raises StalePlan at the first id that another snapshot has.
        """
        self.remember(going)
        read = map_parallel(self.snapshots.io, self._content, going)
        self.fence()
        for snapshot, content in zip(going, read, strict=True):
            if content is None:
                continue
            self._removed[snapshot.id] = content
            if not self.snapshots.delete_unchanged(snapshot.id, content):
                del self._removed[snapshot.id]
                raise self._changed(snapshot.id)

    def _content(self, snapshot: Snapshot) -> bytes | None:
        found = self.snapshots.read(snapshot.id)
        if found is None:
            return None
        content, now = found
        if now.identity != snapshot.identity:
            raise self._changed(snapshot.id)
        return content

    def _changed(self, snapshot_id: int) -> StalePlan:
        return StalePlan(
            f"snapshot {snapshot_id} of table {self.snapshots.table} has changed "
            "since the plan was made",
            table=self.snapshots.table,
            snapshot=snapshot_id,
        )

    def put_back(self) -> tuple[list[int], list[int]]:
        """Restore the removed snapshots.

        Return the restored ids and those that could not be restored.

        A snapshot is restored only next to its former neighbour, or into an empty folder.  The line
        of snapshots must not get a gap, a snapshot that does not build on the one before, or one
        that expired because others follow it.

        A job that has lost its lease also restores, because the table might have no snapshot left
        otherwise.  But it restores only complete snapshots: the new owner of the lease may have
        deleted files.  The same applies to the oldest snapshots, which writers expire without a
        lease, and to the first one in an empty folder, whose table may have been dropped, and
        created again.
        """
        leased = self._is_leased()
        back = self._take_added_away(only_broken=not leased)
        at_end = self.side is Side.END
        for number in sorted(self._removed, reverse=not at_end):
            ids = self.snapshots.ids()
            neighbour = number - 1 if at_end else number + 1
            if ids and (neighbour not in ids or not self._is_as_it_was(neighbour)):
                continue
            leased = leased and self._is_leased()
            sure = leased and at_end and bool(ids)
            if not sure and not self._is_whole(self._removed_snapshot(number)):
                continue
            content = self._removed[number]
            path = self.snapshots.paths.snapshot(number)
            if self.snapshots.io.create_if_absent(path, content) or self._is_same(number, content):
                back.append(number)
                del self._removed[number]
        self._write_hints()
        if back:
            log.warning("table=%s snapshots put back: %s", self.snapshots.table, sorted(back))
        return sorted(back), sorted(self._removed)

    def rescue(self) -> None:
        """Make the table readable after the lease was lost during the removal."""
        snapshots = self.snapshots
        newest = snapshots.get_or_none(max(snapshots.ids(), default=0))
        if newest is None or not self._is_whole(newest):
            # The new owner of the lease has expired or deleted snapshots that this job relied on.
            self.put_back()
        hint = snapshots.hints()[1]
        if hint is not None and not snapshots.exists(hint):
            snapshots.delete_latest_hint()  # Java cannot read a table with a wrong hint

    def _is_leased(self) -> bool:
        try:
            self.fence()
        except LeaseLost:
            return False
        return True

    def _removed_snapshot(self, number: int) -> Snapshot:
        return snapshot_from_json(self._removed[number])

    def _is_whole(self, snapshot: Snapshot) -> bool:
        """Return whether every metadata file that a reader of the snapshot needs exists."""
        io, paths = self.snapshots.io, self.snapshots.paths
        try:
            missing = first_missing_metadata(
                io, paths, snapshot, lambda name: read_manifest_list(io, paths.manifest(name))
            )
        except CorruptTable:
            return False
        return missing is None

    def took(self, snapshot_id: int) -> bool:
        """Return whether this removal has deleted the snapshot, and not put it back."""
        return snapshot_id in self._removed

    def _is_as_it_was(self, number: int) -> bool:
        if number in self._removed:
            return False  # another snapshot took its id
        then = self._line.get(number)
        if then is None:
            # At the end the whole line is known, so this snapshot came later.
            return self.side is Side.BEGINNING
        now = self.snapshots.get_or_none(number)
        return now is not None and now.identity == then.identity

    def _take_added_away(self, *, only_broken: bool) -> list[int]:
        """Delete the added snapshots, newest first.  Return the ids of restored snapshots.

        `only_broken`: delete only those whose metadata is incomplete, which no other job can use.
        """
        back: list[int] = []
        for snapshot, followed in sorted(self._added, key=lambda added: -added[0].id):
            now = self.snapshots.get_or_none(snapshot.id)
            if now is None or now.identity != snapshot.identity:
                continue
            if not followed and self.snapshots.exists(snapshot.id + 1):
                break  # a commit builds on it
            if only_broken and self._is_whole(snapshot):
                continue
            if not only_broken:
                self.fence()
            if snapshot.id in self._replaced:
                if only_broken and not self._is_whole(self._removed_snapshot(snapshot.id)):
                    continue
                self._restore(snapshot.id, self._removed.pop(snapshot.id))
                back.append(snapshot.id)
            else:
                self.snapshots.delete(snapshot.id)
        self._added.clear()
        return back

    def _is_same(self, number: int, content: bytes) -> bool:
        found = self.snapshots.read(number)
        return found is not None and found[0] == content

    def _write_hints(self) -> None:
        ids = self.snapshots.ids()
        if ids:
            self.snapshots.write_latest_hint(ids[-1])
            self.snapshots.write_earliest_hint(ids[0])


def remove_newest(
    removal: Removal,
    going: Iterable[Snapshot],
    *,
    back_to: int,
    prove: Prove = always,
    settle: Prove = always,
) -> None:
    """Remove these snapshots, newest first; if a check fails, restore all and raise StalePlan.

    `back_to` is the id of the newest snapshot afterwards.  `prove` checks that the target still
    exists.  `settle` waits until commits that began before the first removal have ended: a listing
    finds one that lands afterwards.
    """
    snapshots = removal.snapshots
    ordered = sorted(going, key=lambda s: -s.id)
    base = snapshots.get_or_none(back_to)
    removal.remember([*ordered, *([] if base is None else [base])])
    try:
        prove()
        for snapshot in ordered:
            _check_not_followed(snapshots, snapshot)
            removal.remove([snapshot])
            _check_not_followed(snapshots, snapshot)
            prove()
        settle()
        check_no_straggler(snapshots, back_to, gone=ordered)
        prove()
    except StalePlan as e:
        raise undone(removal, e) from e
    except LeaseLost:
        removal.rescue()
        raise


def remove_oldest(
    removal: Removal,
    going: Sequence[Snapshot],
    watch: NewestWatch,
    *,
    before: Callable[[Sequence[Snapshot]], None] = lambda _: None,
) -> None:
    """Remove these snapshots, oldest first; `before` gets each few of them right before they go.

    If the end was shortened, restore all and raise StalePlan.
    """
    at_once = removal.snapshots.io.parallelism
    ordered = sorted(going, key=lambda s: s.id)
    removal.remember(ordered)  # so that none is put back next to a snapshot of another line
    watch.check()
    try:
        for start in range(0, len(ordered), at_once):
            some = ordered[start : start + at_once]
            before(some)
            removal.remove(some)
            watch.check()
    except StalePlan as e:
        raise undone(removal, e) from e


def _check_not_followed(snapshots: SnapshotStore, snapshot: Snapshot) -> None:
    if snapshots.exists(snapshot.id + 1):
        raise _followed(snapshots.table, snapshot.id, snapshot.id + 1)


def _followed(table: str, removed: int, newer: int) -> StalePlan:
    return StalePlan(
        f"snapshot {newer} of table {table} was committed on top of {removed}, which was to be removed",
        table=table,
        snapshot=newer,
    )


def check_no_straggler(
    snapshots: SnapshotStore, newest: int, *, gone: Sequence[Snapshot] = ()
) -> None:
    """Raise StalePlan if a commit landed that is based on a removed snapshot after `newest`.

    Commits that follow `newest` without a gap are new and allowed.  Also raises it if one of `gone`
    is there: a store that said for a moment that it was missing would leave it as the newest.
    """
    after = [i for i in snapshots.ids() if i >= newest]
    gaps = gaps_in(after)
    if gaps:
        raise StalePlan(
            f"snapshot {gaps[0].after} of table {snapshots.table} was committed on top of a "
            f"snapshot that was just removed",
            table=snapshots.table,
            snapshot=gaps[0].after,
        )
    for snapshot in gone:
        if snapshot.id not in after:
            continue
        now = snapshots.get_or_none(snapshot.id)
        if now is not None and now.identity == snapshot.identity:
            raise StalePlan(
                f"snapshot {snapshot.id} of table {snapshots.table} seemed to be missing while it was "
                "removed, but is there",
                table=snapshots.table,
                snapshot=snapshot.id,
            )


def undone(removal: Removal, reason: StalePlan) -> StalePlan:
    """Restore the removed snapshots and return the error that describes the result."""
    back, lost = removal.put_back()
    state = "nothing was removed"
    if back:
        state = f"{_named(back)} put back"
    if lost:
        state = (
            f"{_named(lost)} not put back, because other commits took their numbers or those next to "
            "them, or other jobs deleted their files"
        ) + (f"; {_named(back)} put back" if back else "")
    gaps = gaps_in(removal.snapshots.ids())
    next_step = "stop the writers, or wait for the other job, then run again"
    if gaps:
        state += f"; there is a gap between {gaps[0].before} and {gaps[0].after}"
        next_step = "stop the writers, then run `caretaker run repair --repair close_gap`"
    return StalePlan(
        f"{reason.message}; {state}",
        table=reason.table,
        snapshot=reason.snapshot,
        next_step=next_step,
    )


def _named(ids: Sequence[int]) -> str:
    """Return "snapshot 6 was", or "snapshots 4 to 6, 9 were"."""
    starts = [ids[0], *(gap.after for gap in gaps_in(ids))]
    ends = [*(gap.before for gap in gaps_in(ids)), ids[-1]]
    spans = [str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True)]
    return f"snapshot {ids[0]} was" if len(ids) == 1 else f"snapshots {', '.join(spans)} were"
