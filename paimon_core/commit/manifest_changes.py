"""Turns commit messages into manifest entries (Java: `operation/commit/ManifestEntryChanges`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from paimon_core.commit.message import CommitMessage
from paimon_core.commit.renumbering import Renumbering
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)


@dataclass(frozen=True, slots=True)
class ManifestChanges:
    """The changes of one new snapshot: data files, changelog files, index files, row ids."""

    files: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index_files: tuple[IndexManifestEntry, ...] = ()
    renumbering: Renumbering | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.changelog or self.index_files or self.renumbering)

    def partitions(self) -> frozenset[bytes]:
        """The partitions that a conflict check must look at."""
        return frozenset(e.partition for e in self.files) | frozenset(
            e.partition
            for e in self.index_files
            if e.index_file.index_type == DELETION_VECTORS_INDEX
            or e.index_file.global_index is not None
        )

    def deletes_something(self) -> bool:
        """Whether an append with these changes must be an OVERWRITE (java-rules A1)."""
        return any(e.kind is FileKind.DELETE for e in self.files) or any(
            e.index_file.index_type == DELETION_VECTORS_INDEX for e in self.index_files
        )


def _entries(
    kind: FileKind, message: CommitMessage, files: Iterable[DataFileMeta]
) -> Iterator[ManifestEntry]:
    for file in files:
        yield ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file)


def _index_entries(
    kind: FileKind, message: CommitMessage, files: Iterable[IndexFileMeta]
) -> Iterator[IndexManifestEntry]:
    for file in files:
        yield IndexManifestEntry(kind, message.partition, message.bucket, file)


def append_changes(messages: Sequence[CommitMessage]) -> ManifestChanges:
    """Return what the messages add (and, for row-level changes, delete) outside compaction."""
    files: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    index: list[IndexManifestEntry] = []
    for m in messages:
        files += _entries(FileKind.ADD, m, m.new_files)
        files += _entries(FileKind.DELETE, m, m.deleted_files)
        changelog += _entries(FileKind.ADD, m, m.changelog_files)
        index += _index_entries(FileKind.DELETE, m, m.deleted_index_files)
        index += _index_entries(FileKind.ADD, m, m.new_index_files)
    return ManifestChanges(tuple(files), tuple(changelog), tuple(index))


def compact_changes(messages: Sequence[CommitMessage]) -> ManifestChanges:
    """Return what the messages replace by compaction.

    Within a message every DELETE precedes every ADD: expiry processes the entries in order, and the
    reverse order would make it delete an upgraded file that is still live (java-rules A4).
    """
    files: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    index: list[IndexManifestEntry] = []
    for m in messages:
        files += _entries(FileKind.DELETE, m, m.compact_before)
        files += _entries(FileKind.ADD, m, m.compact_after)
        changelog += _entries(FileKind.ADD, m, m.compact_changelog)
        index += _index_entries(FileKind.DELETE, m, m.compact_deleted_index_files)
        index += _index_entries(FileKind.ADD, m, m.compact_new_index_files)
    return ManifestChanges(tuple(files), tuple(changelog), tuple(index))
