"""The files of a bucket by level (Java: `mergetree/Levels`).

::

    level 0   one run per file, newest sequence numbers first; runs may overlap
    level 1   one run
    ...
    level n   one run: the top level, the oldest data
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from paimon_core.lsm.tree.sorted_run import LevelRun, SortedRun, sorted_run
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.types.data_types import RowType


@dataclass(frozen=True, slots=True)
class Levels:
    """The sorted runs of a bucket, newest first: level 0, then the levels that have files."""

    runs: tuple[LevelRun, ...]
    number_of_levels: int

    @property
    def top_level(self) -> int:
        return self.number_of_levels - 1

    @property
    def highest_non_empty(self) -> int:
        """Return the highest level that has files; -1 without files."""
        return self.runs[-1].level if self.runs else -1


def levels_of(files: Iterable[DataFileMeta], key: RowType, num_levels: int) -> Levels:
    """Return the levels of a bucket; CorruptTable if files of a level above 0 overlap.

    There are `num_levels` levels, or more if a file is on a higher one.
    """
    by_level: dict[int, list[DataFileMeta]] = defaultdict(list)
    for file in files:
        by_level[file.level].append(file)
    newest_first = sorted(by_level.pop(0, []), key=_level_0_order)
    runs = [LevelRun(0, SortedRun((file,))) for file in newest_first]
    runs += [LevelRun(level, sorted_run(by_level[level], key)) for level in sorted(by_level)]
    return Levels(tuple(runs), max(num_levels, runs[-1].level + 1 if runs else 0))


def _level_0_order(file: DataFileMeta) -> tuple[int, int, int, str]:
    return (
        -file.max_sequence_number,
        file.min_sequence_number,
        file.creation_time or 0,
        file.file_name,
    )
