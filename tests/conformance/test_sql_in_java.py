"""What SQL wrote, Java reads: tables, rows, updates, deletes and overwrites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from oracle import Oracle

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
