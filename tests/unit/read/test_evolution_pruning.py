"""Conditions leave out groups of files of tables with data evolution, and never a row."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples
from sql_sessions import Sql

from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import evaluate, parse_where
from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_tasks import plan_snapshot

OPTIONS = "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'"


def opened(sql: Sql) -> FileStoreTable:
    return open_table(sql.session.warehouse, "default.t")


def groups(table: FileStoreTable, where: str) -> list[int]:
    """The first row ids of the groups that are planned."""
    predicate = parse_where(where, table.schema.row_type)
    tasks = plan_snapshot(table, table.latest_or_not_found(), predicate=predicate)
    return sorted(min(e.file.first_row_id or 0 for e in task.entries) for task in tasks)


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    made = Sql(tmp_path)
    made(f"""
        CREATE TABLE t (a INT, b INT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ({OPTIONS});
        INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'x');
        INSERT INTO t VALUES (3, 30, 'x'), (4, NULL, 'x');
        INSERT INTO t VALUES (5, 50, 'y'), (6, 60, 'y');
        UPDATE t SET b = 99 WHERE a = 3
    """)
    return made


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a = 2", [0]),
        ("a > 2", [2, 4]),
        ("b = 99", [2]),
        ("b = 30", []),
        ("b IS NULL", [2]),
        ("a = 1 OR b = 99", [0, 2]),
        ("p = 'y'", [4]),
        ("p = 'y' AND a = 1", []),
        ("p = 'x' AND b > 15", [0, 2]),
    ],
)
def test_groups_without_matching_rows_are_left_out(
    sql: Sql, where: str, expected: list[int]
) -> None:
    assert groups(opened(sql), where) == expected


def test_columns_that_came_later_or_have_another_type(sql: Sql) -> None:
    sql("ALTER TABLE t ADD COLUMN c INT; INSERT INTO t VALUES (7, 70, 'y', 1)")
    table = opened(sql)
    assert groups(table, "c = 1") == [6]
    assert groups(table, "c IS NULL") == [0, 2, 4]
    sql("UPDATE t SET c = 5 WHERE a = 1")
    assert groups(opened(sql), "c = 5") == [0]
    sql("ALTER TABLE t RENAME COLUMN b TO bb; ALTER TABLE t ALTER COLUMN bb TYPE BIGINT")
    # Statistics of another type count as unknown.
    assert groups(opened(sql), "bb = 99") == [0, 2, 4, 6]


def test_other_partitions_are_not_opened(sql: Sql) -> None:
    table = opened(sql)
    for entry in plan_snapshot(
        table, table.latest_or_not_found(), predicate=parse_where("p = 'x'", table.schema.row_type)
    ):
        for file in entry.entries:
            Path(table.paths.data_file(file.partition, file.bucket, file.file)).unlink()
    predicate = parse_where("p = 'y'", table.schema.row_type)
    rows = read_table(table, table.latest_or_not_found(), predicate=predicate)
    assert sum(batch.num_rows for batch in rows) == 2


values = st.one_of(st.none(), st.integers(-3, 3))
conditions = st.sampled_from(
    [
        "a = {0}",
        "a < {0}",
        "b >= {0}",
        "b IS NULL",
        "b IS NOT NULL AND a > {0}",
        "a = {0} OR b = {1}",
    ]
)


@settings(max_examples=examples(15))
@given(data=st.data())
def test_no_row_is_lost(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    sql = Sql(tmp_path_factory.mktemp("evolved"))
    sql(f"CREATE TABLE t (a INT, b INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ({OPTIONS})")

    def text(value: int | None) -> str:
        return "NULL" if value is None else str(value)

    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(
            st.lists(st.tuples(values, values, st.integers(0, 1)), min_size=1, max_size=4)
        )
        sql("INSERT INTO t VALUES " + ", ".join(f"({text(a)}, {text(b)}, {p})" for a, b, p in rows))
        column, new = data.draw(st.sampled_from("ab")), data.draw(values)
        sql(f"UPDATE t SET {column} = {text(new)} WHERE a = {data.draw(st.integers(-3, 3))}")
    table = opened(sql)
    where = data.draw(conditions).format(
        data.draw(st.integers(-3, 3)), data.draw(st.integers(-3, 3))
    )
    predicate = parse_where(where, table.schema.row_type)
    snapshot = table.latest_or_not_found()
    found = [row for b in read_table(table, snapshot, predicate=predicate) for row in b.to_pylist()]
    expected = [
        row
        for batch in read_table(table, snapshot)
        for row in batch.filter(evaluate(predicate, batch)).to_pylist()
    ]
    assert sorted(map(str, found)) == sorted(map(str, expected))
