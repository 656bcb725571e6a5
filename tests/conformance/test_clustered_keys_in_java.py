"""Tables with `pk-clustering-override`: Java writes and compacts them, we read whole snapshots."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import caretaker
from replay import run_step

from oracle import Oracle
from paimon_core.errors import UnsupportedFeature
from paimon_core.read.table_read import read_table
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
    with pytest.raises(UnsupportedFeature, match="pk-clustering-override with rows that must be"):
        list(read_table(table, latest, keep_deletes=True))
    if engine == "deduplicate":
        # Files with deletes are merged, and Java merges them as if they were in the order of keys.
        java.one("write", rows=[{"kind": "-D", "values": [rows[0][0], None, None]}])
        java.one("compact")
        ran = caretaker("read", "db.t", "-w", tmp_path)
        assert ran.code == ExitCode.REFUSED, ran.out
        assert "pk-clustering-override with rows that must be merged" in ran.err
    for words in (("inspect",), ("health",), ("verify", "--no-rows"), ("verify", "--deep")):
        ran = caretaker(words[0], "db.t", "-w", tmp_path, *words[1:])
        assert ran.code == ExitCode.SUCCESS, (words, ran.err)
    for words in (("run", "compact"), ("run", "rescale", "--bucket-num", 3)):
        ran = caretaker(words[0], words[1], "db.t", "-w", tmp_path, *words[2:])
        assert ran.code == ExitCode.REFUSED, ran.out
        assert "pk-clustering-override" in ran.err
