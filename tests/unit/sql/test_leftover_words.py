"""A statement with words that nothing reads is refused: a misspelt WHERE must not change all rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table
from paimon_spark.sql.errors import SqlSyntaxError


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHER id = 1",
        "DELETE FROM t AS x WHER id = 1",
        "DELETE FROM t x y",
        "DELETE FROM t z (id = 1)",
        "UPDATE t x WHER SET v = 'b'",
        "TRUNCATE TABLE t WHERE id = 1",
        "TRUNCATE TABLE t PARTITION (p = 1) WHERE id = 1",
        "DROP TABLE t WHERE id = 1",
        "ALTER TABLE t DROP PARTITION (p = 1) WHERE id = 1",
        "EXPLAIN DELETE FROM t WHER id = 1",
    ],
)
def test_no_row_is_lost_to_a_statement_that_is_not_understood(tmp_path: Path, statement: str):
    sql = Sql(tmp_path)
    sql("CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p)")
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1)")
    with pytest.raises(SqlSyntaxError, match="PARSE_SYNTAX_ERROR"):
        sql(statement)
    table = open_table(str(tmp_path), "default.t")
    batches = list(read_table(table, table.latest_or_not_found()))
    assert sum(b.num_rows for b in batches) == 2
