"""Writes rows with their ids and sequence numbers (Java: `io/RowDataFileSequenceNumberTracker`).

A compaction, an update or a delete of a table with row tracking writes both as columns.  The file
has no first row id, and its metadata names its columns, so that a commit does not give its rows new
ids (java-rules L1).  Updated rows have no sequence number: they get that of the commit.
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
        self._has_new = False

    def _collect(self, batch: pa.RecordBatch, arrays: list[pa.Array]) -> None:
        super()._collect(batch, arrays)
        numbers = batch.column(SEQUENCE_NUMBER)
        self._has_new = self._has_new or numbers.null_count > 0
        if batch.num_rows > numbers.null_count:
            found = pc.min_max(numbers).as_py()
            self._bounds.append((found["min"], found["max"]))

    def _describe(self, file_name: str, file_size: int) -> DataFileMeta:
        # 0 stands for the number of the commit (`commit.row_tracking`).
        low = min((low for low, _ in self._bounds), default=0)
        high = 0 if self._has_new else max(high for _, high in self._bounds)
        return replace(
            super()._describe(file_name, file_size),
            min_sequence_number=low,
            max_sequence_number=high,
            write_cols=self._schema.names,
        )
