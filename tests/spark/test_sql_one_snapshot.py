"""A statement reads each table as of one snapshot, whatever is committed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_spark.sql.dml import large_changes, large_writes, targets
from paimon_spark.sql.query import queries

pytestmark = pytest.mark.spark

MERGE = """
    MERGE INTO t USING s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET v = s.v
    WHEN NOT MATCHED THEN INSERT *
"""


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Sql:
    made = Sql(tmp_path, session)
    made("""
        CREATE TABLE t (id INT, v STRING);
        CREATE TABLE s (id INT, v STRING);
        INSERT INTO t VALUES (1, 'old'), (2, 'old');
        INSERT INTO s VALUES (1, 'first'), (3, 'first')
    """)
    return made


@pytest.fixture
def after_first_read(
    tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Lets another session run a statement once a table has been read as a DataFrame."""

    def meet(statement: str) -> None:
        read, waiting = queries.table_dataframe, [statement]

        def reading(*args: Any, **options: Any) -> Any:
            frame = read(*args, **options)
            while waiting:
                Sql(tmp_path, session)(waiting.pop())
            return frame

        monkeypatch.setattr(queries, "table_dataframe", reading)

    return meet


@pytest.mark.parametrize("executors", [False, True])
def test_a_merge_takes_all_of_a_commit_to_its_source_or_nothing(
    sql: Sql,
    after_first_read: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    executors: bool,
) -> None:
    if executors:
        monkeypatch.setattr(large_changes, "LARGE_CHANGE", 0)
    after_first_read("INSERT INTO s VALUES (2, 'second'), (4, 'second')")
    sql(MERGE.replace("INSERT *", "INSERT (id, v) VALUES (s.id, s.v)"))
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "first"], [2, "old"], [3, "first"]]
    assert len(sql("SELECT * FROM s")) == 4


def test_a_query_that_reads_a_table_twice(
    sql: Sql, after_first_read: Callable[[str], None]
) -> None:
    after_first_read("INSERT OVERWRITE s VALUES (5, 'x')")
    query = "SELECT id FROM s WHERE id < 2 UNION ALL SELECT id FROM s WHERE id >= 2 ORDER BY id"
    assert sql(query) == [[1], [3]]
    assert sql(query) == [[5]]


def test_several_inserts_of_one_source(sql: Sql, after_first_read: Callable[[str], None]) -> None:
    sql("CREATE TABLE a (id INT); CREATE TABLE b (id INT)")
    after_first_read("INSERT INTO s VALUES (7, 'x')")
    sql("FROM s INSERT INTO a SELECT id WHERE id < 2 INSERT INTO b SELECT id WHERE id >= 2")
    assert (sql("SELECT * FROM a"), sql("SELECT * FROM b")) == ([[1]], [[3]])


@pytest.mark.parametrize("executors", [False, True])
def test_an_overwrite_with_rows_of_its_own_table_loses_none(
    sql: Sql,
    after_first_read: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    executors: bool,
) -> None:
    """Java's removes the rows that others have added since it read the table."""
    if executors:
        monkeypatch.setattr(large_writes, "LARGE_WRITE", 0)
    after_first_read("INSERT INTO t VALUES (3, 'new')")
    sql("INSERT OVERWRITE t SELECT id, upper(v) FROM t")
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "OLD"], [2, "OLD"], [3, "NEW"]]
    after_first_read("INSERT INTO t VALUES (4, 'gone')")
    sql("INSERT OVERWRITE t SELECT * FROM s; INSERT OVERWRITE t SELECT * FROM t VERSION AS OF 1")
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "old"], [2, "old"]]
    sql("CREATE TABLE u (id INT, v STRING)")
    after_first_read("INSERT INTO u VALUES (5, 'first')")
    sql("INSERT OVERWRITE u SELECT id, upper(v) FROM u")
    assert sql("SELECT * FROM u") == [[5, "FIRST"]]


@pytest.mark.sampled(one_of=2)
@pytest.mark.parametrize("executors", [False, True])
@pytest.mark.parametrize("looks", ["merge", "upsert"])
def test_rows_that_two_look_for_are_added_once(
    tmp_path: Path,
    session: Any,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
    *,
    looks: str,
    executors: bool,
) -> None:
    """Java adds them twice to an append table."""
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", 0 if executors else 1 << 60)
    statement = MERGE
    if looks == "upsert":
        sql("ALTER TABLE t SET TBLPROPERTIES ('upsert-key' = 'id')")
        statement = "INSERT INTO t SELECT id, concat(v, '!') FROM s"
    target = large_changes.LargeTarget if executors else targets.Target
    commit, waiting = target.commit, [statement, "INSERT INTO s VALUES (5, 'later')"]

    def committing(self: Any, *args: Any, **options: Any) -> None:
        while waiting:
            Sql(tmp_path, session)(waiting.pop())
        commit(self, *args, **options)

    monkeypatch.setattr(target, "commit", committing)
    sql(statement)
    ids = [row[0] for row in sql("SELECT id FROM t ORDER BY id")]
    assert ids == [1, 2, 3, 5]
