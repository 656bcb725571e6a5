"""Merges manifest entries into live entries (Java: `manifest/FileEntry.mergeEntries`)."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import FileIdentity, FileKind, ManifestEntry


def merge_entries(
    entries: Iterable[ManifestEntry], *, into: dict[FileIdentity, ManifestEntry] | None = None
) -> dict[FileIdentity, ManifestEntry]:
    """Return the entries that remain after each DELETE removes its ADD, in first-seen order.

    A DELETE without its ADD is kept: the ADD may be in an older manifest.  `into` is extended in
    place.  Raises CorruptTable if a file is added twice.
    """
    merged = {} if into is None else into
    for entry in entries:
        identity = entry.identity
        if entry.kind is FileKind.ADD:
            if identity in merged:
                raise CorruptTable(
                    f"file {entry.file.file_name} is added twice", file=entry.file.file_name
                )
            merged[identity] = entry
        elif identity in merged:
            # A file is added once and deleted once, so a second DELETE is not possible here.
            del merged[identity]
        else:
            merged[identity] = entry
    return merged


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the remaining ADD entries; CorruptTable if a DELETE has no ADD."""
    merged = merge_entries(entries)
    for entry in merged.values():
        if entry.kind is FileKind.DELETE:
            raise CorruptTable(
                f"file {entry.file.file_name} is deleted but was never added",
                file=entry.file.file_name,
            )
    return list(merged.values())
