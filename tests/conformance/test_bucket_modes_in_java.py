"""Dynamic, postponed and row-tracking tables: we and Java take turns on one and the same table."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from replay import run_step

from oracle import Oracle
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING", "default": "'none'"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
PARTITIONED = {"primary_keys": ["dt", "k"], "partition_keys": ["dt"]}


class Model:
    """Last write wins, by partition and key."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.rows: dict[tuple[str, int], str] = {}
        self.next = 0

    def write(self, keys: int = 60) -> dict[str, Any]:
        rows = []
        for _ in range(self.random.randint(10, 40)):
            self.next += 1
            key, day = self.random.randint(0, keys), self.random.choice(["a", "b"])
            if self.random.random() < 0.2:
                rows.append({"kind": "-D", "values": [key, None, day]})
                self.rows.pop((day, key), None)
            else:
                value = None if self.random.random() < 0.1 else f"v{self.next}"
                rows.append({"kind": "+I", "values": [key, value, day]})
                self.rows[day, key] = value or "none"
        return {"op": "write", "rows": rows}

    def values(self) -> list[list[Any]]:
        return sorted([k, v, day] for (day, k), v in self.rows.items())


def values(result: dict[str, Any]) -> list[list[Any]]:
    assert "error" not in result, result
    return sorted(row[1:] for row in result["rows"])


def ours(step: dict[str, Any], at: dict[str, str]) -> dict[str, Any]:
    result = run_step({**at, **step})
    assert "error" not in result, result
    return result


def index_is_true(at: dict[str, str]) -> None:
    """No hash is in two buckets of a partition, and each index has as many as it says."""
    table = open_table(at["warehouse"], "db.t")
    latest = table.latest_or_not_found()
    seen: dict[tuple[bytes, int], int] = {}
    for entry in table.index_entries(latest):
        path = table.paths.index_file(entry.partition, entry.bucket, entry.index_file)
        data = table.io.read_bytes(path)
        assert len(data) == 4 * entry.index_file.row_count
        for i in range(0, len(data), 4):
            key = (entry.partition, int.from_bytes(data[i : i + 4]))
            assert seen.setdefault(key, entry.bucket) == entry.bucket
    live = {(e.partition, e.bucket) for e in scan_files(table, latest)}
    assert live <= {(e.partition, e.bucket) for e in table.index_entries(latest)}


@pytest.mark.sampled
@pytest.mark.parametrize("options", [{}, {"dynamic-bucket.max-buckets": "2"}], ids=["free", "two"])
def test_dynamic_buckets(options: dict[str, str], oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    model = Model(oracle.version)
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "9", **options}
    ours({"op": "create_table", "columns": COLUMNS, **PARTITIONED, "options": options}, at)
    for turn in range(3):
        for _ in range(2):
            ours(model.write(), at)
        index_is_true(at)
        oracle([model.write(), {"op": "compact"} if turn == 1 else model.write()])
        index_is_true(at)
        java = oracle.one("read")
        assert values(java) == values(ours({"op": "read"}, at)) == model.values()
    overwritten = {"op": "overwrite", "partition": {"dt": "a"}, "rows": [[1, "x", "a"]]}
    ours(overwritten, at)
    model.rows = {k: v for k, v in model.rows.items() if k[0] != "a"} | {("a", 1): "x"}
    index_is_true(at)
    oracle([model.write()])
    ours(model.write(), at)
    assert values(oracle.one("read")) == values(ours({"op": "read"}, at)) == model.values()


def test_postponed_rows(oracle: Oracle, tmp_path: Path) -> None:
    """Ours by the model; Java replays the files of one partition in any order, so one at a time."""
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    model = Model(oracle.version)
    options = {"bucket": "-2", "postpone.default-bucket-num": "3"}
    ours({"op": "create_table", "columns": COLUMNS, **PARTITIONED, "options": options}, at)
    for _ in range(3):
        ours(model.write(), at)
        oracle([model.write()])
    assert values(oracle.one("read")) == []
    ours({"op": "compact"}, at)
    assert values(oracle.one("read")) == values(ours({"op": "read"}, at)) == model.values()
    ours(model.write(), at)
    oracle([{"op": "compact"}])
    assert values(oracle.one("read")) == values(ours({"op": "read"}, at)) == model.values()
    oracle([model.write()])
    ours({"op": "compact"}, at)
    assert values(oracle.one("read")) == values(ours({"op": "read"}, at)) == model.values()
    files = oracle.one("files")["files"]
    assert {f["total_buckets"] for f in files} == {3}
    assert {f["bucket"] for f in files} == {0, 1, 2}


def test_row_ids(oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    options = {"bucket": "-1", "row-tracking.enabled": "true"}
    ours({"op": "create_table", "columns": COLUMNS, "options": options}, at)
    for _ in range(2):
        ours({"op": "write", "rows": [[1, "a", "x"], [2, "b", "y"]]}, at)
        oracle([{"op": "write", "rows": [[3, "c", "x"]]}])
    files = oracle.one("files")["files"]
    assert [(f["first_row_id"], f["rows"], f["min_seq"], f["max_seq"]) for f in files] == [
        (0, 2, 1, 1),
        (2, 1, 2, 2),
        (3, 2, 3, 3),
        (5, 1, 4, 4),
    ]
    snapshots = oracle.one("snapshots")["snapshots"]
    assert [s["nextRowId"] for s in snapshots] == [2, 3, 5, 6]
    assert values(oracle.one("read")) == values(ours({"op": "read"}, at))


def test_kinds_and_defaults_as_java_s_writer(oracle: Oracle, tmp_path: Path) -> None:
    """The same steps given to both: the same rows, at each snapshot."""
    columns = [*COLUMNS, {"name": "kind", "type": "STRING"}]
    rows = [[[1, None, "a", "+I"], [2, "x", "a", "+I"]], [[1, "y", "a", "-U"], [2, "x", "a", "-D"]]]
    results = []
    for name in ("ours", "java"):
        at = {"warehouse": str(tmp_path / name), "database": "db", "table": "t"}
        steps: list[dict[str, Any]] = [
            {
                "op": "create_table",
                "columns": columns,
                **PARTITIONED,
                "options": {
                    "bucket": "1",
                    "rowkind.field": "kind",
                    "ignore-update-before": "true",
                },
            },
            *({"op": "write", "rows": r} for r in rows),
            {"op": "write", "rows": [[5, "z", "a", None]]},
            {"op": "write", "rows": [[5, "z", "a", "+X"]]},
            {"op": "read", "snapshot": 1},
            {"op": "read", "snapshot": 2},
        ]
        if name == "ours":
            answers = [run_step({**at, **s}) for s in steps]
        else:
            answers = oracle([{**at, **s} for s in steps], check=False)
        assert ["error" in a for a in answers] == [False, False, False, True, True, False, False]
        results.append([values(a) for a in answers[-2:]])
    assert results[0] == results[1]
