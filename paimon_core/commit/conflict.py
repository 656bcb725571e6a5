"""Checks changes against the newest snapshot (Java: `operation/commit/ConflictDetection`).

Checked, in this order (java-rules A2):

1. the bucket count of a partition stays the same (an OVERWRITE may change it);
2. the changes themselves neither add nor delete a file twice;
3. every deleted file still exists;
4. files of one bucket and level >= 1 do not overlap in keys (equal bounds count as overlap);
5. for an exact replacement: nothing else was added to the partitions meanwhile (java-rules A8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from paimon_core.errors import CommitConflict, CorruptTable
from paimon_core.manifest.data_file import FileIdentity, FileKind, ManifestEntry
from paimon_core.manifest.merge_entries import merge_entries
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.snapshot.snapshot import CommitKind, Snapshot

SortKey = Callable[[bytes], Any]
"""Maps stored key bytes to a value that sorts as Java sorts the keys."""


def check_conflicts(
    *,
    table: str,
    latest: Snapshot,
    base: Sequence[ManifestEntry],
    delta: Sequence[ManifestEntry],
    kind: CommitKind,
    sort_key: SortKey | None,
    exact: bool = False,
) -> None:
    """Raise CommitConflict if `delta` must not be committed on top of `base`.

    `base` holds the live entries of all partitions that `delta` touches, `sort_key` is None for
    tables whose files are not sorted by a key.  With `exact`, the remaining content of these
    partitions must come from `delta` alone.
    """
    conflict = partial(conflict_with, table, latest)
    if kind is not CommitKind.OVERWRITE:
        _check_total_buckets(base, delta, conflict)
    try:
        merge_entries(delta)
        merged = merge_entries(delta, into={e.identity: e for e in base})
    except CorruptTable as e:
        raise conflict(e.message, file=e.file) from e
    for entry in merged.values():
        if entry.kind is FileKind.DELETE:
            raise conflict(
                f"file {entry.file.file_name}, which this commit replaces, is no longer there",
                file=entry.file.file_name,
            )
    if sort_key is not None:
        _check_key_ranges(merged.values(), sort_key, conflict)
    if exact:
        _check_nothing_else(merged, delta, conflict)


def conflict_with(
    table: str, latest: Snapshot, reason: str, *, file: str | None = None
) -> CommitConflict:
    """Return the error for changes that cannot be committed on top of the newest snapshot."""
    return CommitConflict(
        f"cannot commit to table {table}: {reason}; the newest snapshot {latest.id} was committed "
        f"by user {latest.commit_user} ({latest.commit_kind})",
        table=table,
        snapshot=latest.id,
        file=file,
    )


def _check_total_buckets(
    base: Iterable[ManifestEntry],
    delta: Iterable[ManifestEntry],
    conflict: Callable[[str], CommitConflict],
) -> None:
    seen: dict[bytes, int] = {}
    for entries in (base, delta):
        for entry in entries:
            if entry.total_buckets <= 0:
                continue
            known = seen.setdefault(entry.partition, entry.total_buckets)
            if known != entry.total_buckets:
                raise conflict(
                    f"a partition has {known} buckets, but this commit was made for "
                    f"{entry.total_buckets} (the table was rescaled: restart the writer)"
                )


def _check_key_ranges(
    entries: Iterable[ManifestEntry],
    sort_key: SortKey,
    conflict: Callable[..., CommitConflict],
) -> None:
    levels: dict[tuple[bytes, int, int], list[tuple[Any, Any, str]]] = defaultdict(list)
    for entry in entries:
        f = entry.file
        if f.level >= 1:
            levels[entry.partition, entry.bucket, f.level].append(
                (sort_key(f.min_key), sort_key(f.max_key), f.file_name)
            )
    for (_, bucket, level), files in levels.items():
        files.sort(key=lambda file: file[0])
        for (_, last, left), (first, _, right) in pairwise(files):
            if last >= first:
                raise conflict(
                    f"files {left} and {right} of bucket {bucket} would overlap at level {level}",
                    file=right,
                )


def _check_nothing_else(
    merged: dict[FileIdentity, ManifestEntry],
    delta: Iterable[ManifestEntry],
    conflict: Callable[..., CommitConflict],
) -> None:
    added = {e.identity for e in delta if e.kind is FileKind.ADD}
    for identity, entry in merged.items():
        # Postponed rows have no bucket yet.
        if identity not in added and entry.bucket != POSTPONE_BUCKET:
            raise conflict(
                f"file {entry.file.file_name} was added to a partition that is being rewritten",
                file=entry.file.file_name,
            )
