"""Reads the manifest entries of a snapshot, skipping irrelevant manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.manifest.data_file import FileKind, ManifestEntry, ManifestFileMeta
from paimon_core.manifest.manifest_file import SizedEntries, read_sized_manifest
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.binary_row import decode_row

if TYPE_CHECKING:
    from paimon_core.predicate import Predicate

LEAST_BLOCK_BYTES: Final = 19
"""A block of an Avro file has two numbers, a byte of content, and a marker of 16 bytes.

So a file that lost one or more blocks at its end is shorter by at least this.
"""
_TOGETHER_BYTES: Final = 8 * 1024**2
"""Bytes of manifests that are read and decoded at the same time, which limits the memory."""


def data_manifests(
    table: FileStoreTable, snapshot: Snapshot, *, exact: bool = False
) -> list[ManifestFileMeta]:
    """Return the base, then the delta manifests: together all live files of the snapshot.

    Errors as in `manifest_list`.
    """
    names = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    base, delta = map_parallel(
        table.io, lambda name: manifest_list(table, snapshot, name, exact=exact), names
    )
    return [*base, *delta]


def delta_manifests(table: FileStoreTable, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """Return the manifests with the changes of the snapshot itself."""
    return manifest_list(table, snapshot, snapshot.delta_manifest_list)


def changelog_manifests(table: FileStoreTable, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """Return the manifests of the snapshot's changelog files; empty without a changelog."""
    if snapshot.changelog_manifest_list is None:
        return []
    return manifest_list(table, snapshot, snapshot.changelog_manifest_list)


def manifest_list(
    table: FileStoreTable, snapshot: Snapshot, name: str, *, exact: bool = False
) -> list[ManifestFileMeta]:
    """Return the manifests in list `name`; CorruptTable if it is missing, unreadable or was cut.

    With `exact`, also if it is longer by a block than its snapshot says, so another one, unless
    another program has added fields.
    """
    cache, path = table.manifests, table.paths.manifest(name)
    try:
        found = cache.get_list(name, lambda: read_manifest_list(table.io, path, cache.seen_lists))
    except FileNotFoundError as e:
        raise missing_metadata(table, path, snapshot.id) from e
    wanted = snapshot.list_size(name)
    lost = 0 if wanted is None else wanted - found.size
    if exact and not any(meta.unknown for meta in found):
        lost = abs(lost)
    if wanted is not None and lost >= LEAST_BLOCK_BYTES:
        raise wrong_list_size(table, path, found.size, wanted)
    check_not_emptied(found, path, snapshot, name, table=table.name)
    return found.copy()


def wrong_list_size(table: FileStoreTable, path: str, size: int, wanted: int) -> CorruptTable:
    """Return the error for a manifest list of another size than its snapshot says.

    A list that was cut between two blocks, or after its header, reads like a whole one.
    """
    return CorruptTable(
        f"manifest list {path} of table {table.name} has {size:,} bytes, but its snapshot says "
        f"{wanted:,}",
        table=table.name,
        file=path,
    )


def check_not_emptied(
    found: Sequence[ManifestFileMeta], path: str, snapshot: Snapshot, name: str, *, table: str
) -> None:
    """Raise CorruptTable if list `name` has no manifest, and its snapshot counts records in it.

    Old versions of Java and other writers note no size, which would tell that the list was cut.
    """
    records = 0 if found else snapshot.list_records(name)
    if records:
        raise CorruptTable(
            f"manifest list {path} of table {table} names no manifest, but its snapshot says that "
            f"its files hold {records:,} records",
            table=table,
            file=path,
            snapshot=snapshot.id,
        )


def read_entries(
    table: FileStoreTable, meta: ManifestFileMeta, *, exact: bool = False
) -> tuple[ManifestEntry, ...]:
    """Return the entries of one manifest in order; CorruptTable if it is missing or unreadable.

    With `exact`, also if its size or its numbers of entries are not those of its manifest list.
    """
    return _read_sized(table, meta, exact=exact).entries


def _read_sized(
    table: FileStoreTable, meta: ManifestFileMeta, *, exact: bool = False
) -> SizedEntries:
    path = table.paths.manifest(meta.file_name)

    def load() -> SizedEntries:
        found = read_sized_manifest(table.io, path)
        for partition in {entry.partition for entry in found.entries}:
            check_partition(table, meta, partition)
        return found

    try:
        entries = table.manifests.get(meta.file_name, load)
    except FileNotFoundError as e:
        raise missing_metadata(table, path, None) from e
    if exact:
        check_as_listed(table, meta, entries)
    else:
        check_complete(table, meta, len(entries))
    return entries


def check_partition(table: FileStoreTable, meta: ManifestFileMeta, partition: bytes) -> None:
    """Raise CorruptTable, naming the manifest, for a partition that the table cannot have."""
    try:
        table.paths.partition_path(partition)
    except CorruptTable as e:
        raise _corrupt(
            table, meta, f"names a partition that the table cannot have: {e.message}"
        ) from e


def check_complete(table: FileStoreTable, meta: ManifestFileMeta, entries: int) -> None:
    """Raise CorruptTable if a manifest holds fewer entries than its manifest list says.

    An Avro file that was cut between two blocks reads like a whole one.  The files that the missing
    entries name would look like garbage.
    """
    wanted = meta.num_added_files + meta.num_deleted_files
    if entries < wanted:
        raise _corrupt(
            table, meta, f"holds {entries:,} entries, but its manifest list says {wanted:,}"
        )


def check_exact(table: FileStoreTable, meta: ManifestFileMeta, *, added: int, deleted: int) -> None:
    """Raise CorruptTable if a manifest adds or deletes another number of files than its list says.

    For jobs that delete: an ADD that became a DELETE makes a live file look like garbage.  And for
    commits, which would make the wrong files those of the table.
    """
    if (added, deleted) != (meta.num_added_files, meta.num_deleted_files):
        raise _corrupt(
            table,
            meta,
            f"adds {added:,} files and deletes {deleted:,}, but its manifest list says "
            f"{meta.num_added_files:,} and {meta.num_deleted_files:,}",
        )


def check_as_listed(table: FileStoreTable, meta: ManifestFileMeta, found: SizedEntries) -> None:
    """Raise CorruptTable as `check_exact` does, and as `check_size` for known fields.

    Another program may have added fields, and left the size in the list as it was.
    """
    if not any(e.unknown or e.file.unknown for e in found.entries):
        check_size(table, meta, found.size)
    added = sum(e.kind is FileKind.ADD for e in found.entries)
    check_exact(table, meta, added=added, deleted=len(found) - added)


def check_size(table: FileStoreTable, meta: ManifestFileMeta, size: int) -> None:
    """Raise CorruptTable if a manifest has another size than its list says: it is another file."""
    if size != meta.file_size:
        raise _corrupt(
            table, meta, f"has {size:,} bytes, but its manifest list says {meta.file_size:,}"
        )


def _corrupt(table: FileStoreTable, meta: ManifestFileMeta, problem: str) -> CorruptTable:
    path = table.paths.manifest(meta.file_name)
    return CorruptTable(
        f"manifest {path} of table {table.name} {problem}", table=table.name, file=path
    )


@contextmanager
def merging(table: FileStoreTable, snapshot: Snapshot) -> Iterator[None]:
    """Add the snapshot and its base manifest list to errors about contradicting entries."""
    try:
        yield
    except CorruptTable as e:
        e.table, e.snapshot = e.table or table.name, e.snapshot or snapshot.id
        if e.file is None or "/" not in e.file:
            e.file = table.paths.manifest(snapshot.base_manifest_list)
        raise


def missing_metadata(table: FileStoreTable, path: str, snapshot_id: int | None) -> CorruptTable:
    """Return the error for a missing manifest or manifest list."""
    return CorruptTable(
        f"metadata file {path} of table {table.name} is missing",
        table=table.name,
        file=path,
        snapshot=snapshot_id,
        next_step="if the snapshot expired meanwhile, run again; "
        "otherwise run `caretaker verify` on the table",
    )


def may_hold(
    table: FileStoreTable, partitions: Iterable[bytes]
) -> Callable[[ManifestFileMeta], bool]:
    """Return whether a manifest's partition range may contain any of these partitions."""
    types = table.schema.partition_type.types
    if not types:
        return lambda _: True
    rows = [decode_row(p, types) for p in partitions]

    def test(meta: ManifestFileMeta) -> bool:
        stats = meta.partition_stats
        low, high = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
        nulls = _null_counts(table, meta)
        return any(
            all(_may_hold(*column) for column in zip(row, low, high, nulls, strict=True))
            for row in rows
        )

    return test


def _null_counts(table: FileStoreTable, meta: ManifestFileMeta) -> tuple[int | None, ...]:
    """Return how many nulls each partition column has; CorruptTable for other columns."""
    count = len(table.schema.partition_type.types)
    found = meta.partition_stats.null_counts or (None,) * count
    if len(found) != count:
        path = table.paths.manifest(meta.file_name)
        raise CorruptTable(
            f"the list of manifest {path} counts nulls of {len(found)} partition columns instead of "
            f"{count}",
            table=table.name,
            file=path,
        )
    return found


def _may_hold(value: object, low: object, high: object, nulls: int | None) -> bool:
    if value is None:
        return nulls is None or nulls > 0
    if low is None or high is None:
        return True
    if any(v != v for v in (value, low, high)):  # noqa: PLR0124 - NaN
        return True  # Java treats it as the greatest number, others leave it out of the bounds
    return bool(low <= value <= high)  # type: ignore[operator]  # one type, by the schema


def _manifest_may_match(
    table: FileStoreTable, meta: ManifestFileMeta, condition: Predicate
) -> bool:
    from paimon_core.predicate import may_match  # noqa: PLC0415 - fast start

    stats, types = meta.partition_stats, table.schema.partition_type.types
    low, high = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    nulls = _null_counts(table, meta)
    columns = dict(
        zip(table.schema.partition_keys, zip(low, high, nulls, strict=True), strict=True)
    )
    entries = meta.num_added_files + meta.num_deleted_files
    return may_match(condition, entries, columns.get)


def selected_entries(
    table: FileStoreTable,
    manifests: Iterable[ManifestFileMeta],
    *,
    partitions: frozenset[bytes] | None = None,
    condition: Predicate | None = None,
    keep: Callable[[ManifestEntry], bool] | None = None,
    exact: bool = False,
) -> Iterator[ManifestEntry]:
    """Yield the selected entries of these manifests, ADD and DELETE, in order.

    `condition`, which uses only partition keys, skips manifests whose partitions cannot satisfy it.

    `keep` may only use a file's identity (partition, bucket, level), so that it treats an ADD and
    its DELETE alike.  `exact` as in `read_entries`.
    """
    in_range = None if partitions is None else may_hold(table, partitions)
    wanted = (
        meta
        for meta in manifests
        if (in_range is None or in_range(meta))
        and (condition is None or _manifest_may_match(table, meta, condition))
    )
    for found in entries_by_manifest(table, wanted, exact=exact):
        for entry in found.entries:
            if partitions is not None and entry.partition not in partitions:
                continue
            if keep is None or keep(entry):
                yield entry


def entries_by_manifest(
    table: FileStoreTable, manifests: Iterable[ManifestFileMeta], *, exact: bool = False
) -> Iterator[SizedEntries]:
    """Yield the entries of each manifest; small manifests of a remote store are read together.

    `exact` as in `read_entries`.
    """
    read = partial(_read_sized, table, exact=exact)
    if table.io.parallelism <= 1:
        yield from map(read, manifests)
        return
    for together in read_together(manifests):
        yield from map_parallel(table.io, read, together)


def read_together(manifests: Iterable[ManifestFileMeta]) -> Iterator[list[ManifestFileMeta]]:
    """Group the manifests so that each group has at most `_TOGETHER_BYTES`, or one manifest."""
    group: list[ManifestFileMeta] = []
    size = 0
    for meta in manifests:
        if group and size + meta.file_size > _TOGETHER_BYTES:
            yield group
            group, size = [], 0
        group.append(meta)
        size += meta.file_size
    if group:
        yield group
