"""A Parquet data file opened to copy its column chunks, or decode those that cannot be copied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.errors import CorruptTable
from paimon_core.format.data_format import BATCH_ROWS, decoding, open_data_file
from paimon_core.format.parquet.chunks import WINDOW, StoredGroup, stored_groups
from paimon_core.format.parquet.footer import checked_footer
from paimon_core.format.parquet.reader import read_parquet
from paimon_core.format.parquet.row_window import PagedFile, paged_file
from paimon_core.format.parquet.stored_page import group_pages
from paimon_core.io.file_io import FileIO
from paimon_core.types.data_types import RowType

Bounds = Callable[[], Mapping[str, tuple[float, float]]]

WHOLE_BELOW: Final = 8 * 1024 * 1024
"""Files up to this size are read by one request and kept until they are copied."""


@dataclass(frozen=True)
class StoredFile:
    """An open file whose chunks can be copied; callers must `close` it.

    `bounds` holds the bounds of columns, by name, that the table's metadata provides: the footers
    of some writers lack those of FLOAT and DOUBLE.
    """

    path: str
    groups: tuple[StoredGroup, ...]
    bounds: Bounds
    source: pa.NativeFile

    def read(self, start: int, size: int) -> pa.Buffer | memoryview:
        """Return `size` bytes from `start` on, fewer at the file's end.

        Valid until the next call.
        """
        self.source.seek(start)
        if isinstance(self.source, pa.BufferReader) or size > WINDOW:
            return self.source.read_buffer(size)
        part = memoryview(self._window)[:size]
        return part[: self.source.readinto(part)]

    @cached_property
    def _window(self) -> bytearray:
        # The system would clear new memory for each read, a tenth of the time of a copy.
        return bytearray(WINDOW)

    def rows(self, group: StoredGroup, columns: RowType) -> Iterator[pa.RecordBatch]:
        """Yield the decoded rows of one row group with these columns."""
        yield from self.decoded(range(group.first_row, group.first_row + group.rows), columns)

    @cached_property
    def _footer(self) -> PagedFile:
        return paged_file(self.source)

    def decoded(self, rows: range, columns: RowType) -> Iterator[pa.RecordBatch]:
        """Yield these rows of the file, decoded, with these columns."""
        self.source.seek(0)
        batches = read_parquet(
            self.source,
            columns,
            batch_rows=BATCH_ROWS,
            use_threads=False,
            rows=rows,
            footer=lambda: self._footer,
        )
        with decoding(self.path):
            yield from batches

    def close(self) -> None:
        self.source.close()


def open_stored_file(
    io: FileIO,
    path: str,
    *,
    size: int | None = None,
    rows: int,
    like: pq.FileMetaData,
    codec: str,
    bounds: Bounds,
    with_pages: Collection[int] | None = None,
) -> StoredFile | None:
    """Open the file of `size` bytes.

    None if its chunks cannot be copied to such a file (`stored_groups`).  With `with_pages`, only
    the page indexes of these leaf columns are read.  Raises FileNotFoundError if the file is
    missing, CorruptTable if its footer is unreadable or has another row count.
    """
    with decoding(path):
        source = open_data_file(io, path, size)
        try:
            if source.size() <= WHOLE_BELOW and not isinstance(source, pa.BufferReader):
                with source:
                    source = pa.BufferReader(source.read_buffer())
            metadata, chunks = checked_footer(source)
            if metadata.num_rows != rows:
                raise CorruptTable(
                    f"a data file holds {metadata.num_rows} rows where its metadata says {rows}"
                )
            rows_of = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            pages = group_pages(source, list(zip(rows_of, chunks, strict=True)), with_pages)
            groups = stored_groups(metadata, like, codec, pages)
        except BaseException:
            source.close()
            raise
    if groups is None:
        source.close()
        return None
    return StoredFile(path, tuple(groups), bounds, source)
