"""Sinks for the rows of one bucket: buffered for level-0 files, or written directly.

Java: `mergetree/MergeTreeWriter`, `append/AppendOnlyWriter`, `postpone/PostponeBucketWriter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.merge_engine import MergedRows, MergeEngine, MergeSlice
from paimon_core.lsm.tree.sort_merge import merge_sorted
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import SEQUENCE_FIELD, SEQUENCE_FIELD_SORT_ORDER
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.write.data_file_writer import RollingAppendWriter, RollingKeyValueWriter
from paimon_core.write.on_failure import write_all
from paimon_core.write.row_buffer import RowBuffer
from paimon_core.write.sequence_numbers import sequence_numbers

Kinds = npt.NDArray[np.int8]
RollingWriter = RollingKeyValueWriter | RollingAppendWriter
UNKNOWN_SEQUENCE = -1
"""The placeholder for rows that get a sequence number when they leave the postpone bucket."""


class BucketSink(Protocol):
    """Takes the rows of one bucket; `finish` closes their files."""

    def add(self, rows: pa.RecordBatch, kinds: Kinds) -> None:
        """Add rows."""

    @property
    def memory(self) -> int:
        """Return the bytes of rows that can be moved out of memory."""

    def relieve(self, *, spill: bool) -> None:
        """Move rows out of memory, to local disk or to files of the table."""

    @property
    def disk(self) -> int:
        """Return the used bytes of local disk."""

    def finish(self) -> tuple[list[DataFileMeta], list[DataFileMeta]]:
        """Return (data files, changelog files) of all added rows."""

    def written(self) -> Sequence[DataFileMeta]:
        """The closed files, which an abort must delete."""

    def abort(self) -> None:
        """Stop writing and drop all rows."""


class MergingSink:
    """Rows of a primary-key bucket: numbered, sorted, merged, written to level 0.

    The changelog of producer `input` consists of the incoming rows in merge order; `has_changelog`
    says whether it is written.
    """

    def __init__(
        self,
        table: FileStoreTable,
        engine: MergeEngine,
        buffer: RowBuffer,
        open_writer: Callable[[bool], RollingKeyValueWriter],
        next_sequence: int,
        *,
        has_changelog: bool,
    ) -> None:
        self._table = table
        self._has_changelog = has_changelog
        self._engine = engine
        self._buffer = buffer
        self._open = open_writer
        self.next_sequence = next_sequence
        self._files: list[DataFileMeta] = []
        self._changelog: list[DataFileMeta] = []

    def add(self, rows: pa.RecordBatch, kinds: Kinds) -> None:
        """Add rows and number them in their order."""
        numbers = sequence_numbers(self.next_sequence, rows.num_rows, table=self._table.name)
        self.next_sequence += rows.num_rows
        self._buffer.add(_key_values(rows, numbers, kinds))

    @property
    def memory(self) -> int:
        return self._buffer.memory

    @property
    def disk(self) -> int:
        return self._buffer.disk

    def relieve(self, *, spill: bool) -> None:
        """Sort buffered rows and move them to local disk, or merge and write them to level 0."""
        if spill and not self._buffer.is_full:
            self._buffer.spill()
        else:
            self._flush()

    def finish(self) -> tuple[list[DataFileMeta], list[DataFileMeta]]:
        """Return level-0 files and changelog files."""
        self._flush()
        files, changelog = self._files, self._changelog
        self._files, self._changelog = [], []
        return files, changelog

    def written(self) -> Sequence[DataFileMeta]:
        return [*self._files, *self._changelog]

    def abort(self) -> None:
        self._buffer.clear()

    def _flush(self) -> None:
        if self._buffer.is_empty:
            return
        if self._has_changelog:
            self._changelog += write_all(self._open(True), self._merged(_KeepAll()))
        self._files += write_all(self._open(False), self._merged(self._engine))
        self._buffer.clear()

    def _merged(self, engine: MergeEngine) -> Iterator[pa.RecordBatch]:
        schema = self._table.schema
        return merge_sorted(
            self._buffer.runs(),
            key=schema.key_type,
            sequence_fields=schema.options.value(SEQUENCE_FIELD),
            descending=schema.options.value(SEQUENCE_FIELD_SORT_ORDER) == "descending",
            engine=engine,
        )


class StreamingSink:
    """Writes rows in the order of their arrival.

    With a `buffer` they wait on local disk until `finish`, so that only one of many buckets has an
    open file; without it, they go directly to the file.  `key_value`: with kind and sequence
    number, as in the postpone bucket.
    """

    def __init__(
        self,
        buffer: RowBuffer | None,
        open_writer: Callable[[], RollingWriter],
        *,
        key_value: bool,
    ) -> None:
        self._buffer = buffer
        self._open = open_writer
        self._key_value = key_value
        self._writer: RollingWriter | None = None

    def add(self, rows: pa.RecordBatch, kinds: Kinds) -> None:
        """Add rows."""
        if self._key_value:
            rows = _key_values(rows, np.full(rows.num_rows, UNKNOWN_SEQUENCE, np.int64), kinds)
        if self._buffer is not None:
            self._buffer.add(rows)
            return
        if self._writer is None:
            self._writer = self._open()
        self._writer.write(rows)

    @property
    def memory(self) -> int:
        return 0 if self._buffer is None else self._buffer.memory

    @property
    def disk(self) -> int:
        return 0 if self._buffer is None else self._buffer.disk

    def relieve(self, *, spill: bool) -> None:  # noqa: ARG002 - such rows are never sorted early
        """Move buffered rows to local disk: only if all rows go there, they keep their order."""
        if self._buffer is not None:
            self._buffer.spill()

    def finish(self) -> tuple[list[DataFileMeta], list[DataFileMeta]]:
        """Return the data files; there is no changelog."""
        if self._buffer is not None and not self._buffer.is_empty:
            files = write_all(self._open(), (batch for run in self._buffer.runs() for batch in run))
            self._buffer.clear()
            return files, []
        writer, self._writer = self._writer, None
        return ([] if writer is None else write_all(writer, ())), []

    def written(self) -> Sequence[DataFileMeta]:
        return ()

    def abort(self) -> None:
        if self._buffer is not None:
            self._buffer.clear()
        if self._writer is not None:
            self._writer.abort()


class _KeepAll:
    """The engine that keeps every version, in merge order."""

    def merge(self, rows: MergeSlice) -> MergedRows:
        return MergedRows(rows.in_order())


def _key_values(
    rows: pa.RecordBatch, numbers: npt.NDArray[np.int64], kinds: Kinds
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers), pa.array(kinds, pa.int8()), *rows.columns],
        names=[SEQUENCE_NUMBER, VALUE_KIND, *rows.schema.names],
    )
