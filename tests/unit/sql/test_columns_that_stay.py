"""Columns that ALTER TABLE does not change, and keys that CREATE TABLE does not find."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.errors import PaimonError
from paimon_spark.sql.errors import error_type

REFUSED = {
    "ALTER TABLE t DROP COLUMN p": ("UnsupportedOperationException", "primary key: [p]"),
    "ALTER TABLE t DROP COLUMN k": ("UnsupportedOperationException", "primary key: [k]"),
    "ALTER TABLE t RENAME COLUMN p TO q": (
        "UnsupportedOperationException",
        "Cannot rename partition column: [p]",
    ),
    "ALTER TABLE t ALTER COLUMN p TYPE BIGINT": (
        "UnsupportedOperationException",
        "Cannot update partition column: [p]",
    ),
    "ALTER TABLE t ALTER COLUMN k TYPE BIGINT": (
        "UnsupportedOperationException",
        "Cannot update primary key",
    ),
    "ALTER TABLE t ALTER COLUMN k DROP NOT NULL": (
        "UnsupportedOperationException",
        "Cannot change nullability of primary key",
    ),
    "ALTER TABLE t ALTER COLUMN v AFTER v": (
        "UnsupportedOperationException",
        "Cannot move itself for column v",
    ),
    "ALTER TABLE t ADD COLUMN n INT NOT NULL": (
        "IllegalArgumentException",
        "Column n cannot specify NOT NULL",
    ),
    "ALTER TABLE t ADD COLUMN v.x INT": ("AnalysisException", "INVALID_FIELD_NAME"),
    "ALTER TABLE t ADD COLUMN none.x INT": ("AnalysisException", "FIELD_NOT_FOUND"),
    "ALTER TABLE t ADD COLUMN s.a INT": ("AnalysisException", "FIELD_ALREADY_EXISTS"),
    "ALTER TABLE t ADD COLUMN n INT AFTER none": ("AnalysisException", "FIELD_NOT_FOUND"),
    "ALTER TABLE t ALTER COLUMN v AFTER none": ("AnalysisException", "FIELD_NOT_FOUND"),
    "ALTER TABLE t ADD COLUMNS (n INT, n INT)": ("AnalysisException", "COLUMN_ALREADY_EXISTS"),
    "ALTER TABLE t DROP COLUMN s.none": ("AnalysisException", "FIELD_NOT_FOUND"),
    "CREATE TABLE u (a CHAR(0))": ("IllegalArgumentException", "must be between 1 and"),
    "CREATE TABLE u (a ARRAY<VARCHAR(0)>)": ("IllegalArgumentException", "must be between 1 and"),
    "CREATE TABLE u (a VARCHAR)": ("ParseException", "DATATYPE_MISSING_SIZE"),
    "CREATE TABLE u (a INT NOT NULL NOT NULL)": ("ParseException", "DESCRIPTOR_DUPLICATE"),
    "CREATE TABLE u (a INT) COMMENT 'a' COMMENT 'b'": ("ParseException", "DUPLICATE_CLAUSES"),
    "INSERT INTO t () VALUES ()": ("ParseException", "PARSE_SYNTAX_ERROR"),
    "CREATE TABLE u (a INT) PARTITIONED BY (d)": ("AnalysisException", "find column d in: a"),
    "CREATE TABLE u (a INT) TBLPROPERTIES ('primary-key' = 'd')": (
        "IllegalStateException",
        "Table column [a] should include all primary key constraint [d]",
    ),
}


def test_what_java_refuses_has_its_exception(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql("""
        CREATE TABLE t (k INT, v INT, p INT, s STRUCT<a: INT>, l ARRAY<STRUCT<a: INT>>)
        PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'k,p')
    """)
    before = sql("DESC t")
    for statement, (kind, text) in REFUSED.items():
        with pytest.raises(PaimonError) as caught:
            sql(statement)
        assert error_type(caught.value) == kind, statement
        assert text in str(caught.value), statement
    assert sql("DESC t") == before
    sql("ALTER TABLE t ADD COLUMN S.b INT FIRST; ALTER TABLE t ADD COLUMN l.element.b INT")
    sql("ALTER TABLE t ADD COLUMNS (m INT AFTER V, n TIMESTAMP WITHOUT TIME ZONE AFTER m)")
    assert [row[:2] for row in sql("DESC t")[:7]] == [
        ["k", "int"],
        ["v", "int"],
        ["m", "int"],
        ["n", "timestamp_ntz"],
        ["p", "int"],
        ["s", "struct<b:int,a:int>"],
        ["l", "array<struct<a:int,b:int>>"],
    ]
