"""Rows through the writer: kinds, default values, memory, disk, compaction afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import ENV, Lake
from sql_sessions import Sql

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileSource
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import commit_write, write_rows
from paimon_core.write.row_writer import RowWriter

COLUMNS = [
    Column("k", "INT NOT NULL"),
    Column("v", "STRING", default_value="'none'"),
    Column("kind", "STRING"),
]


def table_of(
    tmp_path: Path, columns: list[Column] = COLUMNS, *, key: str | None = "k", **options: str
) -> FileStoreTable:
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db", if_not_exists=True)
    schema = create_schema(
        columns, now_millis=1, primary_keys=[key] if key else [], options=dashed(options)
    )
    catalog.create_table("db.t", schema)
    return open_table(str(tmp_path), "db.t")


def dashed(options: dict[str, str]) -> dict[str, str]:
    return {k.replace("__", "-").replace("_", "."): v for k, v in options.items()}


def rows_of(table: FileStoreTable) -> list[dict[str, Any]]:
    latest = table.snapshots.latest()
    assert latest is not None
    batches = list(read_table(table, latest))
    rows = [row for b in batches for row in b.to_pylist()]
    return sorted(rows, key=lambda row: row["k"])


def test_default_values_replace_nulls(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1")
    write_rows(table, pa.table({"k": pa.array([1, 2, 3], pa.int32())}), env=ENV)
    write_rows(table, pa.table({"k": pa.array([2], pa.int32()), "v": ["x"]}), env=ENV)
    assert [row["v"] for row in rows_of(table)] == ["none", "x", "none"]


@pytest.mark.parametrize("strict", [True, False])
def test_a_partition_that_is_no_time(tmp_path: Path, *, strict: bool) -> None:
    options = {
        "partition.timestamp-format.strict": str(strict).lower(),
        "partition.timestamp-formatter": "yyyyMMdd",
    }
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    columns = [Column("dt", "STRING"), Column("k", "INT")]
    schema = create_schema(columns, now_millis=1, partition_keys=["dt"], options=options)
    catalog.create_table("db.t", schema)
    table = open_table(str(tmp_path), "db.t")
    write_rows(table, pa.table({"dt": ["20260131"], "k": pa.array([1], pa.int32())}), env=ENV)
    for value in ("2026-01-31", None):
        rows = pa.table({"dt": pa.array([value], pa.string()), "k": pa.array([2], pa.int32())})
        if strict:
            with pytest.raises(InvalidArgument, match="does not match partition"):
                write_rows(table, rows, env=ENV)
        else:
            write_rows(table, rows, env=ENV)
    assert len(rows_of(table)) == (1 if strict else 3)


def test_kinds_from_a_column(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1", rowkind_field="kind", ignore__update__before="true")
    rows = pa.table(
        {
            "k": pa.array([1, 2, 3, 1, 2], pa.int32()),
            "v": ["a", "b", "c", "a", "d"],
            "kind": ["+I", "+I", "+I", "-D", "-U"],
        }
    )
    write_rows(table, rows, env=ENV)
    assert [(r["k"], r["v"]) for r in rows_of(table)] == [(2, "b"), (3, "c")]
    for bad in ("?", None):
        writer = RowWriter(table, env=ENV)
        with pytest.raises(InvalidArgument, match="row kind"):
            writer.write(rows.slice(0, 1).set_column(2, "kind", pa.array([bad], pa.string())))


def test_nulls_where_none_may_be(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1")
    with pytest.raises(InvalidArgument, match="null in column k"):
        write_rows(table, pa.table({"k": pa.nulls(1, pa.int32())}), env=ENV)
    assert not list(Path(table.root).rglob("bucket-*"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"write-buffer-spillable": "false"},
        {"write-buffer-spill.max-disk-size": "40 kb"},
        {"sequence.field": "v"},
        {"changelog-producer": "input"},
    ],
    ids=lambda o: next(iter(o), "spilled"),
)
def test_a_small_buffer_changes_no_row(tmp_path: Path, options: dict[str, str]) -> None:
    columns = [Column("k", "INT NOT NULL"), Column("v", "BIGINT"), Column("s", "STRING")]
    rng = np.random.default_rng(7)
    batches = []
    for _ in range(20):
        keys = rng.integers(0, 300, 200)
        values = rng.permutation(10_000)[:200]
        batches.append(
            pa.record_batch(
                {"k": pa.array(keys, pa.int32()), "v": values, "s": [f"s{v}" * 5 for v in values]}
            )
        )
    tables = []
    for place, size in (("roomy", None), ("tight", 20_000)):
        (tmp_path / place).mkdir()
        spills = tmp_path / f"{place}-spills"
        spills.mkdir()
        table = table_of(tmp_path / place, columns, bucket="2")
        table = replace(table, schema=table.schema.with_options(options))
        writer = RowWriter(table, env=ENV, buffer_bytes=size, spill_dir=str(spills))
        most_on_disk = 0
        for batch in batches:
            writer.write(batch)
            most_on_disk = max(most_on_disk, len(list(spills.rglob("*"))))
        messages = writer.prepare_commit()
        commit_write(table, messages, env=ENV, user=ENV.new_uuid())
        assert not list(spills.iterdir())
        files = sum(len(m.new_files) for m in messages)
        on_disk_only = "write-buffer-spillable" not in options
        assert (most_on_disk > 0) == (place == "tight" and on_disk_only)
        if place == "roomy" or len(options) == 0 or "sequence.field" in options:
            assert files == 2  # one sorted run a bucket
        else:
            assert files >= 2
        tables.append(table)
    assert rows_of(tables[0]) == rows_of(tables[1])
    if "changelog-producer" in options:
        changelogs = [sum(s.changelog_record_count or 0 for s in t.snapshots.all()) for t in tables]
        assert changelogs == [4000, 4000]


def test_many_append_partitions_have_one_file_open(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log(partitioned=True)
    table = lake.table()
    spills = tmp_path / "spills"
    spills.mkdir()
    writer = RowWriter(table, env=ENV, buffer_bytes=2_000, spill_dir=str(spills))
    for i in range(10):
        days = [f"d{d:02}" for d in range(30)]
        batch = pa.table({"k": pa.array([i] * 30, pa.int32()), "v": days, "dt": days})
        writer.write(batch)
    assert list(spills.rglob("*"))
    open_ones = list(Path(table.root).rglob("*.parquet"))
    assert len(open_ones) <= 10
    messages = writer.prepare_commit()
    commit_write(table, messages, env=ENV, user="u")
    assert not list(spills.iterdir())
    assert len(messages) == 30
    assert all(len(m.new_files) == 1 and m.new_files[0].row_count == 10 for m in messages)
    by_day: dict[str, list[int]] = {}
    latest = table.latest_or_not_found()
    for batch in read_table(table, latest):
        for row in batch.to_pylist():
            by_day.setdefault(row["dt"], []).append(row["k"])
    assert all(keys == list(range(10)) for keys in by_day.values())


def test_an_aborted_writer_leaves_nothing(tmp_path: Path) -> None:
    for options in ({"bucket": "2"}, {"bucket": "-1"}, {"bucket": "-2"}):
        place = tmp_path / options["bucket"]
        place.mkdir()
        table = table_of(place, **options)
        writer = RowWriter(table, env=ENV, buffer_bytes=1_000)
        data = {"k": pa.array(range(500), pa.int32()), "v": ["x" * 20] * 500}
        for _ in range(3):
            writer.write(pa.table(data))
        writer.abort()
        kept = ("schema", "snapshot")
        left = [p for p in Path(table.root).rglob("*") if p.is_file() and p.parts[-2] not in kept]
        assert left == []


def test_a_writer_compacts_what_it_makes_due(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1", num__sorted__run_compaction__trigger="3")
    for i in range(3):
        made = write_rows(
            table, pa.table({"k": pa.array([i, 9], pa.int32()), "v": [str(i)] * 2}), env=ENV
        )
    append, compact = made
    assert (append.commit_kind, compact.commit_kind) == (CommitKind.APPEND, CommitKind.COMPACT)
    assert (append.commit_user, append.commit_identifier) == (
        compact.commit_user,
        compact.commit_identifier,
    )
    (entry,) = scan_files(table, compact)
    assert (entry.file.level, entry.file.file_source) == (5 - 2, FileSource.COMPACT)
    assert [(r["k"], r["v"]) for r in rows_of(table)] == [(0, "0"), (1, "1"), (2, "2"), (9, "2")]


def test_a_lost_compaction_does_not_lose_rows(tmp_path: Path) -> None:
    """Another job compacts the same files between the writer's work and its commit."""
    table = table_of(tmp_path, bucket="1", num__sorted__run_compaction__trigger="3")
    data = {"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}
    for _ in range(2):
        write_rows(table, pa.table(data), env=ENV)
    first = RowWriter(table, env=ENV)
    first.write(pa.table(data | {"v": ["c", "d"]}))
    messages = first.prepare_commit()
    interfered: list[object] = []

    def uuid() -> str:
        # The last thing before the first snapshot is written is asking for names.
        if not interfered:
            interfered.append(True)
            write_rows(table, pa.table(data | {"k": pa.array([3, 4], pa.int32())}), env=ENV)
        return system_environment().new_uuid()

    made = commit_write(table, messages, env=replace(ENV, new_uuid=uuid), user="u")
    assert [s.commit_kind for s in made] == [CommitKind.APPEND]
    assert {r["k"]: r["v"] for r in rows_of(table)} == {1: "c", 2: "d", 3: "a", 4: "b"}
    on_disk = {p.name for p in Path(table.root).rglob("bucket-*/*")}
    named = {e.file.file_name for s in table.snapshots.all() for e in scan_files(table, s)}
    assert on_disk == named


def test_two_writers_of_one_dynamic_bucket_conflict(tmp_path: Path) -> None:
    """Java would let the second index replace the first, and forget where keys are."""
    table = table_of(tmp_path, bucket="-1")
    writers = [RowWriter(table, env=ENV) for _ in range(2)]
    for number, writer in enumerate(writers):
        writer.write(pa.table({"k": pa.array([number], pa.int32()), "v": ["a"]}))
    first, second = (w.prepare_commit() for w in writers)
    commit_write(table, first, env=ENV, user="first")
    with pytest.raises(CommitConflict, match="write the rows again with a new writer"):
        commit_write(table, second, env=ENV, user="second")
    write_rows(table, pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}), env=ENV)
    assert [r["k"] for r in rows_of(table)] == [0, 1]


def test_keys_of_several_partitions_are_divided_among_assigners(tmp_path: Path) -> None:
    """The key does not hold the partition; the rows of key 1 move from bucket to bucket."""
    sql = Sql(tmp_path)
    sql("""
        CREATE TABLE t (p INT, k INT, v INT) PARTITIONED BY (p) TBLPROPERTIES (
            'primary-key' = 'k', 'dynamic-bucket.target-row-num' = '3',
            'dynamic-bucket.assigner-parallelism' = '3')
    """)
    sql("INSERT INTO t VALUES (1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 4, 4), (1, 5, 5)")
    for partition in (2, 1):
        sql(f"INSERT INTO t VALUES ({partition}, 1, 6), (1, 3, 7), (1, 6, 8)")
    table = sql.session.catalog.get_table("default.t")
    folders = {p.name for p in Path(table.root, "p=1").iterdir()}
    assert folders == {"bucket-0", "bucket-1", "bucket-2"}
    assert [r["v"] for r in rows_of(table)] == [6, 2, 7, 4, 5, 8]


def test_a_writer_goes_on_after_its_commits(tmp_path: Path) -> None:
    """Sequence numbers and hash indexes follow from the writer's own commits, not from its start."""
    for options in ({"bucket": "1"}, {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}):
        place = tmp_path / options["bucket"]
        place.mkdir()
        table = table_of(place, **options)
        writer = RowWriter(table, env=ENV)
        for number in range(4):
            keys = pa.array([7, number], pa.int32())
            writer.write(pa.table({"k": keys, "v": [str(number)] * 2}))
            commit_write(table, writer.prepare_commit(), env=ENV, user="u", identifier=number)
        found = {r["k"]: r["v"] for r in rows_of(table)}
        assert found == {0: "0", 1: "1", 2: "2", 3: "3", 7: "3"}
        indexes = table.index_entries(table.latest_or_not_found())
        assert sorted(e.index_file.row_count for e in indexes) == (
            [1, 2, 2] if options["bucket"] == "-1" else []
        )
        names = {e.index_file.file_name for e in indexes}
        on_disk = {p.name for p in Path(table.root).glob("index/*")}
        assert names <= on_disk
