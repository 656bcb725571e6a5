"""Whether a commit still stands on the snapshot that it was made from.

A commit of N + 1 carries over the manifests of N.  A rollback that removes N while the commit is in
flight leaves N + 1 behind it: a gap in the line, and the commits that were rolled back are live
again.  So every commit looks back once its snapshot is there, and takes itself back if its base is
gone (docs/decisions/0022-shortening-history.md).
"""

from __future__ import annotations

import logging

from paimon_core.errors import CommitRemoved, CommitStateUnknown, NotFound, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.removal import Removal, Side, remove_newest
from paimon_core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)


def stands(table: FileStoreTable, base: Snapshot | None, made: Snapshot) -> bool:
    """Whether the commit is there for good; False if it was taken back and may be tried again.

    CommitStateUnknown if another commit builds on it already, CommitRemoved if another job removed
    it meanwhile, NotFound if its branch was deleted.
    """
    if base is None:
        _check_branch(table, made)
        return True
    there = table.snapshots.get_or_none(base.id)
    if there is not None and there.identity == base.identity:
        return True
    still = table.snapshots.get_or_none(made.id)
    if still is None or still.identity != made.identity:
        # Whoever removed it deletes its files, too, so they must not be committed again.  They
        # must not be deleted here either: a safety tag may keep them.  A removal goes from the
        # newest down, so one that took the base and left this snapshot does not know of it.
        _check_branch(table, made)
        raise CommitRemoved(
            f"snapshot {made.id} of table {table.name} was committed, but another job "
            f"removed it afterwards",
            table=table.name,
            snapshot=made.id,
        )
    if there is None and not any(i < base.id for i in table.snapshots.ids()):
        _check_branch(table, made)
        return True  # the base has expired, as it may once another follows
    log.warning(
        "table=%s snapshot=%d taken back: snapshot %d, which it builds on, was removed",
        table.name,
        made.id,
        base.id,
    )
    take_back(table, made, f"snapshot {base.id}, on which it builds, was removed meanwhile")
    return False


def take_back(table: FileStoreTable, made: Snapshot, reason: str) -> None:
    """Remove a snapshot that was just committed.

    CommitStateUnknown if another builds on it, or if nothing would be left without it.
    """

    def unknown(why: str) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"snapshot {made.id} of table {table.name} was committed, but {reason}; it cannot be "
            f"taken back: {why}",
            table=table.name,
            snapshot=made.id,
            next_step="stop the writers, then run `caretaker verify` on the table",
        )

    if table.snapshots.owner is not None:
        raise unknown(f"{table.snapshots.owner} makes the commits of this table")
    if not any(i < made.id for i in table.snapshots.ids()):
        raise unknown("it is the only snapshot that is left")
    removal = Removal(table.snapshots, Side.END)
    try:
        remove_newest(removal, [made], back_to=made.id - 1)
    except StalePlan as e:
        raise unknown(e.message) from e
    left = table.snapshots.ids()
    if left:
        table.snapshots.write_latest_hint(left[-1])


def _check_branch(table: FileStoreTable, made: Snapshot) -> None:
    """NotFound if the branch was deleted: a snapshot alone would look like a broken branch."""
    if table.schemas.ids():
        return
    table.snapshots.delete(made.id)
    raise NotFound(
        f"branch {table.branch} of table {table.name} was deleted during a commit to it",
        table=table.name,
        snapshot=made.id,
    )
