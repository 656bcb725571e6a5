"""`scan.plan-sort-partition`: partitions come in order, not as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import Lake

from paimon_core.read.stream import Start, StreamScan, read_plan
from paimon_core.read.table_read import read_table

DAYS = ["d3", "d10", "d1", "d2", "d11"]


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.log(partitioned=True)
    for k, day in enumerate(DAYS):
        lake.append({"k": [k], "v": ["x"], "dt": [day]})
    lake.append({"k": list(range(5)), "v": ["y"] * 5, "dt": DAYS})
    return lake


def days(batches: object) -> list[str]:
    found = [d for b in batches for d in b.column("dt").to_pylist()]  # type: ignore[attr-defined]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("sort", [False, True])
def test_a_batch_read(sort: bool, lake: Lake) -> None:  # noqa: FBT001 - a parameter
    table = lake.table(**{"scan.plan-sort-partition": str(sort).lower()})
    found = days(read_table(table, table.latest_or_not_found()))
    assert sorted(found) == sorted(DAYS)
    assert (found == sorted(DAYS)) is sort


def test_a_stream(lake: Lake) -> None:
    table = lake.table(**{"scan.plan-sort-partition": "true"})
    reader = StreamScan(table=table, start=Start.FROM_SNAPSHOT, at=6)
    assert reader.plan().is_empty  # it says where the stream begins
    assert days(read_plan(table, reader.plan())) == sorted(DAYS)
    reader = StreamScan(table=table, start=Start.LATEST_FULL)
    assert days(read_plan(table, reader.plan())) == sorted(DAYS)


def test_numbers_are_ordered_as_numbers(tmp_path: Path) -> None:
    """And a null comes first."""
    from replay import run_step

    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    columns = [{"name": "k", "type": "INT"}, {"name": "p", "type": "INT"}]
    options = {"bucket": "-1", "scan.plan-sort-partition": "true"}
    steps = [
        {"op": "create_table", "columns": columns, "partition_keys": ["p"], "options": options},
        *({"op": "write", "rows": [[0, p]]} for p in (10, 9, None, -1, 100)),
    ]
    for step in steps:
        assert "error" not in run_step({**at, **step})
    rows = run_step({**at, "op": "read", "sorted": False})["rows"]
    assert [r[2] for r in rows] == [None, -1, 9, 10, 100]
