"""Queries of one DataFrame with different filters, which Spark plans from one object of the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from sql_sessions import Sql

import paimon_spark

pytestmark = pytest.mark.spark

ALL = [1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def root(session: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    warehouse = Path(tmp_path_factory.mktemp("reuse"))
    sql = Sql(warehouse, session)
    sql("CREATE TABLE t (id INT, s STRING, d DATE) PARTITIONED BY (s)")
    sql("""
        INSERT INTO t VALUES (1, 'a', DATE'2024-01-01'), (2, NULL, NULL), (3, '', DATE'2024-01-01'),
                             (4, 'b', NULL), (5, NULL, DATE'2024-05-01')
    """)
    return f"{warehouse}/default.db/t"


def load(session: Any, root: str, **options: str) -> Any:
    # As sessions have it that let other sources take filters.
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return session.read.format("paimon").options(**options).load(root)


def ids(frame: Any) -> list[int]:
    return sorted(row[0] for row in frame.collect())


def test_one_query_after_another(session: Any, root: str) -> None:
    frame = load(session, root)
    assert ids(frame.where("id = 1")) == [1]
    assert frame.count() == 5
    assert ids(frame.select("id")) == ALL
    assert ids(frame.where("d = date'2024-01-01'")) == [1, 3]
    assert ids(frame.where("d < date'2024-01-02' OR s IS NULL")) == [1, 2, 3, 5]
    assert ids(frame.where("length(s) > 0")) == [1, 4]


def test_the_table_twice_in_a_query(session: Any, root: str) -> None:
    frame = load(session, root)
    one, other = frame.where("id = 1"), frame.where("id + 0 > 3")
    assert ids(one.union(other)) == ids(other.union(one)) == [1, 4, 5]
    frame.createOrReplaceTempView("twice")
    query = "SELECT a.id, b.id FROM twice a JOIN twice b ON a.id + 1 = b.id WHERE a.id = 1"
    assert [tuple(row) for row in session.sql(query).collect()] == [(1, 2)]
    session.catalog.dropTempView("twice")


def test_another_session_of_the_application(session: Any, root: str) -> None:
    other = session.newSession()
    session.createDataFrame([], "i INT")  # is the active one now, and knows the source
    paimon_spark.register(other)
    nothing = other.createDataFrame([], "id INT, s STRING, d DATE")
    nothing.write.format("paimon").mode("append").save(root)
    assert load(session, root).count() == len(ALL)


def test_conditions_as_an_option(session: Any, root: str) -> None:
    frame = load(session, root, where="s = 'a' OR id > 4")
    assert ids(frame) == [1, 5]
    assert frame.where("id = 5").count() == 1
    assert frame.count() == 2
    assert ids(load(session, root, where="s IS NULL", columns="id")) == [2, 5]
    snapshots = load(session, f"{root}$snapshots", where="snapshot_id > 1")
    assert snapshots.count() == 0
    with pytest.raises(PySparkException, match="nope"):
        load(session, root, where="nope = 1").collect()
    stream = session.readStream.format("paimon").option("where", "id = 1").load(root)
    query = stream.writeStream.format("memory").queryName("no").start()
    with pytest.raises(PySparkException, match="for batches"):
        query.processAllAvailable()
