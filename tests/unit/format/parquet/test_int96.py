from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.data_format import open_writer, read_batches
from paimon_core.format.parquet.int96 import RAW_TYPE, from_timestamps, to_timestamps
from paimon_core.format.parquet.thrift_compact import decode_struct, encode_struct
from paimon_core.io.local import LocalFileIO
from paimon_core.options import Options
from paimon_core.types.sql import parse_type

EPOCH_DAY = 2_440_588
DAY_NANOS = 86_400 * 10**9
IO = LocalFileIO()


def raw(nanos, day):
    return nanos.to_bytes(8, "little", signed=True) + day.to_bytes(4, "little", signed=True)


def test_both_ways_of_counting_before_1970():
    values = [raw(-1, EPOCH_DAY), raw(DAY_NANOS - 1, EPOCH_DAY - 1), None, raw(5, EPOCH_DAY + 1)]
    times = to_timestamps(pa.array([b"x" * 12, *values], RAW_TYPE)[1:])
    assert times.cast(pa.int64()).to_pylist() == [-1, -1, None, DAY_NANOS + 5]


def test_there_and_back():
    numbers = [0, -1, None, 2**63 - 1, -(2**63), 1_700_000_000_123_456_789]
    times = pa.array([7, *numbers], pa.int64()).view(pa.timestamp("ns"))[1:]
    back = to_timestamps(from_timestamps(times))
    assert back.view(pa.int64()).to_pylist() == numbers


@pytest.mark.parametrize("day", [EPOCH_DAY + 200_000, EPOCH_DAY - 200_000, 2**31 - 1, -(2**31)])
def test_a_time_beyond_64_bits_is_refused(day):
    with pytest.raises(UnsupportedFeature):
        to_timestamps(pa.array([raw(0, day)], RAW_TYPE))


@pytest.mark.parametrize("total", [2**63, 2**63 + 192, -(2**63) - 1, -(2**63) - 200])
def test_the_first_times_that_64_bits_do_not_hold_are_refused(total):
    day, nanos = divmod(total, DAY_NANOS)
    for value in (raw(nanos, EPOCH_DAY + day), raw(nanos - DAY_NANOS, EPOCH_DAY + day + 1)):
        with pytest.raises(UnsupportedFeature):
            to_timestamps(pa.array([value], RAW_TYPE))


def test_only_columns_beyond_microseconds_become_int96(tmp_path):
    row_type = parse_type(
        "ROW<a TIMESTAMP(3), b TIMESTAMP(9), c ARRAY<TIMESTAMP(7)>, d BINARY(12), "
        "e MAP<STRING, ROW<x TIMESTAMP(9), y INT>>>"
    )
    moment = dt.datetime(1955, 11, 5, 6, 15, 0, 1)  # noqa: DTZ001  a TIMESTAMP has no zone
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([moment.replace(microsecond=1000), None], pa.timestamp("ms")),
            pa.array([moment, None], pa.timestamp("ns")),
            pa.array([[moment, None], None], pa.list_(pa.timestamp("ns"))),
            pa.array([b"123456789012", None]),
            pa.array(
                [[("k", {"x": moment, "y": 1}), ("l", None)], None],
                pa.map_(pa.string(), pa.struct([("x", pa.timestamp("ns")), ("y", pa.int32())])),
            ),
        ],
        names=row_type.names,
    )
    path = str(tmp_path / "f.parquet")
    writer = open_writer(
        IO, path, row_type, file_format="parquet", compression="zstd", options=Options()
    )
    writer.write(batch)
    writer.close()
    schema = pq.ParquetFile(path).schema
    kinds = [schema.column(i).physical_type for i in range(len(schema))]
    assert kinds == ["INT64", "INT96", "INT96", "BYTE_ARRAY", "BYTE_ARRAY", "INT96", "INT32"]
    (back,) = read_batches(IO, path, row_type)
    assert back.to_pylist() == batch.to_pylist()
    assert pq.read_table(path)["b"].to_pylist() == batch["b"].to_pylist()


def test_a_footer_comes_back_byte_for_byte(tmp_path):
    path = tmp_path / "f.parquet"
    table = pa.table({"a": [1.5, None], "b": [["x"], None], "c": [True, False]})
    pq.write_table(table, path, write_page_index=True, sorting_columns=[pq.SortingColumn(0)])
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert encode_struct(decode_struct(footer)) == footer
    with pytest.raises(CorruptTable):
        decode_struct(footer[: length // 2])
