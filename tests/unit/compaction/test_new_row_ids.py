"""Compaction that drops deleted rows of tables with data evolution, and renumbers the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blob_files import PLACEHOLDER, commit_blob_file
from command_line import caretaker, read_rows
from evolving_tables import DELETING, delete_rows_of, groups_of, rows_by_id, update_columns
from lakes import ENV, Lake
from sql_sessions import Sql

from paimon_core.commit.committer import commit
from paimon_core.compaction.due import compact_bucket, units_due
from paimon_core.compaction.unit import CompactResult
from paimon_core.errors import CommitConflict, RowsChanged
from paimon_core.format.blob.descriptor import BlobDescriptor
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.table.sink.compact_table import buckets_of, compact_table
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.jobs.compact import execute

OPTION = "data-evolution.compaction.rewrite-row-ids"
NEW_IDS = {**DELETING, OPTION: "true"}


@pytest.fixture
def evolving(lake: Lake) -> Lake:
    """Three groups of two rows, of which the second has a deleted one."""
    lake.create(primary_key=False, options=NEW_IDS)
    for i in range(3):
        lake.append({"k": [i, 10 + i], "v": ["a", "b"]})
    delete_rows_of(lake.table(), groups_of(lake.table())[1], [0])
    return lake


def _rows(lake: Lake) -> list[list[Any]]:
    return [row[1:] for row in read_rows(lake.warehouse)]


def _result(lake: Lake) -> CompactResult:
    table = lake.table()
    (bucket,) = buckets_of(table)
    units = units_due(table, bucket, full=True, local_millis=0)
    return compact_bucket(table, units, bucket, env=ENV)


def _compact(lake: Lake, *words: object) -> None:
    ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local", *words)
    assert ran.code == ExitCode.SUCCESS, ran.err


def test_rows_that_are_left_get_new_ids(evolving: Lake) -> None:
    table = evolving.table()
    update_columns(table, groups_of(table)[0], v=["new", None])
    _compact(evolving)
    assert list(rows_by_id(table).items()) == [
        *((6, [0, "new"]), (7, [10, None]), (8, [11, "b"])),
        *((9, [2, "a"]), (10, [12, "b"])),
    ]
    assert vector_files(table, table.latest_or_not_found()) == {}
    assert caretaker("verify", "db.t", "-w", evolving.warehouse, "--deep").code == ExitCode.SUCCESS


def test_ids_stay_without_deleted_rows(lake: Lake) -> None:
    lake.create(primary_key=False, options=NEW_IDS)
    for i in range(3):
        lake.append({"k": [i], "v": ["a"]})
    before = rows_by_id(lake.table())
    _compact(lake)
    assert rows_by_id(lake.table()) == before


def test_ids_stay_without_the_option(evolving: Lake) -> None:
    before = rows_by_id(evolving.table())
    _compact(evolving, "--option", f"{OPTION}=false")
    assert rows_by_id(evolving.table()) == before
    # Only the option tells it to go on.
    _compact(evolving, "--option", f"{OPTION}=true")
    assert list(rows_by_id(evolving.table())) == [6, 7, 8, 9, 10]


def test_one_file_is_enough(lake: Lake) -> None:
    lake.create(primary_key=False, options=NEW_IDS | {"compaction.min.file-num": "5"})
    lake.append({"k": [1, 2], "v": ["a", "b"]})
    delete_rows_of(lake.table(), groups_of(lake.table())[0], [1])
    _compact(lake)
    assert rows_by_id(lake.table()) == {2: [1, "a"]}
    delete_rows_of(lake.table(), groups_of(lake.table())[0], [0])
    _compact(lake)
    assert list(scan_files(lake.table(), lake.table().latest_or_not_found())) == []
    assert _rows(lake) == []


def test_weights_are_those_of_the_rows_that_are_left(lake: Lake) -> None:
    size = {"target-file-size": "4 kb", "source.split.open-file-cost": "1 b"}
    lake.create(primary_key=False, options=NEW_IDS | size | {"file.compression": "none"})
    for first in (0, 1000, 2000):
        lake.append({"k": list(range(first, first + 1000)), "v": ["x"] * 1000})
    assert min(g[0].file.file_size for g in groups_of(lake.table())) > 4096
    for group in groups_of(lake.table())[:2]:
        delete_rows_of(lake.table(), group, range(10, 1000))
    _compact(lake)
    counts = [g[0].file.row_count for g in groups_of(lake.table())]
    assert counts == [1000, 20]


def test_partitions_without_deleted_rows_keep_their_ids(lake: Lake) -> None:
    lake.create(primary_key=False, partitioned=True, options=NEW_IDS)
    for day in "aabb":
        lake.append({"k": [1, 2], "v": ["x", "y"], "dt": [day, day]})
    Sql(lake.warehouse)("CALL sys.create_global_index('db.t', 'k', 'btree')")
    delete_rows_of(lake.table(), groups_of(lake.table())[0], [0])
    _compact(lake)
    assert list(rows_by_id(lake.table())) == [4, 5, 6, 7, 8, 9, 10]
    table = lake.table()
    left = table.index_entries(table.latest_or_not_found())
    others = {e.partition for e in scan_files(table, table.latest_or_not_found())}
    assert len(others) == 2
    assert {e.index_file.index_type for e in left} == {"btree"}
    assert len({e.partition for e in left}) == 1


@pytest.mark.parametrize("as_descriptor", ["false", "true"])
def test_blobs_are_written_again(tmp_path: Path, as_descriptor: str) -> None:
    sql = Sql(tmp_path)
    sql(f"""
        CREATE DATABASE db; USE db;
        CREATE TABLE t (k INT, b BINARY COMMENT '__BLOB_FIELD', s STRING)
        TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
                       'deletion-vectors.enabled' = 'true', '{OPTION}' = 'true');
        INSERT INTO t VALUES (1, X'01FF', 'a'), (2, X'02', 'b'), (3, NULL, 'c');
        INSERT INTO t VALUES (4, X'', 'd'), (5, X'05', 'e');
        UPDATE t SET b = X'0202' WHERE k = 2; DELETE FROM t WHERE k IN (1, 4)
    """)
    # A BLOB that looks like a descriptor is a BLOB.
    looks = BlobDescriptor("file:/nowhere", 1, 2).to_bytes()
    table = sql.session.catalog.get_table("db.t")
    commit_blob_file(table, "b", 3, [PLACEHOLDER, looks])
    rows = [row[1:] for row in read_rows(tmp_path)]
    assert rows == [[2, "0202", "b"], [3, None, "c"], [5, looks.hex(), "e"]]
    sql(f"ALTER TABLE t SET TBLPROPERTIES ('blob-as-descriptor' = '{as_descriptor}')")
    sql("CALL sys.compact('t')")
    sql("ALTER TABLE t UNSET TBLPROPERTIES ('blob-as-descriptor')")
    assert [row[1:] for row in read_rows(tmp_path)] == rows
    files = [e.file for e in scan_files(table, table.latest_or_not_found())]
    assert sorted((f.first_row_id, f.row_count) for f in files) == [(5, 3), (5, 3)]
    assert caretaker("verify", "db.t", "-w", tmp_path, "--deep").code == ExitCode.SUCCESS


# --- beside other commits -------------------------------------------------------------------------


def test_an_update_that_came_first_conflicts(evolving: Lake) -> None:
    result = _result(evolving)
    update_columns(evolving.table(), groups_of(evolving.table())[2], v=["new", None])
    with pytest.raises(CommitConflict, match="new values of rows that a compaction gives new ids"):
        commit(evolving.table(), result.to_messages(), user=ENV.new_uuid(), env=ENV)
    assert rows_by_id(evolving.table())[4] == [2, "new"]


def test_an_update_that_came_late_conflicts(evolving: Lake) -> None:
    group = groups_of(evolving.table())[2]
    compact_table(evolving.table(), full=True, env=ENV)
    with pytest.raises(RowsChanged):
        update_columns(evolving.table(), group, v=["new", None])


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda t: update_columns(t, groups_of(t)[2], v=["new", None]),
        lambda t: delete_rows_of(t, groups_of(t)[0], [0]),
        lambda t: delete_rows_of(t, groups_of(t)[1], [0, 1]),
    ],
    ids=["update", "delete", "delete of a group with deleted rows"],
)
def test_the_job_plans_again(
    evolving: Lake, meanwhile: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, todo = execute.commit_messages, [meanwhile]
    rows: list[Any] = []

    def commit_late(*args: Any, **more: Any) -> Any:
        if todo:
            todo.pop()(evolving.table())
            rows.extend(_rows(evolving))
        return real(*args, **more)

    monkeypatch.setattr(execute, "commit_messages", commit_late)
    _compact(evolving)
    assert _rows(evolving) == rows
    assert vector_files(evolving.table(), evolving.table().latest_or_not_found()) == {}


def test_an_index_that_was_built_meanwhile_goes(
    evolving: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = execute.commit_messages

    def commit_late(*args: Any, **more: Any) -> Any:
        Sql(evolving.warehouse)("CALL sys.create_global_index('db.t', 'k', 'btree')")
        return real(*args, **more)

    monkeypatch.setattr(execute, "commit_messages", commit_late)
    _compact(evolving)
    assert list(evolving.table().index_entries(evolving.table().latest_or_not_found())) == []
    assert len(read_rows(evolving.warehouse, "--where", "k = 11")) == 1
