from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from golden_files import VERSIONS, golden_table
from lakes import ENV
from pyroaring import BitMap

from paimon_core.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from paimon_core.index.file_index.container import (
    decode_indexes,
    encode_indexes,
    java_utf,
    read_java_utf,
)
from paimon_core.index.file_index.evaluate import rows_that_may_match
from paimon_core.index.file_index.hash64 import xxhash64
from paimon_core.index.file_index.keys import bitmap_at, serialized
from paimon_core.index.file_index.writer import (
    FileIndexWriter,
    IndexedColumn,
    indexed_columns,
)
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import FileSource
from paimon_core.options import Options
from paimon_core.paths import table_paths
from paimon_core.predicate.columns import evaluate
from paimon_core.predicate.nodes import And, Leaf, Op, Or
from paimon_core.read.data_file import read_data_file
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.data_types import RowType
from paimon_core.types.sql import parse_type
from paimon_core.write.data_file_writer import RollingAppendWriter

IO = LocalFileIO()
KINDS = ("bloom-filter", "bitmap", "bsi", "range-bitmap")


def built(row_type, arrays, wanted):
    writer = FileIndexWriter(row_type, wanted)
    writer.update(arrays)
    return writer.finish()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["bloom_index", "bloom_index_file"])
def test_bloom_filters_are_byte_for_byte_javas(version, name):
    table = golden_table(version, name)
    wanted = sorted(indexed_columns(table.schema.options), key=lambda c: c.column, reverse=True)
    for file in table.all_files():
        batches = read_data_file(
            IO, str(file.path), file.meta,
            file_schema=file.schema, read_type=file.schema.row_type, key_value=False,
        )  # fmt: skip
        writer = FileIndexWriter(file.schema.row_type, wanted)
        for batch in batches:
            writer.update(batch.columns)
        if name == "bloom_index":
            java = file.meta.embedded_index
        else:
            assert file.meta.extra_files == (f"{file.path.name}.index",)
            java = file.path.with_name(file.meta.extra_files[0]).read_bytes()
        assert writer.finish() == java
        assert encode_indexes(decode_indexes(java)) == java


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0xEF46DB3751D8E999),
        ("a", 0xD24EC4F1A98C6E5B),
        ("abc", 0x44BC2CF5AD770999),
        ("0123456789", 0x3F5FC178A81867E7),
        ("x" * 100, None),
    ],
)
def test_xxhash64(text, expected):
    data = np.frombuffer(text.encode(), np.uint8).reshape(1, -1)
    hashed = int(xxhash64(data)[0])
    if expected is not None:
        assert hashed == expected
    assert (xxhash64(np.repeat(data, 5, axis=0)) == hashed).all()


@pytest.mark.parametrize("text", ["", "abc", "é日\0", "😀[k]"])
def test_names_as_java_writes_them(text):
    assert read_java_utf(b"??" + java_utf(text), 2)[0] == text
    assert java_utf("\0") == b"\0\2\xc0\x80"
    assert len(java_utf("😀")) == 8


COLUMNS = {
    "i8": ("TINYINT", [None, 3, -3, 127, -128, 3]),
    "i16": ("SMALLINT", [5, None, -5, 5, 0, 1]),
    "i32": ("INT", [7, 7, 7, None, -(2**31), 2**31 - 1]),
    "i64": ("BIGINT", [1, -1, None, 2**63 - 1, -(2**63) + 1, 0]),
    "f": ("FLOAT", [1.5, -1.5, None, float("nan"), float("inf"), 1.5]),
    "d": ("DOUBLE", [1.5, -1.5, None, float("nan"), float("-inf"), 2.25]),
    "s": ("STRING", ["a", "b", None, "a" * 40, "日本", ""]),
    "c": ("CHAR(3)", ["abc", None, "abc", "x", "y", "z"]),
    "b": ("VARBINARY(9)", [b"", b"\0\1", None, b"x", b"x", b"y"]),
    "dt": ("DATE", [0, -1, None, 20_000, 1, 0]),
    "tm": ("TIME(3)", [0, 1, None, 86_399_999, 1, 0]),
    "t3": ("TIMESTAMP(3)", [0, -(10**6), None, 10**15, 10**6, 0]),
    "t6": ("TIMESTAMP(6)", [0, -(10**3), None, 10**15, 10**3, 0]),
    "t9": ("TIMESTAMP(9)", [0, -1, None, 10**15 + 1, 1, 999]),
    "l6": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [0, -(10**3), None, 10**15, 10**3, 0]),
    "dec": ("DECIMAL(18, 3)", [1, -1, None, 10**18 - 1, 0, 5]),
    "flag": ("BOOLEAN", [True, False, None, True, True, False]),
}
NOT_INDEXED = {
    "bloom-filter": {"dec", "flag"},
    "bitmap": {"dec", "b"},
    "bsi": {"f", "d", "s", "c", "b", "flag"},
    "range-bitmap": {"b", "t9"},
}


def column(name):
    sql, values = COLUMNS[name]
    row_type = parse_type(f"ROW<{name} {sql}>")
    t = row_type.types[0]
    if name == "dec":
        from paimon_core.types.decimals import from_unscaled

        values = [None if v is None else from_unscaled(v, 3) for v in values]
    return row_type, values, column_from_internal(values, t)


def conditions(name, values):
    literals = [v for v in values if v is not None]
    for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE):
        for value in literals:
            yield Leaf(op, name, (value,))
    for op in (Op.BETWEEN, Op.IN, Op.NOT_IN):
        for pair in itertools.permutations(literals, 2):
            yield Leaf(op, name, pair)
    yield Leaf(Op.IN, name, (literals[0], None))
    yield Leaf(Op.NOT_IN, name, (literals[0], None))
    yield Leaf(Op.EQ, name, (None,))
    yield Leaf(Op.IS_NULL, name)
    yield Leaf(Op.IS_NOT_NULL, name)


SETTINGS = {
    "bitmap": ({}, {"version": "1"}, {"index-block-size": "60 b"}),
    "range-bitmap": ({}, {"chunk-size": "0 b"}, {"chunk-size": "20 b"}),
}


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        (k, n, o)
        for k in KINDS
        for n in COLUMNS
        if n not in NOT_INDEXED[k]
        for o in SETTINGS.get(k, ({},))
    ],
)
def test_no_matching_row_is_ever_ruled_out(kind, name, options):
    row_type, values, array = column(name)
    index = built(row_type, [array], [IndexedColumn(kind, name, None, options)])
    batch = pa.RecordBatch.from_arrays([array], schema=arrow_schema(row_type))
    ruled_out = 0
    for condition in conditions(name, values):
        matching = set(np.flatnonzero(np.asarray(evaluate(condition, batch))).tolist())
        found = rows_that_may_match(index, condition, row_type)
        if found is None:
            continue
        ruled_out += 1
        assert matching <= set(found), condition
        if kind != "bloom-filter" and name != "t9":
            assert matching == set(found), condition
    assert ruled_out > 0 or kind == "bloom-filter"


@pytest.mark.parametrize("kind", KINDS)
def test_types_without_such_an_index_are_refused(kind):
    for name in NOT_INDEXED[kind]:
        with pytest.raises(InvalidArgument, match=kind):
            FileIndexWriter(column(name)[0], [IndexedColumn(kind, name)])
    with pytest.raises(InvalidArgument):
        FileIndexWriter(parse_type("ROW<a ARRAY<INT>>"), [IndexedColumn(kind, "a")])


def test_a_bloom_filter_rules_out_what_is_not_there():
    row_type = parse_type("ROW<s STRING, n BIGINT>")
    arrays = [pa.array([f"v{i}" for i in range(1000)]), pa.array(range(1000))]
    options = {"items": "1000", "fpp": "0.01"}
    wanted = [IndexedColumn("bloom-filter", c, None, options) for c in ("s", "n")]
    index = built(row_type, arrays, wanted)
    misses = [
        rows_that_may_match(index, Leaf(Op.EQ, "s", (f"other{i}",)), row_type) for i in range(500)
    ]
    assert sum(m is None for m in misses) < 25
    assert rows_that_may_match(index, Leaf(Op.EQ, "n", (999,)), row_type) is None
    assert rows_that_may_match(index, Leaf(Op.EQ, "n", (10**9,)), row_type) == BitMap()


def test_conditions_combine():
    row_type = parse_type("ROW<a INT, b INT, c INT>")
    arrays = [pa.array([1, 1, 2, 2], pa.int32()), pa.array([1, 2, 1, 2], pa.int32())]
    arrays.append(arrays[0])
    index = built(row_type, arrays, [IndexedColumn("bitmap", "a"), IndexedColumn("bsi", "b")])
    a, b, c = (Leaf(Op.EQ, name, (1,)) for name in "abc")
    assert rows_that_may_match(index, And((a, b, c)), row_type) == BitMap([0])
    assert rows_that_may_match(index, Or((a, b)), row_type) == BitMap([0, 1, 2])
    assert rows_that_may_match(index, Or((a, c)), row_type) is None
    assert rows_that_may_match(index, c, row_type) is None


def test_values_of_map_keys():
    row_type = parse_type("ROW<m MAP<STRING, INT>>")
    t = arrow_schema(row_type).field("m").type
    array = pa.array([[("k", 5)], None, [("x", 1)], [("x", 1), ("k", 6)]], t)
    wanted = indexed_columns(Options({"file-index.bitmap.columns": "m[k]"}))
    index = built(row_type, [array], wanted)
    values = RowType(fields=(parse_type("ROW<`m[k]` INT>").fields))
    assert decode_indexes(index).keys() == {"m[k]"}
    assert rows_that_may_match(index, Leaf(Op.EQ, "m[k]", (6,)), values) == BitMap([3])
    assert rows_that_may_match(index, Leaf(Op.IS_NULL, "m[k]"), values) == BitMap([1, 2])


def test_options_name_columns_and_their_settings():
    options = Options(
        {
            "file-index.bloom-filter.columns": "a, m[x]",
            "file-index.bloom-filter.a.items": "5",
            "file-index.bloom-filter.m.fpp": "0.2",
            "file-index.bloom-filter.m[x].items": "7",
            "file-index.in-manifest-threshold": "1 kb",
            "file-index.read.enabled": "true",
            "bucket": "1",
        }
    )
    assert indexed_columns(options) == (
        IndexedColumn("bloom-filter", "a", None, {"items": "5"}),
        IndexedColumn("bloom-filter", "m", "x", {"fpp": "0.2", "items": "7"}),
    )
    assert indexed_columns(Options({"bucket": "1"})) == ()


@pytest.mark.parametrize(
    "options",
    [
        {"file-index.bitmap.columns": "a,,b"},
        {"file-index.bitmap.columns": "a", "file-index.bitmap.b.version": "1"},
        {"file-index.bitmap.columns": "nobody"},
        {"file-index.bitmap.columns": "a[k]"},
        {"file-index.bitmap.columns": "a", "file-index.bitmap.a.version": "3"},
        {"file-index.bitmap.columns": "a", "file-index.bitmap.a.version": "two"},
        {"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.items": "0"},
        {"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.fpp": "0"},
    ],
)
def test_options_that_java_refuses(options):
    with pytest.raises(InvalidArgument):
        FileIndexWriter(parse_type("ROW<a INT>"), indexed_columns(Options(options)))


def test_an_unknown_kind_is_refused():
    with pytest.raises(UnsupportedFeature):
        FileIndexWriter(parse_type("ROW<a INT>"), [IndexedColumn("tantivy", "a")])


def test_damaged_bytes():
    row_type = parse_type("ROW<a INT>")
    index = built(row_type, [pa.array([1], pa.int32())], [IndexedColumn("bitmap", "a")])
    for data in (b"", index[:30], b"x" * 40):
        with pytest.raises(CorruptTable):
            decode_indexes(data)
    with pytest.raises(UnsupportedFeature):
        decode_indexes(index[:11] + b"\x09" + index[12:])


def test_sizes_of_bitmaps_without_length():
    rng = np.random.default_rng(1)
    bitmaps = [
        BitMap(),
        BitMap([5]),
        BitMap(range(100_000)),
        BitMap(rng.integers(0, 10**6, 200_000).astype(np.uint32)),
        BitMap(rng.integers(0, 2**32, 1000).astype(np.uint32)),
        BitMap(range(0, 70_000, 2)) | BitMap(range(10**6, 2 * 10**6)),
    ]
    data = b"".join(map(serialized, bitmaps))
    at = 0
    for bitmap in bitmaps:
        found, at = bitmap_at(data, at)
        assert found == bitmap
    assert at == len(data)


@pytest.mark.parametrize(("threshold", "embedded"), [("1 mb", True), ("1 b", False)])
def test_the_writer_puts_it_into_the_metadata_or_beside_the_file(tmp_path, threshold, embedded):
    row_type = parse_type("ROW<k INT, s STRING>")
    options = Options(
        {"file-index.bitmap.columns": "k", "file-index.in-manifest-threshold": threshold}
    )
    schema = TableSchema(id=0, fields=row_type.fields, highest_field_id=1, options=options)
    writer = RollingAppendWriter(
        IO, table_paths(str(tmp_path), RowType(), options), bytes(12), 0, schema,
        file_source=FileSource.APPEND, env=ENV,
        target_file_size=5000,
    )  # fmt: skip
    rows = pa.RecordBatch.from_arrays(
        [pa.array(range(3000), pa.int32()), pa.array([f"{i}" for i in range(3000)])],
        schema=arrow_schema(row_type),
    )
    writer.write(rows)
    files = writer.close()
    assert len(files) > 1
    for file in files:
        if embedded:
            assert file.extra_files == ()
            index = file.embedded_index
        else:
            assert file.embedded_index is None
            assert file.extra_files == (f"{file.file_name}.index",)
            index = (tmp_path / "bucket-0" / file.extra_files[0]).read_bytes()
        at = file.min_sequence_number
        found = rows_that_may_match(index, Leaf(Op.EQ, "k", (at + 3,)), row_type)
        assert found == BitMap([3])
    writer.abort()
    assert list((tmp_path / "bucket-0").iterdir()) == []
