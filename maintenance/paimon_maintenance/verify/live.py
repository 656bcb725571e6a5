"""Merges the entries of a snapshot, in columns, into its live files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_core.errors import CorruptTable
from paimon_core.manifest.entries.columns import Column, EntryColumns
from paimon_core.manifest.merge_columns import identity_hashes, merged_positions


@dataclass(frozen=True, slots=True)
class Live:
    """The live files, their positions among the entries, and which of them an entry deletes."""

    files: EntryColumns
    positions: Column
    hidden: list[int]


def live_files(entries: EntryColumns) -> Live:
    """The live files of these entries.

    Raises CorruptTable if a file is added twice, or deleted without having been added.
    """
    hashes = identity_hashes(entries)
    left = merged_positions(entries, hashes)
    deleted = ~entries.added
    alone = left[deleted[left]]
    if len(alone):
        name = entries.name(int(alone[0]))
        raise CorruptTable(f"file {name} is deleted but was never added", file=name)
    suspects = np.flatnonzero(np.isin(hashes[left], hashes[deleted]))
    return Live(entries.take(left), left, _also_in(entries, left, suspects, hashes, deleted))


def added_files(entries: EntryColumns) -> EntryColumns:
    """The files that these entries add and do not delete."""
    deleted = ~entries.added
    added = np.flatnonzero(~deleted)
    if not deleted.any():
        return entries
    hashes = identity_hashes(entries)
    suspects = np.flatnonzero(np.isin(hashes[added], hashes[deleted]))
    gone = _also_in(entries, added, suspects, hashes, deleted)
    return entries.take(np.delete(added, gone))


def _also_in(
    entries: EntryColumns, files: Column, suspects: Column, hashes: Column, deleted: Column
) -> list[int]:
    """Which of the suspects, numbers of `files`, have the identity of a deleted file."""
    if not len(suspects):
        return []
    same = np.flatnonzero(deleted & np.isin(hashes, hashes[files[suspects]]))
    identities = {entries.identity(i) for i in same.tolist()}
    return [i for i in suspects.tolist() if entries.identity(int(files[i])) in identities]
