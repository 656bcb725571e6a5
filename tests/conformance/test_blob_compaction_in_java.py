"""Files of BLOBs that are merged: the plans and files of Java 2.0."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, read_rows
from evolving_java import EvolvingJava
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.compaction.due import units_due
from paimon_core.compaction.unit import CompactUnit
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.table.sink.compact_table import buckets_of
from paimon_maintenance.job.exit_codes import ExitCode

CREATE = """
    CREATE DATABASE db; USE db;
    CREATE TABLE t (k INT, b BINARY COMMENT '__BLOB_FIELD', s STRING, c BINARY COMMENT '__BLOB_FIELD')
    TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
                   'blob-compaction.enabled' = 'true', 'blob.target-file-size' = '300 b',
                   'compaction.min.file-num' = '{least}');
"""
DIFFERS = {"file_name", "file_size", "creation_time", "extra_files", "unknown"}


@pytest.fixture(scope="module")
def java() -> Iterator[EvolvingJava]:
    started = EvolvingJava("2.0.0")
    yield started
    started.close()


def _value(rng: random.Random) -> str:
    return (
        "NULL" if rng.random() < 0.2 else f"X'{rng.randbytes(rng.choice((0, 3, 40, 400))).hex()}'"
    )


def _made(warehouse: Path, seed: int, least: int, *, deletes: bool = False) -> None:
    """A table with a random history."""
    rng = random.Random(seed)
    sql = Sql(warehouse)
    sql(CREATE.format(least=least))
    if deletes:
        sql("""ALTER TABLE t SET TBLPROPERTIES ('deletion-vectors.enabled' = 'true',
               'data-evolution.compaction.rewrite-row-ids' = 'true')""")
    rows = 0
    for _ in range(9):
        if rows == 0 or rng.random() < 0.6:
            count = rng.randint(1, 3)
            values = (f"({rows + i}, {_value(rng)}, 's', {_value(rng)})" for i in range(count))
            sql(f"INSERT INTO t VALUES {', '.join(values)}")
            rows += count
        else:
            column, value = rng.choice([("b", _value(rng)), ("c", _value(rng)), ("s", "'new'")])
            if deletes and rng.random() < 0.3:
                sql(f"DELETE FROM t WHERE k = {rng.randrange(rows)}")
            chosen = rng.sample(range(rows), max(1, rows // 2))
            sql(f"UPDATE t SET {column} = {value} WHERE k IN ({', '.join(map(str, chosen))})")


def _files(warehouse: Path) -> list[dict[str, Any]]:
    table = open_table(str(warehouse), "db.t")
    found = [e.file for e in scan_files(table, table.latest_or_not_found())]
    names = {f for f in found[0].__dataclass_fields__ if f not in DIFFERS}
    return sorted(({n: getattr(f, n) for n in names} for f in found), key=repr)


def _planned_alike(warehouse: Path, java: EvolvingJava) -> list[CompactUnit]:
    """Our units, whose files are those of Java's tasks."""
    table = open_table(str(warehouse), "db.t")
    (bucket,) = buckets_of(table)
    units = units_due(table, bucket, full=True, local_millis=0)
    planned = sorted(sorted(f.file_name for f in u.append_files) for u in units)
    assert planned == java.planned(warehouse / "db.db" / "t")
    return units


@pytest.mark.parametrize(("seed", "least"), [(1, 2), (2, 99), (3, 2), (4, 4)])
def test_plans_and_files_are_those_of_java(
    oracle_2_0_0: Oracle, java: EvolvingJava, tmp_path: Path, seed: int, least: int
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    _made(ours, seed, least)
    shutil.copytree(ours, theirs)
    rows = read_rows(ours)
    units = _planned_alike(ours, java)
    assert any(u.reason == "BLOB files" for u in units)
    ran = caretaker("run", "compact", "db.t", "-w", ours, "--engine", "local")
    assert ran.code == ExitCode.SUCCESS, ran.err
    java.commit(java.compacted(theirs / "db.db" / "t"))
    assert _files(ours) == _files(theirs)
    assert read_rows(ours) == read_rows(theirs) == rows
    assert caretaker("verify", "db.t", "-w", ours, "--deep").code == ExitCode.SUCCESS
    # Either goes on where the other one stopped.
    for warehouse in (ours, theirs):
        Sql(warehouse)("UPDATE db.t SET b = X'99' WHERE k = 1")
    java.commit(java.compacted(ours / "db.db" / "t"))
    assert caretaker("run", "compact", "db.t", "-w", theirs, "--engine", "local").code == 0
    assert _files(ours) == _files(theirs)
    assert read_rows(ours) == read_rows(theirs)


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("seed", range(12))
def test_deleted_rows_go_with_their_blobs(
    oracle_2_0_0: Oracle, java: EvolvingJava, tmp_path: Path, seed: int
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    _made(ours, seed, 3, deletes=True)
    shutil.copytree(ours, theirs)
    rows = read_rows(ours)
    _planned_alike(ours, java)
    caretaker("run", "compact", "db.t", "-w", ours, "--engine", "local")
    java.commit(java.compacted(theirs / "db.db" / "t"))
    assert read_rows(ours) == read_rows(theirs) == rows
    for warehouse in (ours, theirs):
        Sql(warehouse)("UPDATE db.t SET b = X'99' WHERE k = 1; DELETE FROM db.t WHERE k = 0")
    java.commit(java.compacted(ours / "db.db" / "t"))
    caretaker("run", "compact", "db.t", "-w", theirs, "--engine", "local")
    assert read_rows(ours) == read_rows(theirs)
    for warehouse in (ours, theirs):
        ran = caretaker("verify", "db.t", "-w", warehouse, "--deep")
        assert ran.code == ExitCode.SUCCESS, ran.err
