"""`sequence.snapshot-ordering` of 2.0: the later commit wins, whoever wrote and whoever compacted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command_line import caretaker, compact, in_order
from lakes import Lake
from small_pages import small_pages
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import SchemaError, UnsupportedFeature
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_maintenance.job.exit_codes import ExitCode

OPTIONS = {
    "bucket": "1",
    "sequence.snapshot-ordering": "true",
    "write-only": "true",
    "num-sorted-run.compaction-trigger": "3",
}
COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "n", "type": "BIGINT"},
]
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "last_non_null_value",
        "fields.n.aggregate-function": "sum",
    },
    "first-row": {"merge-engine": "first-row"},
    "lookup": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
}


def _table(oracle: Oracle, warehouse: Path, options: dict[str, str]) -> Oracle:
    made = oracle.copy(warehouse=warehouse, database="db", table="t")
    made.one("create_database")
    made.one("create_table", columns=COLUMNS, primary_keys=["k"], options=OPTIONS | options)
    return made


def _rows(java: Oracle, warehouse: Path) -> list[list[Any]]:
    ours = in_order(caretaker("read", "db.t", "-w", warehouse).rows)
    assert ours == in_order(java.rows())
    return sorted(row[1:] for row in ours)


@pytest.fixture(autouse=True)
def pages_are_copied() -> Iterator[None]:
    """With the numbers that they hold, where that is right."""
    with small_pages(3):
        yield


@pytest.mark.sampled
@pytest.mark.parametrize("engine", ENGINES)
def test_taking_turns(engine: str, oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    java = _table(oracle_2_0_0, tmp_path / "lake", ENGINES[engine])
    sql = Sql(tmp_path / "lake")
    sql("USE db")
    chance = random.Random(engine)
    late = {"vectors", "first-row"}  # whose rows are seen once they are compacted
    model: dict[int, list[Any]] = {}
    for number in range(14):
        # The first commits have many rows: their own numbers go far beyond those of later ones.
        keys = chance.sample(range(40), 30 if number < 2 else 4)
        rows = [[k, f"{number}.{k}", number] for k in keys]
        if number % 2:
            java.one("write", rows=rows)
        else:
            sql("INSERT INTO t VALUES " + ", ".join(f"({k}, '{v}', {n})" for k, v, n in rows))
        if engine != "aggregation":
            for row in rows:
                if engine != "first-row":
                    model[row[0]] = row
                else:
                    model.setdefault(row[0], row)
        if number % 4 == 3:
            if number % 8 == 3:
                compact(tmp_path / "lake", "full" if number > 8 else "minor")
            else:
                java.one("compact", full=number > 8, dynamic={"write-only": "false"})
        found = _rows(java, tmp_path / "lake")
        if engine not in {*late, "aggregation"}:
            assert found == [model[k] for k in sorted(model)]
    compact(tmp_path / "lake", "full")
    found = _rows(java, tmp_path / "lake")
    assert engine == "aggregation" or found == [model[k] for k in sorted(model)]
    assert caretaker("verify", "db.t", "-w", tmp_path / "lake", "--deep").code == ExitCode.SUCCESS


def test_a_commit_that_comes_second_wins(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    java = _table(oracle_2_0_0, tmp_path, {})
    sql = Sql(tmp_path)
    sql("USE db")
    new_uuid, waiting = sql.session.env.new_uuid, [[[1, "java", 1], [2, "java", 1]]]

    def after_a_commit() -> str:
        name = new_uuid()
        table = open_table(str(tmp_path), "db.t")
        # Its manifests are there, and name the first snapshot.
        if waiting and any(p.name.startswith("manifest-list") for p in Path(table.root).rglob("*")):
            java.one("write", rows=waiting.pop())
        return name

    sql.session.env = replace(sql.session.env, new_uuid=after_a_commit)
    sql("INSERT INTO t VALUES (1, 'ours', 2), (3, 'ours', 2)")
    assert not waiting
    rows = [[1, "ours", 2], [2, "java", 1], [3, "ours", 2]]
    assert _rows(java, tmp_path) == rows
    table = open_table(str(tmp_path), "db.t")
    numbers = [e.file.max_sequence_number for e in scan_files(table, table.latest_or_not_found())]
    assert sorted(numbers) == [1, 2]
    compact(tmp_path, "full")
    assert _rows(java, tmp_path) == rows


def test_other_commits(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    java = _table(oracle_2_0_0, tmp_path, {})
    sql = Sql(tmp_path)
    sql("USE db; INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    java.one("write", rows=[[1, "j", 1], [4, "j", 4]])
    sql("UPDATE t SET v = 'up' WHERE k = 2; DELETE FROM t WHERE k = 4")
    rows = [[1, "j", 1], [2, "up", 2], [3, "c", 3]]
    assert _rows(java, tmp_path) == rows
    ran = caretaker(
        "run", "rescale", "db.t", "-w", tmp_path, "--bucket-num", "2", "--engine", "local"
    )
    assert ran.code == ExitCode.SUCCESS, ran.err
    java.one("write", rows=[[3, "j", 9]])
    rows[2] = [3, "j", 9]
    assert _rows(java, tmp_path) == rows
    refused = caretaker("run", "rollback_to_as_latest", "db.t", "-w", tmp_path, "--snapshot", 1)
    assert refused.code == ExitCode.REFUSED
    assert "sequence.snapshot-ordering" in refused.err
    ran = caretaker("run", "rollback", "db.t", "-w", tmp_path, "--snapshot", 2)
    assert ran.code == ExitCode.SUCCESS, ran.err
    sql("INSERT OVERWRITE t VALUES (7, 'x', 7)")
    java.one("write", rows=[[7, "y", 8]])
    assert _rows(java, tmp_path) == [[7, "y", 8]]


def test_what_is_refused(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql("CREATE DATABASE db; USE db")
    base = "'sequence.snapshot-ordering' = 'true'"
    for columns, options, words in (
        ("", "'write-only' = 'true'", "needs a primary key"),
        ("'primary-key' = 'k', ", "'bucket' = '1'", "needs write-only=true"),
        (
            "'primary-key' = 'k', ",
            "'write-only' = 'true', 'sequence.field' = 'n'",
            "sequence.field",
        ),
    ):
        with pytest.raises(SchemaError, match=words):
            sql(f"CREATE TABLE no (k INT, n INT) TBLPROPERTIES ({columns}{base}, {options})")
    sql(f"""
        CREATE TABLE t (k INT, n INT) TBLPROPERTIES (
            'primary-key' = 'k', 'bucket' = '-2', 'write-only' = 'true', {base})
    """)
    with pytest.raises(UnsupportedFeature, match=r"sequence\.snapshot-ordering with bucket=-2"):
        sql("INSERT INTO t VALUES (1, 1)")


def test_compacted_files_hold_the_numbers(tmp_path: Path) -> None:
    """Most rows are alone with their keys, and their pages could be copied as they are."""
    lake = Lake(tmp_path)
    lake.create(options=OPTIONS)
    for keys, value in ((range(2000), "old"), (range(1000, 1010), "new")):
        lake.append({"k": list(keys), "v": [value] * len(keys)})
        compact(tmp_path, "full")  # the first one only moves the file to another level
    table = lake.table()
    (entry,) = scan_files(table, table.latest_or_not_found())
    path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
    assert Counter(pq.read_table(path)["_SEQUENCE_NUMBER"].to_pylist()) == {1: 1990, 3: 10}
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (1, 3)
