"""Finds commits that came too late: others took their number and expired before them.

A commit of N + 1 may stop for long before it creates the snapshot.  Others then commit N + 1 and
more, and let them expire, so that the number is free again.  The snapshot takes it, but nothing
builds on it: its rows would be lost, although the commit looks like a success (Java has this race,
too).
"""

from __future__ import annotations

from paimon_core.errors import CommitRemoved, CommitStateUnknown, CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.merge_entries import live_entries
from paimon_core.scan.manifests import data_manifests, manifest_list, selected_entries
from paimon_core.snapshot.snapshot import Snapshot

_LOOKS = 3
"""How often to look again for a next snapshot that vanishes."""


def is_overtaken(table: FileStoreTable, made: Snapshot) -> bool:
    """Return whether later snapshots were there before this one, whose base is no longer there.

    Raises CommitRemoved if it is gone itself, CommitStateUnknown if that cannot be told.
    """
    snapshots = table.snapshots
    for _ in range(_LOOKS):
        later = [i for i in snapshots.ids() if i > made.id]
        if not later:
            return False  # the newest one never expires
        if later[0] > made.id + 1 and not snapshots.exists(made.id + 1):
            return True  # expiry begins with the oldest one
        following = snapshots.get_or_none(made.id + 1)
        if following is not None:
            return not _builds_on(table, following, made)
    raise CommitStateUnknown(
        f"snapshots after {made.id} of table {table.name} disappear while they are read, so it is "
        "unknown whether they build on it",
        table=table.name,
        snapshot=made.id,
    )


def _builds_on(table: FileStoreTable, following: Snapshot, made: Snapshot) -> bool:
    """Return whether the base of the next snapshot is what this one left."""
    base = manifest_list(table, following, following.base_manifest_list)
    try:
        left = data_manifests(table, made)
        if {m.file_name for m in base} == {m.file_name for m in left}:
            return True
        # That commit may have merged manifests: then its base has the same files.
        wanted = {e.identity for e in live_entries(selected_entries(table, left))}
    except CorruptTable:
        there = table.snapshots.get_or_none(made.id)
        if there is not None and there.identity == made.identity:
            return False  # what it builds on expired, with its files
        raise removed(table, made) from None
    return {e.identity for e in live_entries(selected_entries(table, base))} == wanted


def removed(table: FileStoreTable, made: Snapshot) -> CommitRemoved:
    """The error for a commit that is gone."""
    return CommitRemoved(
        f"snapshot {made.id} of table {table.name} was committed, but another job "
        f"removed it afterwards",
        table=table.name,
        snapshot=made.id,
    )
