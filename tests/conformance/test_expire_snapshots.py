"""Expiry of ours beside Java's on copies of one table: the same versions survive and read the same."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from disk import assert_no_leftovers
from replay import run_step

from oracle import Oracle

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
TABLES: dict[str, dict[str, Any]] = {
    "primary_key": {"primary_keys": ["k"], "options": {"bucket": "2"}},
    "partitioned": {
        "primary_keys": ["dt", "k"],
        "partition_keys": ["dt"],
        "options": {"bucket": "1"},
    },
    "append": {"options": {"bucket": "-1"}},
    "input_changelog": {
        "primary_keys": ["k"],
        "options": {"bucket": "1", "changelog-producer": "input"},
    },
    "full_changelog": {
        "primary_keys": ["k"],
        "options": {"bucket": "1", "changelog-producer": "full-compaction"},
    },
    "dynamic": {"primary_keys": ["k"], "options": {"bucket": "-1"}},
    "vectors": {
        "primary_keys": ["k"],
        "options": {"bucket": "1", "deletion-vectors.enabled": "true"},
    },
}
DECOUPLED = {"changelog.num-retained.min": "4", "changelog.num-retained.max": "4"}


def history(seed: str, *, keyed: bool, partitioned: bool) -> list[dict[str, Any]]:
    """Random commits, deletes, compactions, overwrites, tags, consumers."""
    rng = random.Random(seed)
    steps: list[dict[str, Any]] = []
    snapshots = 0
    for _ in range(11):
        rows = [
            {
                "kind": rng.choice(["+I", "+U", "-D"]) if keyed else "+I",
                "values": [rng.randint(0, 20), f"v{rng.random()}", rng.choice("ab")],
            }
            for _ in range(rng.randint(1, 9))
        ]
        steps.append({"op": "write", "rows": rows})
        snapshots += 1
        match rng.randint(0, 7):
            case 0 | 1:
                steps.append({"op": "compact", "full": True})
            case 2 if partitioned:
                steps.append({"op": "drop_partition", "partitions": [{"dt": rng.choice("ab")}]})
            case 3 | 4:
                name = f"t{len(steps)}"
                steps.append({"op": "create_tag", "name": name, "snapshot": snapshots})
    if rng.random() < 0.3:
        steps.append({"op": "set_consumer", "id": "c", "next_snapshot": rng.randint(3, snapshots)})
    return steps


def ids(result: dict[str, Any], what: str) -> list[Any]:
    return sorted(s["id"] for s in result[what])


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("kind", [*TABLES, "decoupled_none", "decoupled_input"])
def test_ours_beside_java(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    base = {"decoupled_none": "primary_key", "decoupled_input": "input_changelog"}.get(kind, kind)
    table = TABLES[base]
    decoupled = kind.startswith("decoupled")
    options = {**table["options"], **(DECOUPLED if decoupled else {})}
    keyed = "primary_keys" in table
    pristine = {"warehouse": str(tmp_path / "java"), "database": "db", "table": "t"}
    oracle.defaults(**pristine)
    oracle([{"op": "create_table", "columns": COLUMNS, **table, "options": options}])
    steps = history(kind, keyed=keyed, partitioned="partition_keys" in table)
    oracle(steps, check=False)
    ours = {**pristine, "warehouse": str(tmp_path / "ours")}
    shutil.copytree(tmp_path / "java", tmp_path / "ours")

    retention = {"retain_max": 3, "retain_min": 2, "time_retained": "1 h"}
    if decoupled:
        # 1.4.2's procedure forgets the changelog options, so it is done as a commit does it.
        dynamic = {"snapshot.num-retained.max": "3", "snapshot.num-retained.min": "2"}
        retention = {"options": dynamic}
        oracle([{"op": "expire_snapshots", "as_commit": True, **retention}])
    else:
        oracle([{"op": "expire_snapshots", **retention}])
    result = run_step({"op": "expire_snapshots", **ours, **retention})
    assert "error" not in result, result
    for what in ("snapshots", "changelogs"):
        mine = run_step({"op": what, **ours})
        assert ids(mine, what) == ids(oracle.one(what), what), what
    assert_no_leftovers(tmp_path / "ours")
    left = ids(oracle.one("snapshots"), "snapshots")
    tags = [t["name"] for t in oracle.one("tags")["tags"]]
    for which in ({}, *({"snapshot": i} for i in left), *({"tag": t} for t in tags)):
        theirs = oracle.one("read", **which)["rows"]
        assert oracle.one("read", **which, **ours)["rows"] == theirs, which
    if decoupled:
        stream = {"from": min(ids(oracle.one("changelogs"), "changelogs") or left), "max_plans": 40}
        theirs = oracle.one("stream_read", **stream)
        assert oracle.one("stream_read", **stream, **ours)["plans"] == theirs["plans"]
