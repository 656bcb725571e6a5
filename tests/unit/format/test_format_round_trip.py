"""What is written is read again, in every format and compression, and laid out as Java lays it out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_files import golden_table
from pyarrow import orc

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.avro.container import Container
from paimon_core.format.data_format import format_of, open_writer, read_batches
from paimon_core.io.local import LocalFileIO
from paimon_core.options import Options
from paimon_core.read.data_file import read_data_file
from paimon_core.schema.key_value import file_row_type
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import RowType
from paimon_core.types.json_columns import batch_to_json_rows
from paimon_core.types.sql import parse_type

IO = LocalFileIO()
COMPRESSIONS = [
    ("parquet", "zstd"),
    ("parquet", "gzip"),
    ("parquet", "snappy"),
    ("parquet", "lz4"),
    ("parquet", "brotli"),
    ("parquet", "none"),
    ("orc", "zstd"),
    ("orc", "zlib"),
    ("orc", "snappy"),
    ("orc", "lz4"),
    ("orc", "none"),
    ("avro", "zstd"),
    ("avro", "deflate"),
    ("avro", "snappy"),
    ("avro", "bzip2"),
    ("avro", "null"),
]


def java_rows(name, *, key_value=False):
    """The rows of the largest file of a golden table, and their columns."""
    table = golden_table("1.4.2", name)
    file = max(table.all_files(), key=lambda f: f.meta.row_count)
    row_type = file.schema.row_type
    batches = list(
        read_data_file(
            IO,
            str(file.path),
            file.meta,
            file_schema=file.schema,
            read_type=row_type,
            key_value=key_value,
        )
    )
    if key_value:
        keys = file.schema.key_type
        row_type = file_row_type(keys, row_type, thin=False)
        schema = arrow_schema(row_type)
        batches = [
            pa.RecordBatch.from_arrays([*(b[k] for k in keys.names), *b.columns], schema=schema)
            for b in batches
        ]
    return file.path, row_type, batches


def write(path, row_type, batches, file_format, compression="zstd", **options):
    writer = open_writer(
        IO,
        str(path),
        row_type,
        file_format=file_format,
        compression=compression,
        options=Options(options),
    )
    for batch in batches:
        writer.write(batch)
    size = writer.close()
    assert size == path.stat().st_size
    return size


def rows_of(batches, row_type):
    return [row for b in batches for row in batch_to_json_rows(b, row_type)]


@pytest.mark.parametrize(("file_format", "compression"), COMPRESSIONS)
def test_all_types_come_back(tmp_path, file_format, compression):
    name = "types_append_avro" if file_format == "avro" else "types_append_parquet"
    _, row_type, batches = java_rows(name)
    path = tmp_path / f"f.{file_format}"
    write(path, row_type, batches, file_format, compression)
    back = list(read_batches(IO, str(path), row_type))
    for batch in back:
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(row_type))
    assert rows_of(back, row_type) == rows_of(batches, row_type)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_columns_are_chosen_ordered_and_missing_ones_null(tmp_path, file_format):
    _, row_type, batches = java_rows("types_append_avro")
    path = tmp_path / f"f.{file_format}"
    write(path, row_type, batches, file_format)
    (extra,) = parse_type("ROW<nobody ARRAY<INT>>").fields
    wanted = RowType(fields=(row_type.get("c_row"), extra, row_type.get("c_int")))
    back = pa.Table.from_batches(read_batches(IO, str(path), wanted, batch_rows=7))
    whole = pa.Table.from_batches(batches)
    assert back.schema.names == ["c_row", "nobody", "c_int"]
    assert back["c_int"].to_pylist() == whole["c_int"].to_pylist()
    assert back["c_row"].to_pylist() == whole["c_row"].to_pylist()
    assert back["nobody"].null_count == whole.num_rows
    for fields in ((), (extra,)):
        counted = read_batches(IO, str(path), RowType(fields=fields), batch_rows=3)
        assert sum(b.num_rows for b in counted) == whole.num_rows


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_without_rows(tmp_path, file_format):
    row_type = parse_type("ROW<a INT NOT NULL, b ARRAY<STRING>>")
    path = tmp_path / f"f.{file_format}"
    write(path, row_type, [], file_format)
    assert sum(b.num_rows for b in read_batches(IO, str(path), row_type)) == 0


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_many_batches_and_slices(tmp_path, file_format):
    row_type = parse_type("ROW<a INT, s STRING, l ARRAY<STRING>, m MAP<STRING, BIGINT>>")
    rows = 5000
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([None if i % 7 == 0 else i for i in range(rows)], pa.int32()),
            pa.array([None if i % 5 == 0 else f"v{i % 11}" for i in range(rows)]),
            pa.array([None if i % 3 == 0 else ["x"] * (i % 4) for i in range(rows)]),
            pa.array(
                [None if i % 4 == 0 else [(f"k{i}", i)] for i in range(rows)],
                arrow_schema(row_type).field("m").type,
            ),
        ],
        names=row_type.names,
    ).cast(arrow_schema(row_type))
    parts = [batch.slice(i, 700) for i in range(0, rows, 700)]
    path = tmp_path / f"f.{file_format}"
    writer = open_writer(
        IO,
        str(path),
        row_type,
        file_format=file_format,
        compression="zstd",
        options=Options(),
        row_group_bytes=40_000,
    )
    for part in parts:
        writer.write(part)
    writer.close()
    back = pa.Table.from_batches(read_batches(IO, str(path), row_type, batch_rows=999))
    assert back.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_names_that_look_like_paths(tmp_path, file_format):
    row_type = parse_type("ROW<`列 x` INT, `a.b` INT, a ROW<b INT, `c.d` STRING>, A INT>")
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([1, 2], pa.int32()),
            pa.array([3, 4], pa.int32()),
            pa.array([{"b": 5, "c.d": "x"}, None], arrow_schema(row_type).field("a").type),
            pa.array([7, 8], pa.int32()),
        ],
        schema=arrow_schema(row_type),
    )
    path = tmp_path / f"f.{file_format}"
    write(path, row_type, [rows], file_format)
    for names in ([n] for n in row_type.names):
        (back,) = read_batches(IO, str(path), row_type.project(names))
        assert back.to_pylist() == rows.select(names).to_pylist()
    (back,) = read_batches(IO, str(path), row_type)
    assert back.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("name", ["types_pk_parquet", "pk_types", "aggregation"])
def test_parquet_schema_is_javas(tmp_path, name):
    java, row_type, batches = java_rows(name, key_value=True)
    write(tmp_path / "f.parquet", row_type, batches, "parquet")

    def described(path):
        text = str(pq.ParquetFile(path).schema).split("\n", 2)[2]
        return text.replace(" (Map)", "")  # parquet-mr marks the inner group as well

    assert described(tmp_path / "f.parquet") == described(java)


def test_orc_schema_is_javas(tmp_path):
    java, row_type, batches = java_rows("types_pk_orc", key_value=True)
    write(tmp_path / "f.orc", row_type, batches, "orc")
    ours, theirs = orc.ORCFile(tmp_path / "f.orc").schema, orc.ORCFile(java).schema
    assert ours.to_string(show_field_metadata=True) == theirs.to_string(show_field_metadata=True)


def test_avro_schema_is_javas(tmp_path):
    java, row_type, batches = java_rows("types_pk_avro", key_value=True)
    write(tmp_path / "f.avro", row_type, batches, "avro")
    with pa.OSFile(str(tmp_path / "f.avro")) as ours, pa.OSFile(str(java)) as theirs:
        assert Container(ours).schema == Container(theirs).schema


@pytest.mark.parametrize(
    ("file_format", "compression", "t"),
    [
        ("parquet", "lzo", "INT"),
        ("orc", "gzip", "INT"),
        ("avro", "gzip", "INT"),
        ("avro", "xz", "INT"),
        ("avro", "zstd", "TIMESTAMP(9)"),
        ("avro", "zstd", "MULTISET<INT>"),
        ("csv", "none", "INT"),
    ],
)
def test_what_java_does_not_write_is_refused_and_leaves_nothing(
    tmp_path, file_format, compression, t
):
    row_type = parse_type(f"ROW<a {t}>")
    path = tmp_path / f"f.{file_format}"
    with pytest.raises(UnsupportedFeature):
        write(path, row_type, [], file_format, compression)
    assert not path.exists()


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
@pytest.mark.parametrize("text", ["ROW<>", "ARRAY<ROW<>>", "MAP<STRING, ROW<a INT, b ROW<>>>"])
def test_rows_without_fields_are_refused_and_leave_nothing(tmp_path, text, file_format):
    row_type = parse_type(f"ROW<k INT, v {text}>")
    path = tmp_path / "f"
    with pytest.raises(UnsupportedFeature, match="column v is or contains a ROW without fields"):
        open_writer(
            IO, str(path), row_type,
            file_format=file_format, compression="none", options=Options({}),
        )  # fmt: skip
    assert not path.exists()


def test_options_of_the_format_outrank_the_compression(tmp_path):
    row_type = parse_type("ROW<a INT>")
    write(tmp_path / "f.parquet", row_type, [pa.record_batch({"a": pa.array([1], pa.int32())})],
          "parquet", "zstd", **{"parquet.compression": "snappy"})  # fmt: skip
    metadata = pq.ParquetFile(tmp_path / "f.parquet").metadata
    assert metadata.row_group(0).column(0).compression == "SNAPPY"


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "name"])
def test_a_damaged_file_is_named(tmp_path, file_format, damage):
    row_type = parse_type("ROW<a INT, swan STRING>")
    rows = pa.record_batch({"a": pa.array(range(100), pa.int32()), "swan": ["x"] * 100})
    path = tmp_path / f"f.{file_format}"
    write(path, row_type, [rows], file_format, "none" if file_format == "orc" else "zstd")
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[: len(data) // 2],
            "empty": b"",
            "garbage": bytes(range(256)) * 4,
            "name": data.replace(b"swan", b"sw\xffn"),
        }[damage]
    )
    with pytest.raises(CorruptTable) as caught:
        list(read_batches(IO, str(path), row_type))
    assert caught.value.file == str(path)


def test_a_missing_file_is_no_corruption(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(read_batches(IO, str(tmp_path / "f.parquet"), RowType()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("data-1-0.parquet", "parquet"),
        ("data-1-0.zst.ORC", "orc"),
        ("data-1-0.csv.gz", "csv"),
        ("data.b.avro", "avro"),
    ],
)
def test_the_name_tells_the_format(name, expected):
    assert format_of(name) == expected


def test_a_name_without_format():
    with pytest.raises(CorruptTable):
        format_of("data")
