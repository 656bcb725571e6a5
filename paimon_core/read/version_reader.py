"""All versions of the keys of a section, for merges that must know where a row comes from.

A row's level tells a compaction what was there before; rows beyond the table's record-level
expiration are not there at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_core.lsm.merge_engine import MergeSlice
from paimon_core.lsm.tree.lookup_merge import with_level
from paimon_core.lsm.tree.sort_merge import merge_slices
from paimon_core.lsm.tree.sorted_run import Section
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.section import SectionReader
from paimon_core.types.buffers import BoolArray, index_array

Keep = Callable[[pa.RecordBatch], BoolArray]
"""Which rows of a key-value batch are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionReader(SectionReader):
    """A SectionReader whose batches have a column `_LEVEL` if asked, and only rows to `keep`."""

    with_levels: bool = False
    keep: Keep | None = None

    def file(self, file: DataFileMeta, rows: int) -> Iterator[pa.RecordBatch]:
        batches = SectionReader.file(self, file, rows)
        if self.keep is not None:
            batches = _kept(batches, self.keep)
        return with_level(batches, file.level) if self.with_levels else batches

    def versions(self, section: Section) -> Iterator[MergeSlice]:
        """Slices with every version of their keys, in key order: from `low` on, below `high`."""
        with ExitStack() as stack:
            rows, runs = self._runs(section, stack)
            yield from merge_slices(runs, self.order, buffered_rows=rows)


def _kept(batches: Iterator[pa.RecordBatch], keep: Keep) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        there = keep(batch)
        if there.all():
            yield batch
        elif there.any():
            yield batch.take(index_array(np.flatnonzero(there)))
