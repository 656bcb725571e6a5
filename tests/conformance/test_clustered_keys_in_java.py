"""Tables with `pk-clustering-override`: Java writes and compacts them, we read whole snapshots."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import caretaker
from replay import run_step

from oracle import Oracle
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


@pytest.mark.one_java
@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_rows_are_those_of_java(engine: str, oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    java = oracle.defaults(**at)
    options = {
        "bucket": "2",
        "pk-clustering-override": "true",
        "clustering.columns": "v",
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
    for words in (("run", "compact"), ("run", "rescale", "--bucket-num", 3)):
        ran = caretaker(words[0], words[1], "db.t", "-w", tmp_path, *words[2:])
        assert ran.code == ExitCode.REFUSED, ran.out
        assert "pk-clustering-override" in ran.err
