"""How many bytes of a Parquet file on S3 are fetched to read it, or some of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from s3_store import s3_server

from paimon_core.format.data_format import open_writer, read_batches
from paimon_core.format.parquet import reader
from paimon_core.io.file_io import FileIO
from paimon_core.io.open import open_file_io
from paimon_core.options import Options
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

pytestmark = pytest.mark.s3

COLUMNS = RowType(
    fields=tuple(DataField(id=i, name=f"c{i}", type=parse_type("BIGINT")) for i in range(6))
)
ROWS = 250_000


@pytest.fixture(scope="module")
def file() -> Iterator[tuple[FileIO, str, int]]:
    """A store, a file in it, and the file's size."""
    with s3_server() as server:
        path = f"{server.new_root()}/data-1.parquet"
        io, _ = open_file_io(path, server.options)
        writer = open_writer(
            io,
            path,
            COLUMNS,
            file_format="parquet",
            compression="zstd",
            options=Options(),
            row_group_bytes=10**9,
        )
        rng = np.random.default_rng(1)
        arrays = [pa.array(rng.integers(0, 2**60, ROWS)) for _ in COLUMNS]
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(COLUMNS)))
        size = writer.close()
        assert size > reader.WINDOW_FROM
        yield io, path, size


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each request for a part of a file."""
    from s3fs.core import S3File

    sizes: list[int] = []
    fetch = S3File._fetch_range

    def counted(self: Any, start: int, end: int) -> bytes:
        sizes.append(end - start)
        return bytes(fetch(self, start, end))

    monkeypatch.setattr(S3File, "_fetch_range", counted)
    return sizes


def test_a_file_is_fetched_about_once(file: tuple[FileIO, str, int], fetched: list[int]) -> None:
    io, path, size = file
    assert sum(b.num_rows for b in read_batches(io, path, COLUMNS, batch_rows=8192)) == ROWS
    assert sum(fetched) < 1.3 * size
    assert max(fetched) < 2 * reader.REMOTE_WINDOW


def test_some_rows_fetch_their_pages(file: tuple[FileIO, str, int], fetched: list[int]) -> None:
    io, path, size = file
    rows = range(100_000, 110_000)
    assert sum(b.num_rows for b in read_batches(io, path, COLUMNS, rows=rows)) == len(rows)
    assert sum(fetched) < 0.4 * size
