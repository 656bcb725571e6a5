"""Sorted runs of rows by bucket, in one file on local disk.

There is one file for any number of buckets; its batches are found by number.  They are not
compressed: they are read once and soon, and lz4 costs more than it saves on data that barely
shrinks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from paimon_core.io.temporary import temporary_files


class BucketRuns:
    """Runs by bucket: all are written first, then read; the caller deletes the file."""

    def __init__(self, path: Path, *, batch_rows: int) -> None:
        """Create the file; `batch_rows` is the number of rows of a run that are read at a time."""
        self._path = path
        self._batch_rows = batch_rows
        self._writer: pa.RecordBatchFileWriter | None = None
        self._reader: pa.RecordBatchFileReader | None = None
        self._source: pa.OSFile | None = None
        self._count = 0
        self._runs: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            with temporary_files(str(self._path)):
                self._writer.close()
        if self._source is not None:
            self._source.close()

    def write(self, bucket: int, run: int, rows: pa.RecordBatch) -> None:
        """Append rows to this run of the bucket."""
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(use_threads=False)
            with temporary_files(str(self._path)):
                self._writer = pa.ipc.new_file(str(self._path), rows.schema, options=options)
        for begin in range(0, rows.num_rows, self._batch_rows):
            with temporary_files(str(self._path)):
                self._writer.write_batch(rows.slice(begin, self._batch_rows))
            self._runs[bucket][run].append(self._count)
            self._count += 1

    def written(self) -> None:
        """End writing; from now on the runs can be read."""
        if self._writer is not None:
            with temporary_files(str(self._path)):
                self._writer.close()
            self._writer = None
            self._source = pa.OSFile(str(self._path))
            self._reader = pa.ipc.open_file(self._source)

    def buckets(self) -> list[int]:
        """Return the buckets that have rows."""
        return sorted(self._runs)

    def runs(self, bucket: int) -> list[Iterator[pa.RecordBatch]]:
        """Return the bucket's runs in number order, as batches."""
        return [self._batches(numbers) for _, numbers in sorted(self._runs[bucket].items())]

    def _batches(self, numbers: list[int]) -> Iterator[pa.RecordBatch]:
        assert self._reader is not None
        for number in numbers:
            yield self._reader.get_batch(number)
