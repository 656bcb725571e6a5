"""table, database, write, delete and read --follow on the command line."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import Ran, caretaker
from pyarrow import parquet

from paimon_core import Table, open_catalog
from paimon_core.io.local import LocalFileIO

CHECKOUT = Path(__file__).parents[4]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    place = tmp_path / "lake"
    assert caretaker("database", "create", "db", "-w", place).code == 0
    return place


def table(lake: Path) -> Table:
    return open_catalog(str(lake)).get_table("db.t")


def create(lake: Path, *more: str) -> Ran:
    columns = ("--column", "k INT", "--column", "v STRING COMMENT 'it''s a value'")
    return caretaker("table", "create", "db.t", "-w", lake, *columns, *more)


def typed(monkeypatch: pytest.MonkeyPatch, content: bytes, *, terminal: bool = False) -> None:
    """Standard input holds this."""
    stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")
    if terminal:
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", stream)


def rows(lake: Path) -> list[list[Any]]:
    ran = caretaker("read", "db.t", "-w", lake)
    assert ran.code == 0, ran.err
    return sorted(row[1:] for row in ran.rows)


# --- databases and tables -----------------------------------------------------------------------


def test_databases(lake: Path) -> None:
    assert caretaker("database", "list", "-w", lake).out == "db\n"
    assert caretaker("database", "create", "db", "-w", lake).code == 2
    assert caretaker("database", "create", "db", "-w", lake, "--if-not-exists").code == 3
    create(lake)
    assert caretaker("database", "drop", "db", "-w", lake, "--yes").code == 2
    ran = caretaker("database", "drop", "db", "-w", lake, "--cascade", "--dry-run", "--json")
    assert (ran.code, ran.json["tables"], ran.json["changed"]) == (0, ["t"], False)
    assert caretaker("database", "drop", "db", "-w", lake, "--cascade", "--yes").code == 0
    assert caretaker("database", "list", "-w", lake, "--json").json["databases"] == []
    assert caretaker("database", "drop", "db", "-w", lake, "--yes").code == 2
    assert caretaker("database", "drop", "db", "-w", lake, "--if-exists").code == 3


def test_create_and_alter(lake: Path) -> None:
    ran = create(lake, "--primary-key", "k", "--option", "bucket=2", "--comment", "c")
    assert ran.code == 0, ran.err
    made = table(lake)
    assert (made.primary_keys, made.options["bucket"], made.comment) == (["k"], "2", "c")
    assert made.core.schema.fields[1].description == "it's a value"
    assert create(lake).code == 2
    assert create(lake, "--if-not-exists").code == 3

    changes = ("--add", "n DECIMAL(10, 2)", "--rename", "v=w", "--type", "n DECIMAL(12, 2)")
    more = ("--set", "snapshot.num-retained.max=20", "--column-comment", "w=x=y", "--comment", "d")
    assert caretaker("table", "alter", "db.t", "-w", lake, *changes, *more).code == 0
    made = table(lake)
    assert made.schema.names == ["k", "w", "n"]
    assert made.schema.field("n").type == pa.decimal128(12, 2)
    assert made.core.schema.fields[1].description == "x=y"
    assert (made.comment, made.options["snapshot.num-retained.max"]) == ("d", "20")
    more = ("--drop", "n", "--unset", "snapshot.num-retained.max", "--default", "w=none")
    assert caretaker("table", "alter", "db.t", "-w", lake, *more).code == 0
    assert table(lake).core.schema.fields[1].default_value == "none"
    for wrong in ([], ["--set", "x"], ["--add", "n"], ["--drop", "k"], ["--add", "n BIGNUM"]):
        assert caretaker("table", "alter", "db.t", "-w", lake, *wrong).code != 0


def test_create_like_a_file(lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"a": pa.array([1], pa.int16()), "b": [b"x"]}), file)
    like = ("--like-file", str(file), "--column", "c DATE", "--partitioned-by", "c")
    assert caretaker("table", "create", "db.t", "-w", lake, *like).code == 0
    assert [str(t) for t in table(lake).schema.types] == ["int16", "binary", "date32[day]"]
    assert caretaker("table", "create", "db.u", "-w", lake, "--like-file", "nothing").code == 2
    assert caretaker("table", "create", "db.u", "-w", lake).code == 2


def test_rename_and_drop(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(lake)
    table(lake).append([{"k": 1, "v": "a"}])
    assert caretaker("table", "rename", "db.t", "db.u", "-w", lake).code == 0
    assert caretaker("table", "rename", "db.u", "db.t", "-w", lake).code == 0
    ran = caretaker("table", "drop", "db.t", "-w", lake, "--dry-run", "--json")
    assert ran.json["snapshots"] == ran.json["files"] == 1
    typed(monkeypatch, b"")
    ran = caretaker("table", "drop", "db.t", "-w", lake)
    assert ran.code == 2
    assert "--yes" in ran.err
    typed(monkeypatch, b"n\n", terminal=True)
    ran = caretaker("table", "drop", "db.t", "-w", lake)
    assert ran.code == 3
    assert "Drop table db.t with 1 file" in ran.err
    typed(monkeypatch, b"yes\n", terminal=True)
    assert caretaker("table", "drop", "db.t", "-w", lake).code == 0
    assert caretaker("table", "drop", "db.t", "-w", lake, "--yes").code == 2
    assert caretaker("table", "drop", "db.t", "-w", lake, "--if-exists").code == 3


def test_truncate(lake: Path) -> None:
    create(lake, "--column", "dt DATE", "--partitioned-by", "dt")
    days = pa.array(["2024-01-01", "2024-01-02"]).cast(pa.date32())
    table(lake).append(pa.table({"k": [1, 2], "v": ["a", "b"], "dt": days}))
    truncate = ("table", "truncate", "db.t", "-w", lake)
    part = ("--partition", "dt=2024-01-01")
    assert caretaker(*truncate, *part, "--dry-run", "--json").json["files"] == 1
    assert caretaker(*truncate, *part, "--yes").code == 0
    assert caretaker(*truncate, *part, "--yes").code == 3
    assert [r[0] for r in rows(lake)] == [2]
    assert caretaker(*truncate, "--partition", "k=1", "--yes").code == 2
    assert caretaker(*truncate, "--yes").code == 0
    assert rows(lake) == []


# --- writing ------------------------------------------------------------------------------------


def write(lake: Path, *words: object) -> Ran:
    return caretaker("write", "db.t", "-w", lake, *words)


def test_write_all_formats(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(lake, "--column", "d DECIMAL(5, 2)", "--column", "ts TIMESTAMP(3)")
    (tmp_path / "a.jsonl").write_text(
        '{"k": 1, "v": "a", "d": "1.50", "ts": "2024-01-31 12:00:00"}\n\n{"k": 2}\n'
    )
    lines = 'k,v,d,ts\r\n3,,2.5,2024-01-31 12:00:00\r\n4,"x\ny",,\r\n'
    (tmp_path / "b.csv").write_bytes(lines.encode("utf-8-sig"))
    parquet.write_table(pa.table({"k": [5], "v": ["p"]}), tmp_path / "c.parquet")
    ran = write(lake, "--from", tmp_path / "a.jsonl", "--json")
    assert (ran.code, ran.json["rows"], ran.json["snapshots"]) == (0, 2, [1])
    assert write(lake, "--from", tmp_path / "b.csv").out == "db.t: wrote 2 rows (snapshot 2)\n"
    assert write(lake, "--from", tmp_path / "c.parquet").code == 0
    typed(monkeypatch, b"k;v\n6;NULL\n")
    csv = ("--format", "csv", "--delimiter", ";", "--null", "NULL")
    assert write(lake, "--from", "-", *csv).code == 0
    typed(monkeypatch, (tmp_path / "c.parquet").read_bytes())
    assert write(lake, "--from", "-", "--format", "parquet").code == 0
    noon = "2024-01-31T12:00:00.000"
    assert rows(lake) == [
        [1, "a", "1.50", noon],
        [2, None, None, None],
        [3, None, "2.50", noon],
        [4, "x\ny", None, None],
        [5, "p", None, None],
        [5, "p", None, None],
        [6, None, None, None],
    ]


def test_what_read_prints_can_be_written(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(lake, "--primary-key", "k", "--option", "bucket=1")
    typed(monkeypatch, b'["+I",1,"a"]\n["+I",2,"b"]\n["-D",1,"a"]\n')
    assert write(lake, "--from", "-", "--format", "json").code == 0
    assert rows(lake) == [[2, "b"]]
    printed = caretaker("read", "db.t", "-w", lake).out
    typed(monkeypatch, printed.replace('"b"', '"c"').encode())
    assert write(lake, "--from", "-", "--format", "json").code == 0
    assert rows(lake) == [[2, "c"]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"k": 1}\n{"k": 1.5}\n', "line 2: column k"),
        ("a.json", '{"k": true}\n', "line 1: column k"),
        ("a.json", '{"x": 1}\n', "no column 'x'"),
        ("a.json", '{"k": 1\n', "line 1"),
        ("a.json", '["+X", 1, "a"]\n', "expected [kind, k, v]"),
        ("a.json", "5\n", "expected an object"),
        ("a.json", '{"k": 3000000000}\n', "out of range"),
        ("a.csv", "k,x\n1,2\n", "no column 'x'"),
        ("a.csv", "k,v\n1\n", "a.csv"),
        ("a.csv", "k,k\n1,2\n", "more than once"),
        ("a.csv", "k\n3000000000\n", "column k"),
        ("a.csv", "k\n1.5\n", "column k"),
        ("a.json", '{"k": NaN}\n', "line 1: column k"),
        ("a.csv", "k,v\none,2\n", "column k"),
        ("a.parquet", "no parquet", "not a readable Parquet file"),
        ("a.txt", "x", "--format"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_written(
    lake: Path, tmp_path: Path, name: str, content: str, message: str
) -> None:
    create(lake)
    (tmp_path / name).write_text(content)
    ran = write(lake, "--from", tmp_path / name)
    assert ran.code == 2
    assert message in ran.err
    assert table(lake).snapshots() == []
    assert not [p for p in Path(table(lake).location).rglob("bucket-*/*") if p.is_file()]


def test_nothing_to_write(lake: Path, tmp_path: Path) -> None:
    create(lake)
    for name in ("a.json", "a.csv"):
        (tmp_path / name).write_text("")
        assert write(lake, "--from", tmp_path / name).code == 3
    assert write(lake, "--from", tmp_path / "no.csv").code == 2


def test_overwrite(lake: Path, tmp_path: Path) -> None:
    create(lake, "--column", "dt STRING", "--partitioned-by", "dt")
    file = tmp_path / "a.json"
    file.write_text('{"k": 1, "dt": "a"}\n{"k": 2, "dt": "b"}\n')
    write(lake, "--from", file)
    file.write_text('{"k": 3, "dt": "b"}\n')
    assert write(lake, "--from", file, "--overwrite").code == 0
    assert [r[0] for r in rows(lake)] == [1, 3]
    assert write(lake, "--from", file, "--overwrite", "--partition", "dt=a").code == 2
    file.write_text("")
    assert write(lake, "--from", file, "--overwrite", "--partition", "dt=a").code == 0
    assert [r[0] for r in rows(lake)] == [3]
    assert write(lake, "--from", file, "--partition", "dt=a").code == 2


def test_delete(lake: Path) -> None:
    create(lake)
    table(lake).append([{"k": k} for k in range(10)])
    delete = ("delete", "db.t", "-w", lake, "--json", "--where")
    assert caretaker(*delete, "k > 7", "--dry-run").json["rows"] == 2
    assert len(rows(lake)) == 10
    ran = caretaker(*delete, "k > 7")
    assert (ran.code, ran.json["rows"], ran.json["snapshots"]) == (0, 2, [2])
    assert caretaker(*delete, "k > 7").code == 3
    assert caretaker(*delete, "nobody > 7").code == 2
    assert caretaker("delete", "db.t", "-w", lake).code == 2


# --- following ----------------------------------------------------------------------------------


def follow(lake: Path, *more: object) -> Ran:
    return caretaker("read", "db.t", "-w", lake, "--follow", "--poll", "0.01", *more)


def test_follow_goes_on_where_the_consumer_stopped(lake: Path) -> None:
    create(lake)
    for k in range(3):
        table(lake).append([{"k": k, "v": "a"}])
    first = follow(lake, "--consumer-id", "c", "--limit", "3")
    assert sorted(first.rows) == [["+I", k, "a"] for k in range(3)]
    assert [c.next_snapshot for c in table(lake).consumers()] == [4]
    table(lake).append([{"k": 3, "v": "b"}, {"k": 4, "v": "b"}])
    part = follow(lake, "--consumer-id", "c", "--limit", "1", "--columns", "k")
    assert part.rows == [["+I", 3]]
    assert [c.next_snapshot for c in table(lake).consumers()] == [4], "one row was not printed"
    again = follow(lake, "--consumer-id", "c", "--limit", "1", "--where", "k = 4")
    assert again.rows == [["+I", 4, "b"]]
    assert [c.next_snapshot for c in table(lake).consumers()] == [5]


def test_what_cannot_be_followed(lake: Path) -> None:
    create(lake)
    assert follow(lake, "--tag", "x").code == 2
    assert caretaker("read", "db.t$files", "-w", lake, "--follow").code == 2
    assert caretaker("read", "db.t", "-w", lake, "--consumer-id", "c").code == 2


# Tests that run in the background inherit that SIGINT is ignored.
_WITH_CTRL_C = """\
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("paimon_maintenance.cli", run_name="__main__")
"""


def test_ctrl_c_ends_a_stream_and_keeps_its_progress(lake: Path) -> None:
    create(lake)
    table(lake).append([{"k": 1, "v": "a"}])
    paths = os.pathsep.join(str(CHECKOUT / p) for p in ("", "maintenance"))
    words = ["read", "db.t", "-w", str(lake), "--follow", "--consumer-id", "c", "--poll", "0.05"]
    process = subprocess.Popen(
        [sys.executable, "-c", _WITH_CTRL_C, *words],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == ["+I", 1, "a"]
    table(lake).append([{"k": 2, "v": "b"}])
    assert json.loads(process.stdout.readline()) == ["+I", 2, "b"]
    until = time.monotonic() + 60
    while [c.next_snapshot for c in table(lake).consumers()] != [3]:
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err


# --- beside others ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [("write", "--from", "rows.jsonl"), ("delete", "--where", "k = 1"), ("read",)],
    ids=lambda words: words[0],
)
def test_a_table_that_is_dropped_meanwhile_is_told(
    words: tuple[str, ...], lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(lake, "--primary-key", "k", "--option", "bucket=1")
    (tmp_path / "rows.jsonl").write_text('{"k": 1, "v": "a"}\n')
    monkeypatch.chdir(tmp_path)
    assert caretaker("write", "db.t", "-w", lake, "--from", "rows.jsonl").code == 0
    read_bytes = LocalFileIO.read_bytes

    def beside(self: LocalFileIO, path: str) -> bytes:
        if "manifest-list" in path:
            monkeypatch.undo()
            assert caretaker("table", "drop", "db.t", "-w", lake, "--yes").code == 0
            monkeypatch.chdir(tmp_path)
        return read_bytes(self, path)

    monkeypatch.setattr(LocalFileIO, "read_bytes", beside)
    command, *more = words
    ran = caretaker(command, "db.t", "-w", lake, *more)
    assert ran.code == 2, ran.err
    assert "table db.t was dropped or renamed meanwhile" in ran.err
    assert "if it was dropped, nothing is left to do" in ran.err
