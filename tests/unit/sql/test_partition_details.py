"""What DESCRIBE and SHOW TABLE EXTENDED say about a partition, and which columns are NOT NULL."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.errors import PaimonError, UnsupportedFeature
from paimon_core.known_options import unknown_options
from paimon_core.table.system.read import system_scan
from paimon_core.types.sql import type_to_sql
from paimon_spark.sql.errors import AnalysisError, SqlSyntaxError, error_type


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    made = Sql(tmp_path)
    made("CREATE TABLE t (id INT NOT NULL, v STRING) PARTITIONED BY (day STRING, hm STRING)")
    made("INSERT INTO t VALUES (1, 'a', 'd1', '01:00'), (2, 'b', 'd1', '01:00')")
    made("INSERT INTO t VALUES (3, 'c', 'd1', '02:00')")
    return made


def test_a_partition_is_described_with_its_files(sql: Sql) -> None:
    described = {
        name: value
        for name, value, _ in sql("DESC FORMATTED t PARTITION (day = 'd1', hm = '01:00')")
    }
    assert described["Partition Values"] == "[day=d1, hm=01:00]"
    assert str(described["Partition Parameters"]).startswith("[fileCount=1, ")
    assert "recordCount=2" in str(described["Partition Parameters"])
    assert str(described["Partition Statistics"]).endswith(" bytes, 2 rows")
    plain = sql("DESC t PARTITION (day = 'd1', hm = '01:00')")
    assert plain == sql("DESC t")


def test_a_partition_is_shown_with_its_files(sql: Sql) -> None:
    shown = sql("SHOW TABLE EXTENDED LIKE 't' PARTITION (day = 'd1', hm = '02:00')")[0][3]
    assert "Partition Values: [day=d1, hm=02%3A00]\n" in shown
    assert "recordCount=1" in shown
    assert "Partition Parameters: {recordCount=1, fileSizeInBytes=" in shown
    assert "Partition Statistics: 1 rows, " in shown
    assert shown.endswith(" bytes\n")


def test_a_table_is_shown_with_the_tree_of_its_columns(sql: Sql) -> None:
    sql("""
        CREATE TABLE u (id BIGINT NOT NULL, s STRUCT<a: TINYINT NOT NULL, b: ARRAY<INT>>,
            m MAP<STRING, STRUCT<x: CHAR(2)>>, d DECIMAL(5, 1), p SMALLINT) PARTITIONED BY (p)
    """)
    stored = sql.session.catalog.get_table("default.u").schema.fields[2]
    assert type_to_sql(stored.type).startswith("MAP<STRING NOT NULL, ROW<")
    shown = sql("SHOW TABLE EXTENDED LIKE 'u'")[0][3]
    owner = getpass.getuser()
    assert f"\nProvider: paimon\nOwner: {owner}\nTable Properties: [path=" in shown
    assert "\nPartition Provider: Catalog\nPartition Columns: [`p`]\nSchema: root\n" in shown
    assert shown.partition("Schema: ")[2].splitlines() == [
        "root",
        " |-- id: long (nullable = false)",
        " |-- s: struct (nullable = true)",
        " |    |-- a: byte (nullable = false)",
        " |    |-- b: array (nullable = true)",
        " |    |    |-- element: integer (containsNull = true)",
        " |-- m: map (nullable = true)",
        " |    |-- key: string",
        " |    |-- value: struct (valueContainsNull = true)",
        " |    |    |-- x: char(2) (nullable = true)",
        " |-- d: decimal(5,1) (nullable = true)",
        " |-- p: short (nullable = true)",
        "",
    ]


def test_columns_that_are_not_null_are_listed(sql: Sql) -> None:
    assert sql("DESC EXTENDED t")[-2:] == [
        ["# Column Not Null", "", ""],
        ["id", "int", "NOT NULL"],
    ]


@pytest.mark.parametrize(
    ("statement", "kind", "text"),
    [
        ("DESC t PARTITION (day = 'd1')", "UnsupportedOperationException", "all the correct"),
        (
            "DESC EXTENDED t PARTITION (day = 'd1', hm = 'x')",
            "IllegalArgumentException",
            "Found 0 matching partitions",
        ),
        ("SHOW TABLE EXTENDED LIKE 't' PARTITION (day = 'd1')", "AnalysisException", "is invalid"),
        (
            "SHOW TABLE EXTENDED LIKE 't' PARTITION (day = 'd1', hm = 'x')",
            "AnalysisException",
            "PARTITIONS_NOT_FOUND",
        ),
    ],
)
def test_what_is_no_partition(sql: Sql, statement: str, kind: str, text: str) -> None:
    with pytest.raises(PaimonError, match=text) as caught:
        sql(statement)
    assert error_type(caught.value) == kind


def test_expired_partitions_are_named_by_their_values(sql: Sql) -> None:
    sql("CREATE TABLE old (id INT) PARTITIONED BY (pt STRING, hm STRING)")
    sql("INSERT INTO old VALUES (1, '2020-01-01', '01:00')")
    expired = sql("""
        CALL sys.expire_partitions(table => 'old', expiration_time => '1 d',
            timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$pt')
    """)
    assert expired == [["pt=2020-01-01, hm=01:00"]]


def test_owner_and_size_of_a_table(sql: Sql) -> None:
    owner = ["Owner", getpass.getuser(), ""]
    rows = sql("DESCRIBE EXTENDED t")
    assert owner in rows
    assert ["Statistics", "192 bytes, 3 rows", None] in rows
    assert "owner" not in dict(sql("SHOW TBLPROPERTIES t"))
    sql("CREATE TABLE l LIKE t")
    assert owner not in sql("DESCRIBE EXTENDED l")
    sql("CREATE OR REPLACE TABLE t (a INT) PARTITIONED BY (day STRING, hm STRING)")
    rows = sql("DESCRIBE EXTENDED t")
    assert owner in rows
    assert ["Statistics", "0 bytes, 0 rows", None] in rows
    with pytest.raises(UnsupportedFeature, match="Purge table"):
        sql("DROP TABLE t PURGE")
    assert sql("SHOW TABLES LIKE 't'")


def test_buckets_are_those_of_the_newest_snapshot(sql: Sql) -> None:
    opened = sql.session.open(sql.session.table_name(["t"]), options={"scan.snapshot-id": "1"})
    for system, snapshot in (("buckets", 2), ("files", 1)):
        found = system_scan(opened, system).whole
        assert found is not None
        assert found.id == snapshot


def test_collations_are_read_and_do_not_count(sql: Sql) -> None:
    sql("""
        CREATE TABLE c (a STRING COLLATE UTF8_LCASE, b ARRAY<STRING COLLATE UNICODE_CI_RTRIM>)
        DEFAULT COLLATION de_AI
    """)
    assert [row[1] for row in sql("DESCRIBE c")] == ["string", "array<string>"]
    sql("ALTER TABLE c ADD COLUMN d STRING COLLATE sr_Cyrl_SRB")
    assert sql("DESCRIBE c d")[1][1] == "string"
    assert ["Collation", "de_AI", ""] in sql("DESCRIBE EXTENDED c")
    assert not unknown_options(sql.session.catalog.get_table("default.c").options)
    sql("ALTER TABLE c DEFAULT COLLATION UNICODE")
    assert "COLLATION 'UNICODE'\nLOCATION" in sql("SHOW CREATE TABLE c")[0][0]
    assert "collation" not in dict(sql("SHOW TBLPROPERTIES c"))
    with pytest.raises(AnalysisError, match="COLLATION_INVALID_NAME"):
        sql("CREATE TABLE e (a STRING COLLATE NOPE)")


def test_what_analyze_found_of_a_column(sql: Sql) -> None:
    assert sql("DESCRIBE EXTENDED t id") == sql("DESCRIBE t id")
    sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS id, v")
    counts = [["num_nulls", "0"], ["distinct_count", "3"]]
    lengths = [["avg_col_len", "4"], ["max_col_len", "4"]]
    expected = [["min", "1"], ["max", "3"], *counts, *lengths]
    assert sql("DESCRIBE EXTENDED t id")[3:] == expected
    assert sql("DESCRIBE EXTENDED t v")[3:5] == [["min", "NULL"], ["max", "NULL"]]


def test_details_of_reserved_properties_and_row_ids(sql: Sql) -> None:
    with pytest.raises(SqlSyntaxError, match="owner is a reserved table property"):
        sql("ALTER TABLE t UNSET TBLPROPERTIES ('owner')")
    sql("CREATE TABLE r (a INT) TBLPROPERTIES ('row-tracking.enabled' = 'true')")
    rows = sql("DESCRIBE EXTENDED r")
    at = rows.index(["# Metadata Columns", "", ""])
    assert [row[0] for row in rows[at + 1 : at + 3]] == ["_ROW_ID", "_SEQUENCE_NUMBER"]
