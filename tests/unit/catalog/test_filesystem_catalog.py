from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import SetOption
from paimon_core.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    SchemaError,
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
