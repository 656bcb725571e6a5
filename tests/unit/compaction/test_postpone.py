"""Units that replay postponed rows: whole, in slices, as bytes, with schemas that changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lakes import ENV, Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.compaction.postpone import known_buckets, replay, replay_units
from paimon_core.compaction.slices import slice_unit
from paimon_core.compaction.unit import CompactResult, CompactUnit, merged
from paimon_core.ddl.schema_change import change_from_object
from paimon_core.environment import system_environment
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind


def postponed(place: Path, commits: int = 4, *, partitioned: bool = False) -> Lake:
    lake = Lake(place)
    options = {"bucket": "-2", "postpone.default-bucket-num": "3"}
    lake.create(options=options, partitioned=partitioned)
    lake.fill(commits, rows=20)
    return lake


def rows_of(table: FileStoreTable) -> list[tuple[object, ...]]:
    batches = read_table(table, table.latest_or_not_found())
    return sorted(tuple(r.values())[1:] for b in batches for r in b.to_pylist())


def units_of(table: FileStoreTable) -> list[CompactUnit]:
    return replay_units(table, scan_files(table, table.latest_or_not_found()))


def replayed(table: FileStoreTable, *, slice_bytes: int) -> None:
    """One commit of all units, each gone to a task and back."""
    messages = []
    for whole in units_of(table):
        results = []
        for part in slice_unit(table, whole, slice_bytes=slice_bytes):
            unit = CompactUnit.from_bytes(part.to_bytes())
            assert unit == part
            result = replay(table, unit, env=ENV)
            assert CompactResult.from_bytes(result.to_bytes()) == result
            results.append(result)
        messages += merged(results).to_messages()
    (snapshot,) = commit(table, messages, user=ENV.new_uuid(), env=ENV)
    assert snapshot.commit_kind is CommitKind.COMPACT


@pytest.mark.parametrize("partitioned", [False, True])
def test_slices_do_what_the_whole_does(tmp_path: Path, partitioned: bool) -> None:  # noqa: FBT001
    found = []
    for name, slice_bytes in (("whole", 2**40), ("slices", 1)):
        (tmp_path / name).mkdir()
        lake = postponed(tmp_path / name, partitioned=partitioned)
        table = lake.table()
        assert rows_of(table) == []
        (first, *_) = units_of(table)
        assert len(slice_unit(table, first, slice_bytes=slice_bytes)) == (
            1 if name == "whole" else len(first.append_files)
        )
        replayed(table, slice_bytes=slice_bytes)
        assert units_of(table) == []
        entries = scan_files(table, table.latest_or_not_found())
        assert {e.total_buckets for e in entries} == {3}
        found.append(rows_of(table))
    assert found[0] == found[1]
    assert len(found[0]) == 20


def test_rows_are_numbered_on(tmp_path: Path) -> None:
    """What came later wins, also over what lies in the real buckets already."""
    lake = postponed(tmp_path, 2)
    replayed(lake.table(), slice_bytes=1)
    first = rows_of(lake.table())
    lake.append({"k": [3, 4], "v": ["newer", "newer"]})
    (unit,) = units_of(lake.table())
    assert unit.replay is not None
    newest = max(
        e.file.max_sequence_number
        for e in scan_files(lake.table(), lake.table().latest_or_not_found())
        if e.bucket != POSTPONE_BUCKET
    )
    assert unit.replay.first_sequence_number == newest + 1
    replayed(lake.table(), slice_bytes=2**40)
    changed = {row for row in rows_of(lake.table()) if row not in first}
    assert changed == {(3, "newer"), (4, "newer")}


def test_a_partition_keeps_its_buckets(tmp_path: Path) -> None:
    lake = postponed(tmp_path, 1)
    replayed(lake.table(), slice_bytes=2**40)
    lake.fill(1, rows=20)
    table = lake.table(**{"postpone.default-bucket-num": "7"})
    (unit,) = units_of(table)
    assert unit.replay is not None
    assert unit.replay.buckets == 3


def test_the_rows_of_a_new_partition_say_how_many_buckets_it_gets(tmp_path: Path) -> None:
    lake = postponed(tmp_path, 2)  # 40 rows of 20 keys
    (unit,) = units_of(lake.table(**{"postpone.target-row-num-per-bucket": "15"}))
    assert unit.replay is not None
    assert unit.replay.buckets == 3
    (unit,) = units_of(lake.table(**{"postpone.target-row-num-per-bucket": "40"}))
    assert unit.replay is not None
    assert unit.replay.buckets == 1
    replayed(lake.table(), slice_bytes=2**40)
    lake.fill(1, rows=20)
    (unit,) = units_of(lake.table(**{"postpone.target-row-num-per-bucket": "1"}))
    assert unit.replay is not None
    assert unit.replay.buckets == 3


def test_postponed_files_of_an_old_schema(tmp_path: Path) -> None:
    lake = postponed(tmp_path, 1)
    catalog = FileSystemCatalog(str(tmp_path))
    for change in (
        {"change": "rename_column", "name": "v", "to": "w"},
        {"change": "add_column", "name": "n", "type": "INT"},
    ):
        now = system_environment().now_millis()
        catalog.alter_table("db.t", [change_from_object(change)], now_millis=now)
    table = lake.table()
    replayed(table, slice_bytes=2**40)
    assert len(rows_of(table)) == 20
    assert all(row[2] is None and str(row[1]).startswith("v") for row in rows_of(table))


def test_a_partition_with_two_bucket_numbers_is_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=2)
    lake.fill(1)
    entries = scan_files(lake.table(), lake.table().latest_or_not_found())
    assert known_buckets(lake.table(), entries) == {entries[0].partition: 2}
    other = [replace(entries[0], total_buckets=5)]
    with pytest.raises(CorruptTable, match="both 2 and 5 buckets"):
        known_buckets(lake.table(), [*entries, *other])


def test_a_failing_replay_leaves_nothing(tmp_path: Path) -> None:
    lake = postponed(tmp_path, 3)
    table = lake.table()
    (unit,) = units_of(table)
    last = unit.append_files[-1]
    table.io.delete(table.paths.data_file(unit.partition, unit.bucket, last))
    before = lake.on_disk()
    with pytest.raises(CorruptTable, match="missing"):
        replay(table, unit, env=ENV)
    assert lake.on_disk() == before
