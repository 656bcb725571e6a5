"""The changelog that our compaction makes is the one that Java's makes, commit by commit.

The same rows are written and compacted at the same points by Java into one table and by us into
another; a stream over either gives the same changes for each snapshot, Java streams over ours too,
and goes on compacting it.
"""

from __future__ import annotations

import ast
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from long_run import LONG
from replay import run_step

from oracle import Oracle

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "j", "type": "STRING NOT NULL"},
    {"name": "a", "type": "BIGINT"},
    {"name": "s", "type": "BIGINT"},
    {"name": "b", "type": "STRING"},
    {"name": "l", "type": "ARRAY<INT>"},
]
KEYS = 60
ROUNDS = 6 if LONG else 4

FULL = {"changelog-producer": "full-compaction"}
LOOKUP = {"changelog-producer": "lookup"}
DEDUPLICATE = {"changelog-producer.row-deduplicate": "true"}
PARTIAL = {
    "merge-engine": "partial-update",
    "partial-update.remove-record-on-delete": "true",
}
GROUPS = {
    "merge-engine": "partial-update",
    "fields.s.sequence-group": "a,b",
    "ignore-delete": "true",
}
SUM = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
FIRST = {"merge-engine": "first-row", "ignore-delete": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
WIDE = VECTORS | {"deletion-vectors.bitmap64": "true"}
TABLES: dict[str, dict[str, str]] = {
    "full": FULL,
    "full_deduplicate": FULL | DEDUPLICATE,
    "full_ignore_fields": FULL
    | DEDUPLICATE
    | {"changelog-producer.row-deduplicate-ignore-fields": "s,b"},
    "full_sequence": FULL | {"sequence.field": "s", "data-file.thin-mode": "true"},
    "full_partial": FULL | PARTIAL | DEDUPLICATE,
    "full_groups": FULL | GROUPS,
    "full_sum": FULL | SUM | {"aggregation.remove-record-on-delete": "true"},
    "full_files": FULL
    | {
        "changelog-file.format": "avro",
        "changelog-file.prefix": "told-",
        "changelog-file.stats-mode": "none",
        "file.format.per.level": "0:avro,5:orc",
    },
    "lookup": LOOKUP,
    "lookup_deduplicate": LOOKUP | DEDUPLICATE,
    "lookup_sequence": LOOKUP | {"sequence.field": "s"},
    "lookup_partial": LOOKUP | PARTIAL,
    "lookup_groups": LOOKUP | GROUPS | DEDUPLICATE,
    "lookup_sum": LOOKUP | SUM,
    "lookup_formats": LOOKUP | {"file.format.per.level": "0:avro", "file.format": "orc"},
    "lookup_first": LOOKUP | FIRST,
    "first": FIRST,
    "forced_sum": SUM | {"force-lookup": "true"},
    "vectors": VECTORS,
    "vectors_sequence": WIDE | {"sequence.field": "s"},
    "vectors_formats": VECTORS | {"file.format.per.level": "0:avro", "file.format": "orc"},
    "vectors_sum": VECTORS | SUM,
    "vectors_lookup": VECTORS | LOOKUP | DEDUPLICATE,
    "vectors_lookup_sequence": VECTORS | LOOKUP | {"sequence.field": "s"},
    "vectors_lookup_partial": WIDE | LOOKUP | PARTIAL,
    "vectors_lookup_groups": VECTORS | LOOKUP | GROUPS,
    "forced_groups": GROUPS | {"force-lookup": "true", "changelog-producer": "input"},
}


def written(kind: str) -> list[list[dict[str, Any]]]:
    """The rows of each commit; sequences never repeat, for Java leaves the winner of a tie open."""
    r = random.Random(kind)
    commits = []
    sequence = 0
    for number in range(ROUNDS * 2):
        rows = []
        for _ in range(80 if number == 0 else r.randint(1, 20)):
            sequence += 1
            options = TABLES[kind]
            deletes = "first-row" not in options.values() or r.random() < 0.3
            rows.append(
                {
                    "kind": r.choice(["+I", "+I", "+U", "-D"]) if deletes else "+I",
                    "values": [
                        r.randint(0, KEYS // 3),
                        r.choice(["", "x", "a longer text than eight bytes"]),
                        r.choice([None, 1, 2, 3]),
                        r.choice([None, sequence, sequence, 10_000 - sequence]),
                        r.choice([None, "p", "q" * 20]),
                        r.choice([None, [], [1], [1, 2]]),
                    ],
                }
            )
            if "sequence.field" in options and rows[-1]["values"][3] is None:
                rows[-1]["values"][3] = sequence
        commits.append(rows)
    return commits


def build(kind: str) -> list[dict[str, Any]]:
    """Two commits, then a compaction, again and again; then minor ones over a full one."""
    r = random.Random(f"{kind} steps")
    commits = written(kind)
    steps: list[dict[str, Any]] = [
        {
            "op": "create_table",
            "columns": COLUMNS,
            "primary_keys": ["k", "j"],
            # Picks must not depend on encoded sizes, which differ; so each makes a level.
            "options": {
                "bucket": "1",
                "write-only": "true",
                "num-sorted-run.compaction-trigger": "30",
                "num-levels": "6",
                "compaction.size-ratio": "-99",
            }
            | TABLES[kind],
        }
    ]
    for number in range(ROUNDS):
        many = 2 if r.random() < 0.7 else 1
        steps += [{"op": "write", "rows": rows} for rows in commits[2 * number :][:many]]
        full = number in (0, ROUNDS - 1)
        steps.append({"op": "compact", "full": full})
    return steps


def changes(result: dict[str, Any]) -> dict[int, list[str]]:
    assert "error" not in result, result
    return {p["next_snapshot"] - 1: sorted(map(str, p["rows"])) for p in result["plans"]}


def deleted_rows(files: dict[str, Any]) -> list[int]:
    """How many rows of each file the deletion vectors of a table take."""
    return sorted(
        vector["cardinality"]
        for index_file in files["index_files"]
        for vector in index_file["deletion_vectors"].values()
    )


def values(result: dict[str, Any]) -> list[str]:
    assert "error" not in result, result
    return sorted(str(row[1:]) for row in result["rows"])


class Both:
    """A table of Java's and one of ours."""

    def __init__(self, java: Oracle, folder: Path) -> None:
        self.java = java
        self.theirs = {"warehouse": str(folder / "java"), "database": "db", "table": "t"}
        self.ours = {"warehouse": str(folder / "ours"), "database": "db", "table": "t"}

    def run(self, step: dict[str, Any]) -> None:
        theirs, ours = self.java([{**self.theirs, **step}])[0], run_step({**self.ours, **step})
        assert "error" not in ours, ours
        assert ours.get("snapshots_added") == theirs.get("snapshots_added"), step["op"]

    def stream(self) -> dict[str, Any]:
        return {"op": "stream_read", "from": 1}


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("kind", TABLES)
def test_the_same_changes_at_each_commit(kind: str, oracle_1_4_2: Oracle, tmp_path: Path) -> None:
    both = Both(oracle_1_4_2, tmp_path)
    deleted: list[int] = []
    for step in build(kind):
        both.run(step)
        files = oracle_1_4_2([{**at, "op": "files"} for at in (both.theirs, both.ours)])
        assert deleted_rows(files[0]) == deleted_rows(files[1])
        deleted += deleted_rows(files[0])
        if step["op"] == "compact" and not step["full"]:
            theirs = oracle_1_4_2([{**both.theirs, "op": "read"}])[0]
            assert values(run_step({**both.ours, "op": "read"})) == values(theirs)
    java, over_ours = oracle_1_4_2(
        [{**both.theirs, **both.stream()}, {**both.ours, **both.stream()}]
    )
    assert bool(deleted) == kind.startswith("vectors")
    ours = changes(run_step({**both.ours, **both.stream()}))
    assert ours == changes(java)
    assert changes(over_ours) == ours
    counts = [
        [(s["id"], s["commitKind"], s.get("changelogRecordCount")) for s in found["snapshots"]]
        for found in (
            oracle_1_4_2([{**both.theirs, "op": "snapshots"}])[0],
            run_step({**both.ours, "op": "snapshots"}),
        )
    ]
    assert counts[0] == counts[1]
    # A stream that begins before the last compaction sees what the ones before it left.
    first = {"op": "stream_read", "max_plans": 1}
    run_step({**both.ours, "op": "write", "rows": build(kind)[1]["rows"][:5]})
    begun = oracle_1_4_2([{**both.ours, **first}])[0]
    assert changes(run_step({**both.ours, **first})) == changes(begun)


MIXED = [
    *("full_groups", "full_sum", "lookup", "lookup_sum", "lookup_groups", "lookup_first"),
    *("vectors", "vectors_sum", "vectors_lookup_sequence"),
]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", MIXED)
def test_taking_turns_at_compaction(
    kind: str, oracle_1_4_2: Oracle, oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    """Both versions of Java and we compact one table by turns: the same changes once more."""
    both = Both(oracle_1_4_2, tmp_path)
    turn = 0
    for step in build(kind):
        turn += step["op"] == "compact"
        java = oracle_1_4_2 if turn % 3 == 1 else oracle_2_0_0
        if step["op"] == "compact" and turn % 3:
            oracle_1_4_2([{**both.theirs, **step}])
            java([{**both.ours, **step}])
        else:
            both.run(step)
    expected = changes(oracle_1_4_2([{**both.theirs, **both.stream()}])[0])
    assert changes(run_step({**both.ours, **both.stream()})) == expected
    for java in (oracle_1_4_2, oracle_2_0_0):
        assert changes(java([{**both.ours, **both.stream()}])[0]) == expected
    newest = oracle_1_4_2([{**both.theirs, "op": "read"}])[0]
    assert values(run_step({**both.ours, "op": "read"})) == values(newest)


@pytest.mark.parametrize("kind", ["lookup_sum", "lookup_first"])
def test_writers_that_compact_tell_the_same(
    kind: str, oracle_1_4_2: Oracle, tmp_path: Path
) -> None:
    both = Both(oracle_1_4_2, tmp_path)
    for step in build(kind):
        if step["op"] == "create_table":
            both.run({**step, "options": step["options"] | {"write-only": "false"}})
        elif step["op"] == "write":
            both.run({**step, "wait": True})
    java = oracle_1_4_2([{**both.theirs, **both.stream()}])[0]
    assert changes(run_step({**both.ours, **both.stream()})) == changes(java)


def test_each_version_tells_numbers_apart_in_its_own_way(oracle: Oracle, tmp_path: Path) -> None:
    """1.4 compares DOUBLE by `==`, 2.0 by `Double.compare`: NaN and the two zeros show it."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    at = {"warehouse": str(theirs), "database": "db", "table": "t"}
    columns = ["k INT NOT NULL", "d DOUBLE", "f FLOAT", "l ARRAY<DOUBLE>"]
    create = {
        "op": "create_table",
        "columns": [dict(zip(("name", "type"), c.split(" ", 1), strict=True)) for c in columns],
        "primary_keys": ["k"],
        "options": FULL | DEDUPLICATE | {"bucket": "1", "write-only": "true"},
    }
    nan, zero, minus = "NaN", "0.0", "-0.0"
    first = [[1, nan, nan, None], [2, zero, zero, None], [3, None, nan, [nan, zero]], [4, 1, 1, []]]
    then = [[1, nan, nan, None], [2, minus, zero, None], [3, None, nan, [nan, zero]], [4, 1, 1, []]]
    steps = [{"op": "write", "rows": rows} for rows in (first, then)]
    compact = {"op": "compact"}
    oracle([{**at, **step} for step in (create, steps[0], compact, steps[1])])
    shutil.copytree(theirs, ours)
    oracle([{**at, **compact}])
    read = {"op": "stream_read", "from": 1}
    java = changes(oracle([{**at, **read}])[0])
    assert "error" not in run_step({**at, "warehouse": str(ours), **compact})
    assert changes(run_step({**at, "warehouse": str(ours), **read})) == java
    told = {ast.literal_eval(row)[1] for row in java[4]}
    assert told == ({2} if oracle.version == "2.0.0" else {1, 3})
