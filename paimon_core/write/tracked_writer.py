"""Writes rows that keep their ids and sequence numbers (Java: `io/RowDataFileSequenceNumberTracker`).

A compaction of a table with row tracking writes both as columns.  The file has no first row id, and
its metadata names its columns, so that a commit does not give its rows new numbers (java-rules L1).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.write.data_file_writer import RollingAppendWriter


class RollingTrackedWriter(RollingAppendWriter):
    """A writer of plain batches whose schema is that of `read.row_tracking.tracked_schema`."""

    def _begin(self) -> None:
        super()._begin()
        self._bounds: list[tuple[int, int]] = []

    def _collect(self, batch: pa.RecordBatch, arrays: list[pa.Array]) -> None:
        super()._collect(batch, arrays)
        if batch.num_rows:
            found = pc.min_max(batch.column(SEQUENCE_NUMBER)).as_py()
            self._bounds.append((found["min"], found["max"]))

    def _describe(self, file_name: str, file_size: int) -> DataFileMeta:
        return replace(
            super()._describe(file_name, file_size),
            min_sequence_number=min(low for low, _ in self._bounds),
            max_sequence_number=max(high for _, high in self._bounds),
            write_cols=self._schema.names,
        )
