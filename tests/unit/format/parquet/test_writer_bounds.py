"""Statistics that the writer of a file takes from its footer, where Arrow puts most of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_core.format.column_stats import ColumnStats, Detail, StatsCollector
from paimon_core.format.parquet.writer import ParquetFileWriter
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.sql import parse_type

COLUMNS = parse_type("ROW<s STRING, n INT, d DECIMAL(30, 2), f DOUBLE, b BYTES, a ARRAY<INT>>")


def statistics(texts):
    """Return the statistics of `s`, written in a row group for each list of values."""
    writer = ParquetFileWriter(
        pa.BufferOutputStream(), COLUMNS, compression="zstd", zstd_level=1, row_group_bytes=1
    )
    assert set(writer.bounded) == {"s", "n", "d"}
    for values in texts:
        others = [pa.nulls(len(values), f.type) for f in arrow_schema(COLUMNS)][1:]
        writer.write(pa.RecordBatch.from_arrays([values, *others], schema=arrow_schema(COLUMNS)))
    writer.close()
    told = StatsCollector(COLUMNS, [Detail.FULL] * len(COLUMNS), "parquet")
    for name, nulls, bounds in writer.bounds():
        told.add_known(COLUMNS.names.index(name), nulls, bounds)
    rows = sum(map(len, texts))
    assert told.results()[1:3] == [ColumnStats(null_count=rows)] * 2
    return told.results()[0]


@pytest.mark.parametrize("length", [4095, 4096, 4097, 100_000])
def test_long_texts_have_bounds_too(length):
    """Arrow leaves bounds of more than 4,096 bytes out of the footer."""
    long = "m" * length
    # A slice: its first text is not the first of its buffer.
    groups = [
        pa.array(["x", "b", None, long])[1:],
        pa.array(["c", "n"]),
        pa.array([None], "string"),
    ]
    assert statistics(groups) == ColumnStats("b", "n", 2)
    assert statistics([pa.array([long])]) == ColumnStats(long, long, 0)


def test_what_is_not_text_has_no_bounds():
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    assert statistics([pa.array(["a"]), broken, pa.array(["b"])]) == ColumnStats(null_count=0)


def test_a_field_of_the_same_path_is_another_column():
    """To Arrow, both columns are `a.b`; NaN in one of them must not lose rows."""
    columns = parse_type("ROW<`a.b` STRING, a ROW<b DOUBLE, c BIGINT>, c BIGINT>")
    schema = arrow_schema(columns)
    structs = pa.array([{"b": float("nan"), "c": 1}, {"b": 1.0, "c": 2}], schema[1].type)
    arrays = [pa.array(["x", "y"]), structs, pa.array([7, 8])]
    sink = pa.BufferOutputStream()
    writer = ParquetFileWriter(sink, columns, compression="zstd", zstd_level=1)
    assert set(writer.bounded) == {"c"}
    writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    writer.close()
    assert list(writer.bounds()) == [("c", 0, [7, 8])]
    group = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    known = [group.column(i).is_stats_set for i in range(group.num_columns)]
    assert known == [False, False, True, True]
