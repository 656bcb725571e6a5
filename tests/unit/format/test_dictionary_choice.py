from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_core.format.data_format import open_writer
from paimon_core.format.dictionary_choice import dictionary_columns
from paimon_core.io.local import LocalFileIO
from paimon_core.options import Options
from paimon_core.types.sql import parse_type


@pytest.mark.parametrize(
    ("distinct", "numbers", "texts"),
    [
        (1, True, True),
        (1000, True, True),
        (10000, True, True),
        (40000, True, False),
        (2**40, False, False),
    ],
)
def test_by_number_of_distinct_values(distinct, numbers, texts):
    values = np.random.default_rng(1).integers(0, distinct, 400_000)
    table = pa.table({"n": values, "t": pa.array([f"text {v:020}" for v in values.tolist()])})
    assert ("n" in dictionary_columns(table), "t" in dictionary_columns(table)) == (numbers, texts)


def test_nested_leaves_have_their_parquet_paths(tmp_path):
    row_type = parse_type(
        "ROW<r ROW<x INT, y STRING>, l ARRAY<INT>, m MAP<STRING, INT>, b BOOLEAN>"
    )
    rows = 5000
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([{"x": i % 3, "y": f"{i}"} for i in range(rows)],
                     pa.struct([("x", pa.int32()), ("y", pa.string())])),
            pa.array([[i % 3, 1] for i in range(rows)], pa.list_(pa.int32())),
            pa.array([[("k", i)] for i in range(rows)], pa.map_(pa.string(), pa.int32())),
            pa.array([True] * rows),
        ],
        names=row_type.names,
    )  # fmt: skip
    path = tmp_path / "f.parquet"
    writer = open_writer(
        LocalFileIO(), str(path), row_type,
        file_format="parquet", compression="none", options=Options(),
    )  # fmt: skip
    writer.write(batch)
    writer.close()
    group = pq.ParquetFile(path).metadata.row_group(0)
    chosen = {
        group.column(i).path_in_schema
        for i in range(group.num_columns)
        if group.column(i).has_dictionary_page
    }
    assert chosen == {"r.x", "l.list.element", "m.key_value.key"}


def test_nothing_but_nulls():
    assert dictionary_columns(pa.table({"a": pa.nulls(100, pa.string())})) == []
