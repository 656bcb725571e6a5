"""MERGE sees one and the same source in all of its queries, or fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import udf
from sql_sessions import Sql

from paimon_spark.sql.dml import kept_rows, large_changes
from paimon_spark.sql.dml.kept_rows import RowsLost, forget
from paimon_spark.sql.errors import AnalysisError

pytestmark = pytest.mark.spark

MERGE = """
    MERGE INTO t USING (SELECT IF(turned(id), id + 100, id) AS k, v FROM s) s ON t.id = s.k
    WHEN MATCHED THEN UPDATE SET v = s.v
    WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.k, s.v)
    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'left'
"""


@pytest.fixture(params=["driver", "executors"])
def sql(
    tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Sql:
    if request.param == "executors":
        monkeypatch.setattr(large_changes, "LARGE_CHANGE", 0)
    seen = tmp_path / "seen"
    seen.mkdir()

    def turned(number: int) -> bool:
        """False the first time, as rand() may change from query to query."""
        mark = seen / str(number)
        again = mark.exists()
        mark.touch()
        return again

    session.udf.register("turned", udf(turned, "boolean", useArrow=False).asNondeterministic())
    made = Sql(tmp_path / "lake", session)
    made("""
        CREATE TABLE t (id INT, v STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b');
        CREATE TABLE s (id INT, v STRING); INSERT INTO s VALUES (1, 'new')
    """)
    return made


def test_a_source_that_changes_is_computed_once(sql: Sql) -> None:
    sql(MERGE)
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "new"], [2, "left"]]
    sql(
        "MERGE INTO t USING (SELECT * FROM s LIMIT 1) x ON true WHEN MATCHED THEN UPDATE SET v = 'all'"
    )
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "all"], [2, "all"]]
    with pytest.raises(AnalysisError, match="INVALID_NON_DETERMINISTIC_EXPRESSIONS"):
        sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND rand() < 2 THEN DELETE")


def test_each_row_is_changed_for_itself(sql: Sql) -> None:
    sql("CREATE TABLE p (id INT, d INT) PARTITIONED BY (d); INSERT INTO p VALUES (1, 1)")
    for change in ("DELETE FROM t", "DELETE FROM p", "UPDATE t SET v = 'x'"):
        with pytest.raises(AnalysisError, match="INVALID_NON_DETERMINISTIC_EXPRESSIONS"):
            sql(f"{change} WHERE rand() < 2")
    merge = "MERGE INTO t USING s ON t.id = s.id + 7 WHEN NOT MATCHED"
    for change in (
        f"{merge} AND count(s.id) = 1 THEN INSERT (id) VALUES (9)",
        f"{merge} THEN INSERT (id, v) VALUES (9, max(s.v))",
        f"{merge} AND row_number() OVER (ORDER BY s.id) = 1 THEN INSERT *",
        "UPDATE t SET id = row_number() OVER (ORDER BY v)",
    ):
        with pytest.raises(AnalysisError, match="UNSUPPORTED_EXPR_FOR_OPERATOR"):
            sql(change)
    sql("UPDATE t SET v = CAST(rand() < 2 AS STRING) WHERE id IN (SELECT max(id) FROM s)")
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "true"], [2, "b"]]


def test_a_merge_without_its_source_changes_nothing(
    sql: Sql, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(session.range(1))
    checkpoint = kind.localCheckpoint
    losses = [None] * 4

    def lost(rows: Any, *args: Any, **kwargs: Any) -> Any:
        """As if the executor with the rows ended just after it had computed them."""
        kept = checkpoint(rows, *args, **kwargs)
        if losses:
            losses.pop()
            forget(kept)
        return kept

    monkeypatch.setattr(kind, "localCheckpoint", lost)
    with pytest.raises(RowsLost, match="an executor was lost"):
        sql(MERGE)
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "a"], [2, "b"]]
    assert len(losses) == 1, "three attempts"
    sql(MERGE.replace("turned(id)", "turned(id + 7)"))
    assert [2, "left"] in sql("SELECT * FROM t ORDER BY id")


def test_plain_sources_are_read_where_they_are(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "_ATTEMPTS", 1)
    monkeypatch.setattr("paimon_spark.sql.dml.merge.kept_rows", None)
    for source in ("s", "(SELECT id, upper(v) AS v FROM s WHERE id < 3 UNION ALL VALUES (7, 'x'))"):
        sql(f"MERGE INTO t USING {source} x ON t.id = x.id WHEN MATCHED THEN UPDATE SET v = x.v")
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "NEW"], [2, "b"]]


def test_all_rows_of_a_merge_have_the_same_time(sql: Sql) -> None:
    sql("CREATE TABLE c (id INT, at TIMESTAMP); INSERT INTO c VALUES (1, NULL), (2, NULL)")
    sql("""
        MERGE INTO c USING (VALUES (1), (3)) s ON c.id = s.col1
        WHEN MATCHED THEN UPDATE SET at = current_timestamp()
        WHEN NOT MATCHED THEN INSERT (id, at) VALUES (s.col1, current_timestamp())
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET at = current_timestamp()
    """)
    assert sql("SELECT count(*), count(DISTINCT at) FROM c") == [[3, 1]]
