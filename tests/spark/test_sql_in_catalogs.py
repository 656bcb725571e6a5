"""Executors read and write the tables of all catalogs, not only those of folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from catalog_kinds import catalog_of_kind
from sql_sessions import Sql

from oracle import Oracle, skip_without
from paimon_core.catalog.open import open_catalog
from paimon_core.read.table_read import read_table
from paimon_spark.sql.dml import as_select, insert, large_changes, large_writes
from paimon_spark.sql.frames import dataframes, distributed

pytestmark = pytest.mark.spark


def not_here(*_: Any, **__: Any) -> Any:
    raise AssertionError("the driver has the rows")


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["rest", "jdbc-sqlite"])
def test_the_driver_sees_no_rows(
    kind: str, tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "rest":
        skip_without()
    monkeypatch.setattr(distributed, "LARGE_READ", 0)
    monkeypatch.setattr(distributed, "PARQUET_READ", 0)
    monkeypatch.setattr(large_writes, "LARGE_WRITE", -1)
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", 0)
    with catalog_of_kind(kind, tmp_path) as options:
        sql = Sql(tmp_path, session, catalog=options)
        sql("CREATE DATABASE db; USE db")
        with monkeypatch.context() as patch:
            patch.setattr(dataframes, "_scanned", not_here)
            patch.setattr(insert, "fetched", not_here)
            patch.setattr(as_select, "fetched", not_here)
            sql("""
                CREATE TABLE t (id INT, v STRING, p STRING) PARTITIONED BY (p)
                TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '2');
                INSERT INTO t SELECT CAST(id AS INT), concat('v', id), concat('p', id % 2)
                  FROM range(10);
                INSERT INTO t SELECT id, 'new', p FROM t WHERE id < 2;
                INSERT OVERWRITE t PARTITION (p = 'p1') SELECT id, v FROM t WHERE id IN (1, 3);
                INSERT INTO t REPLACE WHERE p = 'p0' SELECT * FROM t WHERE id IN (0, 2);
                UPDATE t SET v = upper(v) WHERE id = 3;
                CREATE TABLE u AS SELECT id, v FROM t;
                INSERT INTO u SELECT * FROM u WHERE id = 3
            """)
            if kind == "rest":  # the server of 1.4 cannot replace tables
                sql("CREATE TABLE r AS SELECT id + 1 AS n, v FROM u; DROP TABLE u")
                sql("ALTER TABLE r RENAME TO u")
            else:
                sql("CREATE OR REPLACE TABLE u AS SELECT id + 1 AS n, v FROM u")
        found = sql("SELECT * FROM t ORDER BY id"), sql("SELECT * FROM u ORDER BY n")
        written = open_catalog(options).get_table("db.u")
        rows = [
            r for b in read_table(written, written.latest_or_not_found()) for r in b.to_pylist()
        ]
    assert found == (
        [[0, "new", "p0"], [1, "new", "p1"], [2, "v2", "p0"], [3, "V3", "p1"]],
        [[1, "new"], [2, "new"], [3, "v2"], [4, "V3"], [4, "V3"]],
    )
    assert sorted([r["n"], r["v"]] for r in rows) == found[1]


@pytest.mark.sampled
@pytest.mark.parametrize("measure", ["target-row-num-per-bucket", "target-size-per-bucket"])
def test_postponed_rows_get_the_buckets_that_they_need(
    measure: str,
    oracle_2_0_0: Oracle,
    tmp_path: Path,
    session: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many for executors as for the driver, and each is written by one task."""
    size = {"target-row-num-per-bucket": "4", "target-size-per-bucket": "320 b"}[measure]
    clauses = f"""
        PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '-2',
        'postpone.{measure}' = '{size}')
    """
    statements = f"""
        CREATE TABLE t (id INT, v STRING, p INT) {clauses};
        INSERT INTO t SELECT id, 'longer than seven', id % 4 % 3 FROM range(0, 40, 1, 4);
        INSERT INTO t PARTITION (p = 7) SELECT id, 'v' FROM range(5);
        INSERT OVERWRITE t PARTITION (p = 0) SELECT id, 'new' FROM range(3);
        CREATE TABLE u {clauses} AS SELECT id, v, p FROM t;
        CREATE OR REPLACE TABLE u {clauses} AS SELECT id + 1 AS id, v, p FROM u WHERE p < 2
    """
    places = """
        SELECT partition, bucket, sum(record_count), count(*) FROM `{0}$files`
        GROUP BY ALL ORDER BY ALL
    """
    found = []
    for way in ("driver", "executors"):
        sql = Sql(tmp_path / way, session)
        if way == "executors":
            monkeypatch.setattr(large_writes, "LARGE_WRITE", -1)
        sql(statements)
        rows = {t: sql(f"SELECT * FROM {t} ORDER BY p, id") for t in "tu"}
        found.append((rows, {t: sql(places.format(t)) for t in "tu"}))
    assert found[0] == found[1]
    assert max(bucket for _, bucket, *_ in found[0][1]["t"]) > 0
    oracle_2_0_0.defaults(warehouse=tmp_path / "executors", database="default", table="u")
    assert sorted(row[1:] for row in oracle_2_0_0.rows()) == sorted(found[1][0]["u"])
