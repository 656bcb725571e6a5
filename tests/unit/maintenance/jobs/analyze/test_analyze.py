"""Statistics of tables: what they say, that they are merged, and that Java reads them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakes import Lake

from oracle import Oracle
from paimon_core.errors import InvalidArgument
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table
from paimon_core.table.statistics import ColumnStatistics, Statistics, read_statistics
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import parse_type
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.jobs.analyze import steps
from paimon_maintenance.jobs.analyze.columns import StatisticsCollector
from paimon_maintenance.jobs.analyze.distinct import EXACT, DistinctCounter
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table, run_table


def request(warehouse: Path, **arguments: object) -> RunRequest:
    job = job_named("analyze")
    return RunRequest(
        job=job, warehouse=str(warehouse), table="db.t", arguments=job.read_arguments(arguments)
    )


def analyze(warehouse: Path, services: RunServices | None = None, **arguments: object) -> Report:
    report = run_table(request(warehouse, **arguments), services)
    assert report.error is None, report.error
    return report


def statistics_of(warehouse: Path) -> Statistics:
    table = open_table(str(warehouse), "db.t")
    found = read_statistics(table, table.latest_or_not_found())
    assert found is not None
    return found


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key(buckets=2, partitioned=True)
    for v in ("old", "newer", None):
        lake.append({"k": [1, 2, 3], "v": [v, v, "x"], "dt": ["a", "a", "b"]})
    return lake


def test_rows_are_counted_after_merging(lake):
    report = analyze(lake.warehouse)
    assert report.status is Status.SUCCESS
    found = statistics_of(lake.warehouse)
    assert (found.snapshot_id, found.schema_id, found.merged_record_count) == (3, 0, 3)
    assert dict(found.columns) == {}
    assert found.merged_record_size is not None
    latest = lake.table().latest_or_not_found()
    assert latest.commit_kind is CommitKind.ANALYZE
    assert latest.total_record_count == 9
    assert latest.delta_record_count == 0


def test_columns_as_spark_counts_them(lake):
    analyze(lake.warehouse, all_columns=True)
    assert dict(statistics_of(lake.warehouse).columns) == {
        "k": ColumnStatistics(
            column_id=0, distinct_count=3, min=1, max=3, null_count=0, avg_len=4, max_len=4
        ),
        "v": ColumnStatistics(column_id=1, distinct_count=1, null_count=2, avg_len=1, max_len=1),
        "dt": ColumnStatistics(column_id=2, distinct_count=2, null_count=0, avg_len=1, max_len=1),
    }


def test_columns_that_were_not_looked_at_stay_until_the_schema_changes(lake):
    analyze(lake.warehouse, columns=["k"])
    lake.append({"k": [9], "v": ["z"], "dt": ["a"]})
    analyze(lake.warehouse, columns=["v"])
    found = statistics_of(lake.warehouse)
    assert set(found.columns) == {"k", "v"}
    assert found.merged_record_count == 4
    assert found.columns["k"].max == 3  # as it was


def test_an_analysis_is_made_once(lake):
    analyze(lake.warehouse, columns=["k"])
    assert analyze(lake.warehouse, columns=["k"]).status is Status.NOTHING_TO_DO
    assert analyze(lake.warehouse).status is Status.NOTHING_TO_DO
    assert analyze(lake.warehouse, columns=["v"]).status is Status.SUCCESS


def test_an_empty_table_and_wrong_columns(tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key()
    assert analyze(tmp_path, all_columns=True).status is Status.NOTHING_TO_DO
    with pytest.raises(InvalidArgument, match="no column 'x'"):
        plan_table(request(tmp_path, columns=["x"]))
    with pytest.raises(InvalidArgument, match="either columns or all_columns"):
        plan_table(request(tmp_path, columns=["k"], all_columns=True))


def test_parts_give_the_same_as_the_whole(lake, monkeypatch):
    lake.log("db.u")
    analyze(lake.warehouse, all_columns=True)
    whole = statistics_of(lake.warehouse)
    other = Lake(lake.warehouse.parent / "other")
    other.primary_key(buckets=2, partitioned=True)
    for v in ("old", "newer", None):
        other.append({"k": [1, 2, 3], "v": [v, v, "x"], "dt": ["a", "a", "b"]})
    monkeypatch.setattr(steps, "UNIT_BYTES", 1)
    plan = plan_table(request(other.warehouse, all_columns=True))
    assert plan.effect.rewritten_files == 6
    services = RunServices(engine=LocalEngine(threads=2))
    analyze(other.warehouse, services, all_columns=True)
    assert statistics_of(other.warehouse).columns == whole.columns
    assert statistics_of(other.warehouse).merged_record_count == 3


# --- values -------------------------------------------------------------------------------------


def gathered(sql: str, *parts: pa.Array) -> ColumnStatistics:
    """Of parts that are gathered apart, sent, and put together."""
    fields = [DataField(id=7, name="c", type=parse_type(sql))]
    whole = StatisticsCollector(fields)
    for part in parts:
        one = StatisticsCollector(fields)
        one.add(pa.record_batch([part], names=["c"]))
        whole.merge(pickle.loads(pickle.dumps(one)))
    return whole.columns["c"].result(7)


NAN = float("nan")
CASES: Mapping[str, tuple[str, list[pa.Array], dict[str, Any]]] = {
    "booleans": (
        "BOOLEAN",
        [pa.array([True, None]), pa.array([True])],
        {
            "distinct_count": 1,
            "min": True,
            "max": True,
            "null_count": 1,
            "avg_len": 1,
            "max_len": 1,
        },
    ),
    "decimals": (
        "DECIMAL(20, 2)",
        [pa.array(["1.00", "-2.50", "1.00"]).cast(pa.decimal128(20, 2))],
        {"distinct_count": 2, "null_count": 0, "avg_len": 16, "max_len": 16},
    ),
    "small_decimals": (
        "DECIMAL(5, 0)",
        [pa.array([1, 2]).cast(pa.decimal128(19, 0)).cast(pa.decimal128(5, 0))],
        {"distinct_count": 2, "avg_len": 8, "max_len": 8},
    ),
    "zeros": (
        "DOUBLE",
        [pa.array([0.0, -0.0, NAN, NAN])],
        {"distinct_count": 2, "min": -0.0, "avg_len": 8},
    ),
    "no_texts": (
        "STRING",
        [pa.array([None, None], pa.string())],
        {"distinct_count": 0, "null_count": 2, "avg_len": 20, "max_len": 20, "min": None},
    ),
    "no_bytes": ("BYTES", [pa.array([None], pa.binary())], {"avg_len": 100, "max_len": 100}),
    "texts": (
        "STRING",
        [pa.array(["ü", "abc"]), pa.array(["abc", ""])],
        {"distinct_count": 3, "avg_len": 2, "max_len": 3, "min": None, "max": None},
    ),
    "bytes": ("BYTES", [pa.array(["ü".encode(), b"abc"])], {"distinct_count": 2, "avg_len": 3}),
    "no_numbers": (
        "INT",
        [pa.array([None], pa.int32())],
        {"distinct_count": 0, "min": None, "max": None, "avg_len": 4},
    ),
    "dates": ("DATE", [pa.array([3, 1], pa.date32())], {"min": 1, "max": 3, "avg_len": 4}),
    "times": (
        "TIMESTAMP(3)",
        [pa.array([5, -7], pa.timestamp("ms"))],
        {"min": -7_000_000, "max": 5_000_000, "distinct_count": 2, "avg_len": 8},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    sql, parts, wanted = CASES[case]
    found = gathered(sql, *parts)
    assert {name: getattr(found, name) for name in wanted} == wanted


@given(st.lists(st.lists(st.integers(0, 300), max_size=50), max_size=6))
def test_few_values_are_counted_exactly(parts):
    found = gathered("INT", *(pa.array(p, pa.int32()) for p in parts))
    assert found.distinct_count == len({v for p in parts for v in p})


@pytest.mark.parametrize("values", [EXACT + 1, 300_000, 2_000_000])
def test_many_values_are_estimated(values):
    whole = DistinctCounter()
    from paimon_maintenance.jobs.analyze.distinct import hashes_of

    for start in range(0, values, 100_000):
        part = DistinctCounter()
        numbers = pa.array(np.arange(start, min(values, start + 100_000)), pa.int64())
        part.add(hashes_of(numbers, parse_type("BIGINT")))
        part.add(hashes_of(numbers, parse_type("BIGINT")))
        whole.merge(part)
    assert abs(whole.count() - values) / values < 0.05
    assert len(pickle.dumps(whole)) < 10_000


def test_a_counter_that_overflows_is_the_same_in_any_order():
    from paimon_maintenance.jobs.analyze.distinct import hash_numbers

    hashes = hash_numbers(np.arange(EXACT * 2, dtype=np.int64))
    few, many, both = DistinctCounter(), DistinctCounter(), DistinctCounter()
    few.add(hashes[:10])
    many.add(hashes[10:])
    both.add(hashes)
    few.merge(many)
    assert few.count() == both.count()


# --- Java --------------------------------------------------------------------------


TYPES = {
    "k": "INT NOT NULL",
    "b": "BOOLEAN",
    "d": "DECIMAL(10, 2)",
    "f": "FLOAT",
    "g": "DOUBLE",
    "s": "STRING",
    "c": "CHAR(3)",
    "y": "BYTES",
    "a": "DATE",
    "t": "TIMESTAMP(6)",
    "l": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "r": "ARRAY<INT>",
}
ROWS: list[list[Any]] = [
    [
        1,
        True,
        "1.50",
        1.5,
        2.5,
        "one",
        "abc",
        "00ff",
        "2024-01-31",
        "2024-01-31T12:00:00.123456",
        "2024-01-31T12:00:00.123Z",
        [1],
    ],
    [
        2,
        None,
        "-1.50",
        -1.5,
        -2.5,
        None,
        "abd",
        "00",
        "1960-01-01",
        "1960-01-01T00:00:00.000001",
        "1960-01-01T00:00:00.001Z",
        None,
    ],
]


def test_java_reads_them(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    create = {
        "op": "create_table",
        "columns": [{"name": n, "type": t} for n, t in TYPES.items()],
        "primary_keys": ["k"],
        "options": {"bucket": "1", "write-only": "true"},
    }
    oracle([create, {"op": "write", "rows": ROWS}, {"op": "write", "rows": ROWS[:1]}])
    report = analyze(tmp_path, all_columns=True)
    assert report.snapshots == (3,)
    (row,) = oracle.rows(system="statistics")
    assert row[1:3] == [2, 0]
    assert row[3] == 2  # rows after merging
    columns = row[5]
    for text in ('"distinctCount":2', '"min":"-1.50"', '"max":"2024-01-31 12:00:00.123456"'):
        assert text in columns.replace(" : ", ":"), columns
    assert '"r"' not in columns
    oracle([{"op": "write", "rows": ROWS[1:]}])
    assert oracle.one("snapshots")["snapshots"][-1]["statistics"]
