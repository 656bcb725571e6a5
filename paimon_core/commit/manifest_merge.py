"""Merges manifests (Java: `operation/ManifestFileMerger`; java-rules B).

The base list of a new snapshot names the manifests of the previous base and delta.  They are merged
when there are many of them or they hold many deletions:

- *full*: once the manifests that are small or hold deletions reach the threshold in total, every
  deletion is read and applied, and the affected manifests are rewritten;
- *minor* otherwise: adjacent manifests are merged up to the target size; the rest at the end is
  merged only if it has many manifests.

A manifest whose entry in the list has fields of newer versions is never merged, because what they
mean for another manifest is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, dropwhile
from typing import Final

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileIdentity, FileKind, ManifestEntry, ManifestFileMeta
from paimon_core.manifest.merge_entries import merge_entries
from paimon_core.manifest.unknown_fields import valued
from paimon_core.options import MANIFEST_FULL_COMPACTION_SIZE, MANIFEST_MERGE_MIN_COUNT

_FULL_SIZE_OF_ALL: Final = 1
Read = Callable[[ManifestFileMeta], Iterable[ManifestEntry]]
Write = Callable[[Iterable[ManifestEntry]], list[ManifestFileMeta]]
MayHold = Callable[[frozenset[bytes]], Callable[[ManifestFileMeta], bool]]


@dataclass(frozen=True, slots=True)
class MergeThresholds:
    """Sizes in bytes; `min_count` manifests at the end are merged even if they are small."""

    target_size: int
    min_count: int
    full_size: int


def with_full_merge(table: FileStoreTable) -> FileStoreTable:
    """Return a table handle whose commits merge all base manifests, so that no deletion remains.

    A commit that adds a file again needs this: Java first collects the deletions of all manifests,
    regardless of order, and would treat the file as deleted (`AbstractFileStoreScan`).
    """
    size = f"{_FULL_SIZE_OF_ALL} b"
    eager = {MANIFEST_MERGE_MIN_COUNT.key: "1", MANIFEST_FULL_COMPACTION_SIZE.key: size}
    return replace(table, schema=table.schema.with_options(eager))


def check_mergeable(manifests: Iterable[ManifestFileMeta]) -> None:
    """Raise UnsupportedFeature for a manifest with fields that this version does not know."""
    for manifest in manifests:
        names = valued(manifest.unknown)
        if names:
            raise UnsupportedFeature(
                f"metadata field {names[0]}",
                f"manifest {manifest.file_name} cannot be merged with others: its entry in the "
                f"manifest list has {', '.join(names)}, which this version does not know",
                file=manifest.file_name,
                next_step="compact the manifests with the version of Paimon that wrote them",
            )


def merge_manifests(
    manifests: Sequence[ManifestFileMeta],
    thresholds: MergeThresholds,
    *,
    read: Read,
    write: Write,
    may_hold: MayHold,
) -> tuple[list[ManifestFileMeta], list[ManifestFileMeta]]:
    """Return the manifests of the new base, and those of them that were written by this call.

    `may_hold` returns a test for whether a manifest's partition range may hold any of the given
    partitions.  Nothing is cleaned up here when `read` or `write` raises: `write` records what it
    wrote for its caller.  Raises UnsupportedFeature if all manifests must be merged
    (`with_full_merge`) and one has unknown fields, CorruptTable if one is listed twice.
    """
    _check_listed_once(manifests)
    if any(valued(m.unknown) for m in manifests):
        if thresholds.full_size <= _FULL_SIZE_OF_ALL:
            check_mergeable(manifests)
        # A full merge applies every deletion, but cannot do so to a manifest that stays.
        return _minor(manifests, thresholds, read, write)
    full = _full(manifests, thresholds, read, write, may_hold)
    return full if full is not None else _minor(manifests, thresholds, read, write)


def _check_listed_once(manifests: Sequence[ManifestFileMeta]) -> None:
    """Raise CorruptTable for a manifest that is listed twice: a merge would add its files twice."""
    seen: set[str] = set()
    for manifest in manifests:
        name = manifest.file_name
        if name in seen:
            raise CorruptTable(f"the manifest lists name manifest {name} twice", file=name)
        seen.add(name)


def _minor(
    manifests: Sequence[ManifestFileMeta], thresholds: MergeThresholds, read: Read, write: Write
) -> tuple[list[ManifestFileMeta], list[ManifestFileMeta]]:
    result: list[ManifestFileMeta] = []
    written: list[ManifestFileMeta] = []

    def merge(candidates: list[ManifestFileMeta]) -> None:
        if len(candidates) == 1:
            result.append(candidates[0])
            return
        merged: dict[FileIdentity, ManifestEntry] = {}
        for manifest in candidates:
            # A DELETE whose ADD lies in an older manifest must stay, and stay in order.
            merge_entries(read(manifest), into=merged)
        if merged:
            new = write(list(merged.values()))
            result.extend(new)
            written.extend(new)

    candidates: list[ManifestFileMeta] = []
    size = 0
    for manifest in manifests:
        if valued(manifest.unknown):
            if candidates:
                merge(candidates)
            result.append(manifest)
            candidates, size = [], 0
            continue
        size += manifest.file_size
        candidates.append(manifest)
        if size >= thresholds.target_size:
            merge(candidates)
            candidates, size = [], 0
    if candidates and len(candidates) >= thresholds.min_count:
        merge(candidates)
    else:
        result.extend(candidates)
    return result, written


def _full(
    manifests: Sequence[ManifestFileMeta],
    thresholds: MergeThresholds,
    read: Read,
    write: Write,
    may_hold: MayHold,
) -> tuple[list[ManifestFileMeta], list[ManifestFileMeta]] | None:
    def must_change(m: ManifestFileMeta) -> bool:
        return m.num_deleted_files > 0 or m.file_size < thresholds.target_size

    if sum(m.file_size for m in manifests if must_change(m)) < thresholds.full_size:
        return None
    deleted = {
        entry.identity: entry
        for m in manifests
        if m.num_deleted_files > 0
        for entry in read(m)
        if entry.kind is FileKind.DELETE
    }
    affected = may_hold(frozenset(identity.partition for identity in deleted))
    untouched = [m for m in manifests if not must_change(m) and not affected(m)]
    skip = {m.file_name for m in untouched}
    to_merge = [m for m in manifests if m.file_name not in skip]
    if len(to_merge) <= 1:
        return None
    kept: list[ManifestFileMeta] = []
    gone = deleted.keys() - _came_back(to_merge, deleted.keys(), read) if deleted else set()

    def rewritten() -> Iterator[ManifestEntry]:
        """The live entries of manifests that change, one manifest after the other; fills `kept`.

        Last come the deletions of files that none of them adds.  A manifest that was not read must
        add them, because its partition range is wrong: without its deletion a file would be live
        again.
        """
        seen: set[FileIdentity] = set()
        unmet = dict(deleted) if untouched else {}
        for manifest in to_merge:
            entries = [e for e in read(manifest) if e.kind is FileKind.ADD]
            live = entries
            for entry in entries if unmet else ():
                unmet.pop(entry.identity, None)
            if deleted:
                live = [e for e in entries if e.identity not in gone and e.identity not in seen]
                seen.update(e.identity for e in live if e.identity in deleted)
            if must_change(manifest) or len(live) < len(entries):
                yield from live
            else:
                kept.append(manifest)
        yield from unmet.values()

    live = rewritten()
    first = next(live, None)
    written = [] if first is None else write(chain([first], live))
    return [*untouched, *kept, *written], written


def _came_back(
    manifests: Sequence[ManifestFileMeta], deleted: Collection[FileIdentity], read: Read
) -> set[FileIdentity]:
    """Return the deleted files that were added again later.

    Java drops them here because it never reads them; this implementation keeps them so that no live
    file is lost.
    """
    newest: dict[FileIdentity, FileKind] = {}
    for manifest in dropwhile(lambda m: m.num_deleted_files == 0, manifests):
        for entry in read(manifest):
            if entry.identity in deleted:
                newest[entry.identity] = entry.kind
    return {identity for identity, kind in newest.items() if kind is FileKind.ADD}
