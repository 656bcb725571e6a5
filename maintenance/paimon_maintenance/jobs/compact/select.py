"""Which partitions a compaction leaves alone, by how long they were idle."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_core.manifest.data_file import ManifestEntry


def newest_file_times(entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """Partition -> when its newest file was made (milliseconds of local wall clock).

    A file that does not say when counts as old: it comes from before the field existed.
    """
    newest: dict[bytes, int] = {}
    for entry in entries:
        made = entry.file.creation_time or 0
        newest[entry.partition] = max(newest.get(entry.partition, 0), made)
    return newest
