"""Pages that are copied: every one is looked at, in windows of any size, and put where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_core.errors import CorruptTable
from paimon_core.format.arrow_conversion import in_order
from paimon_core.format.parquet import chunks as parquet_chunks
from paimon_core.format.parquet.assembler import (
    ChunkSource,
    ParquetAssembler,
    encoded,
    layout_like,
    reader,
)
from paimon_core.format.parquet.chunks import StoredColumn, checked_pages, joined, stored_groups
from paimon_core.format.parquet.thrift_compact import decode_at, field_value
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type


def fields(**types: str) -> RowType:
    return RowType(
        fields=tuple(
            DataField(id=i, name=name, type=parse_type(t))
            for i, (name, t) in enumerate(types.items())
        )
    )


def chunks_of(batch: pa.RecordBatch, columns: RowType) -> list[ChunkSource]:
    return encoded([batch], columns, compression="zstd", zstd_level=1)


def assembled(columns: RowType, groups: list[list[list[ChunkSource]]], rows: list[int]) -> pa.Table:
    sink = pa.BufferOutputStream()
    file = ParquetAssembler(sink, columns, compression="zstd", zstd_level=1)
    for count, leaves in zip(rows, groups, strict=True):
        file.take_over(count, leaves)
    size = file.close()
    data = sink.getvalue()
    assert size == data.size
    return pq.read_table(pa.BufferReader(data), page_checksum_verification=True)


@pytest.fixture
def java_file(golden: Callable[..., Any]) -> bytes:
    """A file by Java, whose pages have checksums."""
    folder: Path = golden("append_unaware").root
    return min(folder.rglob("data-*.parquet")).read_bytes()


def java_columns(data: bytes) -> list[StoredColumn]:
    metadata = pq.read_metadata(pa.BufferReader(data))
    groups = stored_groups(metadata, metadata, "ZSTD")
    assert groups is not None
    return [c for group in groups for c in group.columns]


def all_pages(data: bytes, column: StoredColumn) -> bytes:
    read = reader(pa.py_buffer(data))
    return b"".join(bytes(part) for part in checked_pages(read, column, "c"))


def test_every_damaged_byte_of_a_page_is_found(java_file: bytes) -> None:
    for column in java_columns(java_file):
        whole = all_pages(java_file, column)
        assert whole == java_file[column.start : column.start + column.size]
        for at in first_page_body(java_file, column):
            damaged = bytearray(java_file)
            damaged[at] ^= 0x10
            with pytest.raises(CorruptTable, match="column c does not have its checksum"):
                all_pages(bytes(damaged), column)


def first_page_body(data: bytes, column: StoredColumn) -> range:
    decoded = decode_at(data, column.start)
    assert decoded is not None
    header, start = decoded
    size = field_value(header, 3)
    assert isinstance(size, int)
    return range(start, start + size)


@pytest.mark.parametrize("kept", [0, 1, 10, 20])
def test_a_file_that_ends_too_early(java_file: bytes, kept: int) -> None:
    column = java_columns(java_file)[0]
    with pytest.raises(CorruptTable, match="ends within column c"):
        all_pages(java_file[: column.start + kept], column)


def test_a_footer_that_promises_too_much(java_file: bytes) -> None:
    column = java_columns(java_file)[0]
    longer = replaced(column, values=column.values + 1)
    with pytest.raises(CorruptTable, match=rf"hold {column.values} values, its footer says"):
        all_pages(java_file, longer)
    with pytest.raises(CorruptTable, match="extends beyond its column chunk"):
        all_pages(java_file, replaced(column, size=column.size - 1))


def replaced(column: StoredColumn, **changed: Any) -> StoredColumn:
    values = {name: getattr(column, name) for name in StoredColumn.__slots__}
    return StoredColumn(**(values | changed))


@pytest.mark.parametrize("window", [1, 37, 1000, 10**6])
def test_windows_of_any_size(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(parquet_chunks, "WINDOW", window)
    columns = fields(a="BIGINT", s="STRING")
    numbers = list(range(60_000))
    batch = pa.record_batch({"a": numbers, "s": [f"text {n * 7919}" for n in numbers]})
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table(batch.columns, schema=batch.schema),
        sink,
        compression="zstd",
        data_page_size=5000,
        use_dictionary=False,
    )
    data = sink.getvalue().to_pybytes()
    for column in java_columns(data):
        assert all_pages(data, column) == data[column.start : column.start + column.size]
    leaves = [[chunk] for chunk in chunks_of(batch, columns)]
    assert assembled(columns, [leaves], [len(numbers)]).to_batches() != []


def test_chunks_one_behind_the_other_are_one_column() -> None:
    columns = fields(a="INT", s="STRING", n="ARRAY<INT>")
    first = pa.record_batch(
        {"a": pa.array([1, None], pa.int32()), "s": ["x", None], "n": pa.array([[1, 2], None])}
    )
    second = pa.record_batch(
        {"a": pa.array([7, -3], pa.int32()), "s": ["a", "b"], "n": pa.array([[], [None]])}
    )
    parts = [chunks_of(b, columns) for b in conformed([first, second], columns)]
    leaves = [[part[i] for part in parts] for i in range(3)]
    table = assembled(columns, [leaves, [[c] for c in parts[1]]], [4, 2])
    assert table.column("a").to_pylist() == [1, None, 7, -3, 7, -3]
    assert table.column("s").to_pylist() == ["x", None, "a", "b", "a", "b"]
    assert table.column("n").to_pylist() == [[1, 2], None, [], [None], [], [None]]
    told = joined([c.column for c in leaves[0]], columns.fields[0].type)
    assert told == (1, -3, 7)


def conformed(batches: list[pa.RecordBatch], columns: RowType) -> list[pa.RecordBatch]:
    return [in_order(b, arrow_schema(columns)) for b in batches]


@pytest.mark.parametrize("other", ["BIGINT", "INT NOT NULL", "STRING"])
def test_files_of_other_columns_are_not_taken(other: str) -> None:
    ours, theirs = layout_like(fields(a="INT"), "zstd"), layout_like(fields(a=other), "zstd")
    assert stored_groups(theirs, theirs, "ZSTD") == []
    assert stored_groups(theirs, ours, "ZSTD") is None
    assert stored_groups(layout_like(fields(b="INT"), "zstd"), ours, "ZSTD") is None


def test_another_compression_or_writer_is_not_taken() -> None:
    batch = pa.record_batch({"a": pa.array([1], pa.int32())})
    for compression, created_by, taken in (
        ("zstd", "parquet-cpp-arrow version 1.0.0", True),
        ("snappy", "parquet-cpp-arrow version 1.0.0", False),
        ("zstd", "somebody version 1.0.0", False),
    ):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches([batch]), sink, compression=compression)
        data = sink.getvalue().to_pybytes()
        made_by = pq.read_metadata(pa.BufferReader(data)).created_by.encode()
        data = data.replace(made_by, created_by.encode().ljust(len(made_by)))
        metadata = pq.read_metadata(pa.BufferReader(data))
        groups = stored_groups(metadata, metadata, "ZSTD")
        assert (groups is not None) == taken, created_by
