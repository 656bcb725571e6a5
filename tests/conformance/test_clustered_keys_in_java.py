"""Tables with `pk-clustering-override`: Java and we read, write and compact them in turns."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, compact, in_order
from replay import run_step

from oracle import Oracle
from paimon_core.options import BUCKET
from paimon_core.scan.vectors import vector_files
from paimon_core.table.describe import describe_files
from paimon_core.table.open import open_table
from paimon_maintenance.job.exit_codes import ExitCode

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "INT"},
    {"name": "w", "type": "STRING"},
]

FILTERS: dict[str, Callable[[int, int, str], bool]] = {
    "k = 7": lambda k, v, w: k == 7,
    "k >= 30 AND v < 10": lambda k, v, w: k >= 30 and v < 10,
    "v = 3": lambda k, v, w: v == 3,
    "w = 'w4' AND k < 40": lambda k, v, w: w == "w4" and k < 40,
}


OPTIONS = {
    "bucket": "2",
    "pk-clustering-override": "true",
    "deletion-vectors.enabled": "true",
    "write-only": "true",
}


def _model_of(rows: dict[int, list[Any]]) -> list[list[Any]]:
    return in_order([["+I", *row] for row in rows.values()])


def _wins(engine: str, key: int, written: dict[int, Any]) -> bool:
    return engine != "first-row" or key not in written


@pytest.mark.one_java
@pytest.mark.sampled(one_of=2)
@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
@pytest.mark.parametrize("columns", ["v", "w,v"])
def test_taking_turns(columns: str, engine: str, oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    java = oracle.defaults(**at)
    options = {**OPTIONS, "clustering.columns": columns, "merge-engine": engine}
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
    dice = random.Random(engine + columns)
    written: dict[int, list[Any]] = {}
    deletes_wait = False
    for turn in range(12):
        rows: list[Any] = []
        for k in dice.sample(range(60), 15):
            row = [k, dice.choice([None, *range(20)]), dice.choice([None, f"w{dice.randrange(9)}"])]
            if engine == "first-row":
                written.setdefault(k, row)
            elif k in written and turn > 3 and dice.random() < 0.3:
                deletes_wait = True
                rows.append({"kind": "-D", "values": written.pop(k)})
                continue
            else:
                written[k] = row
            rows.append(row)
        if turn % 2:
            java.one("write", rows=rows)
        else:
            assert "error" not in run_step({"op": "write", **at, "rows": rows})
        if turn % 3 == 2:
            continue
        # Java keeps deletes, and then misses rows.
        if turn in (3, 7, 10) and not deletes_wait:
            java.one("compact", full=turn == 7, dynamic={"write-only": "false"})
        else:
            compact(tmp_path, "full" if turn % 4 == 0 else "minor")
            deletes_wait = False
        assert in_order(java.rows()) == _model_of(written), turn
        assert in_order(run_step({"op": "read", **at})["rows"]) == _model_of(written)
        ran = caretaker("verify", "db.t", "-w", tmp_path, "--deep")
        assert ran.code == ExitCode.SUCCESS, ran.out
    compact(tmp_path, "full")
    compact(tmp_path, "full")
    table = open_table(str(tmp_path), "db.t")
    latest = table.latest_or_not_found()
    assert len(describe_files(table, latest)["files"]) == table.options.value(BUCKET)
    found = vector_files(table, latest).values()
    assert not any(f.dv_ranges for files in found for f in files)
    assert in_order(java.rows()) == _model_of(written)
    # New rows, and rows that a deletion vector hides, are in other buckets then.
    for keys in (range(3), range(2, 5)):
        rows = [[k, 77, "new"] for k in keys]
        java.one("write", rows=rows)
        written |= {k: row for k, row in zip(keys, rows, strict=True) if _wins(engine, k, written)}
        compact(tmp_path, "minor")
    rows = [[k, 78, None] for k in (4, 99)]
    java.one("write", rows=rows)
    written |= {row[0]: row for row in rows if _wins(engine, row[0], written)}
    ran = caretaker("run", "rescale", "db.t", "-w", tmp_path, "--bucket-num", 3)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert in_order(java.rows()) == _model_of(written)
    assert in_order(caretaker("read", "db.t", "-w", tmp_path).rows) == _model_of(written)
    ran = caretaker("verify", "db.t", "-w", tmp_path, "--deep")
    assert ran.code == ExitCode.SUCCESS, ran.out
    java.one("write", rows=[[5, 79, None]])
    written |= {5: [5, 79, None]} if _wins(engine, 5, written) else {}
    java.one("compact", full=True, dynamic={"write-only": "false"})
    assert in_order(java.rows()) == _model_of(written)


@pytest.mark.one_java
@pytest.mark.sampled(one_of=2)
@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
@pytest.mark.parametrize("columns", ["v", "w,v"])
def test_rows_are_those_of_java(columns: str, engine: str, oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    java = oracle.defaults(**at)
    options = {
        "bucket": "2",
        "pk-clustering-override": "true",
        "clustering.columns": columns,
        "deletion-vectors.enabled": "true",
        "merge-engine": engine,
    }
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
    dice = random.Random(engine)
    for _ in range(5):
        keys = dice.sample(range(60), 25)
        rows = [[k, dice.randrange(20), f"w{dice.randrange(9)}"] for k in keys]
        java.one("write", rows=rows)
        java.one("compact")
        theirs = java.rows()
        assert run_step({"op": "read", **at})["rows"] == theirs
        for text, matches in FILTERS.items():
            ran = caretaker("read", "db.t", "-w", tmp_path, "--where", text)
            assert sorted(ran.rows) == sorted(r for r in theirs if matches(*r[1:])), text
    table = open_table(str(tmp_path), "db.t")
    latest = table.latest_or_not_found()
    for file in describe_files(table, latest)["files"]:
        assert len(file["max_key"]) == len(columns.split(","))
    for words in (("inspect",), ("health",), ("verify", "--no-rows"), ("verify", "--deep")):
        ran = caretaker(words[0], "db.t", "-w", tmp_path, *words[1:])
        assert ran.code == ExitCode.SUCCESS, (words, ran.err)


@pytest.mark.one_java
def test_deletes_that_java_keeps(oracle: Oracle, tmp_path: Path) -> None:
    """Java then merges files as if they were in the order of keys, and may miss rows."""
    java = oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    options = {**OPTIONS, "bucket": "1", "clustering.columns": "w"}
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
    left = []
    for turn in range(4):
        rows: list[Any] = [[k, turn, f"w{(k * 7) % 10}"] for k in range(turn * 10, turn * 10 + 20)]
        gone = [{"kind": "-D", "values": rows[n]} for n in (2, 5)]
        left = [r for r in left if r[0] < turn * 10] + [
            r for r in rows if r not in (rows[2], rows[5])
        ]
        java.one("write", rows=rows)
        java.one("write", rows=gone)
        java.one("compact", full=turn == 3, dynamic={"write-only": "false"})
    expected = in_order([["+I", *row] for row in left])
    for strategy in ("minor", "full"):
        assert in_order(caretaker("read", "db.t", "-w", tmp_path).rows) == expected
        compact(tmp_path, strategy)
    assert in_order(caretaker("read", "db.t", "-w", tmp_path).rows) == expected
    assert in_order(java.rows()) == expected
    table = open_table(str(tmp_path), "db.t")
    files = describe_files(table, table.latest_or_not_found())
    assert [f["delete_rows"] for f in files["files"]] == [0]


@pytest.mark.one_java
@pytest.mark.parametrize("producer", ["none", "input"])
def test_changes_are_those_of_java(
    producer: str, oracle: Oracle, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    java = oracle.defaults(**at)
    options = {**OPTIONS, "clustering.columns": "w", "changelog-producer": producer}
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
    for turn in range(4):
        rows: list[Any] = [[k, turn, f"w{k * 7 % 5}"] for k in range(turn * 3, turn * 3 + 8)]
        rows.append({"kind": "-D", "values": [turn * 3 + 1, None, None]})
        if turn % 2:
            java.one("write", rows=rows)
        else:
            assert "error" not in run_step({"op": "write", **at, "rows": rows})
        compact(tmp_path, "full" if turn == 2 else "minor")
    latest = open_table(str(tmp_path), "db.t").latest_or_not_found().id
    for first in (None, 1, 3):
        step = {} if first is None else {"from": first}
        theirs = java.one("stream_read", **step)["plans"]
        ours = run_step({"op": "stream_read", **at, **step})["plans"]
        assert [p["rows"] for p in ours] == [p["rows"] for p in theirs], first
    found = []
    for mode in ("delta", "changelog"):
        for first in (1, 2, 5):
            asked = {
                "incremental_between": [first, latest],
                "options": {"incremental-between-scan-mode": mode},
            }
            theirs = java.one("read", **asked)["rows"]
            assert run_step({"op": "read", **at, **asked})["rows"] == theirs, asked
            found.append(theirs)
    assert any(found) or "1.4" in request.node.name  # which skips level 0 here, too
