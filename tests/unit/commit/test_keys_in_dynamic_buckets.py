"""Writers of dynamic buckets: a key that two of them place would be in two buckets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import caretaker
from lakes import ENV

from paimon_core import open_catalog
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.message import CommitMessage
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import CommitConflict
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import commit_write, new_writer, write_rows

COLUMNS = [Column("k", "INT NOT NULL"), Column("v", "STRING"), Column("dt", "STRING NOT NULL")]


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Keys 1 and 2 in bucket 0, key 3 in bucket 1."""
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    options = {"bucket": "-1", "write-only": "true", "dynamic-bucket.target-row-num": "2"}
    schema = create_schema(
        COLUMNS,
        now_millis=ENV.now_millis(),
        partition_keys=["dt"],
        primary_keys=["k", "dt"],
        options=options,
    )
    catalog.create_table("db.t", schema)
    table = open_table(str(tmp_path), "db.t")
    assert table.bucket_mode is BucketMode.DYNAMIC
    write_rows(table, rows([1, 2, 3]), env=ENV)
    return table


def rows(keys: Iterable[int], value: str = "old", day: str = "d") -> pa.Table:
    numbers = pa.array(keys, pa.int32())
    return pa.table({"k": numbers, "v": [value] * len(numbers), "dt": [day] * len(numbers)})


def prepared(table: FileStoreTable, *keys: int, **options: str) -> list[CommitMessage]:
    root = str(Path(table.root).parents[1])
    writer = new_writer(open_table(root, "db.t", dynamic_options=options), env=ENV)
    writer.write(rows(keys, "new"))
    return writer.prepare_commit()


def run(table: FileStoreTable, *words: str) -> None:
    job, *options = words
    ran = caretaker("run", job, "db.t", "-w", Path(table.root).parents[1], *options)
    assert ran.code == 0, ran.err


def check(table: FileStoreTable, expected: dict[int, str]) -> None:
    """Each key has one row, and one bucket."""
    warehouse = Path(table.root).parents[1]
    found = caretaker("read", "db.t", "-w", warehouse).rows
    assert sorted((row[1], row[2]) for row in found) == sorted(expected.items())
    assert caretaker("verify", "db.t", "-w", warehouse, "--keys").code == 0


@pytest.mark.parametrize("keys", [[4], [5, 6]], ids=["known", "new"])
@pytest.mark.parametrize("to", ["1", "2"])
def test_a_rollback_takes_away_where_a_stream_has_put_its_keys(
    table: FileStoreTable, keys: list[int], to: str
) -> None:
    builder = (
        open_catalog(str(Path(table.root).parents[1])).get_table("db.t").new_stream_write_builder()
    )
    with builder.new_write() as write, builder.new_commit() as commit:
        for identifier, added in enumerate([[7], [4]]):
            write.write(rows(added))
            commit.commit(write.prepare_commit(), identifier)
        run(table, "rollback", "--snapshot", to)
        write.write(rows(keys, "new"))
        with pytest.raises(CommitConflict, match=r"buckets of partition dt=d.*with a new writer"):
            commit.commit(write.prepare_commit(), 2)
    write_rows(table, rows([8, 9, *keys], "later"), env=ENV)
    expected = dict.fromkeys([1, 2, 3, *([7] if to == "2" else [])], "old")
    check(table, expected | dict.fromkeys([8, 9, *keys], "later"))


def test_an_overwritten_partition_has_other_keys(table: FileStoreTable) -> None:
    late = prepared(table, 1)
    write_rows(table, rows([8, 9]), env=ENV, partition={"dt": "d"})
    with pytest.raises(CommitConflict, match="write the rows again"):
        commit_write(table, late, env=ENV, user="late")
    write_rows(table, rows([1]), env=ENV)
    check(table, {1: "old", 8: "old", 9: "old"})


def test_two_writers_with_other_buckets_for_the_same_key(table: FileStoreTable) -> None:
    """As writers in Java with other numbers of assigners."""
    first, second = (
        prepared(table, 5),
        prepared(table, 5, **{"dynamic-bucket.initial-buckets": "7"}),
    )
    assert {m.bucket for m in first}.isdisjoint(m.bucket for m in second)
    commit_write(table, first, env=ENV, user="first")
    with pytest.raises(CommitConflict, match="add keys to a partition"):
        commit_write(table, second, env=ENV, user="second")
    check(table, {1: "old", 2: "old", 3: "old", 5: "new"})


def test_known_keys_can_change_while_others_are_added(table: FileStoreTable) -> None:
    """The index of key 3 is another file then, and still has the key."""
    late = prepared(table, 3)
    write_rows(table, rows([4, 5], day="d"), env=ENV)
    write_rows(table, rows([1], day="other"), env=ENV)
    run(table, "compact", "--engine", "local", "--strategy", "full")
    commit_write(table, late, env=ENV, user="late")
    rows_of_day = {1: "old", 2: "old", 3: "new", 4: "old", 5: "old"}
    found = caretaker("read", "db.t", "-w", Path(table.root).parents[1]).rows
    assert sorted((row[1], row[2]) for row in found if row[3] == "d") == sorted(rows_of_day.items())


def test_other_partitions_do_not_matter(table: FileStoreTable) -> None:
    late = prepared(table, 6)
    write_rows(table, rows([6], day="other"), env=ENV)
    commit_write(table, late, env=ENV, user="late")
