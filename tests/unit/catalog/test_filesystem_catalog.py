from __future__ import annotations

import errno
import uuid
from pathlib import Path
from typing import Any

import pytest

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.table_files import TableFiles
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import DropColumn, SetOption
from paimon_core.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    OutsideTable,
    SchemaError,
    StorageError,
    UnsupportedFeature,
)
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema


def _schema(**options: str) -> TableSchema:
    return create_schema([Column("k", "INT"), Column("v", "STRING")], now_millis=1, options=options)


@pytest.fixture(params=["local", "memory"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystemCatalog:
    place = str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4()}"
    return FileSystemCatalog(place)


def test_databases_and_tables_are_made_listed_and_dropped(catalog: FileSystemCatalog) -> None:
    assert catalog.list_databases() == []
    catalog.create_database("db")
    catalog.create_database("db", if_not_exists=True)
    with pytest.raises(AlreadyExists):
        catalog.create_database("db")
    assert catalog.list_databases() == ["db"]
    assert catalog.list_tables("db") == []
    catalog.create_table("db.t", _schema())
    catalog.create_table("db.a", _schema())
    assert catalog.list_tables("db") == ["a", "t"]
    assert catalog.table_path("db.t").endswith("/db.db/t")
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == ["a"]
    catalog.drop_table("db.t", if_exists=True)
    with pytest.raises(NotFound):
        catalog.drop_table("db.t")


@pytest.mark.parametrize("name", ["a$b", "t$branch_b", "t$snapshots", "$"])
def test_names_of_branches_and_system_tables_are_none_of_tables(
    catalog: FileSystemCatalog, name: str
) -> None:
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    with pytest.raises(InvalidArgument, match="names with"):
        catalog.create_table(f"db.{name}", _schema())
    with pytest.raises(InvalidArgument, match="names with"):
        catalog.rename_table("db.t", f"db.{name}")
    assert catalog.list_tables("db") == ["t"]


def test_what_is_not_there_is_not_found(catalog: FileSystemCatalog) -> None:
    catalog.create_database("db")
    for missing in (
        lambda: catalog.list_tables("nodb"),
        lambda: catalog.create_table("nodb.t", _schema()),
        lambda: catalog.get_table("db.t"),
        lambda: catalog.alter_table("db.t", [], now_millis=1),
        lambda: catalog.rename_table("db.t", "db.u"),
    ):
        with pytest.raises(NotFound):
            missing()
    for name in ("t", ".t", "db.", "db/x.t"):
        with pytest.raises(InvalidArgument):
            catalog.table_path(name)


def test_a_table_is_made_once(catalog: FileSystemCatalog) -> None:
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    catalog.create_table("db.t", _schema(**{"write-only": "true"}), if_not_exists=True)
    with pytest.raises(AlreadyExists) as taken:
        catalog.create_table("db.t", _schema())
    assert taken.value.table == "db.t"
    assert "write-only" not in catalog.get_table("db.t").options


def test_a_refused_schema_leaves_nothing(catalog: FileSystemCatalog) -> None:
    catalog.create_database("db")
    broken = TableSchema(id=0, fields=(), highest_field_id=-1, partition_keys=("p",))
    with pytest.raises(SchemaError) as refused:
        catalog.create_table("db.t", broken)
    assert refused.value.table == "db.t"
    assert catalog.list_tables("db") == []


def test_options_of_the_catalog_stand_in_for_those_of_tables(tmp_path: Path) -> None:
    catalog = FileSystemCatalog(
        str(tmp_path), {"table-default.write-only": "true", "table-default.bucket": "-1"}
    )
    catalog.create_database("db")
    catalog.create_table("db.t", _schema(bucket="2", **{"bucket-key": "k"}))
    assert dict(catalog.get_table("db.t").options) == {
        "bucket": "2",
        "bucket-key": "k",
        "write-only": "true",
    }


def test_tables_are_renamed(catalog: FileSystemCatalog) -> None:
    catalog.create_database("db")
    catalog.create_database("other")
    catalog.create_table("db.t", _schema())
    catalog.create_table("db.u", _schema())
    with pytest.raises(AlreadyExists):
        catalog.rename_table("db.t", "db.u")
    with pytest.raises(NotFound):
        catalog.rename_table("db.t", "nodb.t")
    catalog.rename_table("db.t", "other.t")
    assert catalog.list_tables("db") == ["u"]
    assert catalog.list_tables("other") == ["t"]


def test_a_folder_in_the_way_of_a_rename_is_not_called_a_table(catalog: FileSystemCatalog) -> None:
    """A writer of a renamed table may leave one; dropping a table is no advice then."""
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    files = catalog.table_files("db.u")
    files.io.write_bytes(f"{files.path}/manifest/left", b"")
    with pytest.raises(AlreadyExists, match=r"no table db\.u, but its folder .* exists") as raised:
        catalog.rename_table("db.t", "db.u")
    assert "move it away" in str(raised.value.next_step)
    assert catalog.list_tables("db") == ["t"]


def test_a_table_with_data_elsewhere_is_not_dropped(tmp_path: Path) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    catalog.create_table("db.t", _schema(**{"data-file.external-paths": "/somewhere"}))
    with pytest.raises(UnsupportedFeature, match="external-paths"):
        catalog.drop_table("db.t")
    assert catalog.list_tables("db") == ["t"]


def test_changes_that_cross_are_applied_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    commit = SchemaStore.commit_new
    crossing = [SetOption("theirs", "1")]

    def other_first(store: SchemaStore, schema: TableSchema) -> bool:
        if crossing:
            catalog.alter_table("db.t", [crossing.pop()], now_millis=2)
        return commit(store, schema)

    monkeypatch.setattr(SchemaStore, "commit_new", other_first)
    changed = catalog.alter_table("db.t", [SetOption("ours", "1")], now_millis=3)
    assert changed.id == 2
    assert dict(changed.options) == {"theirs": "1", "ours": "1"}


def test_a_branch_is_altered_by_itself(tmp_path: Path) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    catalog.get_table("db.t").branches.create("b1")
    catalog.alter_table("db.t", [SetOption("a", "1")], now_millis=2, branch="b1")
    assert "a" not in catalog.get_table("db.t").options
    assert catalog.get_table("db.t", branch="b1").options["a"] == "1"


def test_a_table_made_while_its_database_is_dropped_stays(
    catalog: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_database("db")
    catalog.create_table("db.old", _schema())
    drop = FileSystemCatalog._drop_tables

    def beside(self: FileSystemCatalog, *args: Any, **kwargs: Any) -> None:
        drop(self, *args, **kwargs)
        catalog.create_table("db.new", _schema())

    monkeypatch.setattr(FileSystemCatalog, "_drop_tables", beside)
    with pytest.raises(InvalidArgument, match="another client"):
        catalog.drop_database("db", cascade=True)
    assert catalog.list_tables("db") == ["new"]
    monkeypatch.undo()
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []


def test_a_database_is_dropped_with_what_an_earlier_drop_left(tmp_path: Path) -> None:
    catalog = FileSystemCatalog(str(tmp_path / "lake"))
    catalog.create_database("db")
    folder = tmp_path / "lake/db.db"
    (folder / "t/bucket-0").mkdir(parents=True)
    (folder / "t/bucket-0/data-1.parquet").write_bytes(b"x")
    (folder / "t/dt=1/bucket-0").mkdir(parents=True)
    (folder / "t/dt=1/bucket-0/data-1.parquet").write_bytes(b"x")
    (folder / "t/dt=1/_SUCCESS").write_bytes(b"x")
    (tmp_path / "elsewhere/kept").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    catalog.drop_database("db")
    assert not folder.exists()
    assert (tmp_path / "elsewhere/kept").exists()


@pytest.mark.parametrize("name", ["note", "visits/2024.csv", "visits/dt=1/part-0.parquet"])
def test_a_database_with_files_of_others_is_not_dropped(tmp_path: Path, name: str) -> None:
    catalog = FileSystemCatalog(str(tmp_path / "lake"))
    catalog.create_database("db")
    file = tmp_path / "lake/db.db" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x")
    (tmp_path / "lake/db.db/empty").mkdir()
    with pytest.raises(InvalidArgument, match="files that are of none") as refusal:
        catalog.drop_database("db")
    assert refusal.value.file == str(file)
    assert file.exists()
    assert (tmp_path / "lake/db.db/empty").exists()
    catalog.drop_database("db", cascade=True)
    assert not file.exists()


@pytest.mark.parametrize("place", ["lake/db.db/t", "dt=1"])
def test_a_table_with_another_one_in_its_folder_is_not_dropped(
    catalog: FileSystemCatalog, place: str
) -> None:
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    outer = catalog.table_path("db.t")
    io = catalog.table_files("db.t").io
    inner = f"{outer}/{place}"
    io.write_bytes(f"{inner}/schema/schema-0", b"{}")
    for drop in (
        lambda: catalog.drop_table("db.t"),
        lambda: catalog.drop_database("db", cascade=True),
    ):
        with pytest.raises(OutsideTable) as refusal:
            drop()
        assert refusal.value.file == inner
        assert catalog.list_tables("db") == ["t"]
    io.delete(f"{inner}/schema/schema-0")
    catalog.drop_table("db.t")


def test_a_table_in_the_partition_of_another_one_is_not_dropped(tmp_path: Path) -> None:
    outer = tmp_path / "lake.db" / "dt=1"
    (outer.parent / "schema").mkdir(parents=True)
    (outer.parent / "schema/schema-0").write_bytes(b"{}")
    files = FileSystemCatalog(str(tmp_path)).table_files("lake.dt=1")
    assert files.path == str(outer)
    with pytest.raises(OutsideTable):
        files.check_droppable()


@pytest.mark.parametrize("name", ["a/lake/x.db/t", "a/dt=1"])
def test_a_database_around_tables_of_other_catalogs_is_not_dropped(
    tmp_path: Path, name: str
) -> None:
    catalog = FileSystemCatalog(str(tmp_path / "lake"))
    catalog.create_database("db")
    theirs = tmp_path / "lake/db.db" / name
    (theirs / "snapshot").mkdir(parents=True)
    (theirs / "snapshot/snapshot-7").write_bytes(b"{}")
    with pytest.raises(OutsideTable) as refusal:
        catalog.drop_database("db", cascade=True)
    assert refusal.value.file == str(theirs)
    assert (theirs / "snapshot/snapshot-7").exists()


def test_a_killed_drop_leaves_a_table_that_can_be_dropped_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of an object store, which cannot rename a folder at once."""
    catalog = FileSystemCatalog(f"memory://{uuid.uuid4()}")
    catalog.create_database("db")
    catalog.create_table("db.t", _schema(bucket="-1"))
    files = catalog.table_files("db.t")
    for name in ("snapshot/snapshot-1", "manifest/m", "bucket-0/d"):
        files.io.write_bytes(f"{files.path}/{name}", b"{}")
    io = type(files.io)

    def killed(*_: Any, **__: Any) -> bool:
        raise KeyboardInterrupt

    delete_dir = io.delete_dir
    monkeypatch.setattr(
        io,
        "delete_dir",
        lambda self, path, **kw: killed() if path == files.path else delete_dir(self, path, **kw),
    )
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_table("db.t")
    monkeypatch.undo()
    assert catalog.list_tables("db") == ["t"]
    assert [
        f.name for f in files.io.list_dir(files.path) if not f.is_dir or f.name == "schema"
    ] == ["schema"]
    with pytest.raises(AlreadyExists):
        catalog.create_table("db.t", _schema())
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == []
    assert not files.io.exists(files.path)


def _with_files(catalog: FileSystemCatalog) -> TableFiles:
    """Table db.t, with files of every kind."""
    catalog.create_database("db", if_not_exists=True)
    catalog.create_table("db.t", _schema(bucket="-1"))
    files = catalog.table_files("db.t")
    for name in ("snapshot/snapshot-1", "manifest/m", "bucket-0/d"):
        files.io.write_bytes(f"{files.path}/{name}", b"{}")
    return files


@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_killed_drop_leaves_no_table(
    killed_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    files = _with_files(catalog)
    io = type(files.io)
    calls = 0
    delete_dir = io.delete_dir

    def killed(self: Any, path: str, **more: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls == killed_at:
            raise KeyboardInterrupt
        return delete_dir(self, path, **more)

    monkeypatch.setattr(io, "delete_dir", killed)
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_table("db.t")
    monkeypatch.undo()
    assert catalog.list_tables("db") == []
    assert [p.name.startswith(".caretaker-dropped-") for p in tmp_path.glob("db.db/*")] == [True]
    catalog.create_table("db.t", _schema())
    assert catalog.get_table("db.t").snapshots.ids() == []
    catalog.create_table("db.other", _schema())
    catalog.drop_table("db.other")
    assert [p.name for p in tmp_path.glob("db.db/*")] == ["t"]


def test_a_database_is_dropped_with_tables_that_a_killed_drop_left(tmp_path: Path) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    files = _with_files(catalog)
    files.io.rename(files.path, f"{tmp_path}/db.db/.caretaker-dropped-{'0' * 32}")
    catalog.drop_database("db")
    assert catalog.list_databases() == []


def test_a_disk_that_fails_while_a_table_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    files = _with_files(catalog)

    def failing(*_: Any, **__: Any) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(type(files.io), "delete_dir", failing)
    with pytest.raises(StorageError, match="the table is dropped, but") as failure:
        catalog.drop_table("db.t")
    assert failure.value.file is not None
    assert Path(failure.value.file).is_dir()
    assert "delete the folder" in failure.value.next_step
    assert catalog.list_tables("db") == []


@pytest.mark.parametrize("moment", range(4))
def test_a_table_that_is_renamed_beside_a_drop_is_whole_or_gone(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    files = _with_files(catalog)
    io, changes, renamed = type(files.io), 0, []

    def beside(change: Any) -> Any:
        def changed(self: Any, *args: Any, **more: Any) -> Any:
            nonlocal changes
            changes += 1
            if changes == moment + 1:
                try:
                    FileSystemCatalog(str(tmp_path)).rename_table("db.t", "db.other")
                    renamed.append(True)
                except NotFound:
                    renamed.append(False)
            return change(self, *args, **more)

        return changed

    for name in ("rename", "delete", "delete_dir", "delete_many"):
        monkeypatch.setattr(io, name, beside(getattr(io, name)))
    if moment:
        catalog.drop_table("db.t")
    else:
        with pytest.raises(NotFound):
            catalog.drop_table("db.t")
    there = sorted(p.name for p in tmp_path.glob("db.db/*/*/*"))
    if renamed == [True]:
        assert catalog.list_tables("db") == ["other"]
        assert there == ["d", "m", "schema-0", "snapshot-1"]
    else:
        assert catalog.list_tables("db") == there == []


def test_snapshots_without_a_schema_are_not_taken_for_a_new_table(
    catalog: FileSystemCatalog,
) -> None:
    catalog.create_database("db")
    files = catalog.table_files("db.t")
    files.io.write_bytes(f"{files.path}/snapshot/snapshot-3", b"{}")
    with pytest.raises(SchemaError, match="holds snapshots"):
        catalog.create_table("db.t", _schema())
    catalog.drop_table("db.t")
    catalog.create_table("db.t", _schema())


def test_a_rename_of_what_another_client_has_renamed_is_not_found(
    catalog: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    io = type(catalog.table_files("db.t").io)
    rename = io.rename

    def beside(self: Any, src: str, dst: str) -> bool:
        rename(self, src, f"{src}-other")
        return rename(self, src, dst)

    monkeypatch.setattr(io, "rename", beside)
    with pytest.raises(NotFound):
        catalog.rename_table("db.t", "db.mine")
    assert catalog.list_tables("db") == ["t-other"]


def test_what_a_link_in_the_place_of_a_table_leads_to_is_not_deleted(tmp_path: Path) -> None:
    catalog = FileSystemCatalog(str(tmp_path / "lake"))
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    (tmp_path / "lake/db.db/link").symlink_to(tmp_path / "lake/db.db/t")
    with pytest.raises(OSError, match="symbolic link"):
        catalog.drop_table("db.link")
    assert catalog.get_table("db.t").schema.id == 0


@pytest.mark.parametrize("how", ["drop", "rename", "drop and create"])
def test_a_change_beside_a_drop_or_rename_makes_no_new_table(
    catalog: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    catalog.create_database("db")
    catalog.create_table("db.t", _schema())
    commit_new = SchemaStore.commit_new

    def beside(self: SchemaStore, schema: TableSchema) -> bool:
        monkeypatch.undo()
        if how == "rename":
            catalog.rename_table("db.t", "db.renamed")
        else:
            catalog.drop_table("db.t")
        if how == "drop and create":
            catalog.create_table("db.t", _schema(bucket="-1", comment="another"))
        return commit_new(self, schema)

    monkeypatch.setattr(SchemaStore, "commit_new", beside)
    change = [SetOption("x.y", "1")]
    if how == "drop and create":  # a change of the table that has the name now
        assert catalog.alter_table("db.t", change, now_millis=2).options["comment"] == "another"
        assert catalog.table_files("db.t").schemas().ids() == [0, 1]
        return
    with pytest.raises(NotFound):
        catalog.alter_table("db.t", change, now_millis=2)
    assert catalog.list_tables("db") == (["renamed"] if how == "rename" else [])
    assert not catalog.table_files("db.t").io.exists(catalog.table_path("db.t"))


def test_an_external_table_takes_up_a_folder_whatever_the_ids_of_its_fields(
    catalog: FileSystemCatalog,
) -> None:
    def wanted(of_struct: str) -> TableSchema:
        return create_schema([Column("k", "INT"), Column("s", of_struct)], now_millis=1)

    catalog.create_database("db")
    catalog.create_table("db.t", wanted("ROW<x INT, y INT, z INT>"))
    catalog.alter_table("db.t", [DropColumn(("s", "x"))], now_millis=2)
    table = catalog.get_table("db.t")
    files = TableFiles(io=table.io, path=table.root, identifier="db.u", options={})
    assert files.create_first(wanted("ROW<y INT, z INT>"), external=True) == table.schema
    with pytest.raises(SchemaError, match="other columns"):
        files.create_first(wanted("ROW<z INT, y INT>"), external=True)
