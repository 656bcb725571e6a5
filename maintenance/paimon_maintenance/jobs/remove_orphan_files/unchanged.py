"""Which files still are as they were listed, right before they are deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from paimon_core.io.file_io import FileIO, FileStat, map_parallel, parent
from paimon_core.io.file_stats import FileStats

_TOGETHER: Final = 10_000
_FILES_A_PAGE: Final = 1_000
_SECOND: Final = 1_000
"""Some stores return milliseconds in listings and seconds for a single file."""


def unchanged(io: FileIO, files: FileStats, folder_sizes: Mapping[str, int]) -> FileStats:
    """The files that exist with the time of their listing, in order.

    A remote folder is listed again if that takes fewer requests than one for each of its files;
    `folder_sizes` holds the number of entries of the folders.
    """
    same: list[bool] = []
    for start in range(0, len(files), _TOGETHER):
        same += _are_same(io, list(files[start : start + _TOGETHER]), folder_sizes)
    return files.take(np.flatnonzero(same))


def _are_same(io: FileIO, files: Sequence[FileStat], folder_sizes: Mapping[str, int]) -> list[bool]:
    groups: dict[str, list[FileStat]] = defaultdict(list)
    for file in files:
        groups[parent(file.path)].append(file)
    again = [
        folder
        for folder, group in groups.items()
        if io.parallelism > 1
        and folder in folder_sizes
        and folder_sizes[folder] // _FILES_A_PAGE + 1 < len(group)
    ]
    now: dict[str, int] = {}
    for content in map_parallel(io, io.list_dir, again):
        now.update({f.path: f.modified_millis for f in content if not f.is_dir})
    listed = set(again)

    def is_same(file: FileStat) -> bool:
        if parent(file.path) in listed:
            return now.get(file.path) == file.modified_millis
        try:
            found = io.stat(file.path).modified_millis
        except FileNotFoundError:
            return False
        if io.parallelism > 1:
            return found // _SECOND == file.modified_millis // _SECOND
        return found == file.modified_millis

    return map_parallel(io, is_same, files)
