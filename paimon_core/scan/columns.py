"""The entries of manifests and the live files of a snapshot as columns, for tables of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO, read_parallel
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.data_file import ManifestEntry, ManifestFileMeta
from paimon_core.manifest.entries.columns import (
    Column,
    ColumnsBuilder,
    EntryColumns,
    Partitions,
    columns_of,
)
from paimon_core.manifest.entries.columns_codec import Decoded, RawManifest, decode_columns
from paimon_core.manifest.manifest_file import read_manifest
from paimon_core.manifest.merge_columns import live_columns
from paimon_core.manifest.merge_entries import live_entries
from paimon_core.scan.manifests import (
    check_complete,
    check_exact,
    check_partition,
    check_size,
    data_manifests,
    entries_by_manifest,
    merging,
    missing_metadata,
    read_together,
)
from paimon_core.snapshot.snapshot import Snapshot

MOST_OBJECTS: Final = 5_000
"""Up to this many entries, manifests are decoded into objects, which other readers share."""
_MOST_EXPECTED: Final = 10_000_000
"""Room for more entries is made only as they come."""


def scan_columns(
    table: FileStoreTable,
    snapshot: Snapshot,
    numbers: Iterable[str] = (),
    partitions: Partitions | None = None,
) -> EntryColumns:
    """Return the live files of a snapshot; `numbers` are the wanted columns of `NUMBERS`.

    `partitions` numbers the partitions as in columns that were read before.  Raises CorruptTable if
    a manifest is missing, unreadable, or contradicts another.
    """
    partitions = Partitions() if partitions is None else partitions
    manifests = data_manifests(table, snapshot)
    expected = max(0, min(_entries(manifests), _MOST_EXPECTED))
    parts = entry_columns(table, manifests, partitions, numbers)
    with merging(table, snapshot):
        return live_columns(parts, partitions, expected=expected)


def entry_columns(
    table: FileStoreTable,
    manifests: Iterable[ManifestFileMeta],
    partitions: Partitions,
    numbers: Iterable[str],
    *,
    exact: bool = False,
) -> Iterator[EntryColumns]:
    """Yield the entries of the manifests in order, ADD and DELETE, some ten thousand together.

    The first part has no rows, so that the columns are known where there are no entries.  With
    `exact`, for jobs that delete, each manifest must be the one that its list describes.

    Manifests of a remote store are read side by side.  Errors as in `scan_columns`.
    """
    wanted, metas = tuple(numbers), list(manifests)
    yield columns_of((), partitions, wanted)
    if _entries(metas) > MOST_OBJECTS:
        for decoded in _decoded(table, metas, partitions, wanted, exact=exact):
            yield decoded.columns
        return
    for number, read in enumerate(entries_by_manifest(table, metas, exact=exact)):
        yield columns_of(read.entries, partitions, wanted, number)


def chosen_files(
    table: FileStoreTable,
    snapshot: Snapshot,
    partitions: Partitions,
    choose: Callable[[EntryColumns], Column],
) -> list[ManifestEntry]:
    """Return the ADD entries of chosen live files of a snapshot as objects.

    Errors as `scan_columns`.  `choose` returns whether each entry is wanted.  It may only look at
    partition, bucket and level, so that it treats an ADD and its DELETE alike.
    """
    manifests = data_manifests(table, snapshot)
    if _entries(manifests) > MOST_OBJECTS:
        decoded = _decoded(table, manifests, partitions, ())
        chosen = (e for d in decoded for e in d.entries(np.flatnonzero(choose(d.columns))))
        with merging(table, snapshot):
            return live_entries(chosen)
    found: list[ManifestEntry] = []
    for read in entries_by_manifest(table, manifests):
        wanted = choose(columns_of(read.entries, partitions, ()))
        found += (e for e, is_wanted in zip(read.entries, wanted, strict=True) if is_wanted)
    with merging(table, snapshot):
        return live_entries(found)


def read_chosen(
    io: FileIO, path: str, partitions: Partitions, choose: Callable[[EntryColumns], Column]
) -> list[ManifestEntry]:
    """Return the chosen entries of one manifest as objects; errors as `read_manifest`."""
    raw = RawManifest(read_whole(io, path), lambda: read_manifest(io, path))
    decoded = decode_columns([raw], partitions, ())
    return [e for d in decoded for e in d.entries(np.flatnonzero(choose(d.columns)))]


def read_columns(
    io: FileIO, paths: Sequence[str], partitions: Partitions, numbers: Iterable[str]
) -> list[EntryColumns | CorruptTable | FileNotFoundError]:
    """Return the entries of each manifest, or the error of one that is missing or unreadable.

    The manifests are decoded together, so a call for many small ones is faster than many calls.
    """
    wanted = tuple(numbers)

    def read(path: str) -> RawManifest | FileNotFoundError:
        try:
            return RawManifest(read_whole(io, path), lambda: read_manifest(io, path))
        except FileNotFoundError as e:
            return e

    found = read_parallel(io, read, paths)
    raw = [r for r in found if isinstance(r, RawManifest)]
    try:
        decoded: Iterator[EntryColumns | CorruptTable | FileNotFoundError] = iter(
            _by_manifest(raw, partitions, wanted)
        )
    except (CorruptTable, FileNotFoundError):
        decoded = (_columns_or_error(r, partitions, wanted) for r in raw)
    return [next(decoded) if isinstance(r, RawManifest) else r for r in found]


def _columns_or_error(
    raw: RawManifest, partitions: Partitions, wanted: Sequence[str]
) -> EntryColumns | CorruptTable | FileNotFoundError:
    try:
        return _by_manifest([raw], partitions, wanted)[0]
    except (CorruptTable, FileNotFoundError) as e:
        return e


def _by_manifest(
    raw: Sequence[RawManifest], partitions: Partitions, wanted: Sequence[str]
) -> list[EntryColumns]:
    builders = [ColumnsBuilder(partitions) for _ in raw]
    for builder in builders:
        builder.add(columns_of((), partitions, wanted))
    for decoded in decode_columns(raw, partitions, wanted):
        columns = decoded.columns
        numbers, starts = np.unique(columns.manifest, return_index=True)
        ends = [*starts[1:].tolist(), len(columns)] if len(columns) else []
        for number, start, end in zip(numbers.tolist(), starts, ends, strict=True):
            builders[number].add(columns.take(np.arange(start, end)))
    return [builder.columns() for builder in builders]


def _entries(manifests: Iterable[ManifestFileMeta]) -> int:
    return sum(m.num_added_files + m.num_deleted_files for m in manifests)


def _decoded(
    table: FileStoreTable,
    metas: Sequence[ManifestFileMeta],
    partitions: Partitions,
    wanted: Sequence[str],
    *,
    exact: bool = False,
) -> Iterator[Decoded]:
    """Decode the manifests; CorruptTable after the last part if one of them is incomplete."""
    counts, added = np.zeros(len(metas), np.int64), np.zeros(len(metas), np.int64)
    known = len(partitions.rows)
    keys = len(table.schema.partition_keys).to_bytes(4, "big")
    raw = _raw_manifests(table, metas, exact=exact)
    for decoded in decode_columns(raw, partitions, wanted):
        columns = decoded.columns
        counts += np.bincount(columns.manifest, minlength=len(metas))
        if exact:
            added += np.bincount(columns.manifest[columns.added], minlength=len(metas))
        for code, row in enumerate(partitions.rows[known:], known):
            if not row.startswith(keys):
                first = int(np.argmax(columns.partition == code))
                check_partition(table, metas[int(columns.manifest[first])], row)
        known = len(partitions.rows)
        yield decoded
    for meta, count, adds in zip(metas, counts.tolist(), added.tolist(), strict=True):
        check_complete(table, meta, count)
        if exact:
            check_exact(table, meta, added=adds, deleted=count - adds)


def _raw_manifests(
    table: FileStoreTable, manifests: Iterable[ManifestFileMeta], *, exact: bool
) -> Iterator[RawManifest]:
    def read(meta: ManifestFileMeta) -> RawManifest:
        path = table.paths.manifest(meta.file_name)
        try:
            # A plan reads manifests twice: a request costs more than memory, a local file does not.
            data = (
                table.manifests.get_bytes(meta.file_name, lambda: read_whole(table.io, path))
                if table.io.parallelism > 1
                else read_whole(table.io, path)
            )
        except FileNotFoundError as e:
            raise missing_metadata(table, path, None) from e
        if exact:
            check_size(table, meta, len(data))
        return RawManifest(data, _objects(table, path))

    for group in read_together(manifests):
        yield from read_parallel(table.io, read, group)


def _objects(table: FileStoreTable, path: str) -> Callable[[], list[ManifestEntry]]:
    def decode() -> list[ManifestEntry]:
        try:
            return read_manifest(table.io, path)
        except FileNotFoundError as e:
            raise missing_metadata(table, path, None) from e

    return decode
