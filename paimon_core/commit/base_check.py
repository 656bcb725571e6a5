"""Checks after a commit that the snapshot it builds on still exists.

A commit of N + 1 carries over the manifests of N. If a rollback removes N while the commit is in
flight, N + 1 remains: the history has a gap, and the commits that were rolled back are live again.
So every commit checks its base once its snapshot exists, and reverts itself if the base is gone
(docs/decisions/0022-shortening-history.md).
"""

from __future__ import annotations

import logging

from paimon_core.commit.overtaken import is_overtaken, removed
from paimon_core.commit.same_table import created_again, has_schema
from paimon_core.errors import CommitStateUnknown, NotFound, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.snapshot.removal import Removal, Side, remove_newest
from paimon_core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)


def is_final(table: FileStoreTable, base: Snapshot | None, made: Snapshot) -> bool:
    """Return whether the commit is final; False if it was reverted and may be tried again.

    Raises CommitStateUnknown if another commit already builds on it, or if its table or branch was
    dropped or renamed with it, CommitRemoved if another job removed it meanwhile, NotFound if its
    branch was deleted before.
    """
    if base is None:
        _check_branch(table, made)
        return not _taken_back_if_passed(table, made)
    there = table.snapshots.get_or_none(base.id)
    if there is not None and there.identity == base.identity:
        return True
    still = table.snapshots.get_or_none(made.id)
    if still is None or still.identity != made.identity:
        # The job that removed it deletes its files too, so they must not be committed again.  They
        # must not be deleted here either: a safety tag may keep them.  A removal starts at the
        # newest snapshot, so one that removed the base and left this snapshot did not see it.
        _check_branch(table, made)
        raise removed(table, made)
    if not is_replaced(table, base):
        _check_branch(table, made)
        return not _taken_back_if_passed(table, made)
    log.warning(
        "table=%s snapshot=%d reverted: snapshot %d, which it builds on, was removed",
        table.name,
        made.id,
        base.id,
    )
    revert_commit(table, made, f"snapshot {base.id}, on which it builds, was removed meanwhile")
    return False


def _taken_back_if_passed(table: FileStoreTable, made: Snapshot) -> bool:
    """Whether other commits had passed this one, which is then taken back.

    The base may have expired because this snapshot followed, or those of others did.
    """
    if table.snapshots.owner is not None or not is_overtaken(table, made):
        return False
    log.warning(
        "table=%s snapshot=%d reverted: others had its number, and expired, before it was made",
        table.name,
        made.id,
    )
    _withdraw(table, made)
    table.snapshots.write_latest_hint(max(table.snapshots.ids()))
    return True


def is_replaced(table: FileStoreTable, base: Snapshot) -> bool:
    """Whether a rollback, not an expiry, removed the snapshot."""
    there = table.snapshots.get_or_none(base.id)
    if there is not None:
        return there.identity != base.identity
    return any(i < base.id for i in table.snapshots.ids())


def revert_commit(table: FileStoreTable, made: Snapshot, reason: str) -> None:
    """Remove a snapshot that was just committed.

    Raises CommitStateUnknown if another snapshot builds on it, or if it is the only one left.
    """

    def unknown(why: str) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"snapshot {made.id} of table {table.name} was committed, but {reason}; it cannot be "
            f"reverted: {why}",
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
    """Raise an error if the branch or its table was deleted or renamed, or is a new one.

    A lone snapshot would look like a broken branch, and in a new table it would be the newest one,
    with the files of the old table.  Java cannot read a new table with the hint of the old one.
    A snapshot that is no longer here went with the old table: to its new name if it has one.
    """
    gone = not table.schemas.ids()
    if not gone and (table.snapshots.owner is not None or has_schema(table)):
        return
    table.snapshots.delete_latest_hint()
    if not _withdraw(table, made):
        of = "" if table.branch == MAIN_BRANCH else f"branch {table.branch} of "
        raise CommitStateUnknown(
            f"snapshot {made.id} was committed to {of}table {table.name}, which was dropped or renamed "
            "right then; if it was renamed, the commit is there under the new name",
            table=table.name,
            snapshot=made.id,
            next_step=f"look for a snapshot of user {made.commit_user} under the new name; run again "
            "if there is none",
        )
    if gone:
        raise NotFound(
            f"branch {table.branch} of table {table.name} was deleted during a commit to it",
            table=table.name,
            snapshot=made.id,
        )
    raise created_again(table.name)


def _withdraw(table: FileStoreTable, made: Snapshot) -> bool:
    """Delete the snapshot that was just committed, unless a new table has another with its id.

    Return whether it was there.
    """
    now = table.snapshots.get_or_none(made.id)
    if now is None or now.identity != made.identity:
        return False
    table.snapshots.delete(made.id)
    return True
