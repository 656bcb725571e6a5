"""Partition expiry of ours beside Java's on copies of one table, and where ours does better."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import replay
from disk import assert_no_leftovers, assert_whole
from replay import run_step

from oracle import Oracle
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

NOW = "2024-02-10T12:00:00"


def column(name: str, kind: str) -> dict[str, str]:
    return {"name": name, "type": kind}


CASES: dict[str, tuple[list[str], list[list[str]], dict[str, str]]] = {
    "default": (
        ["dt"],
        [["2024-01-01"], ["2024-02-01"], ["2024-2-9"], ["odd"], ["2024-01-31 12:00:01"]],
        {"expiration_time": "10 d"},
    ),
    "formatter": (
        ["dt"],
        [["20240101"], ["20240201"], ["20240131"], ["2024-01-01"], ["20249999"], ["20240230"]],
        {"expiration_time": "10 d", "timestamp_formatter": "yyyyMMdd"},
    ),
    "hours": (
        ["dt"],
        [["2024021000"], ["2024021007"], ["2024020923"], ["20240101"]],
        {"expiration_time": "5 h", "timestamp_formatter": "yyyyMMddHH"},
    ),
    "pattern": (
        ["day", "hour"],
        [["2024-02-10", "6"], ["2024-02-10", "7"], ["2024-02-10", "8"], ["2024-02-09", "x"]],
        {"expiration_time": "5 h", "timestamp_pattern": "$day $hour:00:00"},
    ),
    "two digits of a year": (
        ["dt"],
        [["240101"], ["990101"], ["700101"]],
        {"expiration_time": "10 d", "timestamp_formatter": "yyMMdd"},
    ),
    "what may be missing, names and days of the year": (
        ["dt"],
        [["2024Jan01"], ["2024Jan01 07"], ["2024Feb09"], ["2024jan01"], ["2024Jän01"]],
        {"expiration_time": "10 d", "timestamp_formatter": "yyyyMMMdd[ HH]"},
    ),
    "days of the year": (
        ["dt"],
        [["2024001"], ["2023366"], ["2024040"]],
        {"expiration_time": "10 d", "timestamp_formatter": "yyyyDDD"},
    ),
    "years of an era": (
        ["dt"],
        [["0000-01-01"], ["-0001-01-01"], ["0001-01-01"], ["+12024-01-01"], ["12024-01-01"]],
        {"expiration_time": "10 d", "timestamp_formatter": "yyyy-MM-dd"},
    ),
    "one letter of a year": (
        ["dt"],
        [["00-01-01"], ["24-1-1"], ["0-1-1"], ["-5-1-1"], ["2024-02-05"]],
        {"expiration_time": "10 d", "timestamp_formatter": "y-M-d"},
    ),
    "years with sign": (
        ["dt"],
        [["0000-01-01"], ["-0001-01-01"], ["-0000-01-01"], ["2024-02-05"]],
        {"expiration_time": "10 d", "timestamp_formatter": "uuuu-MM-dd"},
    ),
    "digits that a bracket does not get": (
        ["dt"],
        [["20240101"], ["2024010107"], ["202401010"], ["+9999000040123"], ["20240201"]],
        {"expiration_time": "10 d", "timestamp_formatter": "yyyyMMdd[HH]"},
    ),
    "a time with a gap": (
        ["dt"],
        [["2024-01-01 07 09"], ["2024-01-02 25 61"], ["2024-01-03 7 9"], ["2024-02-09 07 09"]],
        {"expiration_time": "10 d", "timestamp_formatter": "yyyy-MM-dd HH ss"},
    ),
    "the end of a day": (
        ["dt"],
        [["2024-02-10 24:00"], ["2024-02-09 24:00"], ["2024-02-09 24:01"], ["2024-02-10 07:00"]],
        {"expiration_time": "11 h", "timestamp_formatter": "yyyy-MM-dd HH:mm"},
    ),
    "overflowing fields": (
        ["dt"],
        [["2024--1-01"], ["2023-14-01"], ["2024-02--9"], ["2024-01-60"], ["2024-01-31 99:99:99"]],
        {"expiration_time": "5 d"},
    ),
    "a value that is no replacement": (
        ["dt", "hh"],
        [["2024\\-01-01", "7"], ["2024-01-02", "7"], ["2024-02-09", "7"]],
        {"expiration_time": "5 d", "timestamp_pattern": "$dt $hh:00:00"},
    ),
    "years long ago": (["dt"], [["-044-03-15"], ["9-1-1"]], {"expiration_time": "900000 d"}),
    "none": (["dt"], [["2024-01-01"]], {"expiration_time": "9999 d"}),
}


def create(keys: list[str], kind: str = "STRING", **options: str) -> dict[str, Any]:
    columns = [column("k", "INT NOT NULL"), *(column(k, kind) for k in keys)]
    return {
        "op": "create_table",
        "columns": columns,
        "partition_keys": keys,
        "options": {"bucket": "-1", **options},
    }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(datetime.fromisoformat(NOW).replace(tzinfo=UTC).timestamp()) * 1000
    fixed = replace(replay.ENV, now_millis=lambda: now, local_millis=lambda: now, local_at=None)
    monkeypatch.setattr(replay, "ENV", fixed)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("case", CASES)
def test_ours_beside_java(case: str, oracle: Oracle, tmp_path: Path) -> None:
    keys, values, arguments = CASES[case]
    at = {"warehouse": str(tmp_path / "java"), "database": "db", "table": "t"}
    oracle.defaults(**at)
    oracle([create(keys), {"op": "write", "rows": [[i, *v] for i, v in enumerate(values)]}])
    shutil.copytree(tmp_path / "java", tmp_path / "ours")
    ours = {**at, "warehouse": str(tmp_path / "ours")}
    oracle.one("expire_partitions", now=NOW, **arguments)
    result = run_step({"op": "expire_partitions", **ours, **arguments})
    assert "error" not in result, result
    theirs = oracle.rows()
    assert oracle.rows(**ours) == theirs
    assert len(theirs) < len(values) or case in ("none", "years long ago")
    assert_whole(tmp_path / "ours")


NAMES = {
    "INT": ["2024_01_01", "1_0", " 10", "10 ", "+10", "010", "1e1", "10.0", "\u0661\u0660", ""],
    "DOUBLE": ["nan", "NaN", "inf", "Infinity", "1_0", " 10 ", "10d", "0xAp0", "1e1"],
    "FLOAT": ["nan", "inf", "1_0", "10f", "16777217", "0.1"],
    "DECIMAL(9, 2)": ["nan", "inf", "1_0", "10.004", "1e1", " 10", ".", "+10"],
    "DATE": ["2024_01_01", "2024-1-1", "19723", "2024-01-01 07:00:00", "99999999999", "0000-01-01"],
    "TIME(3)": ["1_0", "10", "0:0:0.01", "00:00:00.010"],
    "BOOLEAN": ["T", "yes", "1", "on", "nan"],
}
VALUES: dict[str, list[Any]] = {
    "INT": [10, 20240101, 0],
    "DOUBLE": [10.0, "NaN", "Infinity"],
    "FLOAT": [10.0, "NaN", 0.1, 16777216.0],
    "DECIMAL(9, 2)": ["10.00", "0.00"],
    "DATE": ["2024-01-01", "0001-01-01"],
    "TIME(3)": ["00:00:00.010", "00:00:10"],
    "BOOLEAN": [True, False],
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_dropped_partition_is_named_as_in_java(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    """Each text drops the same partition in both, or is refused by both."""
    at = {"warehouse": str(tmp_path / "java"), "database": "db", "table": "t"}
    rows = [[i, value] for i, value in enumerate(VALUES[kind])]
    oracle.defaults(**at)
    oracle([create(["p"], kind), {"op": "write", "rows": rows}])
    theirs, ours = {}, {}
    for text in NAMES[kind]:
        shutil.rmtree(tmp_path / "ours", ignore_errors=True)
        shutil.copytree(tmp_path / "java", tmp_path / "ours")
        shutil.copytree(tmp_path / "java", tmp_path / "copy", dirs_exist_ok=True)
        step: dict[str, Any] = {"op": "drop_partition", "partitions": [{"p": text}]}
        step["warehouse"] = str(tmp_path / "copy")
        (answer,) = oracle([step], check=False)
        left = oracle.rows(warehouse=str(tmp_path / "copy"))
        theirs[text] = "refused" if "error" in answer else left
        shutil.rmtree(tmp_path / "copy")
        step["warehouse"] = str(tmp_path / "ours")
        result = run_step({**at, **step})
        left = oracle.rows(warehouse=str(tmp_path / "ours"))
        ours[text] = "refused" if "error" in result else left
    assert ours == theirs
    assert "refused" in ours.values()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("legacy", ["true", "false"])
def test_dates_are_dates(legacy: str, tmp_path: Path) -> None:
    """Java takes the day number for a text, and expires nothing."""
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    days = ["2024-01-01", "2024-02-09"]
    for step in (
        create(["dt"], "DATE", **{"partition.legacy-name": legacy}),
        {"op": "write", "rows": [[i, day] for i, day in enumerate([*days, None])]},
        {"op": "expire_partitions", "expiration_time": "10 d", "timestamp_formatter": "yyyyMMdd"},
    ):
        result = run_step({**at, **step})
        assert "error" not in result, result
    assert [r[2] for r in run_step({"op": "read", **at})["rows"]] == ["2024-02-09", None]
    for step in ({"op": "expire_snapshots", "retain_max": 1, "retain_min": 1},):
        assert "error" not in run_step({**at, **step})
    assert_no_leftovers(tmp_path)


def run(warehouse: Path, name: str, *, force: bool = False, **arguments: object) -> Report:
    job = job_named(name)
    return run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
            force=force,
        )
    )


@pytest.fixture
def table(tmp_path: Path) -> dict[str, str]:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    for step in (
        create(["dt", "hh"]),
        {"op": "write", "rows": [[i, f"d{i % 3}", f"h{i % 2}"] for i in range(12)]},
    ):
        assert "error" not in run_step({**at, **step})
    return at


def test_drop_many(table: dict[str, str], tmp_path: Path) -> None:
    report = run(tmp_path, "drop_partition", partitions="dt=d0,hh=h0;dt=d1;dt=gone", force=True)
    assert report.error is None
    assert report.details["dropped_partitions"] == ["dt=d0/hh=h0", "dt=d1/hh=h0", "dt=d1/hh=h1"]
    left = {(r[2], r[3]) for r in run_step({"op": "read", **table})["rows"]}
    assert left == {("d0", "h1"), ("d2", "h0"), ("d2", "h1")}
    assert run(tmp_path, "drop_partition", partitions="dt=gone").status is Status.NOTHING_TO_DO


def test_guards_stop_a_drop(table: dict[str, str], tmp_path: Path) -> None:
    rows = [[i, f"d{i % 3}", f"h{i % 2}"] for i in range(12)]
    for _ in range(2):  # the more than ten files that are always free
        assert "error" not in run_step({**table, "op": "write", "rows": rows})
    report = run(tmp_path, "drop_partition", partitions="dt=d0;dt=d1")
    assert type(report.error).__name__ == "GuardTripped"
    assert "12 of 18 data files" in str(report.error)
    assert len(run_step({"op": "read", **table})["rows"]) == 36


def test_update_time_and_limit(table: dict[str, str], tmp_path: Path) -> None:
    arguments = {"expiration_time": "1 h", "expire_strategy": "update-time"}
    assert run(tmp_path, "expire_partitions", **arguments).status is Status.NOTHING_TO_DO
    arguments["expiration_time"] = "0 ms"
    report = run(tmp_path, "expire_partitions", max_expires=2, **arguments)
    assert report.details["expired_partitions"] == ["dt=d0/hh=h0", "dt=d0/hh=h1"]
    assert len(run_step({"op": "read", **table})["rows"]) == 8


def test_marks(table: dict[str, str], tmp_path: Path, oracle_1_4_2: Oracle) -> None:
    assert run(tmp_path, "mark_partition_done", partitions="dt=d0,hh=h0").error is None
    (mark,) = (tmp_path / "db.db" / "t").rglob("_SUCCESS")
    assert mark.parent.name == "hh=h0"
    assert len(oracle_1_4_2.defaults(**table).rows()) == 12
    wrong = run(tmp_path, "mark_partition_done", partitions="hh=h0")
    assert wrong.error is not None


def test_a_mark_lies_beside_the_files_whatever_was_typed(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    columns = [column("k", "INT"), column("d", "DATE"), column("n", "INT")]
    run_step({"op": "create_table", **at, "columns": columns, "partition_keys": ["d", "n"]})
    run_step({"op": "write", **at, "rows": [[1, "2024-05-01", 7], [2, None, 8]]})
    report = run(
        *(tmp_path, "mark_partition_done"),
        partitions="d=2024-05-01,n=07;d=__DEFAULT_PARTITION__,n=8;d=2024-05-01",
    )
    assert report.error is None
    marks = {str(m.parent) for m in tmp_path.rglob("_SUCCESS")}
    files = {str(f.parents[1]) for f in tmp_path.rglob("*.parquet")}
    assert marks == files | {str(tmp_path / "db.db" / "t" / "d=19844")}
    wrong = run(tmp_path, "mark_partition_done", partitions="d=2024-05-01,n=x")
    assert "partition n=x of table db.t" in str(wrong.error)


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]], list[str]]]:
    """An address, what was posted there, and the results that are answered, last first."""
    posted: list[dict[str, Any]] = []
    results: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            posted.append(json.loads(self.rfile.read(length)))
            answer = json.dumps({"result": results.pop() if results else "success"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/done", posted, results
        http.shutdown()
        thread.join()


def set_options(table: dict[str, str], **options: str) -> None:
    changes = [{"change": "set_option", "key": k, "value": v} for k, v in options.items()]
    assert "error" not in run_step({"op": "alter_table", "changes": changes, **table})


def test_reports(
    table: dict[str, str],
    tmp_path: Path,
    server: tuple[str, list[dict[str, Any]], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    url, posted, results = server
    options = {"partition.mark-done-action": "success-file,http-report"}
    set_options(table, **options)
    assert isinstance(
        run(tmp_path, "mark_partition_done", partitions="dt=d0").error, InvalidArgument
    )
    options = {
        f"partition.mark-done-action.http.{k}": v for k, v in (("url", url), ("params", "p"))
    }
    set_options(table, **options)
    assert run(tmp_path, "mark_partition_done", partitions="dt=d0,hh=h1;dt=d1").error is None
    assert posted == [
        {"params": "p", "table": "db.t", "path": str(tmp_path / "db.db" / "t"), "partition": path}
        for path in ("dt=d0/hh=h1/", "dt=d1/")
    ]
    assert len(list((tmp_path / "db.db" / "t").rglob("_SUCCESS"))) == 2
    results.append("FAILED")
    assert "FAILED" in str(run(tmp_path, "mark_partition_done", partitions="dt=d2").error)


@pytest.mark.parametrize("action", ["done-partition", "mark-event", "custom"])
def test_other_marks_are_refused(action: str, table: dict[str, str], tmp_path: Path) -> None:
    set_options(table, **{"partition.mark-done-action": action})
    error = run(tmp_path, "mark_partition_done", partitions="dt=d2").error
    assert isinstance(error, UnsupportedFeature)
    assert action in str(error)


def test_tables_without_partitions_have_nothing_to_expire(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    assert "error" not in run_step({**at, **create([])})
    report = run(tmp_path, "expire_partitions", expiration_time="1 d")
    assert report.status is Status.NOTHING_TO_DO
