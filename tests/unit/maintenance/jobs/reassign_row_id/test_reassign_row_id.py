"""reassign_row_id: row ids without gaps in each partition, the same rows in the same files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import Ran, caretaker, read_rows
from evolving_tables import DELETING, delete_rows_of, groups_of, rows_by_id, update_columns
from hypothesis import given
from hypothesis import strategies as st
from lakes import ENV, Lake
from sql_sessions import Sql

from paimon_core.commit.committer import commit
from paimon_core.commit.renumbering import MovedRows, Renumbering
from paimon_core.compaction.due import compact_bucket, units_due
from paimon_core.errors import CommitConflict, CorruptTable, RowsChanged
from paimon_core.manifest.data_file import (
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_core.scan.row_ranges import joined_ranges
from paimon_core.scan.scan import scan_files
from paimon_core.table.row_id_gaps import commit_renumbering
from paimon_core.table.sink.compact_table import buckets_of
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.job.exit_codes import ExitCode
from tests.lsm_files import a_file

SKIP = "data-evolution.reassign.skip-contiguous-row-count"


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Two days in turn, with an update, deleted rows, a compaction in the past, and an index."""
    lake.create(primary_key=False, partitioned=True, options=DELETING)
    for i, day in enumerate("aabab"):
        lake.append({"k": [i, 10 + i], "v": ["x", "y"], "dt": [day] * 2})
        if i == 1:
            assert _run(lake, "compact").code == ExitCode.SUCCESS
    table = lake.table()
    update_columns(table, groups_of(table)[1], v=["new", "newer"])
    delete_rows_of(table, groups_of(table)[2], [1])
    Sql(lake.warehouse)("CALL sys.create_global_index('db.t', 'k', 'btree')")
    return lake


def _run(lake: Lake, job: str, *words: object) -> Ran:
    local = ("--engine", "local") if job == "compact" else ()
    return caretaker("run", job, "db.t", "-w", lake.warehouse, *local, *words, "--json")


def _ids(lake: Lake) -> dict[str, list[tuple[int, int]]]:
    """First row id and number of rows of the groups of each day."""
    found: dict[str, list[tuple[int, int]]] = {}
    for group in groups_of(lake.table()):
        day = lake.table().paths.partition_values(group[0].partition)["dt"]
        found.setdefault(day, []).append((group[0].file.first_row_id or 0, group[0].file.row_count))
    return found


def _index(lake: Lake) -> list[tuple[int, int]]:
    table = lake.table()
    metas = [e.index_file.global_index for e in table.index_entries(table.latest_or_not_found())]
    return sorted((m["_ROW_RANGE_START"], m["_ROW_RANGE_END"]) for m in metas if m is not None)


def _rows(lake: Lake) -> list[list[Any]]:
    return [row[1:] for row in read_rows(lake.warehouse)]


def test_rows_of_each_partition_get_ids_without_gaps(lake: Lake) -> None:
    rows, files = _rows(lake), lake.on_disk()
    assert _ids(lake) == {"a": [(0, 4), (6, 2)], "b": [(4, 2), (8, 2)]}
    assert _index(lake) == [(0, 3), (4, 5), (6, 7), (8, 9)]
    plan = _run(lake, "reassign_row_id", "--dry-run").json["plan"]
    assert [a["what"] for a in plan["actions"]] == [
        "give 6 rows of partition dt=a new ids",
        "give 4 rows of partition dt=b new ids",
    ]
    assert lake.on_disk() == files
    ran = _run(lake, "reassign_row_id")
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert ran.json["details"] == {"rows": 10, "next_row_id": 20}
    assert _ids(lake) == {"a": [(10, 4), (14, 2)], "b": [(16, 2), (18, 2)]}
    assert _index(lake) == [(10, 13), (14, 15), (16, 17), (18, 19)]
    assert _rows(lake) == rows
    assert {f for f in lake.on_disk() if "bucket" in f} == {f for f in files if "bucket" in f}
    assert _run(lake, "reassign_row_id").code == ExitCode.NOTHING_TO_DO
    # Queries find rows by the index that moved, and compaction joins the files.
    assert [row[1:] for row in read_rows(lake.warehouse, "--where", "k = 14")] == [[14, "y", "b"]]
    assert _run(lake, "compact").code == ExitCode.SUCCESS
    assert _ids(lake) == {"a": [(10, 6)], "b": [(16, 4)]}
    assert _rows(lake) == rows
    lake.append({"k": [99], "v": ["z"], "dt": ["a"]})
    assert _ids(lake)["a"] == [(10, 6), (20, 1)]
    ran = caretaker("verify", "db.t", "-w", lake.warehouse, "--deep")
    assert ran.code == ExitCode.SUCCESS, ran.err


def test_older_snapshots_keep_their_ids(lake: Lake) -> None:
    before = rows_by_id(lake.table())
    tagged = lake.table().latest_or_not_found().id
    _run(lake, "reassign_row_id")
    assert rows_by_id(lake.table()) != before
    ran = caretaker("run", "rollback", "db.t", "-w", lake.warehouse, "--snapshot", tagged)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert rows_by_id(lake.table()) == before


@pytest.mark.parametrize("compacts", ["", "compacted"])
def test_the_content_of_an_older_snapshot_has_no_index_of_other_ids(
    lake: Lake, compacts: str
) -> None:
    rows, tagged = _rows(lake), lake.table().latest_or_not_found().id
    _run(lake, "reassign_row_id")
    if compacts:
        _run(lake, "compact")
    lake.append({"k": [77], "v": ["z"], "dt": ["b"]})
    ran = _run(lake, "rollback_to_as_latest", "--snapshot", tagged)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert _rows(lake) == rows
    assert _index(lake) == []
    assert len(rows_by_id(lake.table())) == len(rows)
    Sql(lake.warehouse)("CALL sys.create_global_index('db.t', 'k', 'btree')")
    ids = {i for day in _ids(lake).values() for first, n in day for i in range(first, first + n)}
    assert {i for first, last in _index(lake) for i in range(first, last + 1)} == ids


def test_only_chosen_partitions(lake: Lake) -> None:
    assert _run(lake, "reassign_row_id", "--partition", "dt=b").code == ExitCode.SUCCESS
    assert _ids(lake) == {"a": [(0, 4), (6, 2)], "b": [(10, 2), (12, 2)]}


def test_long_runs_keep_their_ids(lake: Lake) -> None:
    ran = _run(lake, "reassign_row_id", "--option", f"{SKIP}=3")
    assert ran.code == ExitCode.SUCCESS, ran.err
    # With the run of four rows, too few are left of the other partition.
    assert _ids(lake) == {"a": [(0, 4), (6, 2)], "b": [(10, 2), (12, 2)]}


def test_tables_without_partitions_or_data_evolution(lake: Lake) -> None:
    sql = Sql(lake.warehouse)
    sql("""
        CREATE TABLE db.whole (k INT) TBLPROPERTIES (
            'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true');
        INSERT INTO db.whole VALUES (1);
        CREATE TABLE db.plain (k INT, dt STRING) PARTITIONED BY (dt);
        INSERT INTO db.plain VALUES (1, 'a');
    """)
    where = ("-w", lake.warehouse)
    ran = caretaker("run", "reassign_row_id", "db.whole", *where)
    assert ran.code == ExitCode.NOTHING_TO_DO, ran.err
    ran = caretaker("run", "reassign_row_id", "db.plain", *where)
    assert ran.code not in (ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO)
    assert "must enable data-evolution.enabled" in ran.err


# --- beside other commits -------------------------------------------------------------------------


def test_an_update_of_old_ids_is_refused(lake: Lake) -> None:
    group = groups_of(lake.table())[1]
    _run(lake, "reassign_row_id")
    with pytest.raises(RowsChanged):
        update_columns(lake.table(), group, v=["late", "later"])
    Sql(lake.warehouse)(
        "ALTER TABLE db.t SET TBLPROPERTIES ("
        "'global-index.column-update-action' = 'drop_partition_index')"
    )
    Sql(lake.warehouse)("UPDATE db.t SET v = 'sql' WHERE k = 2")
    assert [row[1] for row in _rows(lake) if row[0] == 2] == ["sql"]


def test_a_compaction_of_old_ids_is_refused(lake: Lake) -> None:
    lake.append({"k": [5], "v": ["x"], "dt": ["b"]})
    table = lake.table()
    bucket = next(b for b in buckets_of(table) if len(b.files) > 3)
    units = units_due(table, bucket, full=True, local_millis=0)
    result = compact_bucket(table, units, bucket, env=ENV)
    _run(lake, "reassign_row_id")
    with pytest.raises(CommitConflict, match="got other row ids meanwhile"):
        commit(table, result.to_messages(), user=ENV.new_uuid(), env=ENV)


def test_it_begins_again_after_a_commit(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table()
    real, todo = type(table.snapshots).try_commit, [1]

    def lose_once(self: Any, *args: Any, **more: Any) -> bool:
        if todo:
            todo.pop()
            lake.append({"k": [50], "v": ["late"], "dt": ["a"]})
        won: bool = real(self, *args, **more)
        return won

    monkeypatch.setattr(type(table.snapshots), "try_commit", lose_once)
    snapshot, done = commit_renumbering(table, None, user=ENV.new_uuid(), env=ENV)
    assert (done.rows, done.next_row_id, snapshot.next_row_id) == (11, 22, 22)
    assert _ids(lake) == {"a": [(11, 4), (15, 2), (17, 1)], "b": [(18, 2), (20, 2)]}


# --- the mapping ----------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 40)), st.integers(0, 1000), st.integers(-2, 45), st.integers(1, 9))
def test_a_range_moves_as_its_rows_do(ids: set[int], to: int, first: int, count: int) -> None:
    runs = _runs(sorted(ids))
    moved = MovedRows.of(runs, to)
    new = {row: to + i for i, row in enumerate(sorted(ids))}
    rows = range(first, first + count)
    assert moved.count == len(ids)
    assert moved.touches(rows) == any(row in new for row in rows)
    whole = any(rows.start >= r.start and rows.stop <= r.stop for r in runs)
    assert moved.moved(rows) == (new[first] if whole else None)


def _runs(ids: Sequence[int]) -> list[range]:
    breaks = np.flatnonzero(np.diff(ids) != 1) + 1
    return [
        range(int(p[0]), int(p[-1]) + 1) for p in np.split(np.array(ids, int), breaks) if len(p)
    ]


def test_a_file_of_which_only_some_rows_move_is_refused() -> None:
    moved = Renumbering({b"": MovedRows.of([range(5), range(10, 15)], 20)}, 30)
    file = replace(a_file(1, 5), first_row_id=3)
    with pytest.raises(CorruptTable, match="shares only some rows"):
        moved.entry(ManifestEntry(FileKind.ADD, b"", 0, -1, file))


def test_an_index_over_a_gap_goes() -> None:
    moved = Renumbering({b"": MovedRows.of([range(5), range(10, 15)], 20)}, 30)

    def changed(first: int, last: int) -> list[tuple[FileKind, object]]:
        place = {"_ROW_RANGE_START": first, "_ROW_RANGE_END": last, "_INDEX_FIELD_ID": 0}
        file = IndexFileMeta(
            index_type="btree", file_name="i", file_size=1, row_count=1, global_index=place
        )
        found = moved.index_changes([IndexManifestEntry(FileKind.ADD, b"", 0, file)])
        return [(e.kind, (e.index_file.global_index or {})["_ROW_RANGE_START"]) for e in found]

    assert changed(11, 12) == [(FileKind.DELETE, 11), (FileKind.ADD, 26)]
    assert changed(0, 12) == [(FileKind.DELETE, 0)]
    assert changed(5, 9) == []


def test_the_other_files_of_a_manifest_stay(lake: Lake) -> None:
    ids = {e.file.file_name: e.file.first_row_id for e in _entries(lake)}
    _run(lake, "reassign_row_id", "--partition", "dt=b")
    now = {e.file.file_name: e.file.first_row_id for e in _entries(lake)}
    assert now.keys() == ids.keys()
    assert sum(now[name] != ids[name] for name in ids) == 3


def _entries(lake: Lake) -> list[ManifestEntry]:
    return scan_files(lake.table(), lake.table().latest_or_not_found())


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1))
def test_ranges_are_joined_as_their_rows_are(ranges: list[tuple[int, int]]) -> None:
    ordered = np.array(sorted(ranges))
    starts, stops = ordered[:, 0], ordered.sum(axis=1)
    ids = {row for first, count in ranges for row in range(first, first + count)}
    assert joined_ranges(starts, stops) == _runs(sorted(ids))


def test_row_ids_that_cannot_be_are_named(lake: Lake) -> None:
    latest = lake.table().latest_or_not_found()
    path = Path(lake.table().paths.snapshot(latest.id))
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "nextRowId": 2**63 - 5}))
    for words in ([], ["--dry-run"]):
        ran = _run(lake, "reassign_row_id", *words)
        assert ran.code == ExitCode.CORRUPT_TABLE, ran.out
        assert f"row ids of snapshot {latest.id} of table db.t do not fit" in ran.err


def test_files_with_impossible_row_ids_are_named(lake: Lake) -> None:
    table = lake.table()
    writer = RowWriter(table, env=ENV)
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"], "dt": ["a", "a"]})
    writer.write(rows)
    messages = [
        replace(m, new_files=tuple(replace(f, first_row_id=2**63 - 2) for f in m.new_files))
        for m in writer.prepare_commit()
    ]
    commit(table, messages, user=ENV.new_uuid(), env=ENV)
    for ran in (
        _run(lake, "reassign_row_id"),
        caretaker("health", "db.t", "-w", lake.warehouse),
    ):
        assert ran.code == ExitCode.CORRUPT_TABLE, ran.out
        assert "impossible row ids" in ran.err
