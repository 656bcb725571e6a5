"""Arrow streams of a task's rows: on local disk, or in a value that Spark moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from paimon_core.io.temporary import temporary_files


class SpillFile:
    """A local file of batches of one schema; it is created with the first batch."""

    __slots__ = ("_path", "_writer")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pa.RecordBatchStreamWriter | None = None

    def write(self, rows: pa.RecordBatch, *, batch_rows: int | None = None) -> None:
        """Append rows, `batch_rows` per batch if given; StorageError."""
        with temporary_files(str(self._path)):
            if self._writer is None:
                self._writer = pa.ipc.new_stream(
                    str(self._path), rows.schema, options=_write_options()
                )
            for begin in range(0, rows.num_rows, batch_rows or max(1, rows.num_rows)):
                self._writer.write_batch(rows.slice(begin, batch_rows))

    def close(self) -> None:
        """End writing; StorageError."""
        if self._writer is not None:
            with temporary_files(str(self._path)):
                self._writer.close()


def read_spilled(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a spill file; StorageError."""
    with temporary_files(str(path)):
        source = pa.OSFile(str(path))
    with source, pa.ipc.open_stream(source) as reader:
        yield from reader


def packed(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return the batches, of which there is at least one, as one Arrow stream in memory."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=_write_options()) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _write_options() -> pa.ipc.IpcWriteOptions:
    return pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
