"""In tables with lookups a record says all that the levels above it know: nothing counts twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from replay import run_step

from paimon_core.read.incremental import read_diff
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table


@pytest.fixture
def at(tmp_path: Path) -> dict[str, str]:
    return sums(tmp_path, {"changelog-producer": "lookup"})


def sums(tmp_path: Path, options: dict[str, str]) -> dict[str, str]:
    """A table of sums whose keys lie on levels 5, 4, 3 and 0."""
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    steps: list[dict[str, Any]] = [
        {
            "op": "create_table",
            "columns": [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "INT"}],
            "primary_keys": ["k"],
            "options": {
                "bucket": "1",
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "sum",
                **options,
                "write-only": "true",
                "compaction.size-ratio": "-99",
                "num-levels": "6",
                "num-sorted-run.compaction-trigger": "20",
            },
        },
        {"op": "write", "rows": [[1, 1], [2, 1], [3, 1]]},
        {"op": "compact", "full": True},
        {"op": "write", "rows": [[1, 10], [2, 10]]},
        {"op": "compact", "full": False},
        {"op": "write", "rows": [[1, 100]]},
        {"op": "compact", "full": False},
        {"op": "write", "rows": [[1, 1000], [3, 1000]]},
    ]
    for step in steps:
        result = run_step({**at, **step})
        assert "error" not in result, result
    table = open_table(str(tmp_path), "db.t")
    entries = scan_files(table, table.latest_or_not_found())
    assert sorted(e.file.level for e in entries) == [0, 3, 4, 5]
    return at


SUMS = [["+I", 1, 1111], ["+I", 2, 11], ["+I", 3, 1001]]


def test_reads(at: dict[str, str]) -> None:
    assert run_step({**at, "op": "read"})["rows"] == SUMS
    assert run_step({**at, "op": "read", "snapshot": 6})["rows"] == [
        ["+I", 1, 111],
        ["+I", 2, 11],
        ["+I", 3, 1],
    ]
    values = run_step({**at, "op": "read", "projection": ["v"]})["rows"]
    assert sorted(values) == [["+I", 11], ["+I", 1001], ["+I", 1111]]


def test_differences_between_snapshots(at: dict[str, str]) -> None:
    table = open_table(at["warehouse"], "db.t")
    before, after = table.snapshots.get(2), table.snapshots.get(7)
    rows = [r for b in read_diff(table, before, after) for r in b.select(["k", "v"]).to_pylist()]
    # As in Java, files that both snapshots have are left out: what they knew of key 3 is missing.
    assert rows == [{"k": 1, "v": 1111}, {"k": 2, "v": 11}, {"k": 3, "v": 1000}]


def test_rescale(tmp_path: Path) -> None:
    # With a changelog this is refused: what is not told yet would be lost.
    at = sums(tmp_path, {"force-lookup": "true"})
    result = run_step({**at, "op": "rescale", "bucket": 2, "partition": {}})
    assert "error" not in result, result
    assert run_step({**at, "op": "read"})["rows"] == SUMS


def test_compaction(at: dict[str, str]) -> None:
    run_step({**at, "op": "compact", "full": True})
    assert run_step({**at, "op": "read"})["rows"] == SUMS
    plans = run_step({**at, "op": "stream_read", "from": 8})["plans"]
    told = [row for plan in plans for row in plan["rows"]]
    assert sorted(told) == [["+U", 1, 1111], ["+U", 3, 1001], ["-U", 1, 111], ["-U", 3, 1]]
