"""Two clients of a Hive metastore at once, entries that name a folder of others, odd names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from catalog_rows import append, row_count, schema
from metastore_process import HiveMetastore
from pyspark.sql.types import LongType, StringType, StructField, StructType

from paimon_core.catalog.hive import tables as hive_tables
from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.hive.metastore import Metastore
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import AddColumn, RemoveOption, SetOption
from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.types.sql import parse_type
from paimon_spark.source.writes.schema_merge import merge_schema


@pytest.fixture
def ours(hive_metastore: HiveMetastore) -> HiveCatalog:
    return HiveCatalog.connect(hive_metastore.options)


@pytest.fixture
def database(ours: HiveCatalog, tmp_path: Path) -> str:
    name = f"races_{abs(hash(tmp_path))}"
    ours.create_database(name)
    ours.create_table(f"{name}.t", schema(bucket="-1"))
    append(ours.get_table(f"{name}.t"), [1])
    return name


def _entry(catalog: HiveCatalog, like: str, name: str, location: str) -> None:
    """Another client makes an entry with this location."""
    table = replace(Metastore(catalog.options).table(like), table_name=name)
    Metastore(catalog.options).client.call(
        "create_table", hive_tables.with_location(table, location, catalog.options)
    )


def test_dropping_an_entry_keeps_the_folder_of_another_table(
    ours: HiveCatalog, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Metastore(ours.options).location(Metastore(ours.options).table(f"{database}.t"))
    for name, location in (
        ("same", folder),
        ("spelt", f"{folder}/"),
        ("parent", folder.rpartition("/")[0]),
        ("inside", f"{folder}/bucket-0"),
    ):
        _entry(ours, f"{database}.t", name, location)
        ours.drop_table(f"{database}.{name}")
        assert f"{database}.t" in caplog.text, name
        caplog.clear()
        assert row_count(ours, f"{database}.t") == 1, name
    assert ours.list_tables(database) == ["t"]
    ours.drop_table(f"{database}.t")
    assert not Path(folder.removeprefix("file:")).exists()


def test_dropping_an_entry_keeps_the_folder_of_a_table_in_another_database(
    ours: HiveCatalog, database: str
) -> None:
    other = f"{database}_other"
    ours.create_database(other)
    folder = Metastore(ours.options).location(Metastore(ours.options).table(f"{database}.t"))
    ours.create_table(f"{other}.own", schema())
    _entry(ours, f"{other}.own", "thief", folder)
    _entry(ours, f"{other}.own", "robber", folder.rpartition("/")[0])
    ours.drop_database(other, cascade=True)
    assert row_count(ours, f"{database}.t") == 1


def test_what_a_link_leads_to_stays(ours: HiveCatalog, database: str) -> None:
    folder = Path(
        Metastore(ours.options)
        .location(Metastore(ours.options).table(f"{database}.t"))
        .removeprefix("file:")
    )
    link = folder.parent / "link"
    link.symlink_to(folder)
    _entry(ours, f"{database}.t", "linked", f"file:{link}")
    ours.drop_table(f"{database}.linked")
    assert row_count(ours, f"{database}.t") == 1


def test_repair_makes_no_second_entry_for_a_folder(ours: HiveCatalog, database: str) -> None:
    """As after a rename in Hive that left the folder where it was."""
    table = Metastore(ours.options).table(f"{database}.t")
    Metastore(ours.options).client.call("drop_table", database, "t", False)
    Metastore(ours.options).client.call("create_table", replace(table, table_name="renamed"))
    ours.repair(database)
    assert ours.list_tables(database) == ["renamed"]
    with pytest.raises(AlreadyExists, match=f"folder of table {database}.renamed"):
        ours.repair(f"{database}.t")


def test_a_table_has_no_root_for_a_folder(ours: HiveCatalog, database: str) -> None:
    for path in ("file:/", "/tmp/../etc", "s3://bucket"):
        with pytest.raises(InvalidArgument, match="cannot be the folder"):
            ours.create_table(f"{database}.bad", schema(path=path))


def test_names_that_break_the_metastores_lock_are_refused(ours: HiveCatalog, database: str) -> None:
    for name in ("it's", "x" * 129):
        with pytest.raises(InvalidArgument, match="cannot keep the name"):
            ours.create_table(f"{database}.{name}", schema())
        with pytest.raises(InvalidArgument, match="cannot keep the name"):
            ours.rename_table(f"{database}.t", f"{database}.{name}")


def test_a_long_comment_is_whole_in_the_schema(ours: HiveCatalog, database: str) -> None:
    long = AddColumn(("c",), parse_type("INT"), 'it\'s "ü"' * 100)
    changed = ours.alter_table(f"{database}.t", [long], now_millis=1)
    assert changed.fields[-1].description == long.description
    shown = Metastore(ours.options).table(f"{database}.t").sd
    assert shown is not None
    assert shown.cols is not None
    assert shown.cols[-1].comment == (long.description or "")[:256]
    ours.create_table(f"{database}.copy", changed)
    ours.repair(f"{database}.copy")
    assert ours.get_table(f"{database}.copy").schema.fields[-1].description == long.description


def test_creations_at_once_are_one(ours: HiveCatalog, database: str) -> None:
    def create(_: int) -> None:
        ours.create_table(f"{database}.new", schema(bucket="-1"), if_not_exists=True)

    assert not _at_once(4, create)
    append(ours.get_table(f"{database}.new"), [1, 2])
    assert row_count(ours, f"{database}.new") == 2


def test_the_metastore_shows_the_newest_schema_of_many_changes(
    ours: HiveCatalog, database: str
) -> None:
    def change(i: int) -> None:
        for j in range(2):
            added = AddColumn((f"c{i}_{j}",), parse_type("INT"))
            ours.alter_table(f"{database}.t", [SetOption(f"x{i}.k{j}", "1"), added], now_millis=1)
            ours.alter_table(f"{database}.t", [RemoveOption(f"x{i}.k{j}")], now_millis=1)

    assert not _at_once(2, change)
    newest = ours.get_table(f"{database}.t").schema
    assert newest.id == 8
    assert sorted(f.id for f in newest.fields) == list(range(6))
    shown = Metastore(ours.options).table(f"{database}.t")
    assert shown.sd is not None
    assert [c.name for c in shown.sd.cols or ()] == list(newest.names)
    assert not [k for k in shown.parameters or {} if k.startswith("x") and "." in k]


def test_the_metastore_shows_columns_that_a_write_adds_and_a_replaced_table(
    ours: HiveCatalog, database: str
) -> None:
    rows = StructType([StructField("id", LongType()), StructField("added", StringType())])
    table = ours.get_table(f"{database}.t")
    merged = merge_schema(table, rows, explicit=False, widen=True, now_millis=1)
    assert list(merged.schema.names) == ["id", "v", "added"]
    assert _shown_columns(ours, f"{database}.t") == ["id", "v", "added"]
    other = create_schema([Column("x", "INT")], now_millis=1, options={"a.b": "1"})
    assert merged.commit_schema(replace(other, id=merged.schema.id + 1))
    assert _shown_columns(ours, f"{database}.t") == ["x"]
    parameters = Metastore(ours.options).table(f"{database}.t").parameters or {}
    assert parameters["a.b"] == "1"
    assert "commit.max-retries" not in parameters


def _shown_columns(catalog: HiveCatalog, name: str) -> list[str | None]:
    shown = Metastore(catalog.options).table(name).sd
    return [c.name for c in (shown and shown.cols) or ()]


def test_of_two_renames_one_wins(
    ours: HiveCatalog, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter = Metastore.alter

    def beside(*args: Any) -> None:
        monkeypatch.undo()
        ours.rename_table(f"{database}.t", f"{database}.b")
        alter(*args)

    monkeypatch.setattr(Metastore, "alter", beside)
    with pytest.raises(NotFound):
        ours.rename_table(f"{database}.t", f"{database}.a")
    assert ours.list_tables(database) == ["b"]
    assert row_count(ours, f"{database}.b") == 1


def _at_once(number: int, work: Callable[[int], None]) -> list[Exception]:
    """What the threads raised."""
    failed: list[Exception] = []
    ready = threading.Barrier(number)

    def run(i: int) -> None:
        ready.wait()
        try:
            work(i)
        except Exception as e:  # noqa: BLE001 - returned
            failed.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return failed
