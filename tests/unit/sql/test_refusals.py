"""What is refused, or done, as Spark with Java's Paimon does: without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.errors import PaimonError
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_core.types.zones import zone_of
from paimon_spark.sql.errors import error_type
from paimon_spark.sql.text.splitter import split_statements

CHANGES = {
    "ALTER COLUMN a TYPE BIGINT": None,
    "ALTER COLUMN a TYPE INT": ("AnalysisException", "NOT_SUPPORTED_CHANGE_COLUMN"),
    "ALTER COLUMN c TYPE DECIMAL(12, 2)": None,
    "ALTER COLUMN c TYPE DECIMAL(12, 3)": ("AnalysisException", "NOT_SUPPORTED_CHANGE_COLUMN"),
    "ALTER COLUMN d TYPE VARCHAR(9)": None,
    "ALTER COLUMN d TYPE STRING": None,
    "ALTER COLUMN d TYPE VARCHAR(8)": ("AnalysisException", "NOT_SUPPORTED_CHANGE_COLUMN"),
    "ALTER COLUMN v.element.f2 TYPE BIGINT": None,
    "ALTER COLUMN v.element.nope TYPE BIGINT": ("AnalysisException", "FIELD_NOT_FOUND"),
    "ALTER COLUMN a SET NOT NULL": ("AnalysisException", "nullable column to non-nullable"),
    "RENAME COLUMN a TO C": ("AnalysisException", "FIELD_ALREADY_EXISTS"),
    "RENAME COLUMN nope TO x": ("AnalysisException", "FIELD_NOT_FOUND"),
    "RENAME COLUMN v.element.f1 TO f100": None,
    "CHANGE COLUMN a a2 BIGINT": ("ParseException", "RENAME COLUMN instead"),
    "REPLACE COLUMNS (a BIGINT)": ("UnsupportedOperationException", "REPLACE COLUMNS is not"),
}
STATEMENTS = {
    "COMMENT ON TABLE t IS 'one; two'": None,
    "COMMENT ON TABLE nope IS 'x'": ("AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
    "COMMENT ON DATABASE default IS 'x'": ("UnsupportedOperationException", "default"),
    "REFRESH TABLE t": None,
    "REFRESH TABLE nope": ("AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
    "CACHE TABLE nope": ("AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
    "MSCK REPAIR TABLE t": ("AnalysisException", "MSCK REPAIR TABLE"),
    "LOAD DATA INPATH 'x' INTO TABLE t": ("AnalysisException", "LOAD DATA"),
    "ALTER TABLE t RECOVER PARTITIONS": ("AnalysisException", "RECOVER PARTITIONS"),
    "ALTER TABLE t PARTITION (id = 1) RENAME TO PARTITION (id = 2)": (
        "UnsupportedOperationException",
        "renaming",
    ),
    "ALTER VIEW nope AS SELECT 1": ("AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN x": ("AnalysisException", "CREATE FUNCTION"),
    "DESCRIBE FUNCTION sys.max_pt": ("AnalysisException", "functions"),
    "DESCRIBE FUNCTION sys.nope": ("AnalysisException", "ROUTINE_NOT_FOUND"),
    "ANALYZE TABLE t COMPUTE STATISTICS NOSCAN": ("IllegalArgumentException", "NOSCAN"),
    "ANALYZE TABLES IN default COMPUTE STATISTICS": ("AnalysisException", "V2_TABLE] ANALYZE"),
    "BEGIN SELECT 1; END": ("UnsupportedOperationException", "scripts"),
    "SELEC 1": ("ParseException", "SELEC"),
    "CALL sys.create_tag('t', 'x')": ("SnapshotNotExistException", "has no snapshot"),
    "CALL sys.create_tag_from_timestamp('t', 'x', 1)": (
        "SnapshotNotExistException",
        "choose an earlier time",
    ),
    "CALL sys.rollback_to_timestamp('t', 1)": ("AnalysisException", "choose a later time"),
    "CALL sys.rollback_to_watermark('t', 1)": ("AnalysisException", "choose a later watermark"),
    "CALL sys.drop_function('f')": ("UnsupportedOperationException", "create a TEMPORARY function"),
    "ALTER TABLE t CREATE TAG x AS OF VERSION 9": ("SnapshotNotExistException", "snapshot 9"),
    "CALL sys.rollback('t', '9')": ("IllegalArgumentException", "snapshot 9"),
    "CALL sys.delete_branch('t', 'b')": ("IllegalArgumentException", "branch 'b'"),
    "CALL sys.fast_forward('t', 'b')": ("IllegalArgumentException", "branch 'b'"),
    "CALL sys.compact('nope')": ("RuntimeException", "Couldn't load table 'default.nope'"),
    "CALL sys.rollback('t$branch_b', '1')": ("RuntimeException", "Couldn't load table"),
    "CALL sys.compact()": ("RuntimeException", "Required parameters [table] is missed"),
    "CALL sys.compact(table => 't', table => 't')": ("RuntimeException", "table is duplicated"),
    "CALL sys.compact('1','2','3','4','5','6','7','8','9')": ("RuntimeException", "Too many"),
}


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    return Sql(tmp_path)


def _check(sql: Sql, statement: str, refusal: tuple[str, str] | None) -> None:
    if refusal is None:
        sql(statement)
        return
    with pytest.raises(PaimonError) as caught:
        sql(statement)
    assert error_type(caught.value) == refusal[0], statement
    assert refusal[1] in str(caught.value), statement


def test_columns_change_as_spark_lets_them(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, c DECIMAL(10, 2), d VARCHAR(5))")
    sql("ALTER TABLE t ADD COLUMN v ARRAY<STRUCT<f1: STRING, f2: INT>>")
    for change, refusal in CHANGES.items():
        _check(sql, f"ALTER TABLE t {change}", refusal)
    assert sql("DESC t") == [
        ["a", "bigint", None],
        ["c", "decimal(12,2)", None],
        ["d", "string", None],
        ["v", "array<struct<f100:string,f2:bigint>>", None],
    ]


def test_columns_that_differ_in_case(sql: Sql) -> None:
    sql("CREATE TABLE t (aA INT, s STRUCT<f: INT>)")
    _check(sql, "ALTER TABLE t RENAME COLUMN aA TO aa", ("AnalysisException", "FIELD_ALREADY_EX"))
    sql("SET spark.sql.caseSensitive=true")
    _check(sql, "ALTER TABLE t RENAME COLUMN AA TO b", ("AnalysisException", "FIELD_NOT_FOUND"))
    _check(sql, "ALTER TABLE t RENAME COLUMN s.F TO g", ("AnalysisException", "FIELD_NOT_FOUND"))
    sql("ALTER TABLE t RENAME COLUMN aA TO aa; ALTER TABLE t ADD COLUMN (AA INT, s.F INT)")
    assert sql("SHOW COLUMNS IN t") == [["aa"], ["s"], ["AA"]]
    assert sql("DESC t")[1][1] == "struct<f:int,F:int>"


def test_other_statements(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT)")
    for statement, refusal in STATEMENTS.items():
        _check(sql, statement, refusal)
    assert ["Comment", "one; two", ""] in sql("DESC EXTENDED t")


def test_a_long_list_of_values(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (id INT, v STRING DEFAULT 'd', d DATE, n DECIMAL(6, 2), b BOOLEAN)
        PARTITIONED BY (p STRING)
    """)
    texts = [f"'v; -- {i}'" if i % 2 else "DEFAULT" for i in range(1500)]
    rows = ", ".join(
        f"({i}, {text}, DATE '2024-01-{i % 28 + 1:02}', -{i}.5, tRue)"
        for i, text in enumerate(texts)
    )
    sql(f"INSERT INTO t PARTITION (p = 'VALUES (') (id, v, d, n, b) VALUES {rows};")
    scan = batch_scan_of(sql.session.catalog.get_table("default.t"))
    found = [list(r.values()) for b in read_batch(scan) for r in b.to_pylist()]
    assert len(found) == 1500
    assert sorted(row[-6:] for row in found)[7:9] == [
        [7, "v; -- 7", date(2024, 1, 8), Decimal("-7.50"), True, "VALUES ("],
        [8, "d", date(2024, 1, 9), Decimal("-8.50"), True, "VALUES ("],
    ]


def test_scripts_are_one_statement() -> None:
    script = "BEGIN IF x THEN SELECT ';'; END IF; CASE WHEN a THEN SELECT 1; END CASE; END"
    assert split_statements(f"{script}; SELECT CASE WHEN 1 THEN 2 END; SELECT begin") == [
        script,
        "SELECT CASE WHEN 1 THEN 2 END",
        "SELECT begin",
    ]


@pytest.mark.parametrize(
    ("name", "hours"), [("+02:00", 2), ("GMT-3", -3), ("UTC+0530", 5.5), ("Z", 0)]
)
def test_zones_by_offset(name: str, hours: float) -> None:
    assert zone_of(name).utcoffset(datetime.now(UTC)) == timedelta(hours=hours)
