"""Splits files into sections, and each section into few sorted runs (Java: `IntervalPartition`).

::

    keys      0   1   2   3   4   5   6   7   8   9
    files     [--A--]     [-C-]  |  [---D---]
                 [---B---]       |     [E]  [-F-]
    sections  {A, C} {B}         |  {D} {E, F}

Sections do not overlap, so they are merged one after the other; within a section the number of runs
is minimal.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappush, heapreplace

from paimon_core.lsm.key_order import Key
from paimon_core.lsm.tree.sorted_run import KeyedFile, Section, SortedRun, oldest_first
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.types.data_types import RowType


def interval_partition(files: Iterable[DataFileMeta], key: RowType) -> list[Section]:
    """Return sections in key order.

    The runs of each from oldest to newest, as the merge needs them.
    """
    keyed = sorted(
        (KeyedFile.of(f, key) for f in files), key=lambda k: (k.low, k.high, k.file.file_name)
    )
    sections: list[Section] = []
    section: list[KeyedFile] = []
    bound: Key = ()
    for file in keyed:
        if section and file.low > bound:
            sections.append(_runs(section))
            section = []
        bound = max(bound, file.high) if section else file.high
        section.append(file)
    if section:
        sections.append(_runs(section))
    return sections


def _runs(section: list[KeyedFile]) -> Section:
    """Return the fewest runs that hold these files, which are sorted by their first keys.

    Each file is added to the run that ends first, if the file begins after that run's end.
    """
    runs: list[list[DataFileMeta]] = []
    ends: list[tuple[Key, int]] = []
    for file in section:
        if ends and file.low > ends[0][0]:
            index = ends[0][1]
            runs[index].append(file.file)
            heapreplace(ends, (file.high, index))
        else:
            heappush(ends, (file.high, len(runs)))
            runs.append([file.file])
    return tuple(oldest_first(SortedRun(tuple(files)) for files in runs))
