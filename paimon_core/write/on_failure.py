"""Deletes the files of a writer if writing fails."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from paimon_core.manifest.data_file import DataFileMeta


class Abortable(Protocol):
    """A writer whose files nothing names yet."""

    def abort(self) -> None:
        """Delete the files."""


class FileWriter(Abortable, Protocol):
    """Writes batches as files; in general one of `data_file_writer`."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""

    def close(self) -> list[DataFileMeta]:
        """Return the metadata of all files."""


@contextmanager
def aborted_on_failure(writers: Collection[Abortable]) -> Iterator[None]:
    """Abort the writers, also those that join the collection later, if the block fails."""
    try:
        yield
    except BaseException:
        for writer in writers:
            writer.abort()
        raise


def write_all(writer: FileWriter, batches: Iterable[pa.RecordBatch]) -> list[DataFileMeta]:
    """Write the batches, close the writer and return its files; on failure, delete them."""
    with aborted_on_failure((writer,)):
        for batch in batches:
            writer.write(batch)
        return writer.close()
