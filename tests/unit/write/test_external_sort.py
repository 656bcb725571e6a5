"""Rows come out sorted and complete, however little memory there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import Lake

from paimon_core.clustering.on_write import clustered
from paimon_core.types.data_types import RowType
from paimon_core.types.sql import field_from_json
from paimon_core.write.external_sort import (
    CODE,
    Clustering,
    OrderStrategy,
    cuts_of,
    sorted_rows,
    words_of,
)

TYPE = RowType(
    nullable=False,
    fields=tuple(
        field_from_json({"id": i, "name": n, "type": t})
        for i, (n, t) in enumerate([("a", "INT"), ("s", "STRING"), ("n", "BIGINT NOT NULL")])
    ),
)
LONG = "the same beginning, longer than what a code holds: "


def rows(kind: str, count: int = 1200) -> pa.RecordBatch:
    rng = np.random.default_rng(5)
    a: list[int | None] = rng.integers(-50, 50, count).tolist()
    s: list[str | None] = [f"{LONG if i % 2 else ''}{rng.integers(0, 99):02}" for i in range(count)]
    if kind == "nulls":
        a = [None if i % 7 == 0 else v for i, v in enumerate(a)]
        s = [None if i % 5 == 0 else v for i, v in enumerate(s)]
    if kind == "equal":
        a, s = [1] * count, ["x"] * count
    if kind == "nearly equal":
        a, s = [0, *[1] * (count - 2), 2], ["x"] * count
    if kind == "ordered":
        a = sorted(range(count))
    columns = [pa.array(a, pa.int32()), pa.array(s), pa.array(range(count), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=["a", "s", "n"])


def sorted_by(
    clustering: Clustering, batch: pa.RecordBatch, memory: int, folder: Path
) -> list[dict[str, Any]]:
    coded = [
        clustering.with_codes(batch.slice(i, 300), TYPE) for i in range(0, batch.num_rows, 300)
    ]
    found = sorted_rows(
        iter(coded),
        clustering,
        expected_bytes=batch.nbytes,
        memory_bytes=memory,
        spill_dir=str(folder),
    )
    result = [row for b in found for row in b.to_pylist()]
    assert not list(folder.iterdir()), "nothing stays behind"
    return result


@pytest.mark.parametrize("kind", ["any", "nulls", "equal", "nearly equal", "ordered"])
@pytest.mark.parametrize("memory", [10**9, 20_000, 5_000])
@pytest.mark.parametrize("strategy", list(OrderStrategy))
def test_sorted_and_complete(
    strategy: OrderStrategy, memory: int, kind: str, tmp_path: Path
) -> None:
    clustering = Clustering(strategy=strategy, columns=("a", "s"))
    batch = rows(kind)
    found = sorted_by(clustering, batch, memory, tmp_path)
    assert sorted(r["n"] for r in found) == list(range(batch.num_rows))
    again = pa.RecordBatch.from_pylist(found, schema=batch.schema)
    codes = words_of(clustering.with_codes(again, TYPE))
    assert (codes[1:] >= codes[:-1]).all()
    if strategy is OrderStrategy.ORDER and memory > 10_000:
        keys = [tuple((v is not None, v) for v in (r["a"], r["s"])) for r in found]
        assert keys == sorted(keys)


def test_cuts_divide_what_they_can() -> None:
    clustering = Clustering(strategy=OrderStrategy.ORDER, columns=("n",))
    words = words_of(clustering.with_codes(rows("any"), TYPE))
    cuts = cuts_of(words, 4)
    sizes = np.bincount(np.searchsorted(cuts, words, side="right"))
    assert sizes.tolist() == [300] * 4
    assert not len(cuts_of(words[:1].repeat(9), 4))
    assert CODE not in rows("any").schema.names


def test_new_rows_are_sorted_as_the_table_says(tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array([3, 1, None, 2], pa.int32()), "v": ["c", "a", "n", "b"]})
    wide = pa.table({"k": pa.array([0, 3, 2, 1], pa.int32()), "v": ["d", "a", "b", "c"]})

    def order(rows: pa.Table, **options: str) -> list[int | None]:
        lake = Lake(tmp_path / str(len(list(tmp_path.iterdir()))))
        lake.log(**options)
        found: list[int | None] = clustered(lake.table(), rows).column("k").to_pylist()
        return found

    assert order(rows) == [3, 1, None, 2]
    assert order(rows, clustering_columns="k") == [None, 1, 2, 3]
    assert order(rows, clustering_columns="v", clustering_incremental="true") == [3, 1, None, 2]
    optimized = {"clustering_incremental_optimize__write": "true"}
    incremental = {"clustering_columns": "v", "clustering_incremental": "true"}
    assert order(rows, **incremental, **optimized) == [1, 2, 3, None]
    assert order(wide, clustering_columns="k,v") != order(wide, clustering_columns="k")
    assert order(rows, clustering_columns="k", bucket="2", bucket__key="k") == [3, 1, None, 2]
