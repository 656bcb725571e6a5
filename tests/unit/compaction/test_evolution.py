"""Which files of tables with data evolution are merged, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from blob_files import PLACEHOLDER, commit_blob_file
from command_line import caretaker, read_rows
from evolving_tables import EVOLVING, groups_of, rows_by_id, update_columns
from lakes import ENV, Lake
from sql_sessions import Sql

from paimon_core.commit.committer import commit
from paimon_core.commit.row_group_conflict import torn_rows
from paimon_core.compaction.due import compact_bucket, units_due
from paimon_core.compaction.evolution import pick_evolving
from paimon_core.errors import CommitConflict, CorruptTable, RowsChanged, UnsupportedFeature
from paimon_core.format.blob.descriptor import BlobDescriptor
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.scan.scan import scan_files
from paimon_core.table.sink.compact_table import buckets_of, compact_table
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.jobs.compact import execute
from tests.lsm_files import a_file

COST = 100
TARGET = 1000


@pytest.fixture
def evolving(lake: Lake) -> Lake:
    lake.create(primary_key=False, options=EVOLVING)
    return lake


def _file(first: int, rows: int, size: int = 1, *, name: str = "") -> DataFileMeta:
    name = name or f"data-{first}-{size}.parquet"
    return replace(a_file(1, rows, size=size, name=name), first_row_id=first)


def _picked(lake: Lake, files: Sequence[DataFileMeta], **options: str) -> list[list[int]]:
    """The first row ids of the files of each unit."""
    told = {"target__file__size": str(TARGET), "source_split_open__file__cost": str(COST)}
    table = lake.table(**told, **options)
    units = pick_evolving(table, files, partition=b"", bucket=0, total_buckets=-1)
    return [[f.first_row_id or 0 for f in u.append_files] for u in units]


def test_neighbours_are_packed_up_to_the_target(evolving: Lake) -> None:
    files = [_file(i, 1, 400) for i in range(7)]
    assert _picked(evolving, files[::-1]) == [[0, 1, 2], [3, 4, 5]]
    # Small files count as the cost of opening one.
    assert _picked(evolving, [_file(i, 1) for i in range(12)]) == [list(range(11))]


def test_gaps_and_large_groups_end_a_file(evolving: Lake) -> None:
    files = [_file(0, 5), _file(5, 5), _file(11, 5), _file(16, 2), _file(18, 2, 2000), _file(20, 1)]
    assert _picked(evolving, files) == [[0, 5], [11, 16]]
    updated = _file(18, 2, 30)
    assert _picked(evolving, [*files, updated]) == [[0, 5], [11, 16], [18, 18]]


def test_files_are_counted_not_groups(evolving: Lake) -> None:
    files = [_file(0, 5), _file(0, 5, 2), _file(5, 1), _file(0, 5, 3)]
    assert _picked(evolving, files, **{"compaction_min.file__num": "4"}) == [[0, 0, 0, 5]]
    assert _picked(evolving, files, **{"compaction_min.file__num": "5"}) == []
    # Java would write a single file again in every run.
    assert _picked(evolving, files[:1], **{"compaction_min.file__num": "1"}) == []


def _photos(warehouse: Path) -> Lake:
    Sql(warehouse)("""
        CREATE DATABASE db;
        CREATE TABLE db.t (k INT, b BINARY COMMENT '__BLOB_FIELD') TBLPROPERTIES (
            'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
            'compaction.min.file-num' = '2');
    """)
    return Lake(warehouse)


def _blob(first: int, rows: int) -> DataFileMeta:
    return replace(_file(first, rows, name=f"data-{first}-{rows}.blob"), write_cols=("b",))


def test_blobs_stay(tmp_path: Path) -> None:
    photos = _photos(tmp_path)
    data = [replace(_file(i, 2), write_cols=("k",)) for i in (0, 2, 4, 6)]
    blobs = [_blob(0, 1), _blob(1, 1), _blob(2, 2)]
    # The last two are from before the column was added.
    assert _picked(photos, [*data, *blobs]) == [[0, 2], [4, 6]]
    with pytest.raises(UnsupportedFeature, match="BLOB files that lack some rows"):
        _picked(photos, [*data, _blob(1, 1)])
    with pytest.raises(UnsupportedFeature, match="BLOB files that lack some rows"):
        _picked(photos, [*data, _blob(0, 1)])
    with pytest.raises(UnsupportedFeature, match="BLOBs beside and inside of data files"):
        _picked(photos, [replace(data[0], write_cols=("k", "b")), *data[1:]])


def test_groups_that_cannot_be_read_are_refused(evolving: Lake) -> None:
    vectors = _file(0, 2, name="data-1.vector.parquet")
    with pytest.raises(UnsupportedFeature, match="vectors in files of their own"):
        _picked(evolving, [_file(0, 2), vectors])
    with pytest.raises(UnsupportedFeature, match="share only some rows"):
        _picked(evolving, [_file(0, 2), _file(1, 2)])


def test_rows_that_are_torn(tmp_path: Path) -> None:
    table = _photos(tmp_path).table()
    whole = [_file(0, 5), _file(0, 5, 2), _file(5, 5), _blob(0, 3), _blob(3, 2), _blob(5, 5)]
    assert torn_rows(table, (), whole) is None
    for torn in (_file(0, 10), _file(4, 1), _file(2, 8), _file(9, 5)):
        assert torn_rows(table, (), [*whole, torn]) is not None
    merged = _file(0, 10)
    blobs = whole[3:]
    assert torn_rows(table, [merged], blobs) is None
    assert torn_rows(table, [merged], ()) is None
    assert torn_rows(table, [merged], blobs[1:]) == (merged, blobs[1])
    assert torn_rows(table, [merged], blobs[:2]) == (merged, blobs[1])
    assert torn_rows(table, [merged], [blobs[0], blobs[2]]) == (merged, blobs[2])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vector.file.format", "parquet"),
        ("blob-view-field", "v"),
        ("clustering.incremental", "true"),
    ],
)
def test_what_is_refused(evolving: Lake, key: str, value: str) -> None:
    evolving.append({"k": [1], "v": ["a"]})
    evolving.change_options("db.t", key, value)
    before = evolving.on_disk()
    ran = caretaker("run", "compact", "db.t", "-w", evolving.warehouse, "--engine", "local")
    assert ran.code == ExitCode.REFUSED
    assert key in ran.err
    with pytest.raises(UnsupportedFeature, match=key):
        compact_table(evolving.table(), full=True, env=ENV)
    assert evolving.on_disk() == before


def test_an_update_that_came_first_conflicts(evolving: Lake) -> None:
    for i in range(3):
        evolving.append({"k": [i, i], "v": ["a", "b"]})
    table = evolving.table()
    (bucket,) = buckets_of(table)
    units = units_due(table, bucket, full=True, local_millis=0)
    result = compact_bucket(table, units, bucket, env=ENV)
    (first, *_) = groups_of(table)
    update_columns(table, first, v=["new", None])
    with pytest.raises(CommitConflict, match="would share only some rows"):
        commit(table, result.to_messages(), user=ENV.new_uuid(), env=ENV)
    assert rows_by_id(table)[0] == [0, "new"]


def test_an_update_that_came_late_conflicts(evolving: Lake) -> None:
    for i in range(3):
        evolving.append({"k": [i, i], "v": ["a", "b"]})
    table = evolving.table()
    (first, *_) = groups_of(table)
    compact_table(table, full=True, env=ENV)
    with pytest.raises(RowsChanged):
        update_columns(table, first, v=["new", None])
    # So that SQL reads the rows again.
    Sql(evolving.warehouse)("UPDATE db.t SET v = 'sql' WHERE k = 0")
    assert [row[1] for row in rows_by_id(table).values()] == ["sql", "sql", "a", "b", "a", "b"]


def test_a_file_with_other_rows_than_its_metadata_is_not_replaced(evolving: Lake) -> None:
    for i in range(3):
        evolving.append({"k": [i, i], "v": ["a", "b"]})
    table = evolving.table()
    (bucket,) = buckets_of(table)
    (unit,) = units_due(table, bucket, full=True, local_millis=0)
    (one, two, three) = unit.append_files
    wrong = replace(unit, append_files=(one, two, replace(three, row_count=3)))
    before = evolving.on_disk()
    with pytest.raises(CorruptTable, match="holds 2 rows where its metadata says 3"):
        compact_bucket(table, [wrong], bucket, env=ENV)
    assert evolving.on_disk() == before


def test_blobs_and_descriptors(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql("""
        CREATE DATABASE db; USE db;
        CREATE TABLE t (k INT, b BINARY COMMENT '__BLOB_FIELD', s STRING,
                        d BINARY COMMENT '__BLOB_DESCRIPTOR_FIELD')
        TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true',
                       'compaction.min.file-num' = '2', 'blob-as-descriptor' = 'true');
        INSERT INTO t (k, b, s) VALUES (1, X'01FF', 'a'), (2, NULL, 'b');
        INSERT INTO t (k, b, s) VALUES (3, X'', 'c');
    """)
    described = BlobDescriptor("file:/nowhere", 1, 2).to_bytes()
    sql(f"INSERT INTO t VALUES (4, X'04', 'd', X'{described.hex()}')")
    sql("UPDATE t SET s = 'new' WHERE k = 2")
    columns = ("--columns", "k,b,s,d")
    plain = [row[:2] + row[3:] for row in read_rows(tmp_path, *columns)]
    sql("CALL sys.compact('t')")
    table = sql.session.catalog.get_table("db.t")
    files = [e.file for e in scan_files(table, table.latest_or_not_found())]
    (merged,) = [f for f in files if f.file_name.endswith("parquet")]
    assert (merged.row_count, merged.write_cols) == (4, ("k", "s", "d"))
    assert len(files) == 4
    assert [row[:2] + row[3:] for row in read_rows(tmp_path, *columns)] == plain
    assert plain[3][-1] == described.hex()
    sql("ALTER TABLE t UNSET TBLPROPERTIES ('blob-as-descriptor')")
    commit_blob_file(table, "b", 0, [PLACEHOLDER, b"new", PLACEHOLDER, None])
    blobs = [(row[1], row[2]) for row in read_rows(tmp_path, "--columns", "k,b")]
    assert blobs == [(1, "01ff"), (2, b"new".hex()), (3, ""), (4, None)]
    assert caretaker("verify", "db.t", "-w", tmp_path, "--deep").code == ExitCode.SUCCESS
    ran = caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local")
    assert ran.code == ExitCode.NOTHING_TO_DO


def test_rows_from_before_a_column_of_blobs_stay_apart(tmp_path: Path) -> None:
    """Java merges them, and cannot read the result."""
    sql = Sql(tmp_path)
    sql("""
        CREATE DATABASE db; USE db;
        CREATE TABLE t (k INT, s STRING) TBLPROPERTIES ('row-tracking.enabled' = 'true',
            'data-evolution.enabled' = 'true', 'compaction.min.file-num' = '2');
        INSERT INTO t VALUES (1, 'a'); INSERT INTO t VALUES (2, 'b');
        ALTER TABLE t ADD COLUMN b BINARY COMMENT '__BLOB_FIELD';
        INSERT INTO t VALUES (3, 'c', X'03'); INSERT INTO t VALUES (4, 'd', NULL);
        INSERT INTO t VALUES (5, 'e', X'05');
    """)
    table = sql.session.catalog.get_table("db.t")
    rows = rows_by_id(table)
    sql("CALL sys.compact('t')")
    assert rows_by_id(table) == rows
    assert [(g[0].file.first_row_id, g[0].file.row_count) for g in groups_of(table)] == [
        (0, 2),
        (2, 3),
    ]
    # 1.4.2 looks at the files of a dropped column, too.
    sql("ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (6, 'f'); CALL sys.compact('t')")
    groups = groups_of(sql.session.catalog.get_table("db.t"))
    assert [(g[0].file.first_row_id, g[0].file.row_count) for g in groups] == [
        (0, 2),
        (2, 3),
        (5, 1),
    ]


def test_blobs_of_older_rows_that_came_first_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    lake.create(primary_key=False, options=EVOLVING)
    for i in range(2):
        lake.append({"k": [i, 10 + i], "v": ["a", "b"]})
    Sql(tmp_path)("ALTER TABLE db.t ADD COLUMN b BINARY COMMENT '__BLOB_FIELD'")
    real, todo = execute.commit_messages, [[b"new", None]]

    def commit_late(*args: Any, **more: Any) -> Any:
        if todo:
            commit_blob_file(lake.table(), "b", 0, todo.pop())
        return real(*args, **more)

    monkeypatch.setattr(execute, "commit_messages", commit_late)
    ran = caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local", "--json")
    assert (ran.code, ran.json["attempts"]) == (ExitCode.NOTHING_TO_DO, 2), ran.out
    found = [row[1:] for row in read_rows(tmp_path)]
    assert found == [[0, "a", b"new".hex()], [1, "a", None], [10, "b", None], [11, "b", None]]
    # Once all rows have BLOBs, they are merged.
    commit_blob_file(lake.table(), "b", 2, [b"2", b"3"])
    ran = caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local")
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert [row[3] for row in read_rows(tmp_path)] == [b"new".hex(), b"2".hex(), None, b"3".hex()]


def test_row_ids_of_other_partitions_are_gaps(lake: Lake) -> None:
    lake.create(primary_key=False, partitioned=True, options=EVOLVING)
    for i in range(6):
        lake.append({"k": [i], "v": ["x"], "dt": ["a" if i < 2 or i % 2 else "b"]})
    before = rows_by_id(lake.table())
    compact_table(lake.table(), full=True, env=ENV)
    assert rows_by_id(lake.table()) == before
    files = [e.file for e in scan_files(lake.table(), lake.table().latest_or_not_found())]
    assert sorted((f.first_row_id, f.row_count) for f in files) == [
        (0, 2),
        *((i, 1) for i in range(2, 6)),
    ]


@pytest.mark.parametrize("option", ["file-index.bloom-filter.columns", "file.format"])
def test_options_of_the_table_hold(lake: Lake, option: str) -> None:
    value = {"file-index.bloom-filter.columns": "k", "file.format": "avro"}[option]
    lake.create(primary_key=False, options={**EVOLVING, option: value})
    for i in range(3):
        lake.append({"k": [i], "v": ["x"]})
    (first, *_) = groups_of(lake.table())
    update_columns(lake.table(), first, v=["new"])
    before = rows_by_id(lake.table())
    compact_table(lake.table(), full=True, env=ENV)
    assert rows_by_id(lake.table()) == before
    (group,) = groups_of(lake.table())
    (file,) = [e.file for e in group]
    assert file.file_name.endswith(value if option == "file.format" else "parquet")
    assert bool(file.embedded_index or file.extra_files) == (option != "file.format")
