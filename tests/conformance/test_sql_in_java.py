"""What SQL wrote, Java reads: tables, rows, updates, deletes and overwrites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import InvalidArgument
from paimon_core.table.source.batch_scan import batch_scan_of

TABLES = {
    "keys": "'primary-key' = 'dt,id', 'bucket' = '1'",
    "plain": "'bucket' = '-1'",
    "buckets": "'bucket' = '2', 'bucket-key' = 'id'",
    "vectors": "'deletion-vectors.enabled' = 'true'",
    "bucket_vectors": "'deletion-vectors.enabled' = 'true', 'bucket' = '2', 'bucket-key' = 'id'",
}


@pytest.mark.parametrize("properties", TABLES.values(), ids=TABLES)
def test_java_reads_what_sql_wrote(oracle: Oracle, tmp_path: Path, properties: str) -> None:
    sql = Sql(tmp_path)
    at = {"warehouse": str(tmp_path), "database": "default", "table": "t"}

    def java() -> list[list[Any]]:
        return sorted((row[1:] for row in oracle.rows(**at)), key=str)

    sql(f"""
        CREATE TABLE t (id INT, v STRING DEFAULT 'none', d DECIMAL(6, 2), ts TIMESTAMP_NTZ, dt STRING)
        PARTITIONED BY (dt) TBLPROPERTIES ({properties});
        INSERT INTO t VALUES (1, 'a', 1.5, timestamp_ntz '2024-01-31 12:34:56.123', 'x'),
                             (2, NULL, NULL, NULL, 'x'), (3, 'c', -7, NULL, 'y');
        INSERT INTO t (id, dt) VALUES (4, 'y')
    """)
    assert java() == [
        [1, "a", "1.50", "2024-01-31T12:34:56.123000", "x"],
        [2, "none", None, None, "x"],
        [3, "c", "-7.00", None, "y"],
        [4, "none", None, None, "y"],
    ]
    sql(
        "UPDATE t SET v = 'new' WHERE id = 1; DELETE FROM t WHERE id = 4; DELETE FROM t WHERE id = 2"
    )
    assert [row[:2] for row in java()] == [[1, "new"], [3, "c"]]
    sql("INSERT OVERWRITE t PARTITION (dt = 'y') VALUES (9, 'o', 0, NULL)")
    assert [row[:2] for row in java()] == [[1, "new"], [9, "o"]]
    sql("ALTER TABLE t ADD COLUMN w BIGINT FIRST; ALTER TABLE t RENAME COLUMN v TO vv")
    sql("INSERT INTO t (w, id, dt) VALUES (5, 5, 'x')")
    assert [row[:3] for row in sorted(java(), key=lambda row: row[1])] == [
        [None, 1, "new"],
        [5, 5, "none"],
        [None, 9, "o"],
    ]


def test_java_reads_replaced_and_merged_tables(oracle: Oracle, tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    at = {"warehouse": str(tmp_path), "database": "default", "table": "t"}

    def java(**which: Any) -> list[list[Any]]:
        return sorted((row[1:] for row in oracle.rows(**at, **which)), key=str)

    sql("CREATE TABLE t (a INT, b STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '2')")
    sql("INSERT INTO t VALUES (1, 'old'), (2, 'old')")
    sql("""
        REPLACE TABLE t (x STRING, n INT) TBLPROPERTIES ('primary-key' = 'x', 'bucket' = '1',
            'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum', 'write-only' = 'true')
    """)
    assert java() == []
    sql("INSERT INTO t VALUES ('one', 1), ('two', 2); INSERT INTO t VALUES ('one', 10)")
    assert java() == [["one", 11], ["two", 2]]
    # A delete of this engine rewrites the files of the compacted table.
    sql("CALL sys.compact('t'); DELETE FROM t WHERE x = 'one'; INSERT INTO t VALUES ('two', 3)")
    assert java() == [["two", 5]]
    old = sql.session.open(sql.session.table_name(["t"]), options={"scan.snapshot-id": "1"})
    assert batch_scan_of(old).table.schema.names == ("a", "b")


def test_java_reads_rows_of_postponed_tables(oracle: Oracle, tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    at = {"warehouse": str(tmp_path), "database": "default", "table": "t"}
    sql("""
        CREATE TABLE t (a INT, b STRING, p INT) PARTITIONED BY (p)
            TBLPROPERTIES ('primary-key' = 'a,p', 'bucket' = '-2');
        INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2);
        INSERT INTO t VALUES (1, 'z', 1), (3, 'w', 3);
        INSERT OVERWRITE t PARTITION (p = 2) VALUES (9, 'o')
    """)
    rows = sorted((row[1:] for row in oracle.rows(**at)), key=str)
    assert rows == [[1, "z", 1], [3, "w", 3], [9, "o", 2]]
    sql("DELETE FROM t WHERE a = 3; UPDATE t SET b = 'u' WHERE a = 9")
    rows = sorted((row[1:] for row in oracle.rows(**at)), key=str)
    assert rows == [[1, "z", 1], [9, "u", 2]]
    operations = [s.get("operation") for s in oracle.one("snapshots", **at)["snapshots"]]
    if oracle.version >= "2":
        assert operations == ["WRITE", "WRITE", "OVERWRITE", "DELETE", "UPDATE"]


def test_java_reads_what_is_left_of_first_rows(oracle: Oracle, tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    at = {"warehouse": str(tmp_path), "database": "default", "table": "t"}
    sql("""
        CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1',
            'merge-engine' = 'first-row', 'changelog-producer' = 'lookup', 'write-only' = 'true');
        INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')
    """)
    with pytest.raises(InvalidArgument, match="use 'COMPACT' procedure first"):
        sql("DELETE FROM t WHERE k = 1")
    sql("CALL sys.compact('t'); DELETE FROM t WHERE k = 1")
    assert oracle.rows(**at) == [["+I", 2, "b"], ["+I", 3, "c"]]
    sql("INSERT INTO t VALUES (1, 'again'), (2, 'late')")
    oracle.one("compact", **at)
    assert oracle.rows(**at) == [["+I", 1, "again"], ["+I", 2, "b"], ["+I", 3, "c"]]


def test_java_reads_purged_tables(oracle: Oracle, tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    at = {"warehouse": str(tmp_path), "database": "default", "table": "t"}
    sql("CREATE TABLE t (k INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    sql("CALL sys.create_tag('t', 'a'); CALL sys.create_branch('t', 'b', 'a')")
    assert sql("CALL sys.purge_files(table => 't')") == [["Success"]]
    assert oracle.rows(**at) == []
    assert [s["id"] for s in oracle.one("snapshots", **at)["snapshots"]] == [3]
    assert oracle.one("tags", **at)["tags"] == oracle.one("branches", **at)["branches"] == []
    oracle.one("write", rows=[[3]], **at)
    assert oracle.rows(**at) == [["+I", 3]]


def test_java_reads_copied_tables(oracle: Oracle, tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    at = {"warehouse": str(tmp_path), "database": "default"}
    oracle.one("create_database", **at)
    columns = [{"name": "k", "type": "INT NOT NULL"}, {"name": "dt", "type": "STRING NOT NULL"}]
    keys = {"primary_keys": ["k", "dt"], "partition_keys": ["dt"], "options": {"bucket": "2"}}
    oracle.one("create_table", table="s", columns=columns, **keys, **at)
    oracle.one("write", table="s", rows=[[1, "x"], [2, "x"], [3, "y"]], **at)
    sql("CALL sys.copy(source_table => 's', target_table => 'd.t', where => \"dt = 'x'\")")
    there = {"warehouse": str(tmp_path), "database": "d", "table": "t"}
    assert oracle.rows(**there) == [["+I", 1, "x"], ["+I", 2, "x"]]
    oracle.one("write", rows=[[9, "x"], [9, "z"]], **there)
    for _ in range(2):
        assert sql("CALL sys.copy('s', 'd.t')") == [[True]]
    expected = [["+I", 1, "x"], ["+I", 2, "x"], ["+I", 3, "y"], ["+I", 9, "z"]]
    assert oracle.rows(**there) == expected
    sql("CREATE TABLE other (k INT)")
    with pytest.raises(InvalidArgument, match="not compatible"):
        sql("CALL sys.copy('s', 'other')")
    with pytest.raises(InvalidArgument, match="Only partition predicate"):
        sql("CALL sys.copy('s', 'd.t', 'k = 1')")
