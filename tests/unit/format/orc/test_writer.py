"""ORC files made here, read by Arrow's reader, which wraps the ORC project's C++ library."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.data_format import open_writer, read_batches
from paimon_core.format.orc.zone import file_zone
from paimon_core.io.local import LocalFileIO
from paimon_core.options import Options
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.sql import parse_type

IO = LocalFileIO()


def write(path, sql, *columns, compression="zstd", **options):
    row_type = parse_type(f"ROW<{sql}>")
    schema = arrow_schema(row_type)
    arrays = [
        c if isinstance(c, pa.Array) else pa.array(c, f.type)
        for c, f in zip(columns, schema, strict=True)
    ]
    writer = open_writer(
        IO,
        str(path),
        row_type,
        file_format="orc",
        compression=compression,
        options=Options({k.replace("_", "-"): v for k, v in options.items()}),
    )
    writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    writer.close()
    return row_type


LONGS = {
    "constant": np.full(3000, -(2**63)),
    "counter": np.arange(10_000),
    "countdown": np.arange(5000, -5000, -3),
    "wrapping": np.array([2**63 - 1, -(2**63), 2**63 - 1, -(2**63)] * 400),
    "two": np.array([1, 2]),
    "three equal": np.array([7, 7, 7]),
    "one": np.array([-1]),
    "random": np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 5000),
    "of all widths": np.concatenate(
        [
            np.random.default_rng(w).integers(-(2 ** (8 * w - 2)), 2 ** (8 * w - 2), 700)
            for w in range(1, 9)
        ]
    ),
    "runs and noise": np.concatenate(
        [np.full(1024, 5), np.random.default_rng(2).integers(0, 100, 1024), np.arange(600)]
    ),
}


@pytest.mark.parametrize("name", LONGS)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_integers(tmp_path, name, compression):
    values = LONGS[name].astype(np.int64)
    write(tmp_path / "f.orc", "a BIGINT", pa.array(values), compression=compression)
    assert (np.asarray(orc.ORCFile(tmp_path / "f.orc").read()["a"]) == values).all()


@pytest.mark.parametrize("size", [1, 2, 3, 127, 128, 129, 130, 131, 260, 261, 1000, 1041])
@pytest.mark.parametrize("kind", ["same", "mixed"])
def test_bytes_and_booleans(tmp_path, size, kind):
    rng = np.random.default_rng(size)
    numbers = (
        np.full(size, 5, np.int8) if kind == "same" else rng.integers(-128, 128, size, np.int8)
    )
    flags = np.full(size, fill_value=True) if kind == "same" else rng.random(size) < 0.5
    holes = pa.array([None if i % 9 == 4 else int(v) for i, v in enumerate(numbers)], pa.int8())
    write(tmp_path / "f.orc", "a TINYINT, b BOOLEAN, c TINYINT", numbers, flags, holes)
    back = orc.ORCFile(tmp_path / "f.orc").read()
    assert back["a"].to_pylist() == numbers.tolist()
    assert back["b"].to_pylist() == flags.tolist()
    assert back["c"].to_pylist() == holes.to_pylist()


def test_decimals(tmp_path):
    values = [
        Decimal("99999999999999999999999999999999999.999"),
        Decimal("-99999999999999999999999999999999999.999"),
        Decimal("0.000"),
        None,
        Decimal("-0.001"),
        Decimal("18446744073709551.615"),
        Decimal("18446744073709551.616"),
    ]
    write(tmp_path / "f.orc", "a DECIMAL(38, 3), b DECIMAL(5, 0)", values, [1, -1] * 3 + [None])
    back = orc.ORCFile(tmp_path / "f.orc").read()
    assert back["a"].to_pylist() == values
    assert back["b"].to_pylist() == [Decimal(1), Decimal(-1)] * 3 + [None]


def test_timestamps_around_1970_and_2015(tmp_path):
    nanos = [
        0, 1, 100, 1000, 10**6, 10**9 - 1, 10**9, -(10**9), -(10**9) - 1, -2 * 10**9 + 10**6,
        -2 * 10**9 + 999_999, -(10**9) + 5, -1_999_000_001, 1_420_070_400 * 10**9 - 1,
        1_420_070_400 * 10**9, None, -8_520_336_000_000_000_001,
    ]  # fmt: skip
    times = pa.array(nanos, pa.int64()).view(pa.timestamp("ns"))
    write(tmp_path / "f.orc", "a TIMESTAMP(9)", times)
    back = orc.ORCFile(tmp_path / "f.orc").read()["a"].combine_chunks()
    assert back.view(pa.int64()).to_pylist() == nanos


@pytest.mark.parametrize("nanos", [-1, -(10**6), -(10**9) + 10**6])
def test_the_second_that_orc_cannot_hold(tmp_path, nanos):
    with pytest.raises(UnsupportedFeature, match="second before 1970"):
        write(tmp_path / "f.orc", "a TIMESTAMP(9)", pa.array([nanos]).view(pa.timestamp("ns")))


def test_a_timestamp_that_arrow_cannot_read_is_refused_by_name(tmp_path):
    end_of_time = [dt.datetime(9999, 12, 31)]  # noqa: DTZ001
    row_type = write(tmp_path / "f.orc", "a TIMESTAMP(3)", end_of_time)
    with pytest.raises(UnsupportedFeature, match="out of range"):
        list(read_batches(IO, str(tmp_path / "f.orc"), row_type))


def test_char_is_padded_in_the_file_and_trimmed_for_the_reader(tmp_path):
    row_type = write(tmp_path / "f.orc", "a CHAR(3), b VARCHAR(3)", ["ä", "abc"], ["ä ", ""])
    assert orc.ORCFile(tmp_path / "f.orc").read()["a"].to_pylist() == ["ä  ", "abc"]
    (back,) = read_batches(IO, str(tmp_path / "f.orc"), row_type)
    assert back.to_pydict() == {"a": ["ä", "abc"], "b": ["ä ", ""]}


def test_repeated_texts_get_a_dictionary(tmp_path):
    texts = [None if i % 10 == 0 else f"word {i % 7}" for i in range(20_000)]
    write(tmp_path / "few.orc", "a STRING", texts, compression="none")
    assert orc.ORCFile(tmp_path / "few.orc").read()["a"].to_pylist() == texts
    assert (tmp_path / "few.orc").stat().st_size < 25_000


@pytest.mark.parametrize("compression", ["none", "zlib", "snappy", "lz4", "zstd"])
def test_the_zone_of_java_is_kept(tmp_path, compression):
    sql = "a TIMESTAMP(3) WITH LOCAL TIME ZONE, b ARRAY<TIMESTAMP(6) WITH LOCAL TIME ZONE>"
    moments = [dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC), None]
    path = tmp_path / "f.orc"
    row_type = write(
        path, sql, moments, [moments, None], compression=compression,
        **{"caretaker.orc-time-zone": "Asia/Shanghai"},
    )  # fmt: skip
    with pa.OSFile(str(path)) as source:
        assert file_zone(source) == "Asia/Shanghai"
    stored = orc.ORCFile(path).read()["a"].to_pylist()[0]
    assert stored.hour == 4
    (back,) = read_batches(IO, str(path), row_type)
    assert back.to_pydict() == {"a": moments, "b": [moments, None]}
    plain = Options({"orc.timestamp-ltz.legacy.type": "false"})
    (back,) = read_batches(IO, str(path), row_type, options=plain)
    assert back["a"].to_pylist()[0].hour == 4
