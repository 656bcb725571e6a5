"""Ranges of rows: the same rows as from the whole file, and no pages beside theirs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_core.errors import CorruptTable
from paimon_core.format.parquet import reader
from paimon_core.format.parquet.chunks import values_of
from paimon_core.format.parquet.footer import (
    FILE_ROW_GROUPS,
    GROUP_COLUMNS,
    footer_bytes,
    structs_of,
)
from paimon_core.format.parquet.index_bytes import page_values
from paimon_core.format.parquet.page_index import chunk_pages
from paimon_core.format.parquet.reader import read_parquet
from paimon_core.format.parquet.thrift_compact import (
    I32,
    STRUCT,
    Field,
    decode_struct,
    encode_struct,
)
from paimon_core.format.parquet.writer import ParquetFileWriter
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

TYPES = {
    "k": "BIGINT",
    "name": "STRING",
    "few": "STRING",
    "price": "DECIMAL(10, 2)",
    "at": "TIMESTAMP(9)",
    "flag": "BOOLEAN",
    "x": "DOUBLE",
    "list": "ARRAY<INT>",
    "map": "MAP<STRING, INT>",
    "row": "ROW<a INT, b STRING, c ARRAY<STRING>>",
    "a.b": "INT",
}


def row_type(**types: str) -> RowType:
    return RowType(
        fields=tuple(
            DataField(id=i, name=name, type=parse_type(t))
            for i, (name, t) in enumerate(types.items())
        )
    )


def rows_of(count: int, columns: RowType, seed: int) -> pa.Table:
    rng = random.Random(seed)

    def null(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    def text() -> str:
        return "".join(rng.choices("abcdefgh", k=rng.choice((0, 3, 20, 60))))

    make: dict[str, Callable[[int], Any]] = {
        "k": lambda i: i,
        "name": lambda _: null(text()),
        "few": lambda _: null(rng.choice(("red", "green", "blue"))),
        "price": lambda i: null(Decimal(i) / 100),
        "at": lambda i: null(np.datetime64(10**18 + i * 1_000_000_007, "ns")),
        "flag": lambda _: null(rng.random() < 0.5),
        "x": lambda _: null(rng.random()),
        "list": lambda _: null([null(rng.randrange(99)) for _ in range(rng.randrange(4))]),
        "map": lambda i: null({f"{i}-{n}": null(n) for n in range(rng.randrange(3))}),
        "row": lambda i: null({"a": null(i), "b": null(text()), "c": null([text()])}),
        "a.b": lambda i: null(-i),
    }
    schema = arrow_schema(columns)
    arrays = [pa.array([make[f.name](i) for i in range(count)], f.type) for f in schema]
    return pa.table(arrays, schema=schema)


def java_like(table: pa.Table, *, groups: int = 1) -> bytes:
    """A file with few row groups, and pages of other rows in each column."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=-(-table.num_rows // groups),
        data_page_size=600,
        write_batch_size=7,
        write_page_index=True,
        write_page_checksum=True,
        use_dictionary=["few"],
        compression="zstd",
    )
    return bytes(sink.getvalue())


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PAGES_FROM", 0)


class Counting:
    """A file that counts the bytes read from it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.bytes = 0
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        part = self.data[self.at :] if count < 0 else self.data[self.at : self.at + count]
        self.at += len(part)
        self.bytes += len(part)
        return part

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = (0, self.at, len(self.data))[whence] + offset
        return self.at

    def tell(self) -> int:
        return self.at

    def close(self) -> None: ...

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False


def read(data: bytes, columns: RowType, rows: range | None, *, batch_rows: int = 64) -> pa.Table:
    batches = list(
        read_parquet(
            pa.BufferReader(data), columns, batch_rows=batch_rows, use_threads=False, rows=rows
        )
    )
    assert all(0 < b.num_rows <= batch_rows for b in batches)
    return pa.Table.from_batches(batches, arrow_schema(columns))


def ranges(count: int, seed: int) -> Iterator[range]:
    rng = random.Random(seed)
    yield from (range(count), range(1), range(count - 1, count), range(5, 5))
    for _ in range(12):
        begin = rng.randrange(count)
        yield range(begin, rng.randint(begin, count))


@pytest.mark.parametrize("groups", [1, 3])
def test_any_rows_of_any_columns(groups: int) -> None:
    columns = row_type(**{n: t for n, t in TYPES.items() if n != "at"})
    table = rows_of(1500, columns, groups)
    data = java_like(table, groups=groups)
    rng = random.Random(groups)
    for rows in ranges(1500, groups):
        some = columns.project(rng.sample(columns.names, rng.randint(1, len(columns.names))))
        expected = table.select(some.names).slice(rows.start, len(rows))
        assert read(data, some, rows).equals(expected), rows


def test_rows_of_our_own_files() -> None:
    columns = row_type(**TYPES)
    table = rows_of(1500, columns, 7)
    sink = pa.BufferOutputStream()
    writer = ParquetFileWriter(
        sink, columns, compression="zstd", zstd_level=1, row_group_bytes=60_000
    )
    for batch in table.to_batches(max_chunksize=100):
        writer.write(batch)
    writer.close()
    data = bytes(sink.getvalue())
    assert pq.read_metadata(pa.BufferReader(data)).num_row_groups > 1
    for rows in ranges(1500, 7):
        assert read(data, columns, rows).equals(table.slice(rows.start, len(rows))), rows


def test_columns_that_the_file_lacks_are_null() -> None:
    columns = row_type(k="BIGINT", name="STRING")
    data = java_like(rows_of(1000, columns, 1))
    found = read(data, row_type(other="INT", k="BIGINT"), range(300, 400))
    assert found.column("other").null_count == 100
    assert found.column("k").to_pylist() == list(range(300, 400))
    assert read(data, row_type(other="INT"), range(300, 400)).num_rows == 100


def test_only_the_pages_of_the_rows_are_read() -> None:
    columns = row_type(k="BIGINT", name="STRING", row=TYPES["row"])
    file = Counting(java_like(rows_of(20_000, columns, 1)))
    source = pa.PythonFile(file, mode="r")
    batches = list(
        read_parquet(source, columns, batch_rows=512, use_threads=False, rows=range(10_000, 10_200))
    )
    assert sum(b.num_rows for b in batches) == 200
    # These pages are tiny, so that their indexes take a tenth of the file.
    assert file.bytes < 0.25 * len(file.data)


def test_a_file_of_java_has_known_pages(golden: Callable[..., Any]) -> None:
    """Its index is what makes ranges of its rows cheap."""
    folder: Path = golden("append_unaware").root
    data = min(folder.rglob("data-*.parquet")).read_bytes()
    source = pa.BufferReader(data)
    (group,) = structs_of(decode_struct(footer_bytes(source)), FILE_ROW_GROUPS)
    rows = pq.read_metadata(pa.BufferReader(data)).num_rows
    pages = chunk_pages(source, structs_of(group, GROUP_COLUMNS), rows)
    assert pages is not None
    assert all(p.pages[0].first_row == 0 and p.pages[-1].first_row == rows for p in pages)


def test_without_an_index_row_groups_are_decoded() -> None:
    columns = row_type(k="BIGINT", name="STRING")
    table = rows_of(1000, columns, 1)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=300)
    for rows in ranges(1000, 3):
        expected = table.slice(rows.start, len(rows))
        assert read(bytes(sink.getvalue()), columns, rows).equals(expected)


@pytest.mark.parametrize("kind", [0, 2, 3])
@pytest.mark.parametrize("checksum", [None, 7, -7])
@pytest.mark.parametrize("values", [0, 1, 63, 64, 20_000, 2**31 - 1, -1])
def test_the_values_of_a_page_are_those_of_its_whole_header(
    kind: int, checksum: int | None, values: int
) -> None:
    counts = [Field(1, I32, values), Field(2, I32, 0)]
    header = [Field(1, I32, kind), Field(2, I32, 500), Field(3, I32, 400)]
    header += [] if checksum is None else [Field(4, I32, checksum)]
    header.append(Field({0: 5, 2: 7, 3: 8}[kind], STRUCT, counts))
    data = encode_struct(header)
    known = kind != 2 and values >= 0
    assert page_values(b"before" + data + b"after", 6) == (values if known else None)
    assert not known or values_of(decode_struct(data)) == values
    assert all(page_values(data[:end], 0) in (None, values) for end in range(len(data)))


def test_damaged_indexes_give_the_right_rows_or_an_error() -> None:
    columns = row_type(k="BIGINT", name="STRING")
    table = rows_of(1000, columns, 1)
    data = java_like(table)
    length = len(footer_bytes(pa.BufferReader(data)))
    begin = len(data) - 8 - length - 600
    outcomes = set()
    rng = random.Random(1)
    for _ in range(150):
        place = rng.randrange(begin, len(data) - 8 - length)
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.randrange(8)
        try:
            found = read(bytes(damaged), columns, range(400, 500))
        except (CorruptTable, pa.ArrowException, OSError):
            outcomes.add("refused")
        else:
            outcomes.add("same" if found.equals(table.slice(400, 100)) else "other")
    assert "same" in outcomes
    assert outcomes <= {"same", "refused"}
