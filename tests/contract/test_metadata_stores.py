"""Schemas, snapshots, tags, branches, consumers and the catalog over every kind of store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from s3_store import S3Server, s3_server

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import AlreadyExists, CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO, renames_atomically
from paimon_core.manifest.manifest_list import write_manifest_list
from paimon_core.refs.tags import Tag
from paimon_core.snapshot.snapshot import CommitKind, Snapshot


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["local", "memory", "s3"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystemCatalog:
    if request.param == "local":
        return FileSystemCatalog(str(tmp_path))
    if request.param == "memory":
        return FileSystemCatalog(f"memory://{uuid.uuid4()}/w")
    server: S3Server = request.getfixturevalue("s3")
    return FileSystemCatalog(server.new_root(), server.options)


@pytest.fixture
def table(catalog: FileSystemCatalog) -> FileStoreTable:
    catalog.create_database("db")
    catalog.create_table(
        "db.t", create_schema([Column("k", "INT")], now_millis=1, options={"bucket": "-1"})
    )
    return catalog.get_table("db.t")


def _snapshot(snapshot_id: int, user: str = "u") -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=snapshot_id * 100,
    )


def test_the_catalog(catalog: FileSystemCatalog) -> None:
    assert catalog.list_databases() == []
    catalog.create_database("db")
    assert catalog.list_databases() == ["db"]
    schema = create_schema([Column("k", "INT")], now_millis=1)
    catalog.create_table("db.t", schema)
    with pytest.raises(AlreadyExists):
        catalog.create_table("db.t", schema)
    assert catalog.list_tables("db") == ["t"]
    catalog.rename_table("db.t", "db.u")
    assert catalog.list_tables("db") == ["u"]
    catalog.drop_table("db.u")
    assert catalog.list_tables("db") == []


def test_a_drop_deletes_the_schemas_last(
    catalog: FileSystemCatalog, table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    if renames_atomically(table.root):
        pytest.skip("the folder is renamed first")
    store = catalog.table_files("db.t").io
    for name in ("snapshot/snapshot-1", "dt=1/bucket-0/data", "schemas"):
        store.write_bytes(f"{table.root}/{name}", b"{}")
    delete_dir = type(store).delete_dir

    def killed(self: FileIO, path: str, *, recursive: bool = True) -> bool:
        if path == table.root:
            raise KeyboardInterrupt
        return delete_dir(self, path, recursive=recursive)

    monkeypatch.setattr(type(store), "delete_dir", killed)
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_table("db.t")
    assert catalog.list_tables("db") == ["t"]
    assert catalog.get_table("db.t").snapshots.ids() == []
    assert not store.exists(f"{table.root}/dt=1/bucket-0/data")
    assert not store.exists(f"{table.root}/schemas")
    monkeypatch.undo()
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == []
    catalog.drop_database("db")
    assert catalog.list_databases() == []


def test_writers_race_for_snapshots(table: FileStoreTable) -> None:
    def commit_next(writer: int) -> int:
        won = 0
        for _ in range(4):
            latest = table.snapshots.latest_id() or 0
            won += table.snapshots.try_commit(_snapshot(latest + 1, f"writer {writer}"))
        return won

    with ThreadPoolExecutor(3) as pool:
        won = list(pool.map(commit_next, range(3)))
    snapshots = table.snapshots.all()
    assert [s.id for s in snapshots] == list(range(1, sum(won) + 1))
    assert sum(won) >= 4
    for writer in range(3):
        assert sum(s.commit_user == f"writer {writer}" for s in snapshots) == won[writer]
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.id == sum(won)


def test_snapshots_expire_and_roll_back(table: FileStoreTable) -> None:
    for i in range(1, 6):
        assert table.snapshots.try_commit(_snapshot(i))
    for i in (1, 2):
        table.snapshots.delete(i)
    table.snapshots.write_earliest_hint(3)
    assert [s.id for s in table.snapshots.all()] == [3, 4, 5]
    table.snapshots.write_latest_hint(3)
    assert table.snapshots.latest_id() == 5  # the hint alone changes nothing
    for i in (5, 4):
        table.snapshots.delete(i)
    assert table.snapshots.latest() == _snapshot(3)
    assert table.snapshots.try_commit(_snapshot(4, "after"))
    assert table.snapshots.get(4).commit_user == "after"


def test_tags_branches_and_consumers(table: FileStoreTable) -> None:
    assert table.snapshots.try_commit(_snapshot(1))
    table.tags.create(Tag("a", _snapshot(1)))
    with pytest.raises(AlreadyExists):
        table.tags.create(Tag("a", _snapshot(2)))
    table.tags.rename("a", "b")
    with pytest.raises(CorruptTable):
        table.branches.create("side", tag="b")
    assert table.branches.names() == []
    options = table.options
    name, _ = write_manifest_list(
        table.io, table.paths, [], options=options, new_uuid=lambda: str(uuid.uuid4())
    )
    empty = table.io.read_bytes(table.paths.manifest(name))
    for wanted in ("b", "d"):
        table.io.write_bytes(table.paths.manifest(wanted), empty)
    table.branches.create("side", tag="b")
    table.branches.create("empty")
    table.branches.rename("empty", "bare")
    assert table.branches.names() == ["bare", "side"]
    assert table.snapshots.of_branch("side").all() == [_snapshot(1)]
    assert table.snapshots.of_branch("bare").all() == []
    table.consumers.set("c", 1)
    table.consumers.set("c", 2)
    assert [(c.id, c.next_snapshot) for c in table.consumers.all()] == [("c", 2)]
    assert table.consumers.get("c").modified_millis > 1_600_000_000_000
    table.branches.delete("side")
    assert table.branches.names() == ["bare"]
    table.consumers.delete("c")
    assert table.consumers.all() == []


def test_schemas_change(catalog: FileSystemCatalog, table: FileStoreTable) -> None:
    changes = [{"change": "add_column", "name": "v", "type": "STRING"}]
    assert catalog.alter_table("db.t", changes, now_millis=2).id == 1
    assert table.schemas.ids() == [0, 1]
    assert catalog.get_table("db.t").schema.names == ("k", "v")
