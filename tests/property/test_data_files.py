"""Any rows of any types come back from a file of each format as they went in."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples

from paimon_core.format.column_stats import Detail, StatsCollector, StatsMode, narrowed
from paimon_core.format.data_format import open_writer, read_batches
from paimon_core.format.parquet.writer import ParquetFileWriter
from paimon_core.io.local import LocalFileIO
from paimon_core.options import Options
from paimon_core.types.arrow import arrow_schema, column_from_internal, column_to_internal
from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_core.types.decimals import from_unscaled

IO = LocalFileIO()
DAY = 86_400_000
FIRST, LAST = -9_214_560_000, 9_214_560_000  # seconds that 64 bits of nanoseconds can hold


def atomic(kind, values, **arguments):
    return st.just(AtomicType(kind=kind, **arguments)), values


@st.composite
def decimals(draw):
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    limit = 10**precision - 1
    values = st.integers(-limit, limit).map(lambda n: from_unscaled(n, scale))
    return AtomicType(kind=TypeRoot.DECIMAL, precision=precision, scale=scale), values


@st.composite
def timestamps(draw):
    kind = draw(st.sampled_from([TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ]))
    precision = draw(st.integers(0, 9))
    unit = 10**6 if precision <= 3 else 10**3 if precision <= 6 else 1
    # ORC has no way to hold the second before 1970.
    seconds = st.integers(FIRST, LAST).filter(lambda s: s != -1)
    values = st.tuples(seconds, st.integers(0, 10**9 - 1)).map(
        lambda t: (t[0] * 10**9 + t[1]) // unit * unit
    )
    return AtomicType(kind=kind, precision=precision), values


def integers(kind, bits):
    values = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.just((AtomicType(kind=kind), values))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
simple = st.one_of(
    integers(TypeRoot.TINYINT, 8),
    integers(TypeRoot.SMALLINT, 16),
    integers(TypeRoot.INT, 32),
    integers(TypeRoot.BIGINT, 64),
    integers(TypeRoot.DATE, 22),
    st.just((AtomicType(kind=TypeRoot.BOOLEAN), st.booleans())),
    st.just((AtomicType(kind=TypeRoot.DOUBLE), st.floats())),
    st.just((AtomicType(kind=TypeRoot.FLOAT), st.floats(width=32))),
    st.just((AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH), texts)),
    st.just((AtomicType(kind=TypeRoot.CHAR, length=20), texts.map(lambda s: s.rstrip(" ")))),
    st.just((AtomicType(kind=TypeRoot.VARBINARY, length=MAX_LENGTH), st.binary(max_size=20))),
    st.just((AtomicType(kind=TypeRoot.TIME, precision=3), st.integers(0, DAY - 1))),
    decimals(),
    timestamps(),
)


def part(child, *, required):
    """The type and values of a child, which is NOT NULL or has nulls among its values."""
    t, values = child
    return t.with_nullable(not required), values if required else st.none() | values


def nested(children):
    parts = st.builds(lambda c, required: part(c, required=required), children, st.booleans())

    def arrays(child):
        t, values = child
        return ArrayType(element=t), st.lists(values, max_size=4)

    def maps(child):
        t, values = child
        key = AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH)
        pairs = st.dictionaries(texts, values, max_size=3)
        return MapType(key=key, value=t), pairs.map(lambda d: list(d.items()))

    def int_maps(child):
        t, values = child
        pairs = st.dictionaries(st.integers(-5, 5), values, max_size=3)
        return MapType(key=AtomicType(kind=TypeRoot.INT), value=t), pairs.map(
            lambda d: list(d.items())
        )

    def rows(parts):
        fields = tuple(DataField(id=50 + i, name=f"f{i}", type=t) for i, (t, _) in enumerate(parts))
        return RowType(fields=fields), st.tuples(*(v for _, v in parts))

    return st.one_of(
        parts.map(arrays),
        parts.map(maps),
        parts.map(int_maps),
        st.lists(parts, min_size=1, max_size=3).map(rows),
    )


columns = st.recursive(simple, nested, max_leaves=4)


@st.composite
def tables(draw):
    parts = draw(st.lists(columns, min_size=1, max_size=4))
    size = draw(st.integers(0, 30))
    fields = tuple(DataField(id=i, name=f"c{i}", type=t) for i, (t, _) in enumerate(parts))
    values = [draw(st.lists(st.none() | v, min_size=size, max_size=size)) for _, v in parts]
    return RowType(nullable=False, fields=fields), values


def has_nanos(t):
    if isinstance(t, AtomicType):
        return t.kind in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ} and (t.precision or 0) > 6
    parts = [getattr(t, name, None) for name in ("element", "key", "value")]
    parts += [f.type for f in getattr(t, "fields", ())]
    return any(p is not None and has_nanos(p) for p in parts)


def same(left, right):
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def assert_bounds_are_true(writer, row_type, arrays):
    """The footer's statistics are those that are found by looking at all values."""
    details = [Detail.FULL] * len(arrays)
    seen = StatsCollector(row_type, details, "parquet")
    seen.update(arrays)
    told = StatsCollector(row_type, details, "parquet")
    for name, nulls, bounds in writer.bounds():
        told.add_known(row_type.names.index(name), nulls, bounds)
    for name in writer.bounded:
        place = row_type.names.index(name)
        assert told.results()[place] == seen.results()[place]


@settings(max_examples=examples(60))
@given(tables(), st.sampled_from(["parquet", "orc", "avro"]), st.integers(1, 40))
def test_rows_come_back(table, file_format, cut):
    row_type, values = table
    if file_format == "avro" and any(has_nanos(t) for t in row_type.types):
        return
    schema = arrow_schema(row_type)
    arrays = [column_from_internal(v, t) for v, t in zip(values, row_type.types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / f"f.{file_format}")
        writer = open_writer(
            IO, path, row_type,
            file_format=file_format, compression="zstd", options=Options(), row_group_bytes=500,
        )  # fmt: skip
        for start in range(0, batch.num_rows, cut):
            writer.write(batch.slice(start, cut))
        assert writer.close() == Path(path).stat().st_size
        if isinstance(writer, ParquetFileWriter):
            assert_bounds_are_true(writer, row_type, arrays)
        read = pa.Table.from_batches(read_batches(IO, path, row_type, batch_rows=7), schema)
    read.validate(full=True)
    for i, t in enumerate(row_type.types):
        assert same(column_to_internal(read.column(i), t), column_to_internal(batch.column(i), t))


@given(st.lists(st.none() | texts, min_size=1), st.integers(1, 6))
def test_truncated_statistics_enclose_every_text(values, length):
    t = AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH)
    row_type = RowType(fields=(DataField(id=0, name="s", type=t),))
    collector = StatsCollector(row_type, [Detail.TRUNCATE], "parquet")
    for value in values:
        collector.update([pa.array([value], pa.string())])
    (full,) = collector.results()
    stats = narrowed(full, StatsMode(Detail.TRUNCATE, length), t)
    assert stats.null_count == values.count(None)
    for value in filter(None, values):
        if stats.maximum is not None:
            assert stats.minimum.encode() <= value.encode() <= stats.maximum.encode()
            assert len(stats.minimum) <= length
            assert len(stats.maximum) <= length
