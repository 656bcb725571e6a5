from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_core.errors import CorruptTable
from paimon_core.format.data_format import open_writer
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import Options
from paimon_core.read.data_file import read_data_file
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.binary_row import encode_row
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

IO = LocalFileIO()


def fields(sql, ids=None):
    row_type = parse_type(f"ROW<{sql}>")
    ids = ids or range(len(row_type))
    return RowType(
        nullable=False,
        fields=tuple(replace(f, id=i) for f, i in zip(row_type.fields, ids, strict=True)),
    )


def written(tmp_path, row_type, columns, *, partition_keys=(), rows=None, file_format="parquet"):
    schema = arrow_schema(row_type)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
    path = tmp_path / f"data-0.{file_format}"
    writer = open_writer(
        IO, str(path), row_type,
        file_format=file_format, compression="zstd", options=Options(),
    )  # fmt: skip
    writer.write(batch)
    size = writer.close()
    meta = DataFileMeta(
        file_name=path.name, file_size=size, row_count=batch.num_rows if rows is None else rows
    )
    table_schema = TableSchema(
        id=0, fields=row_type.fields, highest_field_id=99, partition_keys=tuple(partition_keys)
    )
    return str(path), meta, table_schema


def read(file, read_type, **arguments):
    path, meta, schema = file
    batches = read_data_file(
        IO, path, meta, file_schema=schema, read_type=read_type, key_value=False, **arguments
    )
    return pa.Table.from_batches(batches, arrow_schema(read_type)).to_pydict()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_fields_are_found_by_id(tmp_path, file_format):
    file = written(
        tmp_path,
        fields("a INT, b STRING, gone DATE", ids=[0, 1, 2]),
        [[1, 2], ["x", None], [None, None]],
        file_format=file_format,
    )
    now = fields("added DOUBLE, a STRING, renamed BIGINT", ids=[7, 1, 0])
    assert read(file, now) == {"added": [None, None], "a": ["x", None], "renamed": [1, 2]}


def test_nested_fields_are_found_by_id(tmp_path):
    old = fields("r ROW<x INT, y STRING>, l ARRAY<ROW<x INT, y STRING>>, m MAP<STRING, ROW<x INT>>")
    x, y = DataField(id=10, name="x", type=parse_type("INT")), DataField(
        id=11, name="y", type=parse_type("STRING")
    )  # fmt: skip
    row = RowType(fields=(x, y))
    old = RowType(fields=tuple(
        replace(f, type=t)
        for f, t in zip(
            old.fields,
            (row, replace(old.fields[1].type, element=row),
             replace(old.fields[2].type, value=RowType(fields=(x,)))),
            strict=True,
        )
    ))  # fmt: skip
    file = written(
        tmp_path, old,
        [
            [{"x": 1, "y": "a"}, None],
            [[{"x": 1, "y": "a"}, None], None],
            [[("k", {"x": 5}), ("l", None)], None],
        ],
    )  # fmt: skip
    wide = DataField(id=10, name="wide", type=parse_type("BIGINT"))
    new = DataField(id=12, name="new", type=parse_type("INT"))
    now = RowType(fields=(new, wide))
    read_type = RowType(fields=(
        replace(old.fields[0], type=now),
        replace(old.fields[1], type=replace(old.fields[1].type, element=now)),
        replace(old.fields[2], type=replace(old.fields[2].type, value=now)),
    ))  # fmt: skip
    one = {"new": None, "wide": 1}
    assert read(file, read_type) == {
        "r": [one, None],
        "l": [[one, None], None],
        "m": [[("k", {"new": None, "wide": 5}), ("l", None)], None],
    }


def test_a_row_of_which_nothing_is_left_is_null(tmp_path):
    old = fields("r ROW<x INT>")
    old = RowType(fields=(replace(old.fields[0], type=RowType(
        fields=(DataField(id=10, name="x", type=parse_type("INT")),)
    )),))  # fmt: skip
    file = written(tmp_path, old, [[{"x": 1}, {"x": 2}]])
    now = RowType(fields=(DataField(id=11, name="z", type=parse_type("INT")),))
    read_type = RowType(fields=(replace(old.fields[0], type=now),))
    assert read(file, read_type) == {"r": [None, None]}


def test_partition_columns_come_from_the_partition(tmp_path):
    row_type = fields("dt STRING, v INT")
    file = written(tmp_path, row_type, [["in the file"] * 3, [1, 2, 3]], partition_keys=["dt"])
    partition = encode_row(["p"], [row_type.fields[0].type])
    assert read(file, row_type, partition=partition) == {"dt": ["p"] * 3, "v": [1, 2, 3]}
    assert read(file, row_type.project(["dt"]), partition=partition) == {"dt": ["p"] * 3}
    assert read(file, row_type)["dt"] == ["in the file"] * 3


@pytest.mark.parametrize("rows", [1, 3])
def test_another_number_of_rows_than_the_metadata_says(tmp_path, rows):
    row_type = fields("v INT")
    file = written(tmp_path, row_type, [[1, 2]], rows=rows)
    with pytest.raises(CorruptTable, match=f"2 rows where its metadata says {rows}"):
        read(file, row_type)


def test_a_missing_file_says_what_may_have_happened(tmp_path):
    path, meta, schema = written(tmp_path, fields("v INT"), [[1]])
    with pytest.raises(CorruptTable, match="expired while it was read"):
        read((path + ".gone", meta, schema), fields("v INT"))


def test_rows_are_counted_without_columns(tmp_path):
    path, meta, schema = written(tmp_path, fields("v INT"), [[1, 2, 3]])
    batches = list(
        read_data_file(
            IO, path, meta, file_schema=schema, read_type=RowType(), key_value=False, batch_rows=2
        )
    )
    assert [b.num_rows for b in batches] == [2, 1]


@pytest.mark.parametrize("lost", ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k"])
def test_rows_that_cannot_be_merged_are_refused(tmp_path, lost):
    """Formats give nulls for a column that they do not find, whatever became of its name."""
    names = {"_SEQUENCE_NUMBER": "BIGINT", "_VALUE_KIND": "TINYINT", "k": "INT"}
    stored = fields(", ".join(f"{n} {t}" for n, t in names.items() if n != lost))
    path, meta, _ = written(tmp_path, stored, [[0]] * len(stored))
    row_type = fields("k INT NOT NULL", [0])
    schema = TableSchema(id=0, fields=row_type.fields, highest_field_id=0, primary_keys=("k",))
    with pytest.raises(CorruptTable, match=lost):
        list(read_data_file(IO, path, meta, file_schema=schema, read_type=row_type, key_value=True))
