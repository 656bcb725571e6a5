from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from lakes import ENV

from paimon_core.errors import InvalidArgument
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import EMPTY_ROW, EMPTY_STATS, FileSource
from paimon_core.options import Options
from paimon_core.paths import table_paths
from paimon_core.read.data_file import read_data_file
from paimon_core.schema.key_value import kv_schema
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.binary_row import decode_row, encode_row
from paimon_core.types.sql import parse_type
from paimon_core.write.data_file_writer import RollingAppendWriter, RollingKeyValueWriter
from paimon_core.write.file_layout import append_layout, key_value_layout

IO = LocalFileIO()
COLUMNS = "ROW<pt STRING, k BIGINT NOT NULL, s STRING, v DOUBLE>"


def table_schema(*, key=(), partition=(), sql=COLUMNS, **options):
    row_type = parse_type(sql)
    return TableSchema(
        id=3,
        fields=row_type.fields,
        highest_field_id=9,
        partition_keys=tuple(partition),
        primary_keys=tuple(key),
        options=Options(options),
    )


def rows(schema, start, count, *, kinds=None):
    rng = np.random.default_rng(start)
    keys = np.arange(start, start + count)
    columns = [
        pa.array(["a"] * count),
        pa.array(keys),
        pa.array([f"text {i:030}" if i % 3 else None for i in keys.tolist()]),
        pa.array(rng.random(count)),
    ]
    if not schema.primary_keys:
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema.row_type))
    numbers = pa.array(rng.permutation(keys) + 100)
    kinds = pa.array(np.zeros(count, np.int8) if kinds is None else kinds, pa.int8())
    return pa.RecordBatch.from_arrays([numbers, kinds, *columns], schema=kv_schema(schema.row_type))


def writer(tmp_path, schema, **arguments):
    ids = (f"id{i}" for i in itertools.count())
    clock = itertools.count(1_700_000_000_000)
    paths = table_paths(str(tmp_path), schema.partition_type, schema.options)
    partition = encode_row(["a"] * len(schema.partition_keys), schema.partition_type.types)
    env = replace(ENV, new_uuid=lambda: next(ids), local_millis=lambda: next(clock))
    if schema.primary_keys:
        arguments = {"level": 0, "file_source": FileSource.APPEND, **arguments}
        return RollingKeyValueWriter(IO, paths, partition, 2, schema, env=env, **arguments)
    arguments = {"file_source": FileSource.APPEND, **arguments}
    return RollingAppendWriter(IO, paths, partition, 2, schema, env=env, **arguments)


def read_all(folder, schema, files):
    batches = []
    for meta in files:
        batches += read_data_file(
            IO, str(folder / meta.file_name), meta, file_schema=schema,
            read_type=schema.row_type, key_value=bool(schema.primary_keys),
        )  # fmt: skip
    return pa.Table.from_batches(batches)


def test_the_metadata_of_a_key_value_file(tmp_path):
    schema = table_schema(key=("pt", "k"), partition=("pt",))
    made = writer(tmp_path, schema, level=4, file_source=FileSource.COMPACT)
    batches = [
        rows(schema, 0, 1500, kinds=np.arange(1500) % 4),
        rows(schema, 1500, 10),
    ]
    for batch in batches:
        made.write(batch)
    (file,) = made.close()
    folder = tmp_path / "pt=a/bucket-2"
    assert [p.name for p in folder.iterdir()] == ["data-id0-0.parquet"] == [file.file_name]
    assert file.file_size == (folder / file.file_name).stat().st_size
    assert (file.row_count, file.delete_row_count) == (1510, 750)
    assert (file.min_sequence_number, file.max_sequence_number) == (100, 1609)
    assert (file.level, file.schema_id, file.file_source) == (4, 3, FileSource.COMPACT)
    assert file.creation_time == 1_700_000_000_000
    key = schema.key_type.types
    assert (decode_row(file.min_key, key), decode_row(file.max_key, key)) == ((0,), (1509,))
    assert decode_row(file.key_stats.max_values, key) == (1509,)
    assert file.value_stats_cols is None
    assert file.value_stats.null_counts == (0, 0, 504, 0)
    assert (file.external_path, file.extra_files, file.embedded_index) == (None, (), None)
    assert (file.first_row_id, file.write_cols) == (None, None)
    back = read_all(folder, schema, [file])
    assert back.equals(pa.Table.from_batches(batches))


def test_the_metadata_of_append_files(tmp_path):
    schema = table_schema()
    made = writer(tmp_path, schema, first_sequence_number=40, target_file_size=20_000)
    for i in range(4):
        made.write(rows(schema, i * 1000, 1000))
    files = made.close()
    assert len(files) > 1
    assert [f.file_name for f in files] == [f"data-id0-{i}.parquet" for i in range(len(files))]
    numbers = [(f.min_sequence_number, f.max_sequence_number) for f in files]
    assert numbers[0][0] == 40
    assert numbers[-1][1] == 4039
    assert all(b[0] == a[1] + 1 for a, b in itertools.pairwise(numbers))
    for file in files:
        assert file.row_count == file.max_sequence_number - file.min_sequence_number + 1
        assert (file.min_key, file.max_key, file.key_stats) == (EMPTY_ROW, EMPTY_ROW, EMPTY_STATS)
        assert (file.level, file.delete_row_count, file.schema_id) == (0, 0, 3)
    folder = tmp_path / "bucket-2"
    assert read_all(folder, schema, files)["k"].to_pylist() == list(range(4000))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("target", [30_000, 600_000])
def test_files_roll_near_the_target_size(tmp_path, file_format, target):
    schema = table_schema(key=("k",), **{"file.format": file_format})
    made = writer(tmp_path, schema, target_file_size=target)
    for i in range(6):
        made.write(rows(schema, i * 20_000, 20_000))
    files = made.close()
    assert sum(f.row_count for f in files) == 120_000
    assert len(files) >= 3
    for file in files[:-1]:
        assert 0.5 * target < file.file_size < 2 * target or file.row_count == 1000
    folder = tmp_path / "bucket-2"
    assert read_all(folder, schema, files)["k"].to_pylist() == list(range(120_000))
    key = schema.key_type.types
    bounds = [(decode_row(f.min_key, key)[0], decode_row(f.max_key, key)[0]) for f in files]
    assert all(b[0] == a[1] + 1 for a, b in itertools.pairwise(bounds))


@pytest.mark.parametrize("key", [("k",), ()])
def test_files_of_a_writer_end_with_the_row_that_fills_them(tmp_path, key):
    schema = table_schema(key=key, **{"target-file-row-num": "700"})
    counts = {}
    for source in FileSource:
        made = writer(tmp_path / source.name, schema, file_source=source)
        for i in range(3):
            made.write(rows(schema, i * 500, 500))
        counts[source] = [f.row_count for f in made.close()]
    assert counts == {FileSource.APPEND: [700, 700, 100], FileSource.COMPACT: [1500]}


def test_a_changelog_file_has_any_number_of_rows(tmp_path):
    schema = table_schema(key=("k",), **{"target-file-row-num": "700"})
    made = writer(tmp_path, schema, changelog=True)
    made.write(rows(schema, 0, 1500))
    assert [f.row_count for f in made.close()] == [1500]


def test_thin_files_have_no_key_columns(tmp_path):
    schema = table_schema(key=("k",), **{"data-file.thin-mode": "true"})
    made = writer(tmp_path, schema)
    batch = rows(schema, 0, 50)
    made.write(batch)
    (file,) = made.close()
    path = tmp_path / "bucket-2" / file.file_name
    assert pa.parquet.read_schema(path).names[:3] == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "pt"]
    assert decode_row(file.key_stats.min_values, schema.key_type.types) == (0,)
    assert read_all(path.parent, schema, [file]).equals(pa.Table.from_batches([batch]))


def test_an_aborted_writer_leaves_nothing(tmp_path):
    schema = table_schema(key=("k",))
    made = writer(tmp_path, schema, target_file_size=20_000)
    for i in range(4):
        made.write(rows(schema, i * 1000, 1000))
    assert len(list((tmp_path / "bucket-2").iterdir())) > 1
    made.abort()
    assert list((tmp_path / "bucket-2").iterdir()) == []


def test_no_rows_make_no_file(tmp_path):
    schema = table_schema()
    made = writer(tmp_path, schema)
    made.write(rows(schema, 0, 0))
    assert made.close() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_null_where_none_may_be_is_refused(tmp_path, file_format):
    schema = table_schema(**{"file.format": file_format})
    batch = rows(schema, 0, 3)
    batch = batch.set_column(1, batch.schema.field("k"), pa.array([1, None, 2], pa.int64()))
    made = writer(tmp_path, schema)
    with pytest.raises(InvalidArgument, match="column k"):
        made.write(batch)
    made.abort()
    assert not list(tmp_path.rglob("data-*"))


def test_changelog_files_and_levels_have_their_own_layout():
    options = Options(
        {
            "file.format.per.level": "0:avro,3:ORC",
            "file.compression.per.level": "0:snappy",
            "metadata.stats-mode.per.level": "0:none",
            "changelog-file.format": "orc",
            "changelog-file.compression": "lz4",
            "changelog-file.stats-mode": "counts",
            "changelog-file.prefix": "cl-",
            "data-file.prefix": "part-",
        }
    )
    level0 = key_value_layout(options, level=0)
    assert (level0.file_format, level0.compression, level0.stats_mode) == (
        "avro", "snappy", "none",
    )  # fmt: skip
    assert level0.name("u", 4) == "part-u-4.avro"
    assert key_value_layout(options, level=3).file_format == "orc"
    assert key_value_layout(options, level=1).stats_mode == "truncate(16)"
    changelog = key_value_layout(options, level=0, changelog=True)
    assert (changelog.file_format, changelog.compression, changelog.stats_mode) == (
        "orc", "lz4", "counts",
    )  # fmt: skip
    assert changelog.name("u", 0) == "cl-u-0.orc"
    assert append_layout(options).file_format == "parquet"


@pytest.mark.parametrize(
    ("compression", "extension"),
    [("zstd", ".zst.parquet"), ("gzip", ".gz.parquet"), ("none", ".parquet"), ("lz4", ".lz4.parquet")],
)  # fmt: skip
def test_the_compression_in_the_name(compression, extension):
    options = {"file.suffix.include.compression": "true", "file.compression": compression}
    assert append_layout(Options(options)).extension == extension


def test_changelog_files_of_a_bucket(tmp_path):
    schema = table_schema(key=("k",))
    made = writer(tmp_path, schema, level=5, changelog=True)
    made.write(rows(schema, 0, 4, kinds=[0, 1, 2, 3]))
    (file,) = made.close()
    assert file.file_name == "changelog-id0-0.parquet"
    assert file.delete_row_count == 2


def test_columns_may_come_in_any_order(tmp_path):
    schema = table_schema(key=("k",))
    batch = rows(schema, 0, 5)
    shuffled = batch.select(["v", "k", "_VALUE_KIND", "s", "_SEQUENCE_NUMBER", "pt"])
    made = writer(tmp_path, schema)
    made.write(shuffled)
    files = made.close()
    back = read_all(tmp_path / "bucket-2", schema, files)
    assert back.equals(pa.Table.from_batches([batch]))
