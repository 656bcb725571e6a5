"""Rows of format tables: Spark reads and writes their files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from format_catalog import session_with_formats
from pyspark.errors import PySparkException

from paimon_core.errors import (
    CommitStateUnknown,
    ImmutableOption,
    InvalidArgument,
    StorageError,
    UnsupportedFeature,
)
from paimon_core.io.local import LocalFileIO
from paimon_spark.sql.dml import format_writes
from paimon_spark.sql.errors import WriteRefused
from paimon_spark.sql.frames import format_frames
from paimon_spark.sql.run import execute
from paimon_spark.sql.text.splitter import split_statements

pytestmark = pytest.mark.spark

Run = Callable[[str], list[list[Any]]]
NESTED = ", a ARRAY<INT>, m MAP<STRING, BIGINT>, r STRUCT<x: INT, b: BINARY>"


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Run:
    own = session_with_formats(tmp_path, session)

    def run(text: str) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for statement in split_statements(text):
            rows = [list(row) for row in execute(own, statement).rows]
        return rows

    return run


def files(folder: Path) -> list[str]:
    """The data files of a table below its folder, without their own names, sorted."""
    found = [p.relative_to(folder) for p in folder.rglob("*") if p.is_file()]
    return sorted(f"{p.parent}/{''.join(p.suffixes)}" for p in found)


@pytest.mark.sampled(one_of=2)
@pytest.mark.parametrize("kind", ["csv", "json", "orc", "parquet"])
def test_values_of_all_types(kind: str, sql: Run, tmp_path: Path) -> None:
    nested = "" if kind == "csv" else NESTED
    given = (
        "" if kind == "csv" else ", array(1, NULL), map('k', 5L), named_struct('x', 1, 'b', X'61')"
    )
    sql(f"""
        CREATE TABLE t (b BOOLEAN, i TINYINT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 2),
          c CHAR(3), v VARCHAR(5), s STRING, y BINARY, da DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ{nested},
          pd DATE, pb BOOLEAN) USING {kind} PARTITIONED BY (pd, pb)
        TBLPROPERTIES ('file.compression' = '{"gzip" if kind == "json" else "zlib" if kind == "orc" else "none"}');
        INSERT INTO t VALUES (true, 1, 4, 1.5, 1e10, 12.34, 'ab', 'cd', ' q"u,o;\\\\te ', X'00ff10',
          DATE'2024-02-03', TIMESTAMP'2024-02-03 04:05:06.789',
          TIMESTAMP_NTZ'2024-02-03 04:05:06.123456'{given}, DATE'2024-01-31', true);
        INSERT INTO t (pd, pb) VALUES (DATE'2024-02-01', NULL)
    """)
    first, second = sql("SELECT * FROM t ORDER BY pd")
    values = [True, 1, 4, 1.5, 1e10, "12.34", "ab ", "cd", ' q"u,o;\\te ', "00ff10", "2024-02-03"]
    values += ["2024-02-03 04:05:06.789", "2024-02-03 04:05:06.123456"]
    values += [] if kind == "csv" else [[1, None], [["k", 5]], [1, "61"]]
    assert first == [*values, "2024-01-31", True]
    assert second == [None] * len(values) + ["2024-02-01", None]
    assert sql("SELECT s FROM t WHERE pd = DATE'2024-01-31' AND pb AND i = 1") == [[' q"u,o;\\te ']]
    assert sql("SELECT count(*), max(pd) FROM t") == [[2, "2024-02-01"]]
    end = {"json": ".json.gz"}.get(kind, f".{kind}")
    assert files(tmp_path / "default.db" / "t") == [
        f"pd=19753/pb=true/{end}",
        f"pd=19754/pb=__DEFAULT_PARTITION__/{end}",
    ]


def test_inserts_and_overwrites(sql: Run, tmp_path: Path) -> None:
    root = tmp_path / "default.db" / "t"
    sql("""
        CREATE TABLE t (id INT NOT NULL, v STRING) USING parquet PARTITIONED BY (p INT, q STRING)
          TBLPROPERTIES ('format-table.partition-path-only-value' = 'true');
        INSERT INTO t VALUES (1, 'a', 1, 'x:y'), (2, 'b', 1, NULL), (3, 'c', NULL, '');
        INSERT INTO t PARTITION (p = 2) (q, id) VALUES ('x', 4)
    """)
    rows = "SELECT p, q, id, v FROM t ORDER BY id"
    assert sql(rows) == [
        [1, "x:y", 1, "a"],
        [1, None, 2, "b"],
        [None, None, 3, "c"],
        [2, "x", 4, None],
    ]
    null = "__DEFAULT_PARTITION__"
    assert {p.rpartition("/")[0] for p in files(root)} == {
        "1/x%3Ay",
        f"1/{null}",
        f"{null}/{null}",
        "2/x",
    }
    # As in Java, an overwrite without a partition replaces those of its rows.
    sql("INSERT OVERWRITE t SELECT id + 10, v, p, q FROM t WHERE id = 2")
    assert [row[2] for row in sql(rows)] == [1, 3, 4, 12]
    sql("INSERT OVERWRITE t PARTITION (p = 1) SELECT 20, 'new', 'z'")
    assert [row[2] for row in sql(rows)] == [3, 4, 20]
    sql("INSERT OVERWRITE t PARTITION (p = 2, q = 'x') SELECT id, v FROM t WHERE false")
    assert [row[2] for row in sql(rows)] == [3, 20]
    assert (root / "2" / "x").is_dir()
    sql("SET spark.sql.sources.partitionOverwriteMode = dynamic")
    sql("INSERT OVERWRITE t PARTITION (p = 1) VALUES (21, 'n', 'y')")
    assert [row[2] for row in sql(rows)] == [3, 20, 21]
    sql("RESET spark.sql.sources.partitionOverwriteMode")
    with pytest.raises(PySparkException, match="Cannot write null to non-null column"):
        sql("INSERT INTO t SELECT CAST(NULL AS INT), 'x', 1, 'q'")
    assert [p for p in root.iterdir() if p.name.startswith(".")] == []


def test_overwrite_of_the_default_partition_replaces_that_of_null(sql: Run) -> None:
    sql("CREATE TABLE t (id INT, dt STRING) USING csv PARTITIONED BY (dt)")
    sql("INSERT INTO t VALUES (1, NULL), (2, 'a')")
    sql("INSERT OVERWRITE t PARTITION (dt = '__DEFAULT_PARTITION__') VALUES (3)")
    assert sql("SELECT * FROM t ORDER BY id") == [[2, "a"], [3, None]]


def test_a_failed_insert_leaves_the_rows(
    sql: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (id INT DEFAULT 1, v STRING DEFAULT 'x') USING csv")
    sql("INSERT INTO t VALUES (1, DEFAULT)")
    before = files(tmp_path / "default.db" / "t")

    def fail(*_: Any) -> bool:
        raise PermissionError("no")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileIO, "rename", fail)
        with pytest.raises(StorageError, match="its rows are as before"):
            sql("INSERT OVERWRITE t (id) VALUES (2)")
    assert files(tmp_path / "default.db" / "t") == before
    assert sql("SELECT * FROM t") == [[1, "x"]]
    sql("INSERT OVERWRITE t (id) SELECT 1 WHERE false")
    assert sql("SELECT * FROM t") == []


def test_csv_of_others(sql: Run, tmp_path: Path) -> None:
    sql("CREATE TABLE t (a INT, b STRING, c INT) USING csv OPTIONS ('csv.field-delimiter' ';')")
    root = tmp_path / "default.db" / "t"
    root.mkdir(parents=True)
    (root / "part-0.csv").write_text('1;"x""y";3\n\n2;"q\\"r";bad\n+3;;4;5\n')
    (root / "part-1.csv.gz").write_bytes(gzip.compress(b"9;z"))
    (root / "_SUCCESS").write_text("8;8;8\n")
    query = "SELECT * FROM t ORDER BY a NULLS LAST"
    rows = [[1, 'x"y', 3], [2, 'q"r', None], [3, None, 4], [9, "z", None], [None, None, None]]
    assert sql(query) == rows
    sql("ALTER TABLE t SET TBLPROPERTIES ('mode' = 'dropmalformed')")
    assert [row[0] for row in sql(query)] == [1, 3, 9, None]
    sql("SET spark.paimon.csv.mode = failfast")
    with pytest.raises(PySparkException, match="a value of a file is no INT: bad"):
        sql(query)
    sql("RESET spark.paimon.csv.mode")
    with pytest.raises(PySparkException, match="holds the delimiter of lines"):
        sql("INSERT INTO t VALUES (1, 'two\nlines', 1)")
    for options in (
        "'sep' = '|', 'lineSep' = '?', 'quote' = '%', 'header' = 'true', 'nullvalue' = 'null'",
        "'csv.line-delimiter' = 'abc', 'file.compression' = 'gzip'",
    ):
        sql(f"CREATE TABLE u (a INT, b STRING) USING csv TBLPROPERTIES ({options})")
        sql("INSERT INTO u VALUES (1, 'x|%y%'), (2, NULL)")
        assert sql("SELECT * FROM u ORDER BY a") == [[1, "x|%y%"], [2, None]]
        sql("DROP TABLE u")


def test_json_and_text_of_others(sql: Run, tmp_path: Path) -> None:
    sql("CREATE TABLE t (a INT, b STRING) USING json; CREATE TABLE u (v STRING) USING text")
    for name, text in (("t", '{"a": "1", "b": 2.50}\n{"b": "x", "c": 1}\n'), ("u", "x\n\ny")):
        folder = tmp_path / "default.db" / name
        folder.mkdir(parents=True)
        (folder / f"part{{0}} #[1].{name}").write_text(text)
        (folder / "plain").write_text(text)
    assert sql("SELECT * FROM t ORDER BY a LIMIT 3") == [[None, "x"], [None, "x"], [1, "2.50"]]
    (tmp_path / "default.db" / "t" / "bad").write_text('{"a": "one"}\nno json\n{"a": 3}')
    with pytest.raises(PySparkException):
        sql("SELECT * FROM t")
    sql("ALTER TABLE t SET TBLPROPERTIES ('json.ignore-parse-errors' = 'true')")
    assert sql("SELECT count(*), max(a) FROM t") == [[6, 3]]
    sql("INSERT INTO u VALUES (NULL)")
    assert sql("SELECT v, count(*) FROM u GROUP BY v ORDER BY v") == [["", 3], ["x", 2], ["y", 2]]


def test_tables_of_queries_and_of_another_kind(sql: Run) -> None:
    sql("CREATE TABLE t AS SELECT 1 AS id, 'a' AS v; CREATE TABLE u USING csv AS SELECT * FROM t")
    assert sql("SELECT t.v, u.v FROM t JOIN u ON t.id = u.id") == [["a", "a"]]
    sql("CREATE OR REPLACE TABLE t USING orc AS SELECT id + 1 AS id, v FROM t")
    assert sql("SELECT * FROM t") == [[2, "a"]]
    sql("CREATE OR REPLACE TABLE t AS SELECT id + 1 AS id FROM t; UPDATE t SET id = id + 1")
    assert sql("SELECT * FROM t") == [[4]]
    assert "Scan" in sql("EXPLAIN SELECT * FROM u WHERE id = 1")[0][0]


def test_rows_are_found_however_the_catalog_spells_the_folder(sql: Run, tmp_path: Path) -> None:
    rows = [[1, "a"], [2, "50%"], [3, "x/y"], [4, "a+b c"], [5, None]]
    values = "(1, 'a'), (2, '50%'), (3, 'x/y'), (4, 'a+b c'), (5, NULL)"
    for number, folder in enumerate(
        (f"file://{tmp_path}/x", f"file:{tmp_path}/y", f"{tmp_path}//z/")
    ):
        name = f"t{number}"
        sql(f"""
            CREATE TABLE {name} (id INT, p STRING) USING parquet PARTITIONED BY (p)
              LOCATION '{folder}';
            INSERT INTO {name} VALUES {values}
        """)
        assert sql(f"SELECT * FROM {name} ORDER BY id") == rows
        sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE id < 9")
        assert sql(f"SELECT * FROM {name} ORDER BY id") == rows


def test_a_row_of_an_unknown_partition_does_not_vanish(
    sql: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (id INT, p INT) USING parquet PARTITIONED BY (p)")
    sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    monkeypatch.setattr(format_frames, "_below_root", lambda *_: "/p=1")
    with pytest.raises(PySparkException, match=r"is in no known partition: /p=2"):
        sql("INSERT OVERWRITE t SELECT * FROM t")


def test_nan_is_one_partition(sql: Run) -> None:
    sql("CREATE TABLE t (id INT, p DOUBLE, q INT) USING parquet PARTITIONED BY (p, q)")
    sql("INSERT INTO t VALUES (1, double('NaN'), 1), (2, 1.5, 1), (3, double('NaN'), 2)")
    sql("INSERT OVERWRITE t VALUES (4, double('NaN'), 1)")
    assert sql("SELECT id FROM t ORDER BY id") == [[2], [3], [4]]
    sql("INSERT OVERWRITE t PARTITION (q = 1) SELECT 5, double('NaN')")
    assert sql("SELECT id FROM t ORDER BY id") == [[3], [5]]


@pytest.mark.parametrize("partitions", ["", "PARTITIONED BY (p)"])
def test_rows_added_while_an_overwrite_reads_are_read_too(
    partitions: str, sql: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(f"CREATE TABLE t (id INT, p INT) USING parquet {partitions}; INSERT INTO t VALUES (1, 1)")
    written = format_writes._written
    added = iter(["(2, 1)", "(3, 7)"])

    def meanwhile(*arguments: Any) -> Any:
        found = written(*arguments)
        if (values := next(added, None)) is not None:
            monkeypatch.setattr(format_writes, "_written", written)
            sql(f"INSERT INTO t VALUES {values}")
            monkeypatch.setattr(format_writes, "_written", meanwhile)
        return found

    monkeypatch.setattr(format_writes, "_written", meanwhile)
    sql("INSERT OVERWRITE t SELECT id + 10 AS id, p FROM t")
    ids = [row[0] for row in sql("SELECT id FROM t ORDER BY id")]
    assert ids == ([3, 11, 12] if partitions else [11, 12, 13])


def test_a_replacement_that_cannot_be_written_leaves_the_old_table(sql: Run) -> None:
    sql("CREATE TABLE t USING csv AS SELECT 1 AS id, 'a' AS v; CREATE TABLE u AS SELECT * FROM t")
    for name in ("t", "u"):
        with pytest.raises(PySparkException, match="holds the delimiter of lines"):
            sql(f"CREATE OR REPLACE TABLE {name} USING csv AS SELECT id, 'a\nb' AS v FROM {name}")
        with pytest.raises(UnsupportedFeature, match="column v of format table"):
            sql(f"CREATE OR REPLACE TABLE {name} USING csv AS SELECT id, array(v) AS v FROM {name}")
        assert sql(f"SELECT * FROM {name}") == [[1, "a"]]


def test_a_replacement_with_a_null_in_its_key_leaves_the_old_table(sql: Run) -> None:
    sql("CREATE TABLE t USING csv AS SELECT 1 AS id")
    keys = "TBLPROPERTIES ('primary-key' = 'id')"
    with pytest.raises(WriteRefused, match=r"null to non-null column\(id\)"):
        sql(f"CREATE OR REPLACE TABLE t {keys} AS SELECT nullif(id, 1) AS id FROM t")
    assert sql("SELECT * FROM t") == [[1]]
    sql(f"CREATE OR REPLACE TABLE t {keys} AS SELECT nullif(id, 2) AS id FROM t")
    assert sql("SELECT * FROM t") == [[1]]


def test_a_replaced_external_table_has_the_new_rows_only(sql: Run, tmp_path: Path) -> None:
    sql(f"CREATE TABLE t USING csv LOCATION '{tmp_path}/x' AS SELECT 1 AS id")
    sql(
        f"CREATE OR REPLACE TABLE t USING csv LOCATION '{tmp_path}/x' AS SELECT id + 1 AS id FROM t"
    )
    assert sql("SELECT * FROM t") == [[2]]


def test_without_a_client_of_the_store_the_old_table_stays(sql: Run, tmp_path: Path) -> None:
    sql("CREATE TABLE t USING csv AS SELECT 1 AS id")
    away = "USING csv LOCATION 's3://bucket/t' AS SELECT id FROM t"
    with pytest.raises(StorageError, match=r"no Hadoop client .*S3AFileSystem") as e:
        sql(f"CREATE OR REPLACE TABLE t {away}")
    assert "hadoop-aws" in e.value.next_step
    assert sql("SELECT * FROM t") == [[1]]
    with pytest.raises(StorageError, match=r"no Hadoop client"):
        sql(f"CREATE TABLE u {away}")
    here = f"LOCATION '{tmp_path}/[x{{'"  # no pattern
    sql(f"CREATE OR REPLACE TABLE t USING csv {here} AS SELECT id FROM t")
    assert sql("SELECT * FROM t") == [[1]]


def test_the_options_of_a_session_do_not_count_for_a_table_that_is_replaced(sql: Run) -> None:
    sql("""
        CREATE TABLE t (id INT);
        INSERT INTO t VALUES (1);
        SET spark.paimon.bucket = 7
    """)
    with pytest.raises(ImmutableOption):
        sql("SELECT * FROM t")
    sql("CREATE OR REPLACE TABLE t USING csv AS SELECT 2 AS id")
    assert sql("SELECT * FROM t") == [[2]]


def test_a_replacement_that_the_store_refuses_says_that_the_rows_are_gone(
    sql: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t USING csv AS SELECT 1 AS id")

    def fail(*_: Any) -> bool:
        raise PermissionError("no")

    monkeypatch.setattr(LocalFileIO, "rename", fail)
    with pytest.raises(CommitStateUnknown, match=r"was dropped and created again.*are gone"):
        sql("CREATE OR REPLACE TABLE t USING csv AS SELECT id FROM t")


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_values_that_can_be_no_name_of_a_folder_are_refused(
    kind: str, sql: Run, tmp_path: Path
) -> None:
    root = tmp_path / "default.db" / "t"
    sql(f"""
        CREATE TABLE t (at TIMESTAMP, page STRING) USING {kind} PARTITIONED BY (page);
        CREATE TABLE b (id INT, p BINARY) USING {kind} PARTITIONED BY (p)
          TBLPROPERTIES ('partition.legacy-name' = 'false');
        INSERT INTO t SELECT TIMESTAMP'2024-01-31 00:00:00', repeat('a', 248)
    """)
    before = files(root)
    for value in ("repeat('a', 251)", "repeat('/', 84)", "repeat('é', 126)"):
        with pytest.raises(InvalidArgument, match=r"page of format table \S+t is too long") as e:
            sql(f"INSERT INTO t SELECT NULL, {value}")
        assert "shorter value" in e.value.next_step
    with pytest.raises(InvalidArgument, match="too long"):
        sql(f"INSERT OVERWRITE t PARTITION (page = '{'a' * 251}') SELECT NULL WHERE false")
    with pytest.raises(InvalidArgument, match=r"page of format table \S+t has a NUL character"):
        sql("INSERT INTO t SELECT NULL, concat('a', chr(0))")
    with pytest.raises(InvalidArgument, match=r"column p of format table \S+b has a NUL character"):
        sql("INSERT INTO b SELECT 1, X'6100'")
    assert files(root) == before
    assert files(tmp_path / "default.db" / "b") == []
    assert sql("SELECT length(page) FROM t") == [[248]]
