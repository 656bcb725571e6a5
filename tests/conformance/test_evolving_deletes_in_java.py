"""Deleted rows of tables with data evolution, by either side: reads, updates, compactions, conflicts.

Java 2.0 deletes rows of such tables; 1.4.2 does not open them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, in_order
from evolving_java import EvolvingJava
from evolving_tables import rows_by_id
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import UnsupportedFeature
from paimon_core.read.data_evolution import anchor, row_groups
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.jobs.compact import execute

CREATE = """
    CREATE DATABASE db; USE db;
    CREATE TABLE t (k INT, v STRING, n BIGINT) TBLPROPERTIES (
        'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
        'deletion-vectors.enabled' = 'true', 'compaction.min.file-num' = '2');
    INSERT INTO t VALUES (0, 'v0', 0), (1, 'v1', 10), (2, 'v2', 20);
    INSERT INTO t VALUES (3, 'v3', 30), (4, 'v4', 40);
    INSERT INTO t VALUES (5, 'v5', 50), (6, 'v6', 60), (7, 'v7', 70);
"""


@pytest.fixture(scope="module")
def java() -> Iterator[EvolvingJava]:
    started = EvolvingJava("2.0.0")
    yield started
    started.close()


class Lake:
    """A table in a folder, its SQL, and the oracle on it."""

    def __init__(self, oracle: Oracle, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "db.db" / "t"
        self.sql = Sql(folder)
        self.oracle = oracle.copy(warehouse=folder, database="db", table="t")

    def twin(self, folder: Path) -> Lake:
        return Lake(self.oracle, Path(shutil.copytree(self.folder, folder)))

    def rows(self) -> list[list[Any]]:
        """The rows, which both sides see."""
        ours = in_order(caretaker("read", "db.t", "-w", self.folder).rows)
        assert ours == in_order(self.oracle.rows())
        tracked = {row[4]: row[1:4] for row in self.oracle.rows(system="row_tracking")}
        assert rows_by_id(open_table(str(self.folder), "db.t")) == tracked
        return [row[1:] for row in ours]

    def anchors(self) -> dict[int, str]:
        """The file with the deletion vector by the first row of its group."""
        table = open_table(str(self.folder), "db.t")
        latest = table.latest_or_not_found()
        groups = row_groups(scan_files(table, latest), table)
        files = [anchor(group).file for group in groups]
        return {f.first_row_id or 0: f.file_name for f in files}

    def vectors(self) -> list[tuple[int, int]]:
        """First row and number of deleted rows of each group that has some."""
        table = open_table(str(self.folder), "db.t")
        entries = table.index_entries(table.latest_or_not_found())
        ranges = {
            r.data_file: r.cardinality or 0 for e in entries for r in e.index_file.dv_ranges or ()
        }
        return [(f, ranges[a]) for f, a in self.anchors().items() if a in ranges]

    def compact(self) -> None:
        ran = caretaker("run", "compact", "db.t", "-w", self.folder, "--engine", "local")
        assert ran.code == ExitCode.SUCCESS, ran.err


@pytest.fixture
def lake(oracle_2_0_0: Oracle, tmp_path: Path) -> Lake:
    made = Lake(oracle_2_0_0, tmp_path / "ours")
    made.sql(CREATE)
    return made


def test_either_deletes_updates_and_compacts(
    lake: Lake, java: EvolvingJava, tmp_path: Path
) -> None:
    sql, path = lake.sql, lake.path
    sql("DELETE FROM t WHERE k = 1")
    assert len(lake.rows()) == 7
    java.commit(java.updated(path, 0, ["v"], [["a"], ["gone"], ["c"]]))
    java.commit(java.deleted(path, {lake.anchors()[0]: [2], lake.anchors()[5]: [0]}))
    assert [row[0] for row in lake.rows()] == [0, 3, 4, 6, 7]
    sql("UPDATE t SET n = 1 WHERE k < 5; DELETE FROM t WHERE v = 'v4'; DELETE FROM t WHERE k = 7")
    rows = lake.rows()
    assert rows == [[0, "a", 1], [3, "v3", 1], [6, "v6", 60]]
    theirs = lake.twin(tmp_path / "theirs")
    lake.compact()
    java.commit(java.compacted(theirs.path))
    for one in (lake, theirs):
        assert one.rows() == rows
        assert one.vectors() == [(0, 5)]
    assert lake.oracle.rows(system="row_tracking") == theirs.oracle.rows(system="row_tracking")
    # What either merged, the other one changes and merges again.
    lake.sql("INSERT INTO t VALUES (8, 'v8', 80); DELETE FROM t WHERE k = 3")
    theirs.sql("USE db; DELETE FROM t WHERE k = 3; INSERT INTO t VALUES (8, 'v8', 80)")
    java.commit(java.compacted(lake.path))
    theirs.compact()
    assert lake.rows() == theirs.rows() == [[0, "a", 1], [6, "v6", 60], [8, "v8", 80]]
    assert lake.vectors() == theirs.vectors() == [(0, 6)]
    assert caretaker("verify", "db.t", "-w", lake.folder, "--deep").code == ExitCode.SUCCESS


def test_a_delete_beside_a_compaction_is_not_lost(
    lake: Lake, java: EvolvingJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = java.compacted(lake.path)
    lake.sql("DELETE FROM t WHERE k = 0")
    with pytest.raises(AssertionError, match="which is not previously added"):
        java.commit(waiting)
    plain, deletes = execute.commit_messages, [[1]]

    def commit(*arguments: Any, **more: Any) -> Any:
        if deletes:
            java.commit(java.deleted(lake.path, {lake.anchors()[0]: deletes.pop()}))
            lake.sql("DELETE FROM t WHERE k = 6")
        return plain(*arguments, **more)

    monkeypatch.setattr(execute, "commit_messages", commit)
    lake.compact()
    assert [row[0] for row in lake.rows()] == [2, 3, 4, 5, 7]
    assert lake.vectors() == [(0, 3)]


FOUND = {"field": "k", "op": "=", "value": 3}
NEW_IDS = "ALTER TABLE t SET TBLPROPERTIES ('data-evolution.compaction.rewrite-row-ids' = 'true')"


def test_either_drops_deleted_rows(lake: Lake, java: EvolvingJava, tmp_path: Path) -> None:
    lake.sql(NEW_IDS)
    lake.sql("UPDATE t SET v = 'new' WHERE k < 3; DELETE FROM t WHERE k IN (1, 3, 4)")
    lake.sql("CALL sys.create_global_index('t', 'k', 'btree')")
    rows = lake.rows()
    assert [row[0] for row in rows] == [0, 2, 5, 6, 7]
    theirs = lake.twin(tmp_path / "theirs")
    lake.compact()
    java.commit(java.compacted(theirs.path))
    for one in (lake, theirs):
        assert one.rows() == rows
        assert one.vectors() == []
        table = open_table(str(one.folder), "db.t")
        assert table.index_entries(table.latest_or_not_found()) == []
        (file,) = [e.file for e in scan_files(table, table.latest_or_not_found())]
        assert (file.first_row_id, file.row_count) == (8, 5)
    assert lake.oracle.rows(system="row_tracking") == theirs.oracle.rows(system="row_tracking")
    ran = caretaker("run", "compact", "db.t", "-w", lake.folder, "--engine", "local")
    assert ran.code == ExitCode.NOTHING_TO_DO
    # What either wrote, the other one changes and compacts again.
    for one in (lake, theirs):
        one.sql("USE db; INSERT INTO t VALUES (8, 'v8', 80); DELETE FROM t WHERE k = 6")
    java.commit(java.compacted(lake.path))
    theirs.compact()
    assert lake.rows() == theirs.rows()
    assert lake.vectors() == theirs.vectors() == []
    assert caretaker("verify", "db.t", "-w", lake.folder, "--deep").code == ExitCode.SUCCESS


def test_an_update_of_old_ids_beside_either_compaction(
    lake: Lake, java: EvolvingJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql(NEW_IDS)
    lake.sql("DELETE FROM t WHERE k = 3")
    plain, updates = execute.commit_messages, [java.updated(lake.path, 0, ["n"], [[1], [2], [3]])]

    def commit(*arguments: Any, **more: Any) -> Any:
        if updates:
            java.commit(updates.pop())
        return plain(*arguments, **more)

    monkeypatch.setattr(execute, "commit_messages", commit)
    lake.compact()
    assert [row[2] for row in lake.rows()] == [1, 2, 3, 40, 50, 60, 70]
    lake.sql("DELETE FROM t WHERE k = 4")
    late = java.updated(lake.path, 8, ["n"], [[0]] * 7)
    lake.compact()
    with pytest.raises(AssertionError, match="row"):
        java.commit(late)
    assert [row[2] for row in lake.rows()] == [1, 2, 3, 50, 60, 70]


def test_row_ids_that_java_reassigns(
    lake: Lake, java: EvolvingJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql("""
        DROP TABLE t;
        CREATE TABLE t (k INT, v STRING, n BIGINT) PARTITIONED BY (v) TBLPROPERTIES (
            'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
            'deletion-vectors.enabled' = 'true', 'compaction.min.file-num' = '2');
        INSERT INTO t VALUES (0, 'a', 0), (1, 'a', 10), (2, 'b', 20);
        INSERT INTO t VALUES (3, 'a', 30), (4, 'b', 40);
        UPDATE t SET n = 1 WHERE k IN (0, 1);
        CALL sys.create_global_index('t', 'k', 'btree');
    """)
    rows = lake.rows()
    assert len(lake.anchors()) == 4
    theirs = lake.twin(tmp_path / "theirs")
    ours = lake.twin(tmp_path / "reassigned")
    java.reassign(theirs.path)
    assert caretaker("run", "reassign_row_id", "db.t", "-w", ours.folder).code == ExitCode.SUCCESS
    assert ours.oracle.rows(system="row_tracking") == theirs.oracle.rows(system="row_tracking")
    assert ours.anchors() == theirs.anchors()
    snapshots = [one.oracle.one("snapshots")["snapshots"][-1] for one in (ours, theirs)]
    assert [s["commitKind"] for s in snapshots] == ["OVERWRITE", "OVERWRITE"]
    assert ours.oracle.rows(filter=FOUND) == theirs.oracle.rows(filter=FOUND) != []
    java.commit(java.compacted(ours.path))
    assert ours.rows() == rows
    real, todo = execute.commit_messages, [lake.path]

    def commit_late(*arguments: Any, **more: Any) -> Any:
        if todo:
            java.reassign(todo.pop())
            assert lake.rows() == rows
        return real(*arguments, **more)

    monkeypatch.setattr(execute, "commit_messages", commit_late)
    lake.compact()
    assert lake.rows() == rows
    assert list(lake.anchors()) == [5, 8]  # without gaps, all files of a partition become one
    by_index = lake.oracle.rows(filter=FOUND)
    assert [row[1:] for row in by_index] == [[3, "a", 30]]
    lake.sql("UPDATE t SET n = 2 WHERE k = 4")
    assert lake.rows()[4] == [4, "b", 2]


def test_deletes_need_vectors(lake: Lake) -> None:
    lake.sql("""
        ALTER TABLE t SET TBLPROPERTIES ('deletion-vectors.modifiable' = 'true');
        ALTER TABLE t SET TBLPROPERTIES ('deletion-vectors.enabled' = 'false')
    """)
    for statement in ("DELETE FROM t WHERE k = 1", "DELETE FROM t"):
        with pytest.raises(UnsupportedFeature, match="with DeletionVector enabled"):
            lake.sql(statement)
    assert len(lake.rows()) == 8


def test_whole_partitions_need_no_vectors(lake: Lake) -> None:
    lake.sql("""
        CREATE TABLE days (k INT, day STRING) PARTITIONED BY (day) TBLPROPERTIES (
            'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
            'deletion-vectors.enabled' = 'true');
        INSERT INTO days VALUES (1, 'a'), (2, 'a'), (3, 'b');
        DELETE FROM days WHERE day = 'a'
    """)
    java = lake.oracle.copy(table="days")
    assert [row[1:] for row in java.rows()] == [[3, "b"]]
    newest = java.one("snapshots")["snapshots"][-1]
    assert (newest["commitKind"], newest["deltaRecordCount"]) == ("OVERWRITE", -2)
