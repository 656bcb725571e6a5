"""Files with consecutive key ranges (Java: `mergetree/SortedRun`, `LevelSortedRun`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paimon_core.errors import CorruptTable
from paimon_core.lsm.key_order import Key, stored_key
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.types.data_types import RowType


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files in key order; no key is in two of them."""

    files: tuple[DataFileMeta, ...]

    @property
    def total_size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(f.file_size for f in self.files)


@dataclass(frozen=True, slots=True)
class LevelRun:
    """A sorted run and its level; on level 0 every file is its own run."""

    level: int
    run: SortedRun


Section = tuple[SortedRun, ...]
"""Overlapping runs, oldest first, which are merged together."""


@dataclass(frozen=True, slots=True)
class KeyedFile:
    """A file with its key range decoded."""

    file: DataFileMeta
    low: Key
    high: Key

    @staticmethod
    def of(file: DataFileMeta, key: RowType) -> KeyedFile:
        return KeyedFile(file, stored_key(file.min_key, key), stored_key(file.max_key, key))


def sorted_run(files: Iterable[DataFileMeta], key: RowType) -> SortedRun:
    """Return the run of these files, in any order; CorruptTable if their key ranges overlap."""
    keyed = sorted((KeyedFile.of(f, key) for f in files), key=lambda k: k.low)
    for left, right in pairwise(keyed):
        if right.low <= left.high:
            raise CorruptTable(
                f"files {left.file.file_name} and {right.file.file_name} of level "
                f"{right.file.level} overlap in their keys",
                file=right.file.file_name,
            )
    return SortedRun(tuple(k.file for k in keyed))


def oldest_first(runs: Iterable[SortedRun]) -> list[SortedRun]:
    """Return the runs in the order that the merge needs: of equal versions the later one wins.

    Runs on a higher level are older; on the same level, those with smaller sequence numbers.
    """
    return sorted(runs, key=lambda run: _age(run.files))


def _age(files: Sequence[DataFileMeta]) -> tuple[int, int, int, int, str]:
    newest = max(files, key=lambda f: (-f.level, f.max_sequence_number, f.file_name))
    return (
        -newest.level,
        newest.max_sequence_number,
        newest.min_sequence_number,
        newest.creation_time or 0,
        newest.file_name,
    )
