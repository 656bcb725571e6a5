"""Which files of a table with `clustering.incremental` are due (Java: `append/cluster/*`).

Its files have levels as those of a primary-key table have: what is appended is on level 0, a file
each; what was sorted together is a run on a level of its own.  Paimon's universal compaction picks
runs by their sizes; they are sorted together and move up.  So a row is sorted again only a few
times, however often the job runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.tree.levels import Levels
from paimon_core.lsm.tree.sorted_run import LevelRun, SortedRun
from paimon_core.lsm.tree.universal_compaction import (
    Pick,
    PickRules,
    number_of_levels,
    pick_full,
    pick_minor,
)
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import (
    CLUSTERING_COLUMNS,
    MAX_SIZE_AMPLIFICATION,
    NUM_SORTED_RUN_TRIGGER,
    SIZE_RATIO,
)
from paimon_maintenance.jobs.sort_compact.group import SortGroup


def due(
    table: FileStoreTable, groups: Sequence[SortGroup], columns: Sequence[str], *, full: bool
) -> Iterator[SortGroup]:
    """The partitions with files to sort: these files only, and their new level."""
    for group in groups:
        picked = _pick(table, group, tuple(columns), full=full)
        if picked is None:
            continue
        names = {f.file_name for f in picked.files}
        if group.index:
            # An index file may cover several data files, which are then sorted together.
            names = {f.file_name for f in group.files}
        whole = len(names) == len(group.entries)
        level = number_of_levels(table.options) - 1 if whole else picked.output_level
        yield group.part([e for e in group.entries if e.file.file_name in names], level)


def idle(
    table: FileStoreTable, groups: Sequence[SortGroup], *, before_millis: int, most: int
) -> list[SortGroup]:
    """Partitions that got no file for long and are not fully sorted, the longest idle first."""
    top = number_of_levels(table.options) - 1
    found: list[tuple[int, SortGroup]] = []
    for group in groups:
        newest = max((f.creation_time or 0) for f in group.files)
        if newest < before_millis and any(f.level < top for f in group.files):
            found.append((newest, group))
    return [group for _, group in sorted(found, key=lambda p: (p[0], p[1].name))[:most]]


def _pick(
    table: FileStoreTable, group: SortGroup, columns: tuple[str, ...], *, full: bool
) -> Pick | None:
    levels = _levels(table, group.entries)
    if full:
        only_top = len(levels.runs) == 1 and levels.runs[0].level == levels.top_level
        if only_top and _sorted_by(table, levels.runs[0].run.files[0]) == columns:
            return None
        return pick_full(levels)
    options = table.options
    rules = PickRules(
        max_size_amplification=options.value(MAX_SIZE_AMPLIFICATION),
        size_ratio=options.value(SIZE_RATIO),
        run_trigger=options.value(NUM_SORTED_RUN_TRIGGER),
    )
    return pick_minor(levels, rules, local_millis=0, last_full=None)


def _levels(table: FileStoreTable, entries: Sequence[ManifestEntry]) -> Levels:
    """Each file of level 0 is a run, newest first; files of a level above may overlap."""
    by_level: dict[int, list[DataFileMeta]] = defaultdict(list)
    for entry in entries:
        by_level[entry.file.level].append(entry.file)
    newest = sorted(by_level.pop(0, []), key=lambda f: (-(f.creation_time or 0), f.file_name))
    runs = [LevelRun(0, SortedRun((file,))) for file in newest]
    runs += [LevelRun(level, SortedRun(tuple(by_level[level]))) for level in sorted(by_level)]
    return Levels(tuple(runs), max(number_of_levels(table.options), runs[-1].level + 1))


def _sorted_by(table: FileStoreTable, file: DataFileMeta) -> tuple[str, ...]:
    """The columns that the table was clustered by when the file was written."""
    return table.schema_of(file.schema_id).options.value(CLUSTERING_COLUMNS)
