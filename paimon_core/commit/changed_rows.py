"""Checks at the commit that rows are still as a statement read them (docs/decisions/0033).

`UPDATE` and `MERGE` of a primary-key table write whole rows that they computed from those of a
snapshot, `INSERT OVERWRITE` of rows of the same table replaces partitions.  If another commit
changed rows since, its change would be lost; if it removed them, they would be back.  A `MERGE`
into an append table adds the rows that it did not find; two of them could add the same ones.  Java
checks none of this: the last commit wins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from paimon_core.commit.request import CommitRequest, Origin
from paimon_core.errors import CorruptTable, RowsChanged
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.options import UPSERT_KEY
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.data_file import read_table_file
from paimon_core.scan.key_bounds import has_key_bounds
from paimon_core.scan.manifests import delta_manifests, read_entries
from paimon_core.snapshot.line import committed_since
from paimon_core.snapshot.snapshot import CommitKind, Identity, Snapshot
from paimon_core.types.binary_rows import encode_rows

_Change = tuple[Snapshot, ManifestEntry]
"""A file that a snapshot added or removed."""


def check_rows_unchanged(
    table: FileStoreTable,
    latest: Snapshot | None,
    read_at: Identity,
    changes: Sequence[ManifestEntry],
    request: CommitRequest,
) -> None:
    """Raise RowsChanged if others changed rows from which the new ones were computed.

    These are rows of the snapshot `read_at`: those of the same keys, or all of the partitions that
    an overwrite replaces.  In an append table, they are those that others added in the same way.
    """
    others = _changes_since(table, latest, read_at, request.user)
    if request.origin is not Origin.ROWS:
        _check_partitions(table, changes, others)
    elif table.has_primary_key:
        _check_keys(table, changes, others)
    else:
        _check_found(table, others)


def _check_partitions(
    table: FileStoreTable, changes: Iterable[ManifestEntry], others: Iterable[_Change]
) -> None:
    partitions = {entry.partition for entry in changes}
    for snapshot, theirs in others:
        if theirs.partition in partitions:
            raise _changed_by(table, snapshot)


def _check_found(table: FileStoreTable, others: Iterable[_Change]) -> None:
    """Check that nobody else added rows after having looked for them, too.

    Rows that are only appended may as well have come later.
    """
    for snapshot, theirs in others:
        looked = snapshot.operation == "MERGE" or bool(table.options.value(UPSERT_KEY))
        if looked and theirs.kind is FileKind.ADD:
            raise _changed_by(table, snapshot)


def _check_keys(
    table: FileStoreTable, changes: Iterable[ManifestEntry], others: Iterable[_Change]
) -> None:
    """Check the keys of the new files; they are read only if ranges of keys overlap."""
    ours: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in changes:
        if entry.kind is FileKind.ADD and entry.bucket != POSTPONE_BUCKET:
            ours[entry.partition, entry.bucket].append(entry)
    keys = _Keys(table)
    for snapshot, theirs in others:
        near = ours.get((theirs.partition, theirs.bucket), ())
        met = [e for e in near if keys.overlap(e, theirs)]
        if met and (theirs.kind is FileKind.DELETE or keys.are_shared(met, theirs)):
            raise _changed_by(table, snapshot)


def _changes_since(
    table: FileStoreTable, latest: Snapshot | None, read_at: Identity, user: str
) -> Iterator[_Change]:
    """Yield what others changed after `read_at`, apart from compactions."""
    for snapshot in committed_since(table.snapshots, read_at, latest):
        if snapshot is None:
            what = f"snapshot {read_at[0]}, or one after it, expired or was rolled back, with"
            raise _changed(table, what, read_at[0])
        kind = snapshot.commit_kind
        if snapshot.commit_user != user and kind in (CommitKind.APPEND, CommitKind.OVERWRITE):
            for manifest in delta_manifests(table, snapshot):
                for entry in read_entries(table, manifest):
                    yield snapshot, entry


@dataclass(frozen=True, slots=True)
class _Keys:
    """Compares the keys of files of one bucket; `_hashes` are those of files that were read."""

    table: FileStoreTable
    _hashes: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def overlap(self, a: ManifestEntry, b: ManifestEntry) -> bool:
        """Whether the ranges of their keys do; True for files that have other bounds."""
        if not all(has_key_bounds(self.table, e.file) for e in (a, b)):
            return True
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


def _changed_by(table: FileStoreTable, snapshot: Snapshot) -> RowsChanged:
    what = f"snapshot {snapshot.id} by user {snapshot.commit_user} changed"
    return _changed(table, what, snapshot.id)


def _changed(table: FileStoreTable, what: str, number: int) -> RowsChanged:
    return RowsChanged(
        f"cannot commit to table {table.name}: {what} rows that this change was computed from",
        table=table.name,
        snapshot=number,
        next_step="run the statement again",
    )
