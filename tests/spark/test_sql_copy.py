"""COPY INTO a table and a folder, and the record of loaded files that Java 2.0 shares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from paimon_core.errors import (
    CommitConflict,
    CorruptTable,
    InvalidArgument,
    OutsideTable,
    StorageError,
)
from paimon_core.io.local import LocalFileIO
from paimon_spark.sql.dml import copy_files, large_writes, load_history
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
    assert [row[1] for row in sql(load)] == ["SKIPPED", "SKIPPED"]
    assert sql("SELECT id FROM t ORDER BY id") == [[1], [2]]


def _killed_before(monkeypatch: pytest.MonkeyPatch, function: str, sql: Sql, load: str) -> None:
    """Run the statement; it ends, as if killed, where it would call this function."""
    monkeypatch.setattr(copy_files, function, _killed)
    with pytest.raises(KeyboardInterrupt):
        sql(load)
    monkeypatch.undo()


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def _announcements(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "warehouse").rglob("caretaker/copy-into/*.json"))


@pytest.mark.parametrize(("function", "status"), [("record_all", "SKIPPED"), ("insert", "LOADED")])
def test_a_killed_load_is_not_repeated_if_it_was_committed(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, status: str
) -> None:
    folder = _files(tmp_path / "in", a_csv="1,a,\n2,b,\n", b_csv="3,c,\n")
    load = f"COPY INTO t FROM '{folder}' FILE_FORMAT = (TYPE = CSV)"
    _killed_before(monkeypatch, function, sql, load)
    assert len(_announcements(tmp_path)) == 1
    sql("INSERT INTO t VALUES (9, 'beside', NULL)")
    assert [row[:2] for row in sql(load)] == [["a.csv", status], ["b.csv", status]]
    assert sql("SELECT id FROM t ORDER BY id") == [[1], [2], [3], [9]]
    records = [json.loads(p.read_text()) for p in (tmp_path / "warehouse").rglob("load-*")]
    assert sorted(r["rowsLoaded"] for r in records) == [1, 2]
    assert _announcements(tmp_path) == []


@pytest.mark.parametrize("way", ["executors", "upsert", "buckets"])
def test_the_commit_of_a_killed_load_is_found_however_it_was_written(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    options = {"executors": "", "upsert": "'upsert-key' = 'id'"}.get(
        way, "'primary-key' = 'id', 'bucket' = '-2'"
    )
    sql(
        f"CREATE TABLE w (id INT, v STRING) TBLPROPERTIES ('commit.user-prefix' = 'me'{options and ', '}{options})"
    )
    folder = _files(tmp_path / "in", a_csv="1,a\n")
    load = f"COPY INTO w FROM '{folder}' FILE_FORMAT = (TYPE = CSV)"
    if way == "executors":
        monkeypatch.setattr(large_writes, "LARGE_WRITE", -1)
    _killed_before(monkeypatch, "record_all", sql, load)
    assert [row[:2] for row in sql(load)] == [["a.csv", "SKIPPED"]]
    assert sql("SELECT count(*) FROM w") == [[1]]
    (user,) = sql("SELECT DISTINCT commit_user FROM `w$snapshots`")[0]
    assert user.startswith("me_")


def test_nobody_knows_what_a_killed_load_did_whose_snapshots_expired(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _files(tmp_path / "in", a_csv="1,a,\n")
    load = f"COPY INTO t FROM '{folder}' FILE_FORMAT = (TYPE = CSV)"
    _killed_before(monkeypatch, "record_all", sql, load)
    sql("INSERT INTO t VALUES (9, 'beside', NULL)")
    sql("CALL sys.expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    with pytest.raises(CorruptTable, match=r"has loaded a\.csv .*snapshots 1 to 1 have expired"):
        sql(load)
    assert len(_announcements(tmp_path)) == 1
    other = _files(tmp_path / "other", c_csv="4,d,\n")
    assert sql(f"COPY INTO t FROM '{other}' FILE_FORMAT = (TYPE = CSV)")[0][1] == "LOADED"
    assert sql(f"{load} FORCE = TRUE")[0][1] == "LOADED"
    _files(folder, b_csv="2,b,\n")
    assert [row[1] for row in sql(load)] == ["LOADED", "SKIPPED"]
    assert _announcements(tmp_path) == []


def test_of_two_loads_at_once_one_is_refused(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _files(tmp_path / "in", a_csv="1,a,\n")
    load = f"COPY INTO t FROM '{folder}' FILE_FORMAT = (TYPE = CSV)"
    insert, refused = copy_files.insert, []

    def beside(*arguments: Any) -> Any:
        with pytest.raises(CommitConflict, match=r"loads a\.csv now: process \d+") as e:
            sql(load)
        refused.append(e)
        return insert(*arguments)

    monkeypatch.setattr(copy_files, "insert", beside)
    assert sql(load)[0][1] == "LOADED"
    assert len(refused) == 1
    assert sql(load)[0][1] == "SKIPPED"
    assert sql("SELECT id FROM t") == [[1]]
    assert _announcements(tmp_path) == []


def test_a_load_that_another_one_took_for_dead_commits_nothing(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _files(tmp_path / "in", a_csv="1,a,\n")
    load = f"COPY INTO t FROM '{folder}' FILE_FORMAT = (TYPE = CSV)"
    write = load_history.Announcement.write

    def lost(self: load_history.Announcement) -> None:
        write(self)
        if self.files[0][1]:  # right before the commit
            Path(self.path).unlink()

    monkeypatch.setattr(load_history.Announcement, "write", lost)
    with pytest.raises(CommitConflict, match="was not renewed for 60 s"):
        sql(load)
    assert sql("SELECT id FROM t") == []


def test_an_export_does_not_replace_a_table(sql: Sql, tmp_path: Path) -> None:
    export = "FROM (SELECT 1 AS id) FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE"
    sql("INSERT INTO t (id) VALUES (7)")
    with pytest.raises(OutsideTable, match="is the folder of a Paimon table"):
        sql(f"COPY INTO '{tmp_path}/warehouse' {export}")
    assert sql("SELECT id FROM t") == [[7]]
    for _ in range(2):
        assert sql(f"COPY INTO '{tmp_path}/out' {export}")[0][2] == 1
