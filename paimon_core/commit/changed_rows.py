"""Checks at the commit that rows of a primary-key table are still as a statement read them.

`UPDATE` and `MERGE` write whole rows that they computed from those of a snapshot.  If another
commit changed the same keys since, its change would be lost; if it removed them, they would be
back.  Java checks neither: there, the last commit of a key wins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from paimon_core.errors import CorruptTable, RowsChanged
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.data_file import read_table_file
from paimon_core.scan.manifests import delta_manifests, read_entries
from paimon_core.snapshot.line import newest_first
from paimon_core.snapshot.snapshot import CommitKind, Identity, Snapshot
from paimon_core.types.binary_rows import encode_rows

_Bucket = tuple[bytes, int]
"""Partition, as stored, and bucket."""


def check_rows_unchanged(
    table: FileStoreTable,
    latest: Snapshot | None,
    read_at: Identity,
    new: Iterable[ManifestEntry],
    *,
    user: str,
) -> None:
    """Raise RowsChanged if others than `user` may have changed keys of `new` after `read_at`.

    `new` are files with rows that were computed from those of the snapshot `read_at`.  Keys are
    only read if files of other commits overlap with them.
    """
    ours: dict[_Bucket, list[ManifestEntry]] = defaultdict(list)
    for entry in new:
        if entry.kind is FileKind.ADD and entry.bucket != POSTPONE_BUCKET:
            ours[entry.partition, entry.bucket].append(entry)
    if not ours:
        return
    keys = _Keys(table)
    for snapshot in _since(table, latest, read_at):
        if snapshot.commit_user == user or snapshot.commit_kind not in (
            CommitKind.APPEND,
            CommitKind.OVERWRITE,
        ):
            continue
        for theirs in _changes_of(table, snapshot):
            met = [e for e in ours[theirs.partition, theirs.bucket] if keys.overlap(e, theirs)]
            if met and (theirs.kind is FileKind.DELETE or keys.are_shared(met, theirs)):
                raise _changed(
                    table,
                    f"snapshot {snapshot.id} by user {snapshot.commit_user} changed",
                    snapshot.id,
                )


def _since(table: FileStoreTable, latest: Snapshot | None, read_at: Identity) -> Iterator[Snapshot]:
    """Yield the snapshots after `read_at`, newest first; RowsChanged if it is no longer there."""
    number = read_at[0]
    later = () if latest is None else newest_first(table.snapshots, latest, down_to=number)
    for at, snapshot in later:
        if snapshot is None or (at == number and snapshot.identity != read_at):
            raise _changed(table, f"snapshot {at} expired, or was rolled back, with", at)
        if at == number:
            return
        yield snapshot
    raise _changed(table, f"snapshot {number} was rolled back, with", number)


def _changes_of(table: FileStoreTable, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    for manifest in delta_manifests(table, snapshot):
        yield from read_entries(table, manifest)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Compares the keys of files of one bucket; `_hashes` are those of files that were read."""

    table: FileStoreTable
    _hashes: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def overlap(self, a: ManifestEntry, b: ManifestEntry) -> bool:
        """Whether the ranges of their keys do."""
        key = self.table.schema.key_type
        first, last = (stored_key(k, key) for k in (a.file.min_key, a.file.max_key))
        return stored_key(b.file.min_key, key) <= last and first <= stored_key(b.file.max_key, key)

    def are_shared(self, files: Sequence[ManifestEntry], other: ManifestEntry) -> bool:
        """Whether a key of `other` is in one of the files; True if a compaction replaced it."""
        try:
            theirs = self._read(other)
        except CorruptTable:
            return True
        for file in files:
            if file.file.file_name not in self._hashes:
                self._hashes[file.file.file_name] = self._read(file)
            if np.isin(theirs, self._hashes[file.file.file_name]).any():
                return True
        return False

    def _read(self, entry: ManifestEntry) -> npt.NDArray[np.int64]:
        """A hash of each key: eight bytes, as there may be millions of them."""
        schema = self.table.schema
        row_type = schema.row_type.project(schema.trimmed_primary_keys)
        batches = read_table_file(self.table, entry.partition, entry.bucket, entry.file, row_type)
        return np.concatenate(
            [np.empty(0, np.int64)]
            + [
                np.fromiter(map(hash, encode_rows(b.columns, row_type.types)), np.int64, b.num_rows)
                for b in batches
            ]
        )


def _changed(table: FileStoreTable, what: str, number: int) -> RowsChanged:
    return RowsChanged(
        f"cannot commit to table {table.name}: {what} rows that this change was computed from",
        table=table.name,
        snapshot=number,
        next_step="run the statement again",
    )
