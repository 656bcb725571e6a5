"""Java Paimon reads our data files as it reads its own: all types, formats, keys and filters."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_core.commit.committer import commit
from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.json_columns import batch_to_json_rows
from paimon_core.types.json_values import from_json_value
from paimon_core.write.row_writer import RowWriter

COLUMNS = {
    "k": "INT NOT NULL",
    "c_bool": "BOOLEAN",
    "c_tiny": "TINYINT",
    "c_small": "SMALLINT",
    "c_big": "BIGINT",
    "c_float": "FLOAT",
    "c_double": "DOUBLE",
    "c_char": "CHAR(5)",
    "c_varchar": "VARCHAR(9)",
    "c_string": "STRING",
    "c_bin": "BINARY(4)",
    "c_dec9": "DECIMAL(9, 2)",
    "c_dec18": "DECIMAL(18, 4)",
    "c_dec38": "DECIMAL(38, 18)",
    "c_date": "DATE",
    "c_time": "TIME(3)",
    "c_ts0": "TIMESTAMP(0)",
    "c_ts3": "TIMESTAMP(3)",
    "c_ts6": "TIMESTAMP(6)",
    "c_ts9": "TIMESTAMP(9)",
    "c_ltz3": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "c_ltz6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "c_arr": "ARRAY<ROW<a TIMESTAMP(9), b CHAR(3)>>",
    "c_map": "MAP<STRING, ARRAY<DECIMAL(20, 3)>>",
    "c_imap": "MAP<INT, TIMESTAMP(9)>",
    "c_ms": "MULTISET<STRING>",
    "c_row": "ROW<x INT, y ROW<z STRING>>",
}
ROWS = [
    [1, True, -128, 32767, -(2**63), -1.5, 1e300, "ab", "äöü", "a" * 40, "00010203", "-9999999.99",
     "99999999999999.9999", "12345678901234567890.123456789012345678", "9999-12-31", "23:59:59.999",
     "2261-12-31T23:59:59", "1700-01-01T00:00:00.001", "1969-12-31T23:59:57.999999",
     "1931-05-06T07:08:09.123456789", "1960-06-01T12:00:00.001Z", "2200-01-01T00:00:00.000001Z",
     [{"a": "1969-12-31T23:59:57.000000001", "b": "x"}, None], [["k", ["1.500", None]]],
     [[-1, "2020-01-01T00:00:00.000000100"]], [["a", 2], ["b", 1]], {"x": 1, "y": {"z": ""}}],
    [2, False, 127, -32768, 2**63 - 1, 3.25, -1e-300, "", "", "", "ffffffff", "0.01",
     "-0.0001", "-0.000000000000000001", "1600-01-01", "00:00:00.000", "1970-01-01T00:00:00",
     "1970-01-01T00:00:00.001", "1970-01-01T00:00:00.000001", "1970-01-01T00:00:00.000000001",
     "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000001Z", [], [], [], [],
     {"x": None, "y": None}],
    [3, *[None] * 26],
    [4, True, 0, 0, 0, 0.0, 0.0, "abcde", "日本", "日本語のとても長い文字列です、本当に", "7f00ff00",
     "12.30", "1.0000", "1.000000000000000000", "2024-02-29", "12:34:56.789",
     "2024-02-29T12:34:56", "2024-02-29T12:34:56.789", "2024-02-29T12:34:56.789012",
     "2024-02-29T12:34:56.789012345", "2024-02-29T12:34:56.789Z", "2024-02-29T12:34:56.789012Z",
     [{"a": None, "b": None}], [["", None], ["z", []]], [[7, None]], [["", 1]],
     {"x": -1, "y": {"z": None}}],
]  # fmt: skip
NOT_IN_AVRO = {"c_ts9", "c_arr", "c_imap"}


def columns_of(file_format):
    return {k: t for k, t in COLUMNS.items() if file_format != "avro" or k not in NOT_IN_AVRO}


def rows_of(file_format):
    kept = [i for i, name in enumerate(COLUMNS) if name in columns_of(file_format)]
    return [[row[i] for i in kept] for row in ROWS]


def create(oracle, tmp_path, file_format, *, key):
    oracle.defaults(warehouse=tmp_path, database="db")
    options = {"file.format": file_format, "bucket": "1" if key else "-1", "write-only": "true"}
    for name in ("java", "ours"):
        oracle.one(
            "create_table",
            table=name,
            columns=[{"name": n, "type": t} for n, t in columns_of(file_format).items()],
            primary_keys=["k"] if key else [],
            options=options,
        )


def write_ours(tmp_path, rows, kinds=None, options=None):
    env = system_environment()
    table = open_table(str(tmp_path), "db.ours", dynamic_options=options)
    row_type = table.schema.row_type
    arrays = [
        column_from_internal([from_json_value(r[i], f.type) for r in rows], f.type)
        for i, f in enumerate(row_type)
    ]
    writer = RowWriter(table, env=env)
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(row_type))
    writer.write(batch, None if kinds is None else np.array(kinds, np.int8))
    commit(table, writer.prepare_commit(), user=str(uuid.uuid4()), env=env)


def filters(columns, rows):
    for i, (name, t) in enumerate(columns.items()):
        if any(word in t for word in ("ARRAY", "MAP", "MULTISET", "ROW", "BINARY")):
            continue
        yield {"field": name, "op": "=", "value": rows[0][i]}
        yield {"field": name, "op": ">=", "value": rows[1][i]}
    yield {"field": "c_string", "op": "isNull"}


@pytest.mark.sampled
@pytest.mark.parametrize("key", [False, True], ids=["append", "key"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_all_types_and_filters(oracle, tmp_path, file_format, key):
    create(oracle, tmp_path, file_format, key=key)
    # Values that repeat are written with dictionaries, by which Java's filters skip too.
    columns, some = columns_of(file_format), rows_of(file_format)
    rows = [[k, *some[k % len(some)][1:]] for k in range(24)]
    oracle.one("write", table="java", rows=rows)
    write_ours(tmp_path, rows)
    whole = oracle.rows(table="java")
    assert oracle.rows(table="ours") == whole
    for condition in filters(columns, rows):
        ours = oracle.rows(table="ours", filter=condition)
        java = oracle.rows(table="java", filter=condition)
        if file_format == "orc" and condition["field"] == "c_char":
            assert {r[1] for r in java} <= {r[1] for r in ours}, condition  # see TRIMMED
        else:
            assert ours == java, condition


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_not_a_number_is_not_lost_by_statistics(oracle, tmp_path, file_format):
    columns = [{"name": "k", "type": "INT"}, {"name": "f", "type": "DOUBLE"}]
    oracle.defaults(warehouse=tmp_path, database="db", table="ours")
    oracle.one("create_table", columns=columns, options={"file.format": file_format})
    write_ours(tmp_path, [[1, "NaN"], [2, -1.0], [3, "Infinity"], [4, None]])
    for value, expected in ((100.0, [1, 3]), (-2.0, [1, 2, 3]), ("Infinity", [1])):
        condition = {"field": "f", "op": ">", "value": value}
        assert [r[1] for r in oracle.rows(filter=condition)] == expected
    condition = {"field": "f", "op": "<", "value": 0.0}
    assert [r[1] for r in oracle.rows(filter=condition)] == [2]


def test_not_a_number_in_some_row_groups_is_not_lost(oracle, tmp_path):
    """Bounds of doubles are only in the footers of row groups, and of pages, without NaN."""
    columns = [{"name": "k", "type": "INT"}, {"name": "f", "type": "DOUBLE"}]
    oracle.defaults(warehouse=tmp_path, database="db", table="ours")
    options = {"target-file-size": "100 kb", "file.compression": "none"}
    oracle.one("create_table", columns=columns, options=options)
    with_nan = {5, 9_000, 59_999}
    rows = [[k, "NaN" if k in with_nan else k / 2] for k in range(60_000)]
    write_ours(tmp_path, rows)
    footers = [pq.read_metadata(p) for p in (tmp_path / "db.db" / "ours").rglob("data-*.parquet")]
    groups = [f.row_group(i) for f in footers for i in range(f.num_row_groups)]
    known = [group.column(1).statistics for group in groups]
    assert {s is not None and s.has_min_max for s in known} == {True, False}
    for value in (-1.0, 15_000.0, 29_990.0):
        for op, rest in ((">", lambda x, v: x > v), ("<", lambda x, v: x < v)):
            condition = {"field": "f", "op": op, "value": value}
            found = {r[1] for r in oracle.rows(filter=condition)}
            expected = {k for k, x in rows if rest(float(x), value)}
            assert found == (expected | with_nan if op == ">" else expected), condition


@pytest.mark.parametrize(
    ("file_format", "compression"),
    [("parquet", c) for c in ("zstd", "gzip", "snappy", "lz4", "none")]
    + [("orc", c) for c in ("zstd", "zlib", "snappy", "lz4", "none")]
    + [("avro", c) for c in ("zstd", "deflate", "snappy", "null")],
)
def test_all_compressions(oracle, tmp_path, file_format, compression):
    create(oracle, tmp_path, file_format, key=True)
    rows = rows_of(file_format)
    write_ours(tmp_path, rows, options={"file.compression": compression})
    assert [r[1] for r in oracle.rows(table="ours")] == [1, 2, 3, 4]


@pytest.mark.sampled
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_many_rows_kinds_and_files(oracle, tmp_path, file_format):
    """Several files and row groups; Java merges our deletes and then compacts what we wrote."""
    oracle.defaults(warehouse=tmp_path, database="db", table="ours")
    columns = {"k": "INT NOT NULL", "a": "BIGINT", "s": "STRING", "t": "TIMESTAMP(9)"}
    if file_format == "avro":
        columns["t"] = "TIMESTAMP(6)"
    oracle.one(
        "create_table",
        columns=[{"name": n, "type": t} for n, t in columns.items()],
        primary_keys=["k"],
        options={"file.format": file_format, "bucket": "1", "target-file-size": "100 kb"},
    )
    zeros = "000" if file_format == "avro" else "000000"
    rows = [
        [k, None if k % 7 == 0 else k * 7919, f"s{k % 50}", f"2020-01-01T00:00:{k % 60:02}.001{zeros}"]
        for k in range(20_000)
    ]  # fmt: skip
    write_ours(tmp_path, rows)
    write_ours(tmp_path, rows[::2], kinds=[3] * 10_000)
    expected = [["+I", *row] for row in rows[1::2]]
    by_key = lambda row: row[1]  # noqa: E731
    assert sorted(oracle.rows(), key=by_key) == expected
    oracle.one("compact", full=True)
    assert sorted(oracle.rows(), key=by_key) == expected
    condition = {"field": "k", "op": "=", "value": 12_345}
    assert oracle.rows(filter=condition) == [["+I", *rows[12_345]]]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("key", [False, True], ids=["append", "key"])
def test_we_read_what_java_wrote(oracle, tmp_path, file_format, key):
    create(oracle, tmp_path, file_format, key=key)
    rows = rows_of(file_format)
    oracle.one("write", table="java", rows=rows)
    from paimon_core.read.data_file import read_data_file
    from paimon_core.scan.scan import scan_files

    table = open_table(str(tmp_path), "db.java")
    row_type = table.schema.row_type
    found = []
    for entry in scan_files(table, table.latest_or_not_found()):
        path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
        for batch in read_data_file(
            table.io, path, entry.file,
            file_schema=table.schema, read_type=row_type, key_value=key,
        ):  # fmt: skip
            found += batch_to_json_rows(batch.select(row_type.names), row_type)
    assert sorted(found, key=lambda r: r[0]) == [r[1:] for r in oracle.rows(table="java")]
