"""SHOW CREATE TABLE gives a statement that makes the same table again."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

ODD = (
    "CREATE TABLE `my table` (`a b` INT NOT NULL COMMENT 'it''s; \"q\" \\\\n', `select` STRING, `b``t` INT, "
    "`x.y` STRUCT<`in ner`: INT NOT NULL COMMENT 'deep', `it's`: ARRAY<STRUCT<`q w`: CHAR(3)>>>, `1st` DATE, "
    "`ü` MAP<STRING, DECIMAL(5, 2)>, `p q` STRING DEFAULT 'd''x', v VARCHAR(7)) "
    "PARTITIONED BY (`p q`) COMMENT 'of \\'me\\'' TBLPROPERTIES ('k''a' = 'it\\'s', 'primary-key' = 'a b,p q', 'z' = '')"
)


@pytest.mark.parametrize(
    "statement", [ODD, "CREATE TABLE `my table` (id INT) TBLPROPERTIES ('z' = 'b')"]
)
def test_what_is_shown_makes_the_table_again(tmp_path: Path, statement: str) -> None:
    sql = Sql(tmp_path)
    sql(statement)
    shown = sql("SHOW CREATE TABLE `my table`")[0][0]
    described = sql("DESC EXTENDED `my table`")
    sql("DROP TABLE `my table`")
    # The catalog decides where a table lies.
    own = ("LOCATION", "  'path' = ")
    sql("\n".join(line for line in shown.splitlines() if not line.startswith(own)))
    assert sql("SHOW CREATE TABLE `my table`")[0][0] == shown
    assert sql("DESC EXTENDED `my table`") == described
    if statement == ODD:
        assert described[0] == ["a b", "int", 'it\'s; "q" \\n']
        assert "`in ner`: INT NOT NULL COMMENT 'deep'" in shown


def test_a_statement_that_hive_shows(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql(
        "CREATE TABLE t (k INT) PARTITIONED BY (dt STRING COMMENT 'day') "
        "ROW FORMAT SERDE 'org.apache.paimon.hive.PaimonSerDe' "
        "WITH SERDEPROPERTIES ('serialization.format' = '1') "
        "STORED AS INPUTFORMAT 'org.apache.paimon.hive.mapred.PaimonInputFormat' "
        "OUTPUTFORMAT 'org.apache.paimon.hive.mapred.PaimonOutputFormat' "
        "TBLPROPERTIES ('primary-key' = 'dt,k', 'bucket' = '1')"
    )
    assert sql("SHOW TBLPROPERTIES t ('primary-key')") == [["primary-key", "dt,k"]]
    assert "not have" in sql("SHOW TBLPROPERTIES t ('serialization.format')")[0][1]


def test_external_tables_are_shown_as_such(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql("CREATE EXTERNAL TABLE t (a INT); CREATE TABLE u (a INT); CREATE TABLE v LIKE t")
    kinds = [row[1] for n in "tuv" for row in sql(f"DESC FORMATTED {n}") if row[0] == "Type"]
    assert kinds == ["EXTERNAL", "MANAGED", "MANAGED"]
    assert "Type: EXTERNAL\n" in sql("SHOW TABLE EXTENDED LIKE 't'")[0][3]
    assert [row[0] for row in sql("SHOW TBLPROPERTIES t")] == ["path"]
    assert ["EXTERNAL TABLE" in row[0] for row in sql("SHOW CREATE TABLE t")] == [False]
