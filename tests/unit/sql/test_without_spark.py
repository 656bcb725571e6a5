"""Statements that start no Spark: DDL, SHOW, CALL, and INSERT of literals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from command_line import caretaker
from sql_sessions import Sql

from paimon_core.environment import system_environment
from paimon_core.errors import AlreadyExists, PaimonError
from paimon_core.scan.scan import scan_files
from paimon_core.table.sink.write_session import write_rows
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_spark.sql.ddl import tables
from paimon_spark.sql.errors import error_type
from paimon_spark.sql.query.sys_functions import replace_sys_functions
from paimon_spark.sql.session import SqlSession


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    return Sql(tmp_path)


def rows_of(sql: Sql, table: str) -> list[list[object]]:
    found = batch_scan_of(sql.session.catalog.get_table(f"default.{table}"))
    rows = [r for b in read_batch(found) for r in b.drop_columns(["_VALUE_KIND"]).to_pylist()]
    return sorted(([*row.values()] for row in rows), key=str)


def refused(sql: Sql, statement: str) -> tuple[str, str]:
    with pytest.raises(PaimonError) as caught:
        sql(statement)
    return error_type(caught.value), str(caught.value)


def test_a_table_from_creation_to_drop(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (id BIGINT NOT NULL, name STRING COMMENT 'n', c CHAR(3) DEFAULT 'x',
                        s STRUCT<a: INT, b: ARRAY<STRING>>)
        COMMENT 'mine' PARTITIONED BY (dt DATE) TBLPROPERTIES ('primary-key' = 'id,dt', 'a.b' = 1)
    """)
    assert sql("DESC t")[:4] == [
        ["id", "bigint", None],
        ["name", "string", "n"],
        ["c", "char(3)", None],
        ["s", "struct<a:int,b:array<string>>", None],
    ]
    (created,) = sql("SHOW CREATE TABLE t")
    for text in ("dt DATE NOT NULL", "PARTITIONED BY (dt)", "COMMENT 'mine'", "DEFAULT 'x'"):
        assert text in created[0]
    assert ["primary-key", "id,dt"] in sql("SHOW TBLPROPERTIES t")
    assert sql("SHOW COLUMNS IN t") == [["id"], ["name"], ["c"], ["s"], ["dt"]]
    assert "ALREADY_EXISTS" in refused(sql, "CREATE TABLE t (a INT)")[1]
    sql("CREATE TABLE IF NOT EXISTS t (a INT); CREATE TABLE u LIKE t")
    assert sql("SHOW TABLES") == [["default", "t", False], ["default", "u", False]]
    sql("DROP TABLE t; DROP TABLE IF EXISTS t")
    assert refused(sql, "DROP TABLE t")[0] == "AnalysisException"
    assert sql("SHOW TABLES LIKE 't*|u'") == [["default", "u", False]]


def test_a_table_that_another_client_creates_first(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tables.make_table

    def late(*args: Any) -> None:
        monkeypatch.setattr(tables, "make_table", make)
        Sql(tmp_path)("CREATE TABLE t (theirs INT)")
        make(*args)

    monkeypatch.setattr(tables, "make_table", late)
    sql("CREATE TABLE IF NOT EXISTS t (ours INT)")
    assert sql("DESC t")[0][0] == "theirs"
    sql("DROP TABLE t")
    monkeypatch.setattr(tables, "make_table", late)
    with pytest.raises(AlreadyExists):
        sql("CREATE TABLE t (ours INT)")


def test_databases(sql: Sql) -> None:
    sql("CREATE DATABASE a; CREATE SCHEMA IF NOT EXISTS a; USE a; CREATE TABLE t (x INT)")
    assert sql("SHOW CURRENT NAMESPACE") == [["paimon", "a"]]
    assert sql("SHOW DATABASES LIKE 'a*'") == [["a"]]
    assert "SCHEMA_NOT_EMPTY" in refused(sql, "DROP DATABASE a")[1]
    sql("USE paimon.default; DROP DATABASE a CASCADE; DROP DATABASE IF EXISTS a")
    assert "SCHEMA_NOT_FOUND" in refused(sql, "USE a")[1]


def test_altering(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, s STRUCT<x: INT>, v ARRAY<STRUCT<f: INT>>)")
    sql("ALTER TABLE t ADD COLUMNS (b INT COMMENT 'bb', c STRING)")
    sql("ALTER TABLE t ADD COLUMN s.y STRING; ALTER TABLE t ADD COLUMN v.element.g INT")
    sql("ALTER TABLE t ALTER COLUMN a TYPE BIGINT; ALTER TABLE t RENAME COLUMN c TO cc")
    sql("ALTER TABLE t DROP COLUMN b; ALTER TABLE t ALTER COLUMN cc FIRST")
    assert sql("DESC t") == [
        ["cc", "string", None],
        ["a", "bigint", None],
        ["s", "struct<x:int,y:string>", None],
        ["v", "array<struct<f:int,g:int>>", None],
    ]
    sql("ALTER TABLE t SET TBLPROPERTIES ('write-only' = 'true', 'comment' = 'c')")
    assert ["write-only", "true"] in sql("SHOW TBLPROPERTIES t")
    sql("ALTER TABLE t UNSET TBLPROPERTIES ('write-only'); ALTER TABLE t RENAME TO t2")
    assert sql("SHOW TBLPROPERTIES t2 ('write-only')")[0][1].endswith("write-only")
    for statement, text in (
        ("ALTER TABLE t2 SET TBLPROPERTIES ('primary-key' = 'a')", "Alter primary key"),
        ("ALTER TABLE t2 ADD COLUMN d INT DEFAULT 5", "default"),
        ("ALTER TABLE t2 DROP COLUMN nope", "nope"),
        ("ALTER TABLE nope DROP COLUMN a", "TABLE_OR_VIEW_NOT_FOUND"),
        ("ALTER TABLE t2 ADD COLUMN a INT", "already exists"),
    ):
        assert text in refused(sql, statement)[1]


def test_rows_of_literals(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, b STRING DEFAULT 'd', m MAP<STRING, INT>, x DECIMAL(5, 2))")
    sql("INSERT INTO t VALUES (1, 'x', map('k', 1), 1.555), (-2, DEFAULT, NULL, 2)")
    sql("INSERT INTO t (x, a) VALUES (7, 3)")
    assert [row[:2] for row in rows_of(sql, "t")] == [[-2, "d"], [1, "x"], [3, "d"]]
    assert [str(row[3]) for row in rows_of(sql, "t")] == ["2.00", "1.56", "7.00"]
    sql("UPDATE t SET b = 'new' WHERE a > 0; DELETE FROM t WHERE a = 3")
    assert [row[:2] for row in rows_of(sql, "t")] == [[-2, "d"], [1, "new"]]
    sql("DELETE FROM t")
    assert rows_of(sql, "t") == []


def test_changes_of_postponed_rows_are_seen_at_once(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p INT)
        TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '-2')
    """)
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)")
    sql("DELETE FROM t WHERE id = 1; UPDATE t SET v = 'x' WHERE id = 3")
    assert rows_of(sql, "t") == [[2, "b", 1], [3, "x", 2]]


def test_errors_name_tables_as_spark_does(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT); CREATE TABLE u (a INT)")
    expected = {
        "ALTER TABLE x RENAME TO y": "The table or view `x` cannot be found",
        "DESC default.x": "The table or view `default`.`x` cannot be found",
        "DROP TABLE paimon.default.x": "view `paimon`.`default`.`x` cannot be found",
        "CREATE TABLE t (b INT)": "Cannot create table or view `default`.`t` because it already",
        "ALTER TABLE t RENAME TO u": "Cannot create table or view default.u because it already",
    }
    for statement, text in expected.items():
        kind, message = refused(sql, statement)
        assert (kind, text in message) == ("AnalysisException", True), message


def test_postponed_rows_get_the_buckets_that_the_session_or_the_table_says(sql: Sql) -> None:
    sql("SET spark.default.parallelism = 3")
    for name, own in {"s": "", "o": ", 'postpone.default-bucket-num' = '2'"}.items():
        sql(f"""
            CREATE TABLE {name} (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-2',
            'postpone.batch-write-fixed-bucket' = 'false'{own})
        """)
        sql(f"INSERT INTO {name} VALUES {', '.join(f'({i})' for i in range(30))}")
        sql(f"CALL sys.compact(table => '{name}', options => 'num-levels=4')")
        table = sql.session.catalog.get_table(f"default.{name}")
        files = scan_files(table, table.latest_or_not_found())
        assert {e.total_buckets for e in files} == {2 if own else 3}


def test_partitions_are_shown_as_spark_shows_them(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT) PARTITIONED BY (d DATE, s STRING)")
    days = pa.array([3789391, -735525], pa.int32()).cast(pa.date32())
    values = {"id": pa.array([1, 2], pa.int32()), "d": days, "s": ["{a}", "[%7D}"]}
    table = sql.session.catalog.get_table("default.t")
    write_rows(table, pa.table(values), env=system_environment())
    assert sql("SHOW PARTITIONS t") == [["d=+12345-01-01/s=%7Ba}"], ["d=-0044-03-15/s=%5B%257D}"]]


def test_overwriting_partitions(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, pt STRING) PARTITIONED BY (pt)")
    sql("INSERT INTO t VALUES (1, 'p1'), (2, 'p2')")
    sql("INSERT OVERWRITE t PARTITION (pt = 'p1') VALUES (3)")
    assert rows_of(sql, "t") == [[2, "p2"], [3, "p1"]]
    sql("SET spark.sql.sources.partitionOverwriteMode=dynamic; INSERT OVERWRITE t VALUES (4, 'p1')")
    assert rows_of(sql, "t") == [[2, "p2"], [4, "p1"]]
    assert sql("SHOW PARTITIONS t") == [["pt=p1"], ["pt=p2"]]
    sql("RESET; INSERT OVERWRITE t VALUES (5, 'p1')")
    assert rows_of(sql, "t") == [[5, "p1"]]
    sql("INSERT INTO t VALUES (6, 'p2'); ALTER TABLE t DROP PARTITION (pt = 'p1')")
    assert rows_of(sql, "t") == [[6, "p2"]]
    assert "PARTITIONS_NOT_FOUND" in refused(sql, "ALTER TABLE t DROP PARTITION (pt = 'p9')")[1]
    sql("TRUNCATE TABLE t PARTITION (pt = 'p2')")
    assert rows_of(sql, "t") == []


def test_options_that_a_table_cannot_change(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'a')")
    sql("INSERT INTO t VALUES (1); SET spark.paimon.bucket=-1")
    assert "bucket" in refused(sql, "INSERT INTO t VALUES (2)")[1]
    sql("RESET spark.paimon.bucket; SET spark.paimon.write-only=true; INSERT INTO t VALUES (2)")
    assert rows_of(sql, "t") == [[1], [2]]


def test_upserts_into_an_empty_table_with_deletion_vectors(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (k INT, v STRING)
        TBLPROPERTIES ('upsert-key' = 'k', 'deletion-vectors.enabled' = 'true');
        INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO t VALUES (2, 'c')
    """)
    assert rows_of(sql, "t") == [[1, "a"], [2, "c"]]


def test_upsert_keys(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (k1 INT, k2 INT, ts1 INT, ts2 INT, v STRING)
        TBLPROPERTIES ('upsert-key' = 'k1,k2', 'sequence.field' = 'ts1,ts2');
        INSERT INTO t VALUES (NULL, NULL, 2, 1, 'v1'), (NULL, NULL, 2, 2, 'v4'),
            (1, NULL, 1, 1, 'v1'), (1, 2, 1, 1, 'v1'), (1, 2, 2, 1, 'v2');
        INSERT INTO t VALUES (NULL, NULL, 2, 1, 'v5'), (NULL, 1, 1, 1, 'v1'),
            (1, NULL, 2, 1, 'v2'), (1, 1, 1, 1, 'v1'), (1, 2, 2, 0, 'v3')
    """)
    assert rows_of(sql, "t") == [
        [1, 1, 1, 1, "v1"],
        [1, 2, 2, 1, "v2"],
        [1, None, 2, 1, "v2"],
        [None, 1, 1, 1, "v1"],
        [None, None, 2, 2, "v4"],
    ]


def test_what_is_refused(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id')")
    for statement, kind, text in (
        ("INSERT INTO t VALUES (NULL, 1)", "SparkException", "null to non-null column(id)"),
        ("UPDATE t SET id = 2", "UnsupportedOperationException", "primary key column"),
        ("UPDATE t SET v = 1, v = 2", "UnsupportedOperationException", "Conflicting update"),
        ("UPDATE t SET nope = 2", "AnalysisException", "nope"),
        ("INSERT INTO t (nope) VALUES (1)", "AnalysisException", "nope"),
        ("INSERT INTO nope VALUES (1)", "AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
        (
            "CREATE TABLE u (a INT) USING csv",
            "UnsupportedOperationException",
            "does not support format tables",
        ),
        ("CREATE VIEW v AS SELECT 1", "UnsupportedOperationException", "views"),
        ("ALTER TABLE t NONSENSE", "ParseException", "PARSE_SYNTAX_ERROR"),
        ("CREATE TABLE u (a INT PRIMARY KEY)", "UnsupportedOperationException", "'primary-key' ="),
        (
            "CREATE TABLE u (a INT, CONSTRAINT c CHECK (a > 0))",
            "UnsupportedOperationException",
            "no CHECK",
        ),
        ("CREATE TABLE u (a INT, UNIQUE (a))", "UnsupportedOperationException", "no UNIQUE clause"),
        (
            "CREATE TABLE u (a INT GENERATED ALWAYS AS (1))",
            "UnsupportedOperationException",
            "GENERATED",
        ),
        ("CREATE TABLE u (a INT) CLUSTER BY (a)", "UnsupportedOperationException", "CLUSTER BY"),
        ("ALTER TABLE t CLUSTER BY NONE", "UnsupportedOperationException", "clustering.columns"),
        (
            "ALTER TABLE t ADD CONSTRAINT p PRIMARY KEY (id)",
            "UnsupportedOperationException",
            "PRIMARY KEY",
        ),
        ("ALTER TABLE t SET SERDE 'x'", "AnalysisException", "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"),
        (
            "ALTER TABLE t ALTER COLUMN v COMMENT 'a', V COMMENT 'b'",
            "AnalysisException",
            "SAME_COLUMN",
        ),
        ("DESCRIBE EXTENDED t AS JSON", "AnalysisException", "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"),
        ("CREATE INDEX i ON t (id)", "UnsupportedOperationException", "sys.create_global_index"),
        ("CALL sys.nope()", "AnalysisException", "ROUTINE_NOT_FOUND"),
        ("CALL sys.compact(tabel => 't')", "RuntimeException", "tabel is unknown"),
    ):
        found = refused(sql, statement)
        assert found[0] == kind, statement
        assert text in found[1], statement
    sql("CREATE TABLE u (constraint INT, unique STRING, check INT DEFAULT 1)")


def test_procedures_answer_as_java_s(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (2, 2); INSERT INTO t VALUES (3, 3)")
    assert sql("CALL sys.create_tag('t', 'one', 1)") == [[True]]
    assert sql("CALL paimon.sys.compact(table => 'default.t')") == [[True]]
    assert sql("CALL sys.rollback(table => 't', version => '2')") == [[4, 2]]
    assert sql.columns("CALL sys.expire_snapshots('t', 1, 1)") == ["deleted_snapshots_count"]
    assert sql("ALTER TABLE t CREATE TAG `two` RETAIN 2 DAYS; SHOW TAGS t") == [["one"], ["two"]]
    assert rows_of(sql, "t") == [[1, 1], [2, 2]]


def test_a_branch_is_no_table_to_create_drop_or_rename(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); CALL sys.create_branch('t', 'dev')")
    for statement in (
        "DROP TABLE `t$branch_dev`",
        "DROP TABLE IF EXISTS default.`t$branch_dev`",
        "ALTER TABLE `t$branch_dev` RENAME TO u",
        "ALTER TABLE t RENAME TO `u$branch_dev`",
        "CREATE TABLE `t$branch_new` (a INT)",
        "CREATE OR REPLACE TABLE `t$branch_dev` (b INT)",
        "REPLACE TABLE `t$branch_dev` (b INT)",
        "CREATE TABLE `t$branch_new` LIKE t",
    ):
        kind, text = refused(sql, statement)
        assert kind == "IllegalArgumentException", statement
        assert "is a branch" in text, statement
    sql("DROP TABLE IF EXISTS `t$branch_none`; CREATE TABLE IF NOT EXISTS `t$branch_dev` (a INT)")
    assert rows_of(sql, "t") == [[1]]
    assert sql("DESCRIBE `t$branch_dev`") == [["a", "int", None]]


def test_system_tables_are_not_changed(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT) PARTITIONED BY (p INT); INSERT INTO t VALUES (1, 2)")
    sql("CALL sys.create_branch('t', 'dev'); INSERT INTO `t$branch_dev` VALUES (1, 2)")
    for table in ("`t$files`", "`t$branch_dev$files`"):
        for statement in (
            f"DELETE FROM {table}",
            f"UPDATE {table} SET a = 2",
            f"MERGE INTO {table} USING t ON true WHEN MATCHED THEN DELETE",
            f"INSERT INTO {table} VALUES (1, 2)",
            f"INSERT OVERWRITE {table} VALUES (1, 2)",
            f"TRUNCATE TABLE {table}",
            f"DROP TABLE {table}",
            f"ANALYZE TABLE {table} COMPUTE STATISTICS",
            f"COMMENT ON TABLE {table} IS 'x'",
            f"CREATE OR REPLACE TABLE {table} (b INT)",
            f"COPY INTO {table} FROM '/nowhere' FILE_FORMAT = (TYPE = CSV)",
            f"ALTER TABLE {table} RENAME TO u",
            f"ALTER TABLE {table} ADD COLUMN b INT",
            f"ALTER TABLE {table} SET TBLPROPERTIES ('snapshot.num-retained.max' = '9')",
            f"ALTER TABLE {table} DROP PARTITION (p = 2)",
            f"ALTER TABLE {table} CREATE TAG x",
        ):
            kind, text = refused(sql, statement)
            assert kind == "AnalysisException", statement
            assert "is a system table" in text, statement
    for statement in (
        "ALTER TABLE t RENAME TO `u$files`",
        "ALTER TABLE t RENAME TO sys.t",
        "CREATE TABLE sys.t (a INT)",
        "DROP TABLE sys.tables",
        "INSERT INTO sys.tables VALUES (1)",
        "CREATE DATABASE sys",
        "DROP DATABASE IF EXISTS sys CASCADE",
    ):
        assert refused(sql, statement)[0] == "AnalysisException", statement
    assert rows_of(sql, "t") == [[1, 2]]
    assert sql("SHOW TABLES; SHOW TAGS t") == []


def test_a_property_needs_no_equals_sign(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT) TBLPROPERTIES ('bucket' '2', 'bucket-key' = 'id')")
    sql("ALTER TABLE t SET TBLPROPERTIES ('snapshot.num-retained.max' '30')")
    found = dict(sql("SHOW TBLPROPERTIES t"))
    assert found["bucket"] == "2"
    assert found["snapshot.num-retained.max"] == "30"


def test_the_command_line_answers_statement_by_statement(tmp_path: Path) -> None:
    text = "SHOW TABLES; SELEC; CREATE TABLE t (a INT); DROP TABLE nope; SHOW TABLES"
    run = caretaker("sql", "-w", str(tmp_path), "--json", "-k", "-e", text)
    answers = [json.loads(line) for line in run.out.splitlines()]
    assert [a["statement"] for a in answers] == [0, 1, 2, 3, 4]
    assert [a.get("type") for a in answers] == [
        None,
        "ParseException",
        None,
        "AnalysisException",
        None,
    ]
    assert answers[4]["rows"] == [["default", "t", False]]
    stopped = caretaker("sql", "-w", str(tmp_path), "--json", "-e", text)
    assert len(stopped.out.splitlines()) == 2


def test_options_that_a_table_keeps(sql: Sql) -> None:
    sql("CREATE TABLE t (k INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')")
    sql("INSERT INTO t VALUES (1); CREATE TABLE u (k INT); INSERT INTO u VALUES (1)")
    for statement, words in {
        "ALTER TABLE t SET TBLPROPERTIES ('merge-engine' = 'first-row')": "Change 'merge-engine'",
        "ALTER TABLE t SET TBLPROPERTIES ('bucket' = '-1')": "Cannot change bucket to -1",
        "ALTER TABLE u SET TBLPROPERTIES ('bucket' = '2')": "Cannot change bucket when it is -1",
        "ALTER TABLE t UNSET TBLPROPERTIES ('bucket')": "Change 'bucket'",
    }.items():
        kind, text = refused(sql, statement)
        assert kind == "UnsupportedOperationException"
        assert words in text
    sql("SET spark.paimon.bucket=1")
    with pytest.raises(PaimonError, match="bucket"):
        sql.session.open(sql.session.table_name(["u"]))


def test_functions_of_every_catalog(sql: Sql) -> None:
    assert ["paimon.sys.max_pt"] in sql("SHOW USER FUNCTIONS IN sys")
    assert sql("SHOW USER FUNCTIONS IN default") == []


def test_arguments_of_compact_and_rescale(sql: Sql) -> None:
    sql("CREATE TABLE t (k INT, dt STRING) PARTITIONED BY (dt); INSERT INTO t VALUES (1, 'x')")
    sql("CREATE TABLE e (k INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')")
    for call, words in {
        "compact(table => 't', order_by => 'k')": 'order_strategy "none" cannot work',
        "compact(table => 't', order_strategy => 'order', order_by => 'dt')": "should not contain partition",
        "compact(table => 't', order_strategy => 'order', order_by => 'k', partition_idle_time => '1 s')": (
            "do not support 'partition_idle_time'"
        ),
        "compact(table => 't', compact_strategy => 'half')": "only supports 'full' or 'minor'",
        "compact(table => 't', partitions => 'k=1')": "Partition keys [k] are invalid",
        "rescale('e', 4)": "has no snapshot",
    }.items():
        kind, text = refused(sql, f"CALL sys.{call}")
        assert kind == "IllegalArgumentException"
        assert words in text
    assert sql("CALL sys.compact_manifest(table => 't', dry_run => true)") == [[True]]


def test_taken_and_missing_tags_and_branches(sql: Sql) -> None:
    sql("CREATE TABLE t (k INT); INSERT INTO t VALUES (1); CALL sys.create_tag('t', 'a')")
    sql("CALL sys.create_branch('t', 'b', 'a')")
    for statement, words in {
        "CALL sys.create_tag('t', 'a')": "tag 'a' of table default.t already exists",
        "CALL sys.create_branch('t', 'b')": "branch 'b' of table default.t already exists",
        "CALL sys.replace_tag('t', 'none')": "does not exist",
        "ALTER TABLE t ADD COLUMN d INT DEFAULT 1": "Cannot add column [d] with default value",
    }.items():
        kind, text = refused(sql, statement)
        is_change = statement.startswith("ALTER")
        assert kind == (
            "UnsupportedOperationException" if is_change else "IllegalArgumentException"
        )
        assert words in text


def test_writes_between_another_bucket_number_and_the_rescale(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'id')")
    sql("INSERT INTO t VALUES (1), (2), (3); ALTER TABLE t SET TBLPROPERTIES ('bucket' = '4')")
    kind, text = refused(sql, "INSERT INTO t VALUES (6)")
    assert kind == "SparkException"
    assert "write table with a new bucket num 4, but the previous bucket num is 2" in text


def test_rescale_of_partitions_without_files_does_nothing(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (k INT, dt STRING) PARTITIONED BY (dt)
        TBLPROPERTIES ('primary-key' = 'k,dt', 'bucket' = '1');
        INSERT INTO t VALUES (1, 'x')
    """)
    assert sql("CALL sys.rescale(table => 't', bucket_num => 2, partitions => 'dt=\"y\"')") == [
        [True]
    ]
    assert len(sql.session.catalog.get_table("default.t").snapshots.ids()) == 1
    assert sql("CALL sys.rescale(table => 't', bucket_num => 2, partitions => 'dt=\"x\"')") == [
        [True]
    ]
    assert len(sql.session.catalog.get_table("default.t").snapshots.ids()) == 2


@pytest.mark.parametrize("name", ["bucket", "path_to_descriptor", "descriptor_to_string"])
def test_a_function_of_sys_in_the_first_statement_starts_spark(name: str) -> None:
    class StartedError(Exception):
        pass

    class Session:
        @property
        def spark(self) -> object:
            raise StartedError

    with pytest.raises(StartedError):
        replace_sys_functions(cast("SqlSession", Session()), f"SELECT sys.{name}(a)")


def test_two_quotes_in_a_text_are_one(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT COMMENT 'it''s') PARTITIONED BY (s STRING)")
    assert sql("DESC t")[0] == ["a", "int", "it's"]
    sql("INSERT INTO t PARTITION (s = 'it''s') VALUES (1); CALL sys.create_tag('t', 'it''s')")
    assert rows_of(sql, "t") == [[1, "it's"]]
    assert sql("SHOW TAGS t") == [["it's"]]
    sql("ALTER TABLE t SET TBLPROPERTIES ('x''y' = '''' 'z'); COMMENT ON TABLE t IS \"a\"\"b\"")
    assert ["x'y", "'z"] in sql("SHOW TBLPROPERTIES t")
    assert ["Comment", 'a"b', ""] in sql("DESC EXTENDED t")


def test_system_tables_are_shown_with_their_own_columns(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ('a' = 'b')")
    assert sql("SHOW COLUMNS IN `t$options`") == [["key"], ["value"]]
    assert sql("SHOW COLUMNS IN `t$audit_log`") == [["rowkind"], ["id"], ["p"]]
    assert sql("SHOW COLUMNS IN `t$binlog`") == [["rowkind"], ["id"], ["p"]]
    assert sql("SHOW COLUMNS IN `t$ro`") == [["id"], ["p"]]
    assert sql("SHOW COLUMNS IN catalog_options IN sys") == [["key"], ["value"]]
    assert sql("SHOW CREATE TABLE `t$options`")[0][0] == (
        "CREATE TABLE paimon.default.`t$options` (\n  key STRING NOT NULL,\n"
        "  value STRING NOT NULL)\n"
    )
    assert sql("SHOW TBLPROPERTIES `t$options`") == []
    assert ["a", "b"] in sql("SHOW TBLPROPERTIES `t$audit_log`")
    assert "PARTITION_SCHEMA_IS_EMPTY" in refused(sql, "SHOW PARTITIONS `t$options`")[1]
    assert "Only FileStoreTable" in refused(sql, "SHOW PARTITIONS `t$ro`")[1]
    assert "no system table 'nope'" in refused(sql, "SHOW TBLPROPERTIES `t$nope`")[1]
    assert refused(sql, "SHOW COLUMNS IN sys.nope")[0] == "AnalysisException"


def test_an_update_to_the_default_of_a_column(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, v STRING NOT NULL DEFAULT 'd', n INT DEFAULT 3, p INT)")
    sql("INSERT INTO t VALUES (1, 'x', 5, 6)")
    sql("UPDATE t SET v = DEFAULT, n = default, p = DEFAULT WHERE id = 1")
    assert rows_of(sql, "t") == [[1, "d", 3, None]]
    assert "NOT NULL" in refused(sql, "UPDATE t SET v = NULL")[1]


def test_names_that_need_quotes_have_them(sql: Sql) -> None:
    sql("CREATE DATABASE `a b`; CREATE DATABASE ü; CREATE TABLE `a b`.t (`x y` INT)")
    assert sql("SHOW DATABASES") == [["`a b`"], ["default"], ["`ü`"]]
    assert sql("SHOW TABLES IN `a b`") == [["`a b`", "t", False]]
    sql("CREATE TABLE p (id INT, `p q` INT) PARTITIONED BY (`p q`)")
    assert sql("DESC p")[-1] == ["`p q`", "int", None]


def test_set_catalog(sql: Sql, tmp_path: Path) -> None:
    sql(f"SET spark.sql.catalog.other.warehouse={tmp_path / 'other'}; SET CATALOG other")
    assert sql("SHOW CURRENT NAMESPACE") == [["other", "default"]]
    sql("SET CATALOG paimon; SET catalog=x")
    assert sql("SET catalog") == [["catalog", "x"]]
    assert refused(sql, "SET CATALOG nowhere")[0] == "AnalysisException"


def test_tables_that_are_not_made(sql: Sql) -> None:
    for columns, properties, kind, text in (
        ("x STRUCT<a: INT, A: INT>", "", "AnalysisException", "column `x`.`a` already exists"),
        (
            "x ARRAY<STRUCT<u: MAP<INT, STRUCT<v: INT, V: INT>>>>",
            "",
            "AnalysisException",
            "column `x`.`element`.`u`.`value`.`v` already exists",
        ),
        ("x INT", "'bucket' = '2', 'bucket-key' = 'x,x'", "IllegalArgumentException", "twice"),
        ("x INT", "'owner' = 'me'", "ParseException", "owner is a reserved table property"),
        ("x INT", "'provider' = 'orc'", "ParseException", "USING clause"),
    ):
        clause = f" TBLPROPERTIES ({properties})" * bool(properties)
        found, message = refused(sql, f"CREATE TABLE t ({columns}){clause}")
        assert (found, text in message) == (kind, True), message
    assert sql("SHOW TABLES") == []
    sql("SET spark.sql.caseSensitive=true; CREATE TABLE t (x STRUCT<a: INT, A: INT>)")
    assert (
        "LOCATION clause" in refused(sql, "ALTER TABLE t SET TBLPROPERTIES ('location' = '/x')")[1]
    )


def test_only_partition_columns_stand_in_a_partition_clause(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, p INT) PARTITIONED BY (p); CREATE TABLE u (id INT, p INT)")
    for statement in (
        "INSERT INTO t PARTITION (nope = 1) VALUES (1)",
        "INSERT OVERWRITE t PARTITION (p = 1, id = 2) VALUES (1)",
        "INSERT INTO u PARTITION (p = 1) VALUES (1)",
    ):
        kind, text = refused(sql, statement)
        assert (kind, "NON_PARTITION_COLUMN" in text) == ("AnalysisException", True), text
    sql("INSERT INTO t PARTITION (P = 1) VALUES (1)")
    assert rows_of(sql, "t") == [[1, 1]]


def test_the_legacy_mapping_of_timestamps_is_refused(sql: Sql) -> None:
    key = "spark.paimon.legacy-timestamp-mapping.enabled"
    sql(f"SET {key}=true")
    for statement in ("CREATE TABLE t (a TIMESTAMP)", "SELECT 1"):
        assert "use TIMESTAMP_NTZ" in refused(sql, statement)[1]
    sql(f"RESET `{key}`; CREATE TABLE t (a TIMESTAMP)")
