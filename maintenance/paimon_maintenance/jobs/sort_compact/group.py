"""The files of one partition that are sorted together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_maintenance.rules.partition_files import PartitionFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class SortGroup(PartitionFiles):
    """Live files of one partition, and the index files beside them.

    `output_level` is where the sorted files go; above 0 only with `clustering.incremental`.
    """

    output_level: int = 0

    def part(self, entries: Sequence[ManifestEntry], output_level: int) -> SortGroup:
        """The group of these files only, with the level that they go to."""
        return replace(self, entries=tuple(entries), output_level=output_level)

    @property
    def by_bucket(self) -> dict[int, list[DataFileMeta]]:
        """The files by the number of their bucket."""
        files: dict[int, list[DataFileMeta]] = defaultdict(list)
        for entry in self.entries:
            files[entry.bucket].append(entry.file)
        return files
