"""Compaction of tables with data evolution: the plans, files, rows and conflicts of Java."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blob_files import PLACEHOLDER, commit_blob_file
from command_line import Ran, caretaker, in_order
from evolving_java import EvolvingJava
from sql_sessions import Sql

from oracle import Oracle, OracleError
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.jobs.compact import execute

GOLDEN = Path(__file__).parents[1] / "golden" / "newer" / "kinds"
COLUMNS = [
    {"name": "k", "type": "INT"},
    {"name": "v", "type": "STRING"},
    {"name": "n", "type": "BIGINT"},
]
OPTIONS = {
    "bucket": "-1",
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "compaction.min.file-num": "2",
}


@pytest.fixture(scope="module")
def javas() -> Iterator[Callable[[str], EvolvingJava]]:
    """Starts each version of Java once."""
    started: dict[str, EvolvingJava] = {}

    def of(version: str) -> EvolvingJava:
        return started.setdefault(version, EvolvingJava(version))

    yield of
    for one in started.values():
        one.close()


@pytest.fixture
def java(oracle: Oracle, javas: Callable[[str], EvolvingJava]) -> EvolvingJava:
    return javas(oracle.version)


def _made(oracle: Oracle, warehouse: Path, **more: Any) -> Path:
    """Four files with rows 0 to 9, the second of them with updates; the folder of the table."""
    oracle.defaults(warehouse=warehouse, database="db", table="t")
    oracle.one("create_database")
    options = OPTIONS | more.pop("options", {})
    oracle.one("create_table", columns=COLUMNS, options=options, **more)
    for first, end in ((0, 3), (3, 5), (5, 8), (8, 10)):
        oracle.one("write", rows=[[i, f"v{i}", i * 10] for i in range(first, end)])
    return warehouse / "db.db" / "t"


def _compact(warehouse: Path, *words: object) -> Ran:
    ran = caretaker("run", "compact", "db.t", "-w", warehouse, "--engine", "local", *words)
    assert ran.code == ExitCode.SUCCESS, ran.err
    return ran


def _tracked(oracle: Oracle) -> list[list[Any]]:
    """The rows with their ids and sequence numbers, by Java."""
    return oracle.rows(system="row_tracking")


def _files(oracle: Oracle) -> list[dict[str, Any]]:
    """The live files, without what differs from run to run."""
    differs = {"file", "size", "creation_time", "path", "embedded_index"}
    files = [{k: v for k, v in f.items() if k not in differs} for f in oracle.one("files")["files"]]
    return sorted(files, key=lambda f: (f["first_row_id"], f["max_seq"]))


def _twin(oracle: Oracle, warehouse: Path) -> tuple[Oracle, Path]:
    """A copy of the lake for Java to work on."""
    copy = warehouse.parent / "theirs"
    shutil.copytree(warehouse, copy)
    return oracle.copy(warehouse=copy), copy / "db.db" / "t"


def test_files_are_those_of_java(oracle: Oracle, java: EvolvingJava, tmp_path: Path) -> None:
    path = _made(oracle, tmp_path / "ours")
    java.commit(java.updated(path, 3, ["v"], [["a"], [None]]))
    java.commit(java.updated(path, 3, ["v", "n"], [["b", 1], ["c", 2]]))
    java.commit(java.updated(path, 8, ["n"], [[None], [7]]))
    rows = oracle.rows()
    theirs, other = _twin(oracle, tmp_path / "ours")
    ran = _compact(tmp_path / "ours", "--json").json
    assert (ran["before"]["rows"], ran["after"]["rows"]) == (10, 10)
    java.commit(java.compacted(other))
    assert oracle.rows() == theirs.rows() == rows
    assert _files(oracle) == _files(theirs)
    assert _tracked(oracle) == _tracked(theirs)
    counts = ("totalRecordCount", "deltaRecordCount", "nextRowId", "commitKind")
    ours_last, theirs_last = (o.one("snapshots")["snapshots"][-1] for o in (oracle, theirs))
    assert [ours_last[c] for c in counts] == [theirs_last[c] for c in counts]
    assert java.planned(path) == []
    assert caretaker("verify", "db.t", "-w", tmp_path / "ours", "--deep").code == ExitCode.SUCCESS


def test_files_beside_blobs_are_those_of_java(
    oracle: Oracle, java: EvolvingJava, tmp_path: Path
) -> None:
    lake = tmp_path / "ours"
    oracle.defaults(warehouse=lake, database="db", table="t")
    Sql(lake)("""
        CREATE DATABASE db; USE db;
        CREATE TABLE t (k INT, b BINARY COMMENT '__BLOB_FIELD', s STRING)
        TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
                       'compaction.min.file-num' = '2');
        INSERT INTO t VALUES (1, X'01FF', 'a'), (2, NULL, 'b');
        INSERT INTO t VALUES (3, X'', 'c');
        UPDATE t SET s = 'new' WHERE k = 2;
    """)
    commit_blob_file(open_table(str(lake), "db.t"), "b", 0, [b"new", PLACEHOLDER])
    rows = in_order(caretaker("read", "db.t", "-w", lake).rows)
    theirs, other = _twin(oracle, lake)
    _compact(lake)
    java.commit(java.compacted(other))
    assert in_order(caretaker("read", "db.t", "-w", lake).rows) == rows
    assert in_order(caretaker("read", "db.t", "-w", tmp_path / "theirs").rows) == rows
    assert _files(oracle) == _files(theirs)
    oracle.one("write", rows=[[4, None, "d"]])
    _compact(lake)
    assert [row[1:] for row in oracle.rows(projection=["k", "s"])] == [
        [1, "a"],
        [2, "new"],
        [3, "c"],
        [4, "d"],
    ]


def test_a_column_of_blobs_that_came_later(
    oracle: Oracle, java: EvolvingJava, tmp_path: Path
) -> None:
    """Java merges rows with and without BLOBs, and cannot read the result."""
    lake = tmp_path / "ours"
    oracle.defaults(warehouse=lake, database="db", table="t")
    sql = Sql(lake)
    sql("""
        CREATE DATABASE db; USE db;
        CREATE TABLE t (k INT, s STRING) TBLPROPERTIES ('row-tracking.enabled' = 'true',
            'data-evolution.enabled' = 'true', 'compaction.min.file-num' = '2');
        INSERT INTO t VALUES (1, 'a'); INSERT INTO t VALUES (2, 'b');
        ALTER TABLE t ADD COLUMN b BINARY COMMENT '__BLOB_FIELD';
        INSERT INTO t VALUES (3, 'c', X'03'); INSERT INTO t VALUES (4, 'd', NULL);
    """)
    theirs, other = _twin(oracle, lake)
    java.commit(java.compacted(other))
    with pytest.raises(OracleError, match=r"row ?[cC]ount"):
        theirs.rows()
    for words in (("read", "db.t"), ("run", "compact", "db.t", "--engine", "local")):
        refused = caretaker(*words, "-w", tmp_path / "theirs")
        assert refused.code == ExitCode.REFUSED
        assert "BLOB files that lack some rows" in refused.err
    rows = in_order(caretaker("read", "db.t", "-w", lake).rows)
    _compact(lake)
    assert in_order(caretaker("read", "db.t", "-w", lake).rows) == rows
    with pytest.raises(OracleError, match="type not handled: BLOB"):  # past the files
        oracle.rows()
    sql("ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (5, 'e'); INSERT INTO t VALUES (6, 'f')")
    _compact(lake)
    expected = [*(row[:3] for row in rows), ["+I", 5, "e"], ["+I", 6, "f"]]
    assert oracle.rows() == expected


def test_global_indexes_find_the_rows(oracle: Oracle, tmp_path: Path) -> None:
    """The index names rows by their ids, which stay."""
    lake = tmp_path / "lake"
    shutil.copytree(GOLDEN / "global_index" / "warehouse", lake)
    oracle.defaults(warehouse=lake, database="db", table="t")
    _compact(lake, "--options", "compaction.min.file-num=2")
    assert oracle.rows(filter={"field": "k", "op": "=", "value": 2}) == [["+I", 2, "b"]]
    assert oracle.rows(filter={"field": "k", "op": "=", "value": 99}) == []
    (index,) = (lake / "db.db" / "t").rglob("btree-global-index-*")
    index.unlink()
    with pytest.raises(OracleError):  # so it was the index that found them
        oracle.rows(filter={"field": "k", "op": "=", "value": 2})


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_both_take_turns(
    oracle: Oracle, java: EvolvingJava, tmp_path: Path, file_format: str
) -> None:
    path = _made(oracle, tmp_path, options={"file.format": file_format})
    sql = Sql(tmp_path)
    sql("UPDATE db.t SET v = 'sql' WHERE k IN (4, 9)")
    _compact(tmp_path)
    java.commit(java.updated(path, 0, ["n"], [[i] for i in range(10)]))
    for changes in (
        [{"change": "add_column", "name": "x", "type": "STRING", "after": "k"}],
        [{"change": "rename_column", "name": "v", "to": "w"}],
        [{"change": "update_type", "name": "k", "type": "BIGINT"}],
    ):
        oracle.one("alter_table", changes=changes)
    oracle.one("write", rows=[[10, "x", "w", 0]])
    sql("UPDATE db.t SET x = 'new' WHERE k = 4")
    rows = oracle.rows()
    assert ["+I", 4, "new", "sql", 4] in rows
    java.commit(java.compacted(path))
    oracle.one("write", rows=[[11, None, None, None]])
    oracle.one("alter_table", changes=[{"change": "drop_column", "name": "n"}])
    java.commit(java.updated(path, 0, ["w"], [[f"java{i}"] for i in range(11)]))
    sql("UPDATE db.t SET x = 'last' WHERE k >= 10")
    before = oracle.rows()
    ids = [row[-2] for row in _tracked(oracle)]
    _compact(tmp_path)
    assert oracle.rows() == before == in_order(caretaker("read", "db.t", "-w", tmp_path).rows)
    assert [row[-2] for row in _tracked(oracle)] == ids
    (file,) = oracle.one("files")["files"]
    assert (file["rows"], file["first_row_id"], file["write_cols"]) == (12, 0, None)


LAYOUTS: dict[str, dict[str, str]] = {
    "small": {},
    "five": {"compaction.min.file-num": "5"},
    "weights": {"source.split.open-file-cost": "1 b", "target-file-size": "2 kb"},
    "costs": {"source.split.open-file-cost": "1 kb", "target-file-size": "4 kb"},
    "large": {"source.split.open-file-cost": "1 b", "target-file-size": "600 b"},
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", LAYOUTS)
def test_plans_are_those_of_java(
    oracle: Oracle, java: EvolvingJava, tmp_path: Path, name: str
) -> None:
    """Rows of two partitions alternate, so that their row ids have gaps."""
    partitioned = [*COLUMNS, {"name": "dt", "type": "STRING"}]
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle.one("create_database")
    options = OPTIONS | LAYOUTS[name]
    oracle.one("create_table", columns=partitioned, partition_keys=["dt"], options=options)
    path = tmp_path / "db.db" / "t"
    chance = random.Random(name)
    firsts = []
    for i in range(18):
        count = chance.choice((1, 2, 3, 60))
        day = "a" if i % 6 < 4 else "b"
        rows = [[k, f"v{k * 7919 % 10007}{i}", k, day] for k in range(count)]
        oracle.one("write", rows=rows)
        firsts.append((sum(n for _, n in firsts), count))
    for first, count in chance.choices(firsts, k=8):
        columns = chance.sample(["k", "v", "n"], chance.randint(1, 3))
        columns = [c for c in ("k", "v", "n") if c in columns]
        java.commit(
            java.updated(path, first, columns, [[i for _ in columns] for i in range(count)])
        )
    ours = _planned(tmp_path)
    assert sorted(f for files in ours.values() for f in files) == java.planned(path)
    before = oracle.rows()
    _compact(tmp_path, "--partition", "dt=a")
    assert oracle.rows() == before
    left = _planned(tmp_path)
    assert sorted(f for files in left.values() for f in files) == java.planned(path)
    assert left["dt=b"] == ours["dt=b"]
    assert left["dt=a"] != ours["dt=a"]


def _planned(warehouse: Path) -> dict[str, list[list[str]]]:
    """The files of each unit, by partition."""
    plan = caretaker("plan", "compact", "db.t", "-w", warehouse, "--json").json
    found: dict[str, list[list[str]]] = {"dt=a": [], "dt=b": []}
    for unit in plan["units"]:
        found[unit["partition"]].append(sorted(unit["files"]))
    return {name: sorted(files) for name, files in found.items()}


def _interrupted(monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object]) -> None:
    """Each commit of the job comes after one of these."""
    real, todo = execute.commit_messages, list(between)

    def commit(*args: Any, **more: Any) -> Any:
        if todo:
            todo.pop(0)()
        return real(*args, **more)

    monkeypatch.setattr(execute, "commit_messages", commit)


def test_an_update_beside_a_compaction_is_not_lost(
    oracle: Oracle, java: EvolvingJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _made(oracle, tmp_path)
    written = java.updated(path, 3, ["v"], [["java"], ["java"]])
    _interrupted(
        monkeypatch, lambda: java.commit(written), lambda: oracle.one("write", rows=[[10, "b", 0]])
    )
    ran = _compact(tmp_path, "--json").json
    assert ran["attempts"] == 2
    found = {row[1]: row[2] for row in oracle.rows()}
    assert (found[3], found[4], found[5], found[10]) == ("java", "java", "v5", "b")
    files = oracle.one("files")["files"]
    assert sorted((f["first_row_id"], f["rows"]) for f in files) == [(0, 10), (10, 1)]
    disk = {p.name for p in path.glob("bucket-0/*")}
    assert disk == _referenced(tmp_path)
    # The rows of an update that began earlier are now in a larger group.
    late = java.updated(path, 10, ["n"], [[1]])
    _compact(tmp_path)
    with pytest.raises(AssertionError, match="conflict"):
        java.commit(late)


def test_an_update_of_all_rows_survives(
    oracle: Oracle, java: EvolvingJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merged file has the rows of the update, and a smaller sequence number."""
    path = _made(oracle, tmp_path)
    _compact(tmp_path)
    java.commit(java.updated(path, 0, ["v"], [["old"]] * 10))
    before, after = (java.updated(path, 0, ["n"], [[i]] * 10) for i in (1, 2))
    _interrupted(monkeypatch, lambda: java.commit(before))
    _compact(tmp_path)
    assert {row[2:][0] for row in oracle.rows()} == {"old"}
    assert {row[3] for row in oracle.rows()} == {1}
    with pytest.raises(AssertionError, match="operations have encountered conflicts"):
        java.commit(after)


def test_compactions_of_both_at_once(
    oracle: Oracle, java: EvolvingJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _made(oracle, tmp_path)
    theirs, late = java.compacted(path), java.compacted(path)
    rows = oracle.rows()
    _interrupted(monkeypatch, lambda: java.commit(theirs))
    ran = caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local", "--json")
    assert (ran.code, ran.json["attempts"]) == (ExitCode.NOTHING_TO_DO, 2), ran.out
    assert oracle.rows() == rows
    with pytest.raises(AssertionError):
        java.commit(late)
    assert oracle.rows() == rows


def _referenced(warehouse: Path) -> set[str]:
    table = open_table(str(warehouse), "db.t")
    return {e.file.file_name for s in table.snapshots.all() for e in scan_files(table, s)}
