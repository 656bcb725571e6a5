"""The name of the default partition in PARTITION clauses: null where Java makes a spec of texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.errors import InvalidArgument
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_spark.sql.errors import AnalysisError

NULL = "__DEFAULT_PARTITION__"


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    return Sql(tmp_path)


def ids(sql: Sql) -> list[int]:
    found = batch_scan_of(sql.session.catalog.get_table("default.t"))
    return sorted(i for batch in read_batch(found) for i in batch.column("id").to_pylist())


@pytest.mark.parametrize("properties", ["'bucket' = '-1'", "'partition.default-name' = 'none'"])
def test_truncate_of_the_default_partition_empties_that_of_null(sql: Sql, properties: str) -> None:
    name = "none" if "none" in properties else NULL
    sql(f"CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ({properties})")
    sql("INSERT INTO t VALUES (1, NULL), (2, 'a')")
    sql("TRUNCATE TABLE t PARTITION (dt = 'other')")
    assert ids(sql) == [1, 2]
    sql(f"TRUNCATE TABLE t PARTITION (dt = '{name}')")
    assert ids(sql) == [2]


def test_overwrite_of_the_default_partition(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt)")
    sql("INSERT INTO t VALUES (1, NULL), (2, 'a')")
    with pytest.raises(InvalidArgument, match="do not belong to the partition"):
        sql(f"INSERT OVERWRITE t PARTITION (dt = '{NULL}') VALUES (3)")
    assert ids(sql) == [1, 2]
    sql("INSERT OVERWRITE t PARTITION (dt = NULL) VALUES (5)")
    assert ids(sql) == [2, 5]


def test_partitions_that_are_named_in_part(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, dt STRING, hh INT) PARTITIONED BY (dt, hh)")
    sql("INSERT INTO t VALUES (1, NULL, 1), (2, 'a', 1), (3, NULL, 2)")
    sql(f"TRUNCATE TABLE t PARTITION (dt = '{NULL}')")
    with pytest.raises(AnalysisError, match="PARTITIONS_NOT_FOUND"):
        sql(f"ALTER TABLE t DROP PARTITION (dt = '{NULL}', hh = 1)")
    assert ids(sql) == [1, 2, 3]
    sql(f"TRUNCATE TABLE t PARTITION (dt = '{NULL}', hh = 1)")
    assert ids(sql) == [2, 3]
    sql(f"ALTER TABLE t DROP PARTITION (dt = '{NULL}')")
    assert ids(sql) == [2]
