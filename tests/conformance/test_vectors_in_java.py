"""Tables with deletion vectors, kept by Java and by us in turns.

Java's core cannot delete single rows of append tables (its Spark commands do); there we mark the
rows, and Java reads, writes and compacts.  Primary-key tables get their vectors from compactions.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from disk import on_disk, referenced
from replay import run_step
from row_deletes import delete_rows
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.read.table_read import deletion_vectors
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Problem

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "n", "type": "BIGINT"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
VECTORS = {"deletion-vectors.enabled": "true"}
WIDE = {**VECTORS, "deletion-vectors.bitmap64": "true"}
JOIN = {"compaction.min.file-num": "2"}
APPEND: dict[str, dict[str, Any]] = {
    "append": {"options": {"bucket": "-1", **VECTORS, **JOIN}},
    "append_partitioned": {"partition_keys": ["dt"], "options": {"bucket": "-1", **WIDE, **JOIN}},
    "append_buckets": {"options": {"bucket": "2", "bucket-key": "k", **VECTORS, **JOIN}},
}

Row = tuple[Any, ...]


def same_everywhere(java: Oracle, at: dict[str, str]) -> list[list[Any]]:
    """The values of all rows, which are the same in Java and here, at every snapshot."""
    ids = [s["id"] for s in java.one("snapshots")["snapshots"]]
    reads = [{"op": "read"}, *({"op": "read", "snapshot": i} for i in ids)]
    ours = [run_step({**at, **read}) for read in reads]
    for read, theirs, mine in zip(reads, java(reads), ours, strict=True):
        assert "error" not in mine, mine
        assert sorted(map(str, theirs["rows"])) == sorted(map(str, mine["rows"])), read
    table = open_table(at["warehouse"], "db.t")
    assert check_table(table).findings == []
    return [row[1:] for row in ours[0]["rows"]]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", APPEND)
def test_append_tables_in_turns(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    chance = random.Random(kind)
    model: list[list[Any]] = []

    def rows() -> list[list[Any]]:
        made = [
            [chance.randint(0, 30), f"v{len(model) + i}", i, chance.choice(["d1", "d2"])]
            for i in range(chance.randint(1, 20))
        ]
        model.extend(made)
        return made

    def ours(step: dict[str, Any]) -> None:
        result = run_step({**at, **step})
        assert "error" not in result, result

    def delete() -> None:
        keys = set(chance.sample(range(31), 6))
        gone = [r for r in model if r[0] in keys]
        assert delete_rows(open_table(str(tmp_path), "db.t"), keys) == len(gone)
        model[:] = [r for r in model if r[0] not in keys]

    def check() -> None:
        java = [str(row[1:]) for row in oracle.rows()]
        assert sorted(java) == sorted(map(str, model))

    oracle([{"op": "create_table", "columns": COLUMNS, **APPEND[kind]}])
    for turn in range(3):
        oracle([{"op": "write", "rows": rows(), "compact": False} for _ in range(2)])
        ours({"op": "write", "rows": rows()})
        delete()
        ours({"op": "write", "rows": rows()})
        delete()
        if turn == 1:
            oracle([{"op": "compact", "full": True}])
        else:
            ours({"op": "compact", "full": turn == 0})
            table = open_table(str(tmp_path), "db.t")
            assert deletion_vectors(table, table.latest_or_not_found()) == {}
        check()
        delete()
    same_everywhere(oracle, at)
    ours({"op": "compact", "full": True})
    oracle([{"op": "write", "rows": rows(), "compact": False}])
    oracle([{"op": "expire_snapshots", "retain_max": 1, "retain_min": 1, "time_retained": "1 ms"}])
    same_everywhere(oracle, at)
    check()
    assert on_disk(tmp_path / "db.db" / "t") == referenced(tmp_path)


@pytest.mark.parametrize("by", ["java", "us"])
def test_only_top_level_files_with_vectors(by: str, oracle: Oracle, tmp_path: Path) -> None:
    """A full compaction rewrites them.  Java 1.4.2 leaves their vectors behind, which are dropped
    with the next compaction here; meanwhile they disturb nobody.
    """
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    rows = [[k, f"v{k}", k, "d"] for k in range(20)]
    deletes = [{"kind": "-D", "values": row} for row in rows[:3]]
    oracle(
        [
            {
                "op": "create_table",
                "columns": COLUMNS,
                "primary_keys": ["k"],
                "options": {"bucket": "1", "write-only": "true", **VECTORS},
            },
            {"op": "write", "rows": rows},
            {"op": "compact", "full": True},
            {"op": "write", "rows": deletes},
            {"op": "compact", "full": False},
        ]
    )
    table = open_table(str(tmp_path), "db.t")

    def vectors() -> list[int]:
        return [len(p) for p in deletion_vectors(table, table.latest_or_not_found()).values()]

    assert vectors() == [3]
    compact = {"op": "compact", "full": True}
    if by == "java":
        oracle([compact])
    else:
        assert "error" not in run_step({**at, **compact})
    left_behind = by == "java" and oracle.version == "1.4.2"
    assert vectors() == ([3] if left_behind else [])
    problems = {f.problem for f in check_table(table).findings}
    assert problems == ({Problem.VECTOR_WITHOUT_FILE} if left_behind else set())
    more = {"op": "write", "rows": [[1, "again", 1, "d"]]}
    for step in (more, compact):
        assert "error" not in run_step({**at, **step})
    assert vectors() == []
    assert check_table(table).clean
    expected = sorted(map(str, [[1, "again", 1, "d"], *rows[3:]]))
    assert sorted(str(r[1:]) for r in oracle.rows()) == expected
    assert sorted(str(r[1:]) for r in run_step({**at, "op": "read"})["rows"]) == expected


def test_reads_merge_new_files_where_the_table_wants_it(
    oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    oracle, sql = oracle_2_0_0, Sql(tmp_path)
    oracle.defaults(warehouse=tmp_path, database="default", table="t")
    sql("""
        CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1',
            'write-only' = 'true', 'deletion-vectors.enabled' = 'true',
            'deletion-vectors.merge-on-read' = 'true');
        INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')
    """)

    def rows() -> list[list[object]]:
        """The rows here, which are those in Java."""
        table = open_table(str(tmp_path), "default.t")
        found = [r for b in read_batch(batch_scan_of(table)) for r in b.to_pylist()]
        here = sorted([row["k"], row["v"]] for row in found)
        assert sorted(row[1:] for row in oracle.rows()) == here
        return here

    expected: list[list[object]] = [[1, "a"], [2, "b"], [3, "c"]]
    assert rows() == expected
    oracle.one("compact", options={"write-only": "false"})
    assert rows() == expected
    sql(
        "DELETE FROM t WHERE k = 2; UPDATE t SET v = 'new' WHERE k = 3; INSERT INTO t VALUES (4, 'd')"
    )
    expected = [[1, "a"], [3, "new"], [4, "d"]]
    assert rows() == expected
    sql("SET spark.paimon.deletion-vectors.merge-on-read=false; CALL sys.compact('t')")
    assert rows() == expected
    sql("RESET; INSERT INTO t VALUES (1, 'last')")
    assert rows() == [[1, "last"], *expected[1:]]
