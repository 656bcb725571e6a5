"""SQL on catalogs by name, and what catalogs refuse; no statement here starts Spark."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pyarrow as pa
import pytest
from command_line import caretaker
from sql_sessions import Sql

from paimon_core.catalog.open import open_catalog
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.rewritten_schemas import OnlyOlder
from paimon_core.ddl.create import Column
from paimon_core.errors import CommitConflict, CommitStateUnknown, PaimonError, StorageError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.sink.write_session import commit_overwrite, prepare_rows, write_rows
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.jobs.versions import as_latest, rollback
from paimon_spark.sql.ddl.replace_table import replace_with
from paimon_spark.sql.ddl.table_clauses import read_clauses
from paimon_spark.sql.errors import SqlSyntaxError, error_type
from paimon_spark.sql.frames.global_tables import read_global_table
from paimon_spark.sql.text.tokens import Words
from paimon_spark.sql.text.types import read_type


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    return Sql(tmp_path / "lake")


def refused(sql: Sql, statement: str) -> tuple[str, str]:
    with pytest.raises(PaimonError) as caught:
        sql(statement)
    return error_type(caught.value), str(caught.value)


def values(sql: Sql, name: list[str]) -> list[list[object]]:
    table = sql.session.open(sql.session.table_name(name))
    return [
        list(row.values())
        for batch in read_batch(batch_scan_of(table))
        for row in batch.drop_columns(["_VALUE_KIND"]).to_pylist()
    ]


def test_two_catalogs(sql: Sql, tmp_path: Path) -> None:
    sql(f"SET spark.sql.catalog.other.warehouse={tmp_path / 'other'}")
    sql("CREATE DATABASE other.d; CREATE TABLE other.d.t (a INT); INSERT INTO other.d.t VALUES (1)")
    assert sql("SHOW CATALOGS") == [["other"], ["paimon"]]
    assert sql("SHOW DATABASES IN other") == [["d"]]
    assert sql("SHOW DATABASES") == [["default"]]
    sql("USE other.d; USE other; USE CATALOG other")
    assert sql("SHOW CURRENT NAMESPACE") == [["other", "d"]]
    sql("INSERT INTO t VALUES (2); CALL sys.create_tag('t', 'mine')")
    assert values(sql, ["t"]) == [[1], [2]]
    sql("USE paimon")
    assert sql("CALL other.sys.delete_tag('d.t', 'mine')") == [[True]]
    assert sql("SHOW TAGS other.d.t") == []
    sql("ALTER TABLE other.d.t RENAME TO other.d.u")
    assert sql("SHOW TABLES IN other.d") == [["d", "u", False]]
    assert "same catalog" in refused(sql, "ALTER TABLE other.d.u RENAME TO paimon.d.v")[1]
    assert refused(sql, "SHOW TABLES IN nowhere.d")[0] == "AnalysisException"
    kind, text = refused(sql, "DROP TABLE nowhere.d.t")
    assert kind == "IllegalArgumentException"
    assert "catalog nowhere does not exist" in text
    assert "single namespace" in refused(sql, "DROP TABLE paimon.x.d.t")[1]


def test_the_default_database_of_a_catalog(sql: Sql, tmp_path: Path) -> None:
    sql(f"SET spark.sql.catalog.plain.warehouse={tmp_path / 'plain'}; USE plain; SHOW TABLES")
    assert sql("CREATE TABLE t (a INT); SHOW CURRENT NAMESPACE") == [["plain", "default"]]
    sql(f"SET spark.sql.catalog.named.warehouse={tmp_path / 'named'}")
    sql(
        "SET spark.sql.catalog.named.defaultDatabase=mine; USE CATALOG named; CREATE TABLE t (a INT)"
    )
    assert sql("SHOW CURRENT NAMESPACE") == [["named", "mine"]]
    assert sql("SHOW DATABASES") == [["mine"]]
    sql("USE paimon; USE named")
    assert sql("SHOW TABLES") == [["mine", "t", False]]


def test_properties_of_databases_in_a_jdbc_catalog(tmp_path: Path) -> None:
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path / 'catalog.db'}",
        "warehouse": str(tmp_path / "lake"),
        "jdbc.password": "hidden",
    }
    sql = Sql(tmp_path / "unused")
    sql.session.defined = {"prod": options}
    sql.session.open_catalog = lambda warehouse, given: open_catalog({**options, **given})
    sql.session.warehouse = "catalog:prod"
    sql("CREATE DATABASE d COMMENT 'mine' WITH DBPROPERTIES ('team' = 'ada')")
    sql("ALTER DATABASE d SET DBPROPERTIES ('team' = 'bob')")
    with pytest.raises(SqlSyntaxError, match="owner is a reserved namespace property"):
        sql("ALTER DATABASE d SET DBPROPERTIES ('owner' = 'bob')")
    assert sql("DESCRIBE DATABASE EXTENDED d")[2:] == [
        ["Comment", "mine"],
        ["Location", str(tmp_path / "lake" / "d.db")],
        ["Owner", getpass.getuser()],
        ["Properties", "((team,bob))"],
    ]
    sql("CREATE TABLE prod.d.t (a INT) TBLPROPERTIES ('k.v' = 'x'); INSERT INTO d.t VALUES (1)")
    assert values(sql, ["d", "t"]) == [[1]]
    options_of, _ = read_global_table(
        sql.session, sql.session.table_name(["sys", "all_table_options"])
    )
    shown = [list(row.values()) for row in options_of.to_pylist()]
    assert shown == [
        ["d", "t", "k.v", "x"],
        ["d", "t", "owner", getpass.getuser()],
        ["d", "t", "path", f"{tmp_path}/lake/d.db/t"],
    ]
    assert sql("SHOW COLUMNS IN sys.All_Table_Options")[2:] == [["key"], ["value"]]
    sql.session.storage = options
    of_catalog, _ = read_global_table(
        sql.session, sql.session.table_name(["sys", "catalog_options"])
    )
    assert "hidden" not in str(of_catalog.to_pylist())
    sql("DROP DATABASE d CASCADE")
    assert sql("SHOW DATABASES") == []


def test_the_tables_of_sys(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, d INT) PARTITIONED BY (d); INSERT INTO t VALUES (1, 7), (2, 7)")
    assert sql("SHOW TABLES IN sys")[0] == ["sys", "tables", False]
    rows, _ = read_global_table(sql.session, sql.session.table_name(["sys", "partitions"]))
    assert rows.select(["table_name", "partition_name", "record_count"]).to_pylist() == [
        {"table_name": "t", "partition_name": "d=7", "record_count": 2}
    ]


def test_a_replaced_table_refuses_the_rows_of_an_older_writer(sql: Sql) -> None:
    """All of their columns would be null, and Java cannot read nulls in NOT NULL columns."""
    sql("CREATE TABLE t (a INT NOT NULL, s STRUCT<x: INT, y: STRING>)")
    table = sql.session.open(sql.session.table_name(["t"]), to_write=True)
    sql("REPLACE TABLE t (b INT NOT NULL, s STRUCT<z: INT, y: STRING>)")
    struct = pa.struct([("x", pa.int32()), ("y", pa.string())])
    row = {"a": pa.array([7], pa.int32()), "s": pa.array([{"x": 8, "y": "old"}], struct)}
    with pytest.raises(CommitConflict, match="replaced: schema 1 has none of"):
        write_rows(table, pa.table(row), env=sql.session.env)
    sql("INSERT INTO t VALUES (1, NULL)")
    assert values(sql, ["t"]) == [[1, None]]
    ids = [f.id for f in sql.session.open(sql.session.table_name(["t"])).schema.fields]
    assert ids == [4, 5]


def test_a_replacement_that_is_killed_leaves_no_rows_of_nulls_among_new_ones(
    sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer commits right before the new schema, and nobody removes its rows."""
    sql("CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (1)")
    commit_schema = FileStoreTable.commit_schema

    def beside(replaced: FileStoreTable, schema: TableSchema) -> bool:
        sql("INSERT INTO t VALUES (7)")
        assert commit_schema(replaced, schema)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileStoreTable, "commit_schema", beside)
        with pytest.raises(KeyboardInterrupt):
            sql("CREATE OR REPLACE TABLE t (a INT NOT NULL)")
    assert "run it again, or TRUNCATE TABLE" in refused(sql, "INSERT INTO t VALUES (8)")[1]
    sql("CREATE OR REPLACE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (9)")
    assert values(sql, ["t"]) == [[9]]


@pytest.mark.parametrize("bucket", [1, -1])
def test_writers_beside_the_new_schema_of_a_table_leave_no_rows_of_nulls(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, bucket: int
) -> None:
    """Rows of the old schema are still there for a moment, and each commit compacts what is there."""
    key = f"'primary-key' = 'a', 'bucket' = '{bucket}', 'deletion-vectors.enabled' = 'true'"
    sql(f"CREATE TABLE t (a INT NOT NULL) TBLPROPERTIES ({key})")
    table = sql.session.open(sql.session.table_name(["t"]), to_write=True)
    rows = pa.table({"a": pa.array([7, 8], pa.int32())})
    commit_schema = FileStoreTable.commit_schema

    def beside(replaced: FileStoreTable, schema: TableSchema) -> bool:
        monkeypatch.undo()
        write_rows(table, rows, env=sql.session.env)
        assert commit_schema(replaced, schema)
        with pytest.raises(CommitConflict, match="replaced: schema 1 has none of"):
            write_rows(table, rows, env=sql.session.env)
        with pytest.raises(CommitConflict, match="not replaced to the end: snapshot"):
            sql("INSERT INTO t VALUES (9)")
        return True

    monkeypatch.setattr(FileStoreTable, "commit_schema", beside)
    sql(f"CREATE OR REPLACE TABLE t (a INT NOT NULL) TBLPROPERTIES ({key})")
    assert values(sql, ["t"]) == []
    with pytest.raises(CommitConflict, match="replaced: schema 1 has none of"):
        write_rows(table, rows, env=sql.session.env)


@pytest.mark.parametrize("rows_before", [0, 1])
def test_rows_that_are_committed_while_a_table_is_replaced_go_too(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, rows_before: int
) -> None:
    sql("CREATE TABLE t (a INT NOT NULL)" + rows_before * "; INSERT INTO t VALUES (1)")
    table = sql.session.open(sql.session.table_name(["t"]), to_write=True)
    commit_schema = FileStoreTable.commit_schema

    def beside(replaced: FileStoreTable, schema: TableSchema) -> bool:
        write_rows(table, pa.table({"a": pa.array([7], pa.int32())}), env=sql.session.env)
        return commit_schema(replaced, schema)

    monkeypatch.setattr(FileStoreTable, "commit_schema", beside)
    sql("CREATE OR REPLACE TABLE t (b STRING NOT NULL)")
    assert values(sql, ["t"]) == []


@pytest.mark.parametrize(
    ("beside", "rows"),
    [
        ("CREATE OR REPLACE TABLE t (c INT NOT NULL); INSERT INTO t VALUES (7)", []),
        ("DROP TABLE t; CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (7)", [[7]]),
        ("ALTER TABLE t RENAME TO u", None),
    ],
    ids=["replaced", "created again", "renamed"],
)
def test_a_table_that_is_no_longer_the_same_is_not_replaced(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, beside: str, rows: list[list[int]] | None
) -> None:
    """A schema that comes between the rows of others and their schema would make all of them null."""
    sql("CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (1)")
    commit_schema = FileStoreTable.commit_schema

    def late(replaced: FileStoreTable, schema: TableSchema) -> bool:
        monkeypatch.undo()
        sql(beside)
        return commit_schema(replaced, schema)

    monkeypatch.setattr(FileStoreTable, "commit_schema", late)
    if rows == []:
        sql("CREATE OR REPLACE TABLE t (b STRING NOT NULL)")
    else:
        assert "was dropped" in refused(sql, "CREATE OR REPLACE TABLE t (b STRING NOT NULL)")[1]
    if rows is None:
        assert sql("SHOW TABLES") == [["default", "u", False]]
    else:
        assert values(sql, ["t"]) == rows


@pytest.mark.parametrize(
    ("beside", "rows"),
    [
        ("INSERT INTO t VALUES ('mine')", [["mine"]]),
        ("CREATE OR REPLACE TABLE t (c INT NOT NULL); INSERT INTO t VALUES (7)", [[7]]),
    ],
    ids=["written", "replaced"],
)
@pytest.mark.parametrize("filled", [False, True])
def test_what_others_write_once_a_table_has_its_new_schema_stays(
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
    beside: str,
    rows: list[list[object]],
    *,
    filled: bool,
) -> None:
    sql("CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (1)")
    commit_schema, session = FileStoreTable.commit_schema, sql.session
    name, columns = session.table_name(["t"]), [Column("b", read_type(Words("string")))]

    def early(replaced: FileStoreTable, schema: TableSchema) -> bool:
        monkeypatch.undo()
        assert commit_schema(replaced, schema)
        sql(beside)
        return True

    def fill(coming: FileStoreTable) -> Sequence[CommitMessage] | None:
        data = pa.table({"b": ["new"]})
        return (
            prepare_rows(coming, data, env=session.env, user="u", overwrite=True)
            if filled
            else None
        )

    monkeypatch.setattr(FileStoreTable, "commit_schema", early)
    left = replace_with(session, name, columns, read_clauses(Words("")), fill)
    assert (left is not None) == filled
    if left is not None:
        table, written = left
        check = OnlyOlder(table, table.schema)
        with pytest.raises(CommitConflict, match=r"replaced"):
            commit_overwrite(table, written, env=session.env, user="u", check=check)
    assert values(sql, ["t"]) == rows
    assert (
        caretaker("verify", "default.t", "-w", Path(session.open(name).root).parents[1]).code == 0
    )


def test_a_column_that_is_added_to_a_replaced_table_does_not_stop_its_rows(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (1)")
    session = sql.session
    name, columns = session.table_name(["t"]), [Column("b", read_type(Words("string")))]

    def fill(coming: FileStoreTable) -> Sequence[CommitMessage]:
        data = pa.table({"b": ["new"]})
        return prepare_rows(coming, data, env=session.env, user="u", overwrite=True)

    left = replace_with(session, name, columns, read_clauses(Words("")), fill)
    assert left is not None
    table, written = left
    sql("ALTER TABLE t ADD COLUMN c INT")
    check = OnlyOlder(table, table.schema)
    commit_overwrite(table, written, env=session.env, user="u", check=check)
    assert values(sql, ["t"]) == [["new", None]]


def test_a_store_that_fails_while_a_table_is_replaced_is_told_with_the_next_step(
    sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")

    def fails(_: FileStoreTable, __: TableSchema) -> bool:
        raise StorageError("no reply")

    with monkeypatch.context() as patch:
        patch.setattr(FileStoreTable, "commit_schema", fails)
        with pytest.raises(
            CommitStateUnknown, match=r"default\.t may be empty.*no reply.* -> look at"
        ):
            sql("CREATE OR REPLACE TABLE t (b STRING)")
    assert values(sql, ["t"]) == []
    sql("CREATE OR REPLACE TABLE t (b STRING); INSERT INTO t VALUES ('x')")
    assert values(sql, ["t"]) == [["x"]]


@pytest.mark.parametrize("job", ["rollback", "rollback_to_as_latest"])
def test_no_job_goes_back_to_before_a_table_was_replaced(
    sql: Sql, tmp_path: Path, job: str
) -> None:
    sql("CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (1)")
    sql("CREATE OR REPLACE TABLE t (b STRING NOT NULL); INSERT INTO t VALUES ('x')")
    done = caretaker("run", job, "default.t", "-w", str(tmp_path / "lake"), "--snapshot", "1")
    assert "was replaced after snapshot 1" in done.err
    assert "VERSION AS OF 1" in done.err
    assert values(sql, ["t"]) == [["x"]]


@pytest.mark.parametrize("job", [rollback, as_latest], ids=["rollback", "rollback_to_as_latest"])
@pytest.mark.parametrize("late", [False, True], ids=["before it is planned", "while it is planned"])
def test_no_job_goes_back_to_before_a_table_that_is_replaced_meanwhile(
    sql: Sql, tmp_path: Path, job: ModuleType, *, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    plain = job.target_of

    def slow(*given: Any) -> Snapshot:
        found: Snapshot | None = plain(*given) if late else None
        sql("CREATE OR REPLACE TABLE t (b STRING NOT NULL)")
        return found or cast("Snapshot", plain(*given))

    monkeypatch.setattr(job, "target_of", slow)
    name = f"rollback{'_to_as_latest' if job is as_latest else ''}"
    done = caretaker("run", name, "default.t", "-w", str(tmp_path / "lake"), "--snapshot", "1")
    assert done.code in (ExitCode.REFUSED, ExitCode.CONFLICT), done.err
    assert values(sql, ["t"]) == []


@pytest.mark.parametrize(
    "job",
    [["compact", "--strategy", "full"], ["rescale", "--bucket-num", "2"], ["sort_compact"]],
    ids=lambda job: job[0],
)
def test_no_job_rewrites_rows_from_before_a_table_was_replaced(
    sql: Sql, tmp_path: Path, job: list[str]
) -> None:
    """A rollback of Java leaves them; without their columns, all values would be null."""
    options = {"bucket": "-1", "clustering.columns": "b"}
    if job[0] != "sort_compact":
        options = {"bucket": "1", "bucket-key": "b"}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    sql(f"CREATE OR REPLACE TABLE t (b INT) TBLPROPERTIES ({listed})")
    table = sql.session.open(sql.session.table_name(["t"]))
    for late in table.snapshots.ids()[2:]:
        Path(table.paths.snapshot(late)).unlink()
    Path(table.paths.snapshot_dir, "LATEST").write_text("2")
    done = caretaker("run", *job, "-w", str(tmp_path / "lake"), "default.t")
    assert done.code == ExitCode.REFUSED, done.err
    assert "all values of these rows would be lost" in done.err
    verified = caretaker("verify", "default.t", "-w", tmp_path / "lake", "--json").json
    assert [f["problem"] for f in verified["findings"]] == ["replaced_columns"]
    sql("TRUNCATE TABLE t")
    assert caretaker("verify", "default.t", "-w", tmp_path / "lake").code == 0


def test_rows_without_any_of_the_columns_that_were_added_since_are_rewritten(
    sql: Sql, tmp_path: Path
) -> None:
    sql("CREATE TABLE t (a INT) TBLPROPERTIES ('compaction.min.file-num' = '2')")
    sql("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    sql("ALTER TABLE t ADD COLUMN b INT; ALTER TABLE t DROP COLUMN a")
    done = caretaker(
        "run", "compact", "default.t", "-w", str(tmp_path / "lake"), "--strategy", "full"
    )
    assert done.code == 0, done.err
    assert caretaker("verify", "default.t", "-w", tmp_path / "lake").code == 0


def test_replacing_a_table_keeps_its_history(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, b STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '2')")
    sql("INSERT INTO t VALUES (1, 'old')")
    sql("REPLACE TABLE t (x BIGINT, y DATE) TBLPROPERTIES ('bucket' = '-1')")
    assert [row[:2] for row in sql("DESC t")] == [["x", "bigint"], ["y", "date"]]
    assert values(sql, ["t"]) == []
    sql("INSERT INTO t VALUES (5, date '2024-01-31')")
    old = sql.session.open(sql.session.table_name(["t"]), options={"scan.snapshot-id": "1"})
    found = [row for batch in read_batch(batch_scan_of(old)) for row in batch.to_pylist()]
    assert found == [{"_VALUE_KIND": 0, "a": 1, "b": "old"}]
    assert "NOT_FOUND" in refused(sql, "REPLACE TABLE nothing (a INT)")[1]
    assert "partition keys" in refused(sql, "REPLACE TABLE t (a INT) PARTITIONED BY (a)")[1]
    assert len(values(sql, ["t"])) == 1


def test_what_is_refused_as_in_java(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, m MAP<INT, INT>, d STRING) PARTITIONED BY (d)")
    sql("INSERT INTO t VALUES (1, NULL, 'x')")
    for statement, text in {
        "ANALYZE TABLE t COMPUTE STATISTICS NOSCAN": "NOSCAN is ineffective with paimon",
        "ANALYZE TABLE t PARTITION (d = 'x') COMPUTE STATISTICS": "partition is not supported",
        "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS m": "not supported",
        "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS none": "not found",
        "CREATE TABLE u (a INT) USING paimon1": "Provider 'paimon1' is not supported",
        "CREATE TABLE u (a INT) STORED AS PARQUET": "STORED AS of another format than Paimon",
        "CREATE TABLE u (a INT) ROW FORMAT DELIMITED": "ROW FORMAT of another format than Paimon",
        "CREATE TABLE u (a INT) ROW FORMAT SERDE 'org.x.Y' STORED AS ORC": "ROW FORMAT of another",
        "CREATE TABLE u LOCATION '/x'": "does not support specifying the table path",
        "CREATE TABLE u TBLPROPERTIES ('type' = 'object-table')": "object tables",
        "CREATE TABLE u LIKE t STORED AS PARQUET": "STORED AS is not supported",
        "CREATE DATABASE d LOCATION '/x'": "Cannot specify location",
        "ALTER TABLE t SET LOCATION '/x'": "SET LOCATION is not supported",
        "CREATE FUNCTION f AS 'x'": "does not support CREATE FUNCTION",
        "DROP FUNCTION sys.max_pt": "does not support DROP FUNCTION",
        "DROP FUNCTION default.f": "ROUTINE_NOT_FOUND",
        "CALL sys.compact(table => 't', partitions => 'd=x', where => 'd = 1')": "cannot be used together",
    }.items():
        assert text in refused(sql, statement)[1], statement
    sql("ALTER TABLE t DROP PARTITION (d = 'x'); CALL sys.delete_tag('t', 'nothing')")
    assert sql("CALL sys.reset_consumer('t', 'nobody')") == [[True]]
    assert "NOT_FOUND" in refused(sql, "ALTER TABLE t DROP PARTITION (d = 'x')")[1]


def test_partitions_are_named_as_in_spark(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, p1 TIMESTAMP_NTZ, p2 STRING) PARTITIONED BY (p1, p2)")
    sql("INSERT INTO t VALUES (1, timestamp_ntz '2024-06-01 10:30:01', 'x')")
    assert sql("SHOW PARTITIONS t") == [["p1=2024-06-01 10%3A30%3A01/p2=x"]]
    sql("CREATE TABLE u (a INT, p1 STRING, p2 STRING) PARTITIONED BY (p1, p2)")
    sql("INSERT INTO u VALUES (1, 'x', 'y'); ALTER TABLE u DROP PARTITION (p1 = 'none')")
    sql("ALTER TABLE u ADD PARTITION (p1 = 'new', p2 = 'y')")
    assert sql("SHOW PARTITIONS u") == [["p1=x/p2=y"]]
    sql("ALTER TABLE u ADD IF NOT EXISTS PARTITION (p1 = 'x', p2 = 'y')")
    assert "ALREADY_EXIST" in refused(sql, "ALTER TABLE u ADD PARTITION (p1 = 'x', p2 = 'y')")[1]
    assert "must match" in refused(sql, "ALTER TABLE u ADD PARTITION (p1 = 'x')")[1]


def test_assignments_may_name_the_table(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'x')")
    sql("UPDATE t AS s SET s.b = 'y' WHERE a = 1")
    assert values(sql, ["t"]) == [[1, "y"]]
    sql("UPDATE t SET default.t.b = 'z'")
    assert values(sql, ["t"]) == [[1, "z"]]
    assert refused(sql, "UPDATE t SET s.b = 'y'")[0] == "AnalysisException"


def test_deleting_from_a_compacted_table_of_another_engine(sql: Sql) -> None:
    sql("""
        CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1',
            'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum', 'write-only' = 'true');
        INSERT INTO t VALUES (1, 1), (2, 2);
        INSERT INTO t VALUES (1, 10)
    """)
    assert "please use 'COMPACT' procedure first" in refused(sql, "DELETE FROM t WHERE id = 1")[1]
    assert sorted(values(sql, ["t"])) == [[1, 11], [2, 2]]
    sql("CALL sys.compact('t'); DELETE FROM t WHERE id = 1")
    assert values(sql, ["t"]) == [[2, 2]]
    sql("INSERT INTO t VALUES (1, 5), (2, 1)")
    assert sorted(values(sql, ["t"])) == [[1, 5], [2, 3]]
