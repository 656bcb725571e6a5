"""A table or branch that is renamed on an object store by a process that is killed: the same call finishes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest.mock import patch

import pyarrow as pa
import pytest
from lakes import ENV
from s3_store import S3Server, s3_server

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import AlreadyExists, NotFound, StorageError
from paimon_core.io.fsspec_io import FsspecFileIO
from paimon_core.refs.tags import Tag
from paimon_core.table.sink.write_session import write_rows
from paimon_core.write.row_writer import RowWriter


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def catalog(s3: S3Server) -> FileSystemCatalog:
    catalog = FileSystemCatalog(s3.new_root(), s3.options)
    catalog.create_database("db")
    create(catalog, "db.a")
    io, path = catalog.table_files("db.a").io, catalog.table_path("db.a")
    io.write_bytes(f"{path}/bucket-0/data-1.parquet", b"data")
    return catalog


def create(catalog: FileSystemCatalog, name: str) -> None:
    schema = create_schema([Column("k", "INT")], now_millis=ENV.now_millis())
    catalog.create_table(name, schema)


def tables(catalog: FileSystemCatalog) -> list[str]:
    return [n for n in ("a", "b") if catalog.table_files(f"db.{n}").schemas().latest()]


def killed(
    catalog: FileSystemCatalog, change: str, number: int, rename: Callable[[], object] | None = None
) -> None:
    """A rename, of table a to b if not told otherwise, that ends before its change of this number."""
    io = catalog.table_files("db.a").io
    assert isinstance(io, FsspecFileIO)
    plain, done = getattr(io._fs, change), []

    def change_one(*words: object, **more: object) -> object:
        if len(done) == number:
            raise KeyboardInterrupt
        done.append(words)
        return plain(*words, **more)

    with patch.object(io._fs, change, change_one), pytest.raises(KeyboardInterrupt):
        (rename or (lambda: catalog.rename_table("db.a", "db.b")))()


@pytest.mark.parametrize(
    ("change", "number", "seen"),
    [("cp_file", 1, ["a"]), ("rm_file", 0, ["a", "b"]), ("rm_file", 1, ["b"])],
)
def test_the_same_rename_finishes_it(
    change: str, number: int, seen: list[str], catalog: FileSystemCatalog
) -> None:
    killed(catalog, change, number)
    assert tables(catalog) == seen
    catalog.rename_table("db.a", "db.b")
    assert tables(catalog) == ["b"]
    io = catalog.table_files("db.b").io
    assert io.read_bytes(f"{catalog.table_path('db.b')}/bucket-0/data-1.parquet") == b"data"
    assert not io.exists(catalog.table_path("db.a"))
    with pytest.raises(NotFound):
        catalog.rename_table("db.a", "db.b")


@pytest.mark.sampled
@pytest.mark.parametrize(("change", "number"), [("cp_file", 1), ("rm_file", 1), ("rm_file", 2)])
def test_the_same_rename_of_a_branch_finishes_it(
    change: str, number: int, catalog: FileSystemCatalog
) -> None:
    table = catalog.get_table("db.a")
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([1], pa.int32())}))
    commit(table, writer.prepare_commit(), user="u", env=ENV)
    table.tags.create(Tag("t", table.snapshots.get(1)))
    branches = table.branches
    branches.create("b", tag="t")
    killed(catalog, change, number, lambda: branches.rename("b", "c"))
    branches.rename("b", "c")
    assert branches.names() == ["c"]
    assert catalog.get_table("db.a", branch="c").snapshots.ids() == [1]
    assert not table.io.exists(branches.paths.branch_dir("b"))
    branches.create("b", tag="t")
    with pytest.raises(AlreadyExists):
        branches.rename("b", "c")


def test_a_rename_back_undoes_it(catalog: FileSystemCatalog) -> None:
    killed(catalog, "rm_file", 1)
    catalog.rename_table("db.b", "db.a")
    assert tables(catalog) == ["a"]


def test_another_table_keeps_its_name(catalog: FileSystemCatalog) -> None:
    create(catalog, "db.b")
    with pytest.raises(AlreadyExists):
        catalog.rename_table("db.a", "db.b")
    assert tables(catalog) == ["a", "b"]


def test_a_listing_without_the_newest_snapshot_moves_nothing(catalog: FileSystemCatalog) -> None:
    """The commit would stay behind, in a folder that is no table."""
    table = catalog.get_table("db.a")
    for key in (1, 2):
        write_rows(table, pa.table({"k": pa.array([key], pa.int32())}), env=ENV)
    io = catalog.table_files("db.a").io
    assert isinstance(io, FsspecFileIO)
    find = io._fs.find

    def stale(path: str, **options: object) -> dict[str, object]:
        return {n: s for n, s in find(path, **options).items() if not n.endswith("snapshot-2")}

    with patch.object(io._fs, "find", stale), pytest.raises(StorageError, match="does not list"):
        catalog.rename_table("db.a", "db.b")
    assert tables(catalog) == ["a"]
    catalog.rename_table("db.a", "db.b")
    assert catalog.get_table("db.b").snapshots.latest_id() == 2
