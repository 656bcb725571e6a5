"""Writers of a table whose keys move between partitions: two at once would give a key two rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import caretaker
from lakes import ENV

from paimon_core import open_catalog
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.commit.message import CommitMessage
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import (
    commit_overwrite,
    commit_write,
    new_writer,
    write_rows,
)

COLUMNS = [Column("k", "INT NOT NULL"), Column("v", "STRING"), Column("dt", "STRING NOT NULL")]


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    schema = create_schema(
        COLUMNS,
        now_millis=ENV.now_millis(),
        partition_keys=["dt"],
        primary_keys=["k"],
        options={"bucket": "-1", "write-only": "true"},
    )
    catalog.create_table("db.t", schema)
    table = open_table(str(tmp_path), "db.t")
    assert table.bucket_mode is BucketMode.CROSS_PARTITION
    write_rows(table, rows({1: "x", 2: "x"}), env=ENV)
    return table


def rows(places: Mapping[int, str]) -> pa.Table:
    keys = pa.array(places, pa.int32())
    return pa.table({"k": keys, "v": ["new"] * len(places), "dt": list(places.values())})


def static(table: FileStoreTable) -> FileStoreTable:
    """The table for overwrites of all its partitions."""
    options = {"dynamic-partition-overwrite": "false"}
    return open_table(str(Path(table.root).parents[1]), "db.t", dynamic_options=options)


def prepared(
    table: FileStoreTable, places: Mapping[int, str], *, overwrite: bool = False
) -> list[CommitMessage]:
    writer = new_writer(static(table), env=ENV, overwrite=overwrite)
    writer.write(rows(places))
    return writer.prepare_commit()


def run(table: FileStoreTable, job: str, *options: str) -> None:
    ran = caretaker("run", job, "db.t", "-w", Path(table.root).parents[1], *options)
    assert ran.code == 0, ran.err


def places_of(table: FileStoreTable) -> list[tuple[int, str]]:
    ran = caretaker("read", "db.t", "-w", Path(table.root).parents[1])
    return sorted((row[1], row[3]) for row in ran.rows)


def test_the_second_of_two_writers_is_refused(table: FileStoreTable) -> None:
    first, second = prepared(table, {7: "x"}), prepared(table, {7: "y"})
    commit_write(table, first, env=ENV, user="first")
    with pytest.raises(CommitConflict, match="user first may hold keys of the new rows"):
        commit_write(table, second, env=ENV, user="second")
    assert places_of(table) == [(1, "x"), (2, "x"), (7, "x")]


def test_a_writer_that_an_overwrite_overtakes_is_refused(table: FileStoreTable) -> None:
    late = prepared(table, {1: "x", 4: "x"})
    new = prepared(table, {1: "y", 4: "y"}, overwrite=True)
    with pytest.raises(InvalidArgument, match="only the whole table can be"):
        commit_overwrite(table, prepared(table, {1: "y"}, overwrite=True), env=ENV, user="dynamic")
    commit_overwrite(static(table), new, env=ENV, user="overwrite", partition={})
    with pytest.raises(CommitConflict, match="write the rows again"):
        commit_write(table, late, env=ENV, user="late")
    assert places_of(table) == [(1, "y"), (4, "y")]


def test_an_overwrite_replaces_what_came_meanwhile(table: FileStoreTable) -> None:
    for user, place in (("a", "x"), ("b", "y")):
        new = prepared(table, {1: place}, overwrite=True)
        write_rows(table, rows({1: "z"}), env=ENV)
        commit_overwrite(static(table), new, env=ENV, user=user, partition={})
        assert places_of(table) == [(1, place)]


def test_what_changes_no_key_is_no_conflict(table: FileStoreTable) -> None:
    messages = prepared(table, {1: "y"})
    write_only = prepared(table, {9: "x"})
    run(table, "compact", "--engine", "local", "--strategy", "full")
    commit_write(table, messages, env=ENV, user="one")
    assert places_of(table) == [(1, "y"), (2, "x")]
    with pytest.raises(CommitConflict):
        commit_write(table, write_only, env=ENV, user="two")


def test_a_rollback_takes_away_what_the_writer_knows(table: FileStoreTable) -> None:
    """Other commits have the numbers of the removed ones afterwards, or nothing has."""
    write_rows(table, rows({3: "x"}), env=ENV)
    late, later = prepared(table, {4: "y"}), prepared(table, {5: "y"})
    run(table, "rollback", "--snapshot", "1")
    with pytest.raises(
        CommitConflict, match=r"snapshot 2 has expired or was removed.*at snapshot 2"
    ):
        commit_write(table, late, env=ENV, user="late")
    write_rows(table, rows({4: "x"}), env=ENV)
    with pytest.raises(CommitConflict, match=r"snapshot 2 was replaced by another one"):
        commit_write(table, late, env=ENV, user="late")
    run(table, "compact", "--engine", "local", "--strategy", "full")
    with pytest.raises(CommitConflict, match="write the rows again"):
        commit_write(table, late, env=ENV, user="late")
    assert places_of(table) == [(1, "x"), (2, "x"), (4, "x")]
    run(table, "expire_snapshots", "--retain-max", "1", "--retain-min", "1")
    with pytest.raises(CommitConflict, match="snapshot 2 has expired"):
        commit_write(table, later, env=ENV, user="later")


def test_a_stream_goes_on_when_its_first_snapshots_have_expired(table: FileStoreTable) -> None:
    writer = new_writer(table, env=ENV, user="stream")
    for identifier, place in enumerate("xyz"):
        writer.write(rows({5: place}))
        commit(table, writer.prepare_commit(), user="stream", env=ENV, identifier=identifier)
        run(table, "expire_snapshots", "--retain-max", "1", "--retain-min", "1")
    assert places_of(table) == [(1, "x"), (2, "x"), (5, "z")]


def test_a_stream_goes_on(table: FileStoreTable) -> None:
    """Its own commits are no conflict, those of others are, also after its own."""
    writer = new_writer(table, env=ENV, user="stream")
    for identifier, place in enumerate("xyz"):
        writer.write(rows({5: place}))
        commit(table, writer.prepare_commit(), user="stream", env=ENV, identifier=identifier)
    assert places_of(table) == [(1, "x"), (2, "x"), (5, "z")]
    write_rows(table, rows({6: "x"}), env=ENV)
    writer.write(rows({6: "y"}))
    with pytest.raises(CommitConflict):
        commit(table, writer.prepare_commit(), user="stream", env=ENV, identifier=9)
    assert places_of(table) == [(1, "x"), (2, "x"), (5, "z"), (6, "x")]


@pytest.mark.parametrize("to", ["1", "3"])
def test_a_rollback_takes_away_what_a_stream_has_committed(table: FileStoreTable, to: str) -> None:
    """Key 1 is in partition y as far as the writer knows, and in x again since the rollback."""
    builder = (
        open_catalog(str(Path(table.root).parents[1])).get_table("db.t").new_stream_write_builder()
    )
    with builder.new_write() as write, builder.new_commit() as commit:
        for identifier, places in enumerate([{5: "x"}, {6: "x"}, {1: "y"}]):
            write.write(rows(places))
            commit.commit(write.prepare_commit(), identifier)
        run(table, "rollback", "--snapshot", to)
        write.write(rows({1: "y"}))
        with pytest.raises(CommitConflict, match="the writer's own commit 2 no longer exists"):
            commit.commit(write.prepare_commit(), 3)
    assert places_of(table)[:2] == [(1, "x"), (2, "x")]
