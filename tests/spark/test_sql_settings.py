"""Settings that PySpark's own API makes, beside SET."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from catalog_kinds import options_of_kind

from paimon_core.errors import SchemaError
from paimon_spark.sql.run import sql

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(session: Any) -> Iterator[Any]:
    own = session.newSession()
    yield own
    for key in ("spark.paimon.scan.snapshot-id", "spark.sql.catalog.paimon.warehouse"):
        own.conf.unset(key)


def rows(spark: Any, warehouse: Path, text: str) -> list[list[Any]]:
    return [list(row) for row in sql(spark, text, warehouse=str(warehouse)).collect()]


def test_settings_of_the_spark_session_count(tmp_path: Path, spark: Any) -> None:
    rows(
        spark,
        tmp_path,
        "CREATE TABLE t (id INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)",
    )
    spark.conf.set("spark.paimon.scan.snapshot-id", "1")
    assert rows(spark, tmp_path, "SELECT * FROM t") == [[1]]
    spark.conf.set("spark.paimon.*.*.t.scan.snapshot-id", "2")
    assert rows(spark, tmp_path, "SELECT * FROM t ORDER BY id") == [[1], [2]]
    spark.conf.unset("spark.paimon.*.*.t.scan.snapshot-id")
    # SET writes where spark.conf reads, and the next call without a session sees it.
    rows(spark, tmp_path, "SET spark.paimon.scan.snapshot-id=2")
    assert spark.conf.get("spark.paimon.scan.snapshot-id") == "2"
    assert rows(spark, tmp_path, "SELECT * FROM t ORDER BY id") == [[1], [2]]
    rows(spark, tmp_path, "RESET `spark.paimon.scan.snapshot-id`")
    assert spark.conf.get("spark.paimon.scan.snapshot-id", None) is None
    spark.conf.set("spark.paimon.bucket", "1")
    with pytest.raises(SchemaError, match="bucket"):
        rows(spark, tmp_path, "SELECT * FROM t")
    spark.conf.unset("spark.paimon.bucket")


def test_the_catalog_of_the_spark_session_is_the_first_to_be_opened(
    tmp_path: Path, spark: Any
) -> None:
    warehouse = tmp_path / "lake"
    options = options_of_kind("jdbc-sqlite", tmp_path) | {"defaultDatabase": "mine"}
    keys = {f"spark.sql.catalog.paimon.{k}": v for k, v in options.items()}
    try:
        for key, value in keys.items():
            spark.conf.set(key, value)
        assert rows(spark, warehouse, "SHOW DATABASES") == [["mine"]]
        assert rows(spark, warehouse, "SELECT current_database()") == [["mine"]]
    finally:
        for key in keys:
            spark.conf.unset(key)
    assert not (warehouse / "default.db").exists()


def test_statements_without_a_query_need_no_job(tmp_path: Path, spark: Any) -> None:
    jobs = spark.sparkContext._jsc.sc().dagScheduler()
    before = jobs.numTotalJobs()
    assert rows(spark, tmp_path, "CREATE TABLE t (id INT)") == []
    assert rows(spark, tmp_path, "SHOW TABLES") == [["default", "t", False]]
    assert rows(spark, tmp_path, "SET `spark.paimon.x`") == [["spark.paimon.x", "<undefined>"]]
    assert jobs.numTotalJobs() == before


def test_overwrites_go_by_the_mode_of_the_spark_session(tmp_path: Path, spark: Any) -> None:
    rows(
        spark,
        tmp_path,
        "CREATE TABLE t (id INT, p INT) PARTITIONED BY (p); INSERT INTO t VALUES (1, 1), (2, 2)",
    )
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    rows(spark, tmp_path, "INSERT OVERWRITE t VALUES (3, 2)")
    assert rows(spark, tmp_path, "SELECT * FROM t ORDER BY id") == [[1, 1], [3, 2]]
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    rows(spark, tmp_path, "INSERT OVERWRITE t VALUES (4, 2)")
    assert rows(spark, tmp_path, "SELECT * FROM t ORDER BY id") == [[4, 2]]


@pytest.mark.parametrize("name", ["second", "spark_catalog"])
def test_other_catalogs_of_the_spark_session(name: str, tmp_path: Path, spark: Any) -> None:
    """Also one with the name of Spark's own catalog, as Java's connector can replace it."""
    rows(spark, tmp_path / "b", "CREATE TABLE t AS SELECT 7 AS id")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(tmp_path / "b"))
    query = f"SELECT {name}.default.t.id FROM {name}.default.t"
    assert rows(spark, tmp_path / "a", query) == [[7]]
    spark.conf.unset(f"spark.sql.catalog.{name}.warehouse")
