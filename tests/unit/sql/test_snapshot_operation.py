"""Snapshots name the statement that they are for, as those of Java 2.0 do."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.snapshot.snapshot_json import snapshot_to_json

STATEMENTS = {
    "INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')": "WRITE",
    "INSERT OVERWRITE t VALUES (1, 'a2', 'x'), (2, 'b2', 'y'), (3, 'c', 'z')": "OVERWRITE",
    "UPDATE t SET v = 'new' WHERE id = 1": "UPDATE",
    "DELETE FROM t WHERE id = 2": "DELETE",
    "DELETE FROM t WHERE p = 'x'": "TRUNCATE",
    "ALTER TABLE t DROP PARTITION (p = 'z')": "TRUNCATE",
    "TRUNCATE TABLE t": "TRUNCATE",
    "DELETE FROM t": "TRUNCATE",
    "CALL sys.create_tag('t', 'none')": "TRUNCATE",
}


def test_statements_that_change_nothing(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, v STRING)")
    sql("INSERT INTO t VALUES (1, 'a')")
    for key in ("true", "false"):
        sql(f"SET spark.paimon.snapshot.ignore-empty-commit={key}")
        sql("DELETE FROM t WHERE id = 7")
        sql("UPDATE t SET v = 'b' WHERE id = 7")
    snapshots = sql.session.catalog.get_table("default.t").snapshots.all()
    assert [s.extra["operation"] for s in snapshots] == ["WRITE", "DELETE", "UPDATE"]
    assert [s.delta_record_count for s in snapshots] == [1, 0, 0]


@pytest.mark.parametrize("key", ["", "TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '1')"])
def test_operations(key: str, tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql(f"CREATE TABLE t (id INT, v STRING, p STRING) PARTITIONED BY (p) {key}")
    for statement, operation in STATEMENTS.items():
        sql(statement)
        latest = sql.session.catalog.get_table("default.t").latest_or_not_found()
        assert latest.extra == {"operation": operation}, statement
        assert f'"operation" : "{operation}"' in snapshot_to_json(latest)
    sql("CALL sys.rollback('t', '1')")
    sql("CALL sys.compact('t')")
    table = sql.session.catalog.get_table("default.t")
    last = table.latest_or_not_found()
    assert last.extra == ({"operation": "WRITE"} if last.id == 1 else {})


@pytest.mark.parametrize("rows", ["", "INSERT INTO t VALUES (1, 'x')"])
def test_system_tables_have_the_columns_of_java_2_0(rows: str, tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql(f"CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p); {rows}")
    for system, columns in {
        "snapshots": ["next_row_id", "operation"],
        "partitions": ["options", "total_buckets", "done", "deleted_record_count"],
        "table_indexes": ["row_range_end", "index_field_id", "index_field_name"],
    }.items():
        shown = [row[0] for row in sql(f"SHOW COLUMNS IN `t${system}`")]
        assert shown[-len(columns) :] == columns
