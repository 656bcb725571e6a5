"""Statements about format tables that need no Spark, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from format_catalog import session_with_formats

from paimon_core.errors import PaimonError
from paimon_spark.sql.errors import error_type
from paimon_spark.sql.run import execute
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.splitter import split_statements

Run = Callable[[str], list[list[Any]]]


@pytest.fixture
def session(tmp_path: Path) -> SqlSession:
    return session_with_formats(tmp_path)


@pytest.fixture
def sql(session: SqlSession) -> Run:
    def run(text: str) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for statement in split_statements(text):
            rows = [list(row) for row in execute(session, statement).rows]
        return rows

    return run


def test_what_statements_show(sql: Run, session: SqlSession, tmp_path: Path) -> None:
    sql("CREATE TABLE p (id INT)")
    sql("""
        CREATE TABLE t (id INT NOT NULL, dt DATE) USING CSV PARTITIONED BY (dt) COMMENT 'c'
        TBLPROPERTIES ('csv.field-delimiter' = ';')
    """)
    assert [row[1] for row in sql("SHOW TABLES")] == ["p", "t"]
    tables = session.catalog.format_tables
    assert tables is not None
    table = tables.find("default.t")
    assert table is not None
    assert dict(table.options).keys() == {"csv.field-delimiter", "file.format", "owner", "type"}
    created = sql("SHOW CREATE TABLE t")[0][0]
    assert created.startswith(
        "CREATE TABLE paimon.default.t (\n  id INT NOT NULL,\n  dt DATE)\nUSING csv\n"
        "PARTITIONED BY (dt)\nCOMMENT 'c'\n"
    )
    assert "'csv.field-delimiter' = ';'" in created
    assert "'sep' = ';'" in created
    assert sql("SHOW TBLPROPERTIES t ('file.format')") == [["file.format", "csv"]]
    assert sql("DESCRIBE t")[:2] == [["id", "int", None], ["dt", "date", None]]
    described = {row[0]: row[1] for row in sql("DESCRIBE EXTENDED t")}
    assert (described["Provider"], described["Type"]) == ("csv", "MANAGED")
    assert not described.keys() & {"__paimon_bucket", "Statistics"}
    assert "Provider: csv" in sql("SHOW TABLE EXTENDED LIKE 't'")[0][3]
    assert sql("SHOW COLUMNS IN t") == [["id"], ["dt"]]
    assert sql("SHOW PARTITIONS t") == []
    for folder in ("dt=19753", "dt=2024-02-01", "dt=__DEFAULT_PARTITION__"):
        Path(f"{table.root}/{folder}").mkdir(parents=True)
    assert sql("SHOW PARTITIONS t") == [["dt=2024-01-31"], ["dt=2024-02-01"], ["dt=null"]]
    assert sql("SHOW PARTITIONS t PARTITION (dt = '2024-01-31')") == [["dt=2024-01-31"]]
    sql("ALTER TABLE t SET TBLPROPERTIES ('k' = 'v'); CREATE TABLE u LIKE t")
    like = tables.find("default.u")
    assert like is not None
    assert (like.options["k"], like.schema.comment) == ("v", "c")
    assert like.schema.partition_keys == ("dt",)
    sql("ALTER TABLE u RENAME TO w; DROP TABLE w; CREATE TABLE ours LIKE t USING paimon")
    created = sql("SHOW CREATE TABLE ours")[0][0]
    assert "USING paimon" in created
    assert "COMMENT 'c'" in created
    assert "'k'" not in created
    sql("DROP TABLE ours; DROP TABLE t")
    assert [row[1] for row in sql("SHOW TABLES")] == ["p"]
    sql(f"CREATE TABLE t (a STRING) USING text LOCATION '{tmp_path}/kept'")
    (tmp_path / "kept").mkdir()
    assert {row[0]: row[1] for row in sql("DESCRIBE EXTENDED t")}["Type"] == "EXTERNAL"
    sql("DROP TABLE t")
    assert (tmp_path / "kept").exists()
    sql("CREATE TABLE t (a INT) TBLPROPERTIES ('type' = 'format-table', 'file.format' = 'orc')")
    assert "USING orc" in sql("SHOW CREATE TABLE t")[0][0]


def test_what_is_refused(sql: Run) -> None:
    sql("CREATE TABLE t (id INT, p INT) USING json PARTITIONED BY (p)")
    unsupported = "UnsupportedOperationException"
    for statement, kind, text in (
        ("UPDATE t SET id = 1", unsupported, "`t` is a format table: it has files and no snap"),
        ("DELETE FROM t", unsupported, "is a format table"),
        ("MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN DELETE", unsupported, "UNSUPP"),
        ("TRUNCATE TABLE t", unsupported, "TRUNCATE"),
        ("SELECT * FROM t VERSION AS OF 1", unsupported, "time travel"),
        ("SELECT * FROM `t$snapshots`", unsupported, "system tables"),
        ("SELECT * FROM `t$branch_b`", unsupported, "branches"),
        ("ALTER TABLE t CREATE TAG x", unsupported, "tags"),
        ("ALTER TABLE t ADD PARTITION (p = 1)", unsupported, "ADD PARTITION is supported only"),
        ("ALTER TABLE t DROP PARTITION (p = 1)", unsupported, "discovered from the filesystem"),
        ("DESCRIBE t PARTITION (p = 1)", "AnalysisException", "NOT_SUPPORTED_COMMAND"),
        ("CREATE TABLE t (id INT) USING csv", "AnalysisException", "already exists"),
        (
            "CREATE TABLE u USING csv PARTITIONED BY (p) AS SELECT 1 AS p",
            unsupported,
            "Using CTAS with partitioned format table is not supported yet.",
        ),
        ("CREATE TABLE u (a INT) USING avro", unsupported, "Provider 'avro' is not supported"),
        (
            "CREATE TABLE u (a INT) USING csv TBLPROPERTIES ('primary-key' = 'a')",
            "IllegalArgumentException",
            "Cannot define primary-key",
        ),
    ):
        with pytest.raises(PaimonError) as refused:
            sql(statement)
        assert (error_type(refused.value), text in str(refused.value)) == (kind, True), statement
