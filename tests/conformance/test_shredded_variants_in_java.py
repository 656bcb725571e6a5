"""VARIANT and VECTOR columns beside Java 2.0.0: read, written and compacted, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from replay import run_step

from oracle import Oracle

NAMED = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "VARIANT"}]
SHREDDING = json.dumps(
    {
        "type": "ROW",
        "fields": [
            {
                "name": "v",
                "type": {
                    "type": "ROW",
                    "fields": [
                        {"name": "a", "type": "INT"},
                        {"name": "b", "type": "STRING"},
                        {"name": "c", "type": {"type": "ARRAY", "element": "BIGINT"}},
                        {"name": "d", "type": "DECIMAL(10, 2)"},
                        {
                            "name": "o",
                            "type": {"type": "ROW", "fields": [{"name": "x", "type": "DOUBLE"}]},
                        },
                    ],
                },
            }
        ],
    }
)
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "shredded": {"parquet.variant.shreddingSchema": SHREDDING},
    "inferred": {"variant.inferShreddingSchema": "true"},
}
VALUES: list[Any] = [
    {"a": 1, "b": "text", "c": [1, 2, None], "d": 12.5, "o": {"x": 1.5e10, "y": "rest"}},
    {"a": "not an int", "b": 5, "c": {"no": "array"}, "z": [True, False, None, {"a": {}}]},
    {"a": 2**40, "é\U0001f600": "ü", "b": "l" * 100, "d": 1.234, "o": {}},
    {},
    [],
    [1, [2, [3, {"deep": [{"deeper": -1}]}]]],
    '"a text"',
    "null",
    "12.50",
    "1e300",
    None,
    {f"key{i}": i for i in range(300)},
    {"a": None, "b": None},
    {"c": [1, "2", 3.5], "o": 7},
]


UNIFORM: list[Any] = [
    {"a": 1, "b": "text", "c": [1, 2], "o": {"x": 15}},
    {"a": "no int", "b": "more", "z": [True, None, {"a": {}}]},
    {"a": 2**40, "b": "l" * 100, "c": []},
    {"a": None, "b": "b", "c": [3], "o": {"x": -2, "y": 1}},
    {"b": "b", "é": "ü"},
    {"a": 5, "b": "b", "c": "no array"},
]
"""Java infers a schema from objects alone, and its inference fails with some fractions."""


def values(kind: str) -> list[Any]:
    return UNIFORM if kind == "inferred" else VALUES


def made(java: Oracle, kind: str, keys: list[str]) -> None:
    rows = [[i, v] for i, v in enumerate(values(kind))]
    common = {"write-only": "true", "compaction.min.file-num": "2"}
    options = {"bucket": "1" if keys else "-1", **common, **KINDS[kind]}
    java.one("create_database")
    java.one("create_table", columns=NAMED, primary_keys=keys, options=options)
    for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        java.one("write", rows=part)


def is_shredded(file: Path) -> bool:
    return any("typed_value" in path for path in pq.ParquetFile(file).metadata.schema.names)


@pytest.mark.sampled
@pytest.mark.parametrize("keys", [[], ["k"]], ids=["append", "keys"])
@pytest.mark.parametrize("kind", KINDS)
def test_java_and_we_read_the_same_before_and_after_compaction(
    kind: str, keys: list[str], oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    java = oracle_2_0_0.defaults(**at)
    made(java, kind, keys)
    theirs = java.rows()
    assert len(theirs) == len(values(kind))
    # Or this would test plain files only.
    shredded = [is_shredded(file) for file in tmp_path.rglob("data-*.parquet")]
    assert len(shredded) == 2
    assert any(shredded) == (kind != "plain")
    assert run_step({"op": "read", **at})["rows"] == theirs
    compacted = run_step({"op": "compact", **at, "full": True})
    assert "error" not in compacted, compacted
    assert run_step({"op": "read", **at})["rows"] == theirs
    assert java.rows() == theirs
    assert java.one("snapshots")["snapshots"][-1]["commitKind"] == "COMPACT"
    written = run_step({"op": "write", **at, "rows": [[100, values(kind)[0]], [101, None]]})
    assert "error" not in written, written
    java.one("write", rows=[[100 if keys else 102, values(kind)[1]]])
    theirs = java.rows()
    assert run_step({"op": "read", **at})["rows"] == theirs
    java.one("compact")
    assert java.rows() == theirs
    assert run_step({"op": "read", **at})["rows"] == theirs


def test_vectors_are_read_written_and_compacted(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    java = oracle_2_0_0.defaults(**at)
    columns = [{"name": "k", "type": "INT NOT NULL"}, {"name": "e", "type": "VECTOR<FLOAT, 2>"}]
    java.one("create_database")
    java.one(
        "create_table",
        columns=columns,
        primary_keys=["k"],
        options={"bucket": "1", "write-only": "true"},
    )
    written = run_step({"op": "write", **at, "rows": [[1, [1.5, 2.0]], [2, None]]})
    assert "error" not in written, written
    assert "error" not in run_step({"op": "write", **at, "rows": [[1, [-1.0, 0.25]]]})
    wrong = run_step({"op": "write", **at, "rows": [[3, [1.0]]]})
    assert "2" in wrong["error"]
    assert "error" not in run_step({"op": "compact", **at, "full": True})
    rows = run_step({"op": "read", **at})["rows"]
    assert rows == [["+I", 1, [-1.0, 0.25]], ["+I", 2, None]]
