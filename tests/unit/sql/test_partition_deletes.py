"""DELETE with a condition on partition columns alone empties partitions, and reads no row."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.table.source.batch_scan import batch_scan_of, read_batch


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    return Sql(tmp_path)


def create(sql: Sql, properties: str) -> None:
    sql(f"""
        CREATE TABLE t (id INT, v INT, p STRING, d DATE) PARTITIONED BY (p, d)
        TBLPROPERTIES ({properties});
        INSERT INTO t VALUES (1, 1, 'a', date'2024-01-01'), (2, 2, 'a', date'2024-01-02'),
            (3, 3, 'b', date'2024-01-03'), (4, 4, '', date'2024-01-02'), (5, 5, 'a/b', date'2024-01-03')
    """)


def ids(sql: Sql) -> list[int]:
    found = batch_scan_of(sql.session.catalog.get_table("default.t"))
    return sorted(i for batch in read_batch(found) for i in batch.column("id").to_pylist())


def last(sql: Sql) -> tuple[str, int, int]:
    newest = sql.session.catalog.get_table("default.t").latest_or_not_found()
    return newest.commit_kind.value, newest.total_record_count, newest.delta_record_count


KEYS = "'primary-key' = 'id,p,d', 'bucket' = '1'"


@pytest.mark.parametrize(
    "properties",
    ["'bucket' = '-1'", KEYS, f"{KEYS}, 'merge-engine' = 'first-row'"],
)
def test_whole_partitions_go(sql: Sql, properties: str) -> None:
    create(sql, properties)
    sql("DELETE FROM t WHERE d = date'2024-01-02' AND p = 'a'")
    assert ids(sql) == [1, 3, 4, 5]
    assert last(sql) == ("OVERWRITE", 4, -1)
    sql("DELETE FROM t WHERE p = '' OR NOT (d <> date'2024-01-03' OR p <> 'b')")
    assert ids(sql) == [1, 5]
    assert last(sql) == ("OVERWRITE", 2, -2)
    sql("DELETE FROM t AS x WHERE p IN ('none', 'c')")
    assert last(sql) == ("OVERWRITE", 2, -2)
    sql("DELETE FROM t WHERE P LIKE 'a/%'")
    assert ids(sql) == [1]


def test_other_conditions_delete_rows(sql: Sql) -> None:
    create(sql, KEYS)
    sql("DELETE FROM t WHERE p = 'a' AND v = 1")
    assert last(sql) == ("APPEND", 6, 1)
    sql("ALTER TABLE t SET TBLPROPERTIES ('delete.force-produce-changelog' = 'true')")
    sql("DELETE FROM t WHERE p = 'b'")
    assert last(sql) == ("APPEND", 7, 1)
    assert ids(sql) == [2, 4, 5]


def test_null_is_a_value_of_partitions(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, p INT) PARTITIONED BY (p)")
    sql("INSERT INTO t VALUES (1, NULL), (2, 2), (3, -3)")
    sql("DELETE FROM t WHERE p <> 2")
    assert ids(sql) == [1, 2]
    sql("DELETE FROM t WHERE p IS NULL")
    assert ids(sql) == [2]
    assert last(sql) == ("OVERWRITE", 1, -1)
