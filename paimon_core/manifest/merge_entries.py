"""The live entries of a sequence of manifest entries (Java: `manifest/FileEntry.mergeEntries`)."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import FileIdentity, FileKind, ManifestEntry


def merge_entries(
    entries: Iterable[ManifestEntry], *, into: dict[FileIdentity, ManifestEntry] | None = None
) -> dict[FileIdentity, ManifestEntry]:
    """The entries left after every DELETE met its ADD, by identity, in first-seen order.

    A DELETE whose ADD is not among the entries is kept: the ADD may stand in an older manifest.
    `into` is extended in place.  CorruptTable if a file is added twice.
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
            # A file is added once and deleted once, so a second DELETE cannot be meant here.
            del merged[identity]
        else:
            merged[identity] = entry
    return merged


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The ADD entries that are left; CorruptTable if a DELETE found no ADD."""
    merged = merge_entries(entries)
    for entry in merged.values():
        if entry.kind is FileKind.DELETE:
            raise CorruptTable(
                f"file {entry.file.file_name} is deleted but was never added",
                file=entry.file.file_name,
            )
    return list(merged.values())
