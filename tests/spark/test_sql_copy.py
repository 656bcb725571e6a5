"""COPY INTO a table and a folder, and the record of loaded files that Java 2.0 shares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_core.errors import InvalidArgument, StorageError
from paimon_core.io.local import LocalFileIO
from paimon_spark.sql.errors import SqlSyntaxError

pytestmark = pytest.mark.spark


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Sql:
    made = Sql(tmp_path / "warehouse", session)
    made("CREATE TABLE t (id INT, name STRING DEFAULT 'none', day DATE)")
    return made


def _files(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_files_are_loaded_once(sql: Sql, tmp_path: Path) -> None:
    folder = _files(tmp_path / "in", a_csv="1|ann|2024-01-31\n2|\\N|\n", skip_txt="no,csv")
    load = f"""COPY INTO t FROM '{folder}' FILE_FORMAT = (type = csv, FIELD_DELIMITER = '|',
        NULL_IF = ('\\\\N')) PATTERN = '.*\\.csv'"""
    assert sql(load) == [["a.csv", "LOADED", 2, 2, 0, None]]
    # The null gets the default of the column.
    expected = [[1, "ann", "2024-01-31"], [2, "none", None]]
    assert sql("SELECT * FROM t ORDER BY id") == expected
    _files(folder, b_csv="3|bob|2024-02-01\n")
    assert sql(load) == [["b.csv", "LOADED", 1, 1, 0, None], ["a.csv", "SKIPPED", 0, 0, 0, None]]
    records = (tmp_path / "warehouse").rglob("copy-into/history/load-*-*")
    paths = sorted(json.loads(p.read_text())["filePath"] for p in records)
    assert paths == [f"file:{folder}/a.csv", f"file:{folder}/b.csv"]
    assert sql(f"{load} FORCE = TRUE")[0][1] == "LOADED"
    assert sql("SELECT count(*) FROM t") == [[6]]
    (folder / "a.csv").write_text("4|dora|\n")
    assert sql(load)[0][:3] == ["a.csv", "LOADED", 1]


def test_errors_abort_skip_rows_or_skip_files(sql: Sql, tmp_path: Path) -> None:
    bad = '{"id": 1, "name": "a"}\n{"id": "x", "name": "b"}\nno json\n'
    folder = _files(tmp_path / "in", bad_json=bad, good_json='{"name": "c", "id": 3, "more": 0}\n')
    load = f"COPY INTO t (id, name) FROM '{folder}' FILE_FORMAT = (TYPE = JSON) FORCE = TRUE"
    with pytest.raises(Exception, match="Malformed"):
        sql(load)
    assert sql("SELECT * FROM t") == []
    answer = sql(f"{load} ON_ERROR = SKIP_FILE")
    assert [row[:5] for row in answer] == [
        ["bad.json", "LOAD_FAILED", 0, 3, 2],
        ["good.json", "LOADED", 1, 1, 0],
    ]
    assert sql("SELECT id, name FROM t") == [[3, "c"]]
    answer = sql(f"{load} ON_ERROR = CONTINUE")
    assert answer[0][:5] == ["bad.json", "PARTIALLY_LOADED", 1, 3, 2]
    assert answer[0][5] == "Malformed record: no json"
    assert sql("SELECT id FROM t ORDER BY id") == [[1], [3], [3]]
    (folder / "bad.json").write_text('{"id": "x"}\n')
    with pytest.raises(InvalidArgument, match="Cast failure in column 'id'"):
        sql(load)


def test_exports_can_be_loaded(sql: Sql, tmp_path: Path) -> None:
    sql("INSERT INTO t VALUES (1, 'a', date '2024-01-31'), (2, 'b', NULL)")
    for kind in ("CSV", "JSON", "PARQUET"):
        out = tmp_path / kind
        query = "(SELECT * FROM t WHERE id IN (1, 2))" if kind == "JSON" else "t"
        copied = sql(f"COPY INTO '{out}' FROM {query} FILE_FORMAT = (TYPE = {kind})")
        assert (copied[0][0], copied[0][2]) == (str(out), 2)
        with pytest.raises(Exception, match="exists"):
            sql(f"COPY INTO '{out}' FROM t FILE_FORMAT = (TYPE = {kind})")
        sql(f"CREATE TABLE {kind} LIKE t")
        loaded = sql(
            f"COPY INTO {kind} FROM '{out}' FILE_FORMAT = (TYPE = {kind}) PATTERN = '^part'"
        )
        assert sum(row[2] for row in loaded) == 2
        assert sql(f"SELECT * FROM {kind} ORDER BY id") == sql("SELECT * FROM t ORDER BY id")


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("FILE_FORMAT = (TYPE = ORC)", "Unsupported file format type"),
        ("FILE_FORMAT = (HEADER = TRUE)", "must include TYPE"),
        ("FILE_FORMAT = (TYPE = CSV, TYPE = CSV)", "Duplicate FILE_FORMAT option"),
        ("FILE_FORMAT = (TYPE = JSON, SKIP_HEADER = 1)", "Unsupported FILE_FORMAT options"),
        ("FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 2)", "SKIP_HEADER supports only 0 or 1"),
        ("FILE_FORMAT = (TYPE = CSV, MODE = 'DROPMALFORMED')", "MODE cannot be specified"),
    ],
)
def test_wrong_options_are_named(sql: Sql, tmp_path: Path, rest: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        sql(f"COPY INTO t FROM '{tmp_path}' {rest}")


def test_wrong_statements(sql: Sql, tmp_path: Path) -> None:
    csv = "FILE_FORMAT = (TYPE = CSV)"
    with pytest.raises(SqlSyntaxError):
        sql(f"COPY INTO t FROM '{tmp_path}'")
    with pytest.raises(InvalidArgument, match="Duplicate columns"):
        sql(f"COPY INTO t (id, ID) FROM '{tmp_path}' {csv}")
    with pytest.raises(InvalidArgument, match="does not exist in target table"):
        sql(f"COPY INTO t (no) FROM '{tmp_path}' {csv}")
    for query in ("DROP TABLE t", "INSERT INTO t VALUES (1)", ""):
        with pytest.raises(InvalidArgument, match="quer"):
            sql(f"COPY INTO '{tmp_path}/out' FROM ({query}) {csv}")


def test_rows_that_are_loaded_without_a_record_are_told(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the store alone would let the operator load them again."""
    folder = _files(tmp_path / "in", a_csv="1,a,\n", b_csv="2,b,\n")
    write_bytes = LocalFileIO.write_bytes

    def full(store: LocalFileIO, path: str, data: bytes) -> None:
        if b"a.csv" in data:
            raise OSError(28, "No space left on device")
        write_bytes(store, path, data)

    monkeypatch.setattr(LocalFileIO, "write_bytes", full)
    load = f"COPY INTO t FROM '{folder}' FILE_FORMAT = (TYPE = CSV)"
    with pytest.raises(StorageError, match=r"rows of a\.csv are committed to table .* no record"):
        sql(load)
    monkeypatch.undo()
    (folder / "a.csv").rename(tmp_path / "a.csv")
    assert sql(load) == [["b.csv", "SKIPPED", 0, 0, 0, None]]
    assert sql("SELECT id FROM t ORDER BY id") == [[1], [2]]
