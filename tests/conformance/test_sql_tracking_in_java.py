"""UPDATE and DELETE on tables with row tracking or data evolution: Java reads ids and numbers alike.

MERGE INTO, which needs Spark, is in tests/spark/test_sql_merge_in_java.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import CommitConflict, InvalidArgument, UnsupportedFeature
from paimon_core.read.table_read import read_table
from paimon_spark.sql.dml.targets import open_target

COLUMNS = [
    {"name": "id", "type": "INT"},
    {"name": "v", "type": "STRING"},
    {"name": "dt", "type": "STRING"},
]
TRACKED = {"bucket": "-1", "row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}


def _made(oracle: Oracle, warehouse: Path, options: dict[str, str]) -> Sql:
    """Two files of Java: ids 0 to 3 of snapshot 1, 4 and 5 of snapshot 2."""
    oracle.defaults(warehouse=warehouse, database="default", table="t")
    oracle.one("create_database")
    oracle.one("create_table", columns=COLUMNS, partition_keys=["dt"], options=options)
    oracle.one("write", rows=[[i, f"v{i}", "x"] for i in range(4)])
    oracle.one("write", rows=[[i, f"v{i}", "y"] for i in range(4, 6)])
    return Sql(warehouse)


def _tracked(oracle: Oracle) -> list[list[Any]]:
    """[id, v, dt, row id, sequence number] of each row, by Java."""
    return sorted(row[1:] for row in oracle.rows(system="row_tracking"))


@pytest.mark.parametrize("vectors", ["false", "true"], ids=["rewritten", "vectors"])
def test_changed_rows_keep_their_ids(oracle: Oracle, tmp_path: Path, vectors: str) -> None:
    sql = _made(oracle, tmp_path, {**TRACKED, "deletion-vectors.enabled": vectors})
    sql("UPDATE t SET v = 'new' WHERE id = 1")
    assert _tracked(oracle)[:3] == [
        [0, "v0", "x", 0, 1],
        [1, "new", "x", 1, 3],
        [2, "v2", "x", 2, 1],
    ]
    sql("DELETE FROM t WHERE id = 2; DELETE FROM t WHERE id = 5")
    sql("INSERT INTO t VALUES (9, 'z', 'y')")
    sql("UPDATE t SET v = 'newer', dt = 'y' WHERE id = 3")
    expected = [
        [0, "v0", "x", 0, 1],
        [1, "new", "x", 1, 3],
        [3, "newer", "y", 3, 7],
        [4, "v4", "y", 4, 2],
        [9, "z", "y", 6, 6],
    ]
    assert _tracked(oracle) == expected
    if vectors == "true":  # after Java's own compaction, it cannot read the ids of such a table
        sql("CALL sys.compact('t')")
    else:
        oracle.one("compact")
    assert _tracked(oracle) == expected
    oracle.one("write", rows=[[10, "j", "x"]])
    assert _tracked(oracle)[-1][3] == 7


def test_java_reads_updated_columns(oracle: Oracle, tmp_path: Path) -> None:
    sql = _made(oracle, tmp_path, EVOLVING)
    sql("UPDATE t SET v = 'new' WHERE id = 1")
    assert _tracked(oracle) == [
        [0, "v0", "x", 0, 3],
        [1, "new", "x", 1, 3],
        [2, "v2", "x", 2, 3],
        [3, "v3", "x", 3, 3],
        [4, "v4", "y", 4, 2],
        [5, "v5", "y", 5, 2],
    ]
    files = [f for f in oracle.one("files")["files"] if f["first_row_id"] == 0]
    assert [(f["rows"], f["min_seq"], f["max_seq"]) for f in files] == [(4, 1, 1), (4, 3, 3)]
    oracle.one("alter_table", changes=[{"change": "add_column", "name": "n", "type": "BIGINT"}])
    sql("UPDATE t SET n = 7 WHERE id = 4; INSERT INTO t VALUES (6, 'v6', 'y', 1)")
    sql("UPDATE t SET v = NULL WHERE dt = 'y'")
    rows = sorted(row[1:] for row in oracle.rows())
    assert [row for row in rows if row[2] == "y"] == [
        [4, None, "y", 7],
        [5, None, "y", None],
        [6, None, "y", 1],
    ]


def test_columns_of_several_files_of_one_commit_are_updated(oracle: Oracle, tmp_path: Path) -> None:
    sql = _made(oracle, tmp_path, {**EVOLVING, "target-file-size": "1 kb"})
    values = ", ".join(f"({i}, 'w{i}', 'z')" for i in range(10, 2500))
    sql(f"INSERT INTO t VALUES {values}")
    sql("UPDATE t SET v = 'new' WHERE id IN (11, 2400)")
    files = [f for f in oracle.one("files")["files"] if f["first_row_id"] > 5]
    assert len(files) > 3
    assert {(f["min_seq"], f["max_seq"]) for f in files} == {(3, 3), (4, 4)}
    found = {row[1]: row[2] for row in oracle.rows() if row[3] == "z"}
    assert (len(found), found[11], found[12], found[2400]) == (2490, "new", "w12", "new")
    table = sql.session.catalog.get_table("default.t")
    ours = read_table(table, table.latest_or_not_found(), columns=["id", "v"])
    assert found.items() <= {r["id"]: r["v"] for b in ours for r in b.to_pylist()}.items()


def test_java_reads_rows_of_a_merged_branch(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    sql = _made(oracle_2_0_0, tmp_path, TRACKED)
    sql("CALL sys.create_tag('t', 'start'); CALL sys.create_branch('t', 'b', 'start')")
    sql("INSERT INTO `t$branch_b` VALUES (8, 'b', 'x'); INSERT INTO t VALUES (7, 'm', 'x')")
    with pytest.raises(InvalidArgument, match="lost snapshots"):
        sql("CALL sys.merge_branch('t', 'b')")
    sql("CALL sys.create_branch('t', 'c'); INSERT INTO `t$branch_c` VALUES (9, 'c', 'y')")
    sql("CALL sys.merge_branch('t', 'c')")
    assert _tracked(oracle_2_0_0)[4:] == [
        [4, "v4", "y", 4, 2],
        [5, "v5", "y", 5, 2],
        [7, "m", "x", 6, 3],
        [9, "c", "y", 7, 1],
    ]


def test_updates_of_the_same_rows_conflict(oracle: Oracle, tmp_path: Path) -> None:
    sql = _made(oracle, tmp_path, EVOLVING)
    name = sql.session.table_name(["t"])
    slow = open_target(sql.session, name, "UPDATE")
    sql("UPDATE t SET v = 'first' WHERE id = 0")
    one = np.array([1], np.int64)
    with pytest.raises(CommitConflict, match="MERGE INTO"):
        slow.commit(one, slow.rows.slice(1, 1), origins=one, columns=["v"])
    # Other groups of files are free.
    four = np.array([4], np.int64)
    slow.commit(four, slow.rows.slice(5, 1), origins=four, columns=["v"])
    assert [row[1] for row in _tracked(oracle)] == ["first", "v1", "v2", "v3", "v5", "v5"]
    written = {p.name for p in tmp_path.rglob("data-*.parquet")}
    assert len(written) == len(oracle.one("files")["files"])


def test_what_data_evolution_does_not_allow(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    sql = _made(oracle_2_0_0, tmp_path, EVOLVING)
    for statement, words in {
        "DELETE FROM t WHERE id = 1": "with DeletionVector enabled",
        "UPDATE t SET dt = 'z' WHERE id = 1": "partition columns",
    }.items():
        with pytest.raises(UnsupportedFeature, match=words):
            sql(statement)
    assert len(oracle_2_0_0.rows()) == 6
