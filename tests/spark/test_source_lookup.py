"""Lookups see what a table has become; without a Spark session but for the last test."""

from __future__ import annotations

import math
import pickle
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import Lake

from paimon_core import open_catalog
from paimon_core.errors import InvalidArgument
from paimon_spark.source import lookup
from paimon_spark.source.streams.lookup_join import Lookup

pytestmark = pytest.mark.spark


def of(tmp_path: Path, name: str = "t", **given: Any) -> Lookup:
    told = {"on": ["k"], "refresh_seconds": 0.0, "path": str(tmp_path / "db.db" / name), **given}
    return lookup(**told)


def looked_up(by: Lookup, keys: list[int | None]) -> list[tuple[Any, ...]]:
    batch = pa.record_batch({"k": pa.array(keys, pa.int64())})
    return sorted((tuple(r.values()) for out in by([batch]) for r in out.to_pylist()), key=str)


def test_a_table_that_changes(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=2)
    by = of(tmp_path)
    assert looked_up(by, [1]) == [(1, None)]
    lake.append({"k": [1, 2], "v": ["a", "b"]})
    assert looked_up(by, [1, 2, 2, 3, None]) == [
        (1, "a"),
        (2, "b"),
        (2, "b"),
        (3, None),
        (None, None),
    ]
    table = open_catalog(str(tmp_path)).get_table("db.t")
    table.delete("k = 1")
    lake.append({"k": [2, 3], "v": ["b2", "c"]})
    assert looked_up(by, [1, 2, 3]) == [(1, None), (2, "b2"), (3, "c")]
    table.compact(full=True)
    assert looked_up(by, [3]) == [(3, "c")]
    # An overwrite is no change of rows that a stream reads.
    table.overwrite(pa.table({"k": pa.array([9], pa.int32()), "v": ["z"]}), dynamic=False)
    assert looked_up(by, [3, 9]) == [(3, None), (9, "z")]
    slow = pickle.loads(pickle.dumps(of(tmp_path, refresh_seconds=3600.0)))
    inner = of(tmp_path, how="inner")
    before = looked_up(slow, [9])
    lake.append({"k": [9], "v": ["zz"]})
    assert looked_up(inner, [8, 9]) == [(9, "zz")]
    assert before
    # All lookups of a process that hold the same rows share them.
    assert looked_up(slow, [9]) == [(9, "zz")]


@pytest.mark.parametrize(
    "option",
    [
        "scan.mode=latest",
        "scan.snapshot-id=2",
        "scan.tag-name=x",
        "consumer-id=me",
        "scan.bounded.watermark=1",
    ],
)
def test_options_of_the_table_for_streams_hide_no_rows(option: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    key, value = option.split("=")
    lake.change_options("db.t", key, value)
    for number in range(3):
        lake.append({"k": [number], "v": ["v"]})
    lake.table().consumers.set("me", 3)
    by = of(tmp_path)
    assert looked_up(by, [0, 2]) == [(0, "v"), (2, "v")]
    lake.append({"k": [0], "v": ["new"]})
    assert looked_up(by, [0]) == [(0, "new")]
    with pytest.raises(InvalidArgument, match="newest rows"):
        of(tmp_path, **{key: value})


def test_rows_that_merge_in_a_way_of_their_own(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create(options={"bucket": "1", "sequence.field": "v", "write-only": "true"})
    by = of(tmp_path)
    lake.append({"k": [1], "v": ["m"]})
    assert looked_up(by, [1]) == [(1, "m")]
    lake.append({"k": [1], "v": ["c"]})  # older, by its sequence
    assert looked_up(by, [1]) == [(1, "m")]


def test_another_key_of_an_append_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log()
    lake.append({"k": [1, 2], "v": ["a", "a"]})
    by = of(tmp_path, on={"name": "v"}, columns=["k"])
    batch = pa.record_batch({"name": ["a", "b"]})
    rows = [r for out in by([batch]) for r in out.to_pylist()]
    assert sorted(r["k"] or 0 for r in rows) == [0, 1, 2]
    lake.append({"k": [3], "v": ["b"]})
    rows = [r for out in by([batch]) for r in out.to_pylist()]
    assert sorted(r["k"] for r in rows) == [1, 2, 3]


def test_more_rows_than_memory(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    count = 30_000
    lake.append({"k": list(range(count)), "v": [f"{i:050}" for i in range(count)]})
    by = of(tmp_path, memory="256 kb")
    found = looked_up(by, [0, 17, count - 1, count])
    assert found == [
        (0, f"{0:050}"),
        (17, f"{17:050}"),
        (count - 1, f"{count - 1:050}"),
        (count, None),
    ]


def test_values_of_every_type(tmp_path: Path) -> None:
    values = {
        "b": pa.array([True, None]),
        "f": pa.array([float("nan"), -0.0], pa.float32()),
        "d": pa.array([1.1, math.inf]),
        "x": pa.array([b"\x00\xff", b""]),
        "n": pa.array([Decimal("-1.50"), None], pa.decimal128(20, 2)),
        "day": pa.array([date(2024, 2, 29), date(1, 1, 1)]),
        "at": pa.array([datetime(2024, 1, 1, 1, 2, 3, 4), None], pa.timestamp("us")),  # noqa: DTZ001
        "utc": pa.array([0, -1], pa.timestamp("us", tz="UTC")),
        "l": pa.array([[1, None], None], pa.list_(pa.int32())),
        "s": pa.array([{"y": "q"}, None], pa.struct([("y", pa.string())])),
    }
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db", ignore_if_exists=True)
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), **values})
    catalog.create_table("db.t", rows.schema).append(rows)
    (out,) = of(tmp_path, how="inner")([pa.record_batch({"k": pa.array([1, 2], pa.int32())})])
    found = pa.Table.from_batches([out]).sort_by("k")
    assert repr(found.to_pylist()) == repr(rows.to_pylist())
    zero = of(tmp_path, on=["f"], columns=["k"], how="inner")
    (out,) = zero([pa.record_batch({"f": pa.array([0.0], pa.float32())})])
    assert out["k"].to_pylist() == [2]


def test_what_is_refused(tmp_path: Path, session: Any) -> None:
    Lake(tmp_path).primary_key()
    with pytest.raises(Exception, match="has no column nothing"):
        of(tmp_path, columns=["nothing"])
    with pytest.raises(Exception, match="left or inner"):
        of(tmp_path, how="full")
    with pytest.raises(Exception, match="have a column v already"):
        of(tmp_path).join(session.range(1).selectExpr("id AS k", "'' AS v"))
    with pytest.raises(Exception, match="have no column k"):
        of(tmp_path).join(session.range(1))


def test_in_a_stream(tmp_path: Path, session: Any) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.append({"k": [1, 2], "v": ["one", "two"]})
    lake.log("db.events")
    lake.append({"k": [1, 2, 3], "v": ["x", "y", "z"]}, "db.events")
    events = session.readStream.format("paimon").load(str(tmp_path / "db.db" / "events"))
    named = of(tmp_path).join(events.withColumnRenamed("v", "what"))
    query = named.writeStream.format("memory").queryName("named").trigger(availableNow=True)
    query.start().awaitTermination()
    rows = sorted(tuple(r) for r in session.table("named").collect())
    assert rows == [(1, "x", "one"), (2, "y", "two"), (3, "z", None)]
