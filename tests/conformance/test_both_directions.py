"""Java goes on where we stopped, and the other way round, on one and the same table.

For each kind of table: we write and compact, Java reads every snapshot and goes on writing and
compacting, we read that; after Java's expiry the files on disk are the files referenced.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from replay import run_step

from oracle import Oracle

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "n", "type": "BIGINT"},
    {"name": "dt", "type": "STRING NOT NULL"},
]

TABLES: dict[str, dict[str, Any]] = {
    "primary_key": {"primary_keys": ["k"], "options": {"bucket": "1"}},
    "primary_key_buckets": {"primary_keys": ["k"], "options": {"bucket": "3"}},
    "partitioned": {
        "primary_keys": ["dt", "k"],
        "partition_keys": ["dt"],
        "options": {"bucket": "2", "write-only": "true"},
    },
    "sequence_field": {"primary_keys": ["k"], "options": {"bucket": "2", "sequence.field": "n"}},
    "orc": {"primary_keys": ["k"], "options": {"bucket": "2", "file.format": "orc"}},
    "avro": {"primary_keys": ["k"], "options": {"bucket": "2", "file.format": "avro"}},
    "ignore_delete": {"primary_keys": ["k"], "options": {"bucket": "1", "ignore-delete": "true"}},
    "vectors": {
        "primary_keys": ["dt", "k"],
        "partition_keys": ["dt"],
        "options": {
            "bucket": "1",
            "sequence.field": "n",
            "deletion-vectors.enabled": "true",
            "deletion-vectors.bitmap64": "true",
        },
    },
    "append": {"options": {"bucket": "-1", "compaction.min.file-num": "2"}},
    "append_partitioned": {
        "partition_keys": ["dt"],
        "options": {"bucket": "-1", "compaction.min.file-num": "2"},
    },
    "append_buckets": {
        "options": {"bucket": "2", "bucket-key": "k", "compaction.min.file-num": "2"}
    },
}


class Writes:
    """Random commits; sequence values never repeat, for Java leaves the winner of a tie open."""

    def __init__(self, kind: str) -> None:
        self.random = random.Random(kind)
        self.deletes = "primary_keys" in TABLES[kind]
        self.next = 0

    def step(self) -> dict[str, Any]:
        rows = []
        for _ in range(self.random.randint(1, 25)):
            self.next += 1
            kind = self.random.choice(["+I", "+I", "+U", "-D"]) if self.deletes else "+I"
            key = self.random.randint(0, 30)
            value = self.random.choice([None, "", "x" * 40, f"v{self.next}", "\u00e4\u4e2d"])
            day = self.random.choice(["20240101", "20240102"])
            rows.append({"kind": kind, "values": [key, value, self.next, day]})
        return {"op": "write", "rows": rows}


def sorted_rows(result: dict[str, Any]) -> list[str]:
    assert "error" not in result, result
    return sorted(map(str, result["rows"]))


def same_everywhere(java: Oracle, at: dict[str, str], *, after: int = 0) -> int:
    """Whole, and at every snapshot `after` this one; the number of the newest."""
    theirs = java.one("snapshots")["snapshots"]
    ours = run_step({"op": "snapshots", **at})["snapshots"]
    ids = [s["id"] for s in theirs]
    assert [s["id"] for s in ours] == ids
    for which in ({}, *({"snapshot": i} for i in ids if i > after)):
        read = {"op": "read", **which}
        assert sorted_rows(java.one(**read)) == sorted_rows(run_step({**at, **read})), which
    return int(ids[-1])


@pytest.mark.sampled(one_of=12)
@pytest.mark.parametrize("kind", TABLES)
def test_taking_turns(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    writes = Writes(kind)

    def ours(step: dict[str, Any]) -> None:
        result = run_step({**at, **step})
        assert "error" not in result, result

    ours({"op": "create_table", "columns": COLUMNS, **TABLES[kind]})
    seen = 0
    for turn in range(3):
        for _ in range(3):
            ours(writes.step())
        ours({"op": "compact", "full": turn % 2 == 0})
        seen = same_everywhere(oracle, at, after=seen)
        for _ in range(2):
            oracle([{**writes.step(), "compact": False}])
        oracle([writes.step()])
        if turn:
            oracle([{"op": "compact", "full": True}])
        seen = same_everywhere(oracle, at, after=seen)
    ours({"op": "compact", "full": True})
    same_everywhere(oracle, at)
    oracle([{"op": "expire_snapshots", "retain_max": 1, "retain_min": 1, "time_retained": "1 ms"}])
    same_everywhere(oracle, at)
    assert_only_referenced_files(tmp_path / "db.db" / "t", at)


def assert_only_referenced_files(table: Path, at: dict[str, str]) -> None:
    """After expiry, the data files on disk are those of the one snapshot that is left."""
    files = run_step({**at, "op": "files"})["files"]
    referenced = {f["file"] for f in files} | {x for f in files for x in f["extra_files"]}
    on_disk = {p.name for p in table.rglob("bucket-*/*") if not p.name.startswith(".")}
    assert on_disk == referenced
    manifests = run_step({**at, "op": "manifests"})
    named = {m["file"] for part in manifests.values() if isinstance(part, dict)
             for m in part["manifests"]}  # fmt: skip
    named |= {part["list"] for part in manifests.values() if isinstance(part, dict)}
    assert {p.name for p in (table / "manifest").iterdir()} == named
