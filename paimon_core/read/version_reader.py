"""Reads all versions of the keys of a section, for merges that need the origin of a row.

A row's level shows a compaction what existed before; rows beyond the table's record-level
expiration are left out.
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
from paimon_core.read.damaged_files import readable_rows
from paimon_core.read.section import SectionReader
from paimon_core.types.buffers import BoolArray, index_array

Keep = Callable[[pa.RecordBatch], BoolArray]
"""Returns a mask of the rows of a key-value batch that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionReader(SectionReader):
    """A SectionReader with an optional column `_LEVEL`, and only with rows that `keep` accepts.

    `lenient` as in `read_table`.
    """

    with_levels: bool = False
    keep: Keep | None = None
    lenient: bool = False

    def file(self, file: DataFileMeta, rows: int) -> Iterator[pa.RecordBatch]:
        batches = SectionReader.file(self, file, rows)
        if self.lenient:
            path = self.table.paths.data_file(self.partition, self.bucket, file)
            batches = readable_rows(self.table, path, batches)
        if self.keep is not None:
            batches = _kept(batches, self.keep)
        return with_level(batches, file.level) if self.with_levels else batches

    def versions(self, section: Section) -> Iterator[MergeSlice]:
        """Yield slices with every version of their keys in key order, >= `low` and < `high`."""
        with ExitStack() as stack:
            rows, runs = self._runs(section, stack)
            yield from merge_slices(
                runs, self.order, buffered_rows=rows, names=self.names(section, runs)
            )


def _kept(batches: Iterator[pa.RecordBatch], keep: Keep) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        there = keep(batch)
        if there.all():
            yield batch
        elif there.any():
            yield batch.take(index_array(np.flatnonzero(there)))
