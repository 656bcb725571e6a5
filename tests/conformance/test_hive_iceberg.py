"""Tables that Java and we register as Iceberg tables in one Hive metastore, read by pyiceberg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from command_line import caretaker
from iceberg_reader import local, metadata, records, unreferenced
from metastore_process import HiveMetastore

from oracle import Oracle
from paimon_core import Catalog, Schema, open_catalog
from paimon_core.commit.iceberg import publish as iceberg_publish
from paimon_core.errors import CatalogError, InvalidArgument, StorageError, UnsupportedFeature
from paimon_core.iceberg import register as iceberg_register
from paimon_core.iceberg.external_catalog import Shown
from paimon_core.remote.hive_client import HiveClient
from paimon_core.remote.thrift_calls import Table as Entry

COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}
POINTER = "metadata_location"


class _Oracles(Protocol):
    def of(self, version: str) -> Oracle: ...


class Registered:
    """One table of a folder, written by Java and us, and its entry in the metastore."""

    def __init__(self, metastore: HiveMetastore, lake: Path, name: str = "t") -> None:
        self.uri = metastore.options["uri"]
        self.client = HiveClient({"uri": self.uri})
        self.lake = lake
        self.database = f"ice_{abs(hash(lake))}"
        self.name = name
        self.folder = lake / "iceberg" / self.database / name / "metadata"
        self.catalog: Catalog = open_catalog(str(lake))
        self.catalog.create_database(self.database, ignore_if_exists=True)

    def create(self, options: Mapping[str, str] | None = None) -> None:
        hive = {"metadata.iceberg.storage": "hive-catalog", "metadata.iceberg.uri": self.uri}
        schema = Schema.of(COLUMNS, options=hive | dict(options or {}))
        self.catalog.create_table(f"{self.database}.{self.name}", schema)

    def ours(self, *keys: int) -> None:
        table = self.catalog.get_table(f"{self.database}.{self.name}")
        table.append([{"k": k, "v": "ours"} for k in keys])

    def entry(self, database: str | None = None, name: str | None = None) -> Entry:
        found: Entry = self.client.call("get_table", database or self.database, name or self.name)
        return found

    def pointer(self) -> str:
        return Path((self.entry().parameters or {})[POINTER]).name

    def keys(self, database: str | None = None, name: str | None = None) -> list[int]:
        """What pyiceberg reads through the metastore."""
        catalogs = pytest.importorskip("pyiceberg.catalog.hive")
        opened = catalogs.HiveCatalog("hive", uri=self.uri)
        table = opened.load_table((database or self.database, name or self.name))
        return sorted(table.scan().to_arrow().column("k").to_pylist())

    def check(self, *, leftovers: bool = False) -> None:
        table = self.catalog.get_table(f"{self.database}.{self.name}")
        assert self.keys() == sorted(r["k"] for r in table.to_dicts())
        for snapshot in metadata(self.folder)["snapshots"]:
            for manifest in records(local(snapshot["manifest-list"])):
                assert local(manifest["manifest_path"]).exists()
        assert leftovers or unreferenced(self.folder) == set()


@pytest.fixture
def registered(
    hive_metastore: HiveMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Registered:
    # The metastore's database has no direct SQL, so old versions would stay for a minute.
    monkeypatch.setattr(iceberg_publish, "SETTLED_MILLIS", 0)
    return Registered(hive_metastore, tmp_path / "lake")


@contextmanager
def _fault(
    monkeypatch: pytest.MonkeyPatch, *names: str, made: bool, times: int = 1
) -> Iterator[list[str]]:
    """The first calls of these names have no answer, whether the change is made or not."""
    failed: list[str] = []
    call = HiveClient.call

    def failing(self: HiveClient, name: str, *arguments: Any) -> Any:
        if name not in names or failed.count(name) >= times:
            return call(self, name, *arguments)
        failed.append(name)
        if made:
            call(self, name, *arguments)
        raise StorageError("the answer is lost")

    with monkeypatch.context() as patch:
        patch.setattr(HiveClient, "call", failing)
        yield failed


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_by_turns_with_java(registered: Registered, hive_oracles: _Oracles, version: str) -> None:
    """Either goes on where the other left off, and both make the same entry."""
    java = hive_oracles.of(version).defaults(
        warehouse=str(registered.lake), database=registered.database, table="t"
    )
    registered.create()
    registered.ours(1)
    registered.check()
    java.one("write", rows=[[2, "java"]])
    registered.check()
    assert registered.pointer() == "v2.metadata.json"
    added = {"change": "add_column", "name": "n", "type": "DECIMAL(10, 2)"}
    added["comment"] = "short" if version == "1.4.2" else "x\n" * 150  # 1.4.2 fails at long ones
    java.one("alter_table", changes=[added])
    registered.ours(3, 4)
    registered.check()
    java.one("write", rows=[[5, "java", None]])
    registered.ours(6)
    registered.check()
    assert registered.pointer() == "v5.metadata.json"
    second = Registered.__new__(Registered)
    second.__dict__ |= registered.__dict__ | {"name": "u"}
    second.folder = registered.folder.parent.parent / "u" / "metadata"
    second.create()
    java.one("write", table="u", rows=[[k, "java"] for k in (1, 2)])
    java.one("alter_table", table="u", changes=[added])
    java.one("write", table="u", rows=[[3, "java", None]])
    third = Registered.__new__(Registered)
    third.__dict__ |= second.__dict__ | {"name": "w"}
    third.create()
    third.ours(1, 2)
    java.one("alter_table", table="w", changes=[added])
    third.ours(3)
    assert _plain(third.entry()) == _plain(second.entry())


def _plain(entry: Entry) -> Entry:
    """The entry without names, times, and the metastore's counts of files."""
    changing = ("transient_lastDdlTime", "numFiles", "totalSize", "numFilesErasureCoded")
    parameters = {
        k: Path(v).name if k.endswith("metadata_location") else v
        for k, v in (entry.parameters or {}).items()
        if k not in changing
    }
    assert entry.sd is not None
    sd = replace(entry.sd, location=None)
    return replace(
        entry, table_name=None, create_time=0, last_access_time=0, parameters=parameters, sd=sd
    )


def test_names_and_several_databases(registered: Registered) -> None:
    options = {"database": f"{registered.database}_a; {registered.database}_b", "table": "Alias"}
    registered.create({f"metadata.iceberg.{k}": v for k, v in options.items()})
    registered.ours(1)
    registered.ours(2)
    for suffix in "ab":
        assert registered.keys(f"{registered.database}_{suffix}", "alias") == [1, 2]


@pytest.mark.parametrize("made", [True, False], ids=["made", "not-made"])
def test_lost_replies(
    registered: Registered, monkeypatch: pytest.MonkeyPatch, *, made: bool
) -> None:
    registered.create()
    changes = ("create_table", "alter_table_with_environment_context")
    with _fault(monkeypatch, *changes, made=made) as failed:
        registered.ours(1)
        registered.ours(2)
    assert failed == list(changes)
    registered.check()


def test_a_metastore_that_is_down(
    registered: Registered, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the entry names stays readable, until it names something newer."""
    registered.create({"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"})
    registered.ours(1)
    registered.ours(2)
    with _fault(monkeypatch, "get_database", made=False, times=3):
        for k in (3, 4, 5):
            registered.ours(k)
    assert caplog.text.count("cannot register in the external catalog") == 3
    assert registered.pointer() == "v2.metadata.json"
    assert registered.keys() == [1, 2]
    registered.ours(6)
    registered.check()
    assert sorted(p.name for p in registered.folder.glob("v*.json")) == ["v6.metadata.json"]


def test_a_commit_that_was_overtaken_does_not_set_the_entry_back(
    registered: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered.create()
    registered.ours(1)
    register = iceberg_register.register
    shown: list[Shown] = []

    def late(*arguments: Any) -> Shown:
        if not shown:
            shown.append(Shown.THIS)
            registered.ours(3)
        shown.append(register(*arguments))
        return shown[-1]

    monkeypatch.setattr(iceberg_register, "register", late)
    registered.ours(2)
    assert shown == [Shown.THIS, Shown.UNGUARDED, Shown.LATER]
    assert registered.pointer() == "v3.metadata.json"
    registered.check(leftovers=True)


def test_an_entry_that_a_slower_commit_sets_back(
    registered: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look and its change another commit is faster, and the metastore does not compare."""
    monkeypatch.setattr(iceberg_publish, "SETTLED_MILLIS", 60_000)
    registered.create({"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    registered.ours(1)
    call = HiveClient.call
    pointers: list[str] = []

    def slow(self: HiveClient, name: str, *arguments: Any) -> Any:
        compared = name.startswith("alter_table") and "expected_parameter_key" in (
            arguments[3].properties
        )
        if pointers or compared or not name.startswith("alter_table"):
            return call(self, name, *arguments)
        pointers.append("")
        registered.ours(3)
        assert registered.pointer() == "v3.metadata.json"
        call(self, name, *arguments)
        pointers.append(registered.pointer())
        assert registered.keys() == [1, 2]  # its files are still there
        return None

    monkeypatch.setattr(HiveClient, "call", slow)
    registered.ours(2)
    assert pointers == ["", "v2.metadata.json"]
    assert registered.pointer() == "v3.metadata.json"
    registered.check(leftovers=True)
    monkeypatch.setattr(iceberg_publish, "SETTLED_MILLIS", 0)
    registered.ours(4)
    registered.check()
    assert [p.name for p in registered.folder.glob("v*.json")] == ["v4.metadata.json"]


def test_a_metastore_that_compares(registered: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with direct SQL: a commit that was overtaken changes nothing."""
    registered.create()
    registered.ours(1)
    call = HiveClient.call
    refused: list[str] = []

    def comparing(self: HiveClient, name: str, *arguments: Any) -> Any:
        if not name.startswith("alter_table"):
            return call(self, name, *arguments)
        expected = arguments[3].properties["expected_parameter_value"]
        if not refused:
            refused.append(expected)
            registered.ours(3)
        if Path(expected).name != registered.pointer():
            raise CatalogError("the table has been modified")
        rest = {k: v for k, v in arguments[3].properties.items() if not k.startswith("expected")}
        return call(self, name, *arguments[:3], replace(arguments[3], properties=rest))

    monkeypatch.setattr(HiveClient, "call", comparing)
    registered.ours(2)
    assert [Path(r).name for r in refused] == ["v1.metadata.json"]
    assert registered.pointer() == "v3.metadata.json"
    registered.check(leftovers=True)


def test_many_writers_at_once(registered: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    # A slower commit may still need what a faster one would delete at once.
    monkeypatch.setattr(iceberg_publish, "SETTLED_MILLIS", 60_000)
    registered.create()
    registered.ours(0)

    def work(start: int) -> None:
        for k in range(start, start + 4):
            registered.ours(k)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, (100, 200, 300)))
    registered.check(leftovers=True)
    assert registered.pointer() == "v13.metadata.json"


def test_a_metastore_that_keeps_the_old_columns(
    registered: Registered, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By default, a metastore refuses columns of other types in the old places."""
    registered.create()
    registered.ours(1)
    call = HiveClient.call

    def refusing(self: HiveClient, name: str, *arguments: Any) -> Any:
        if name.startswith("alter_table"):
            columns = registered.entry().sd
            assert columns is not None
            if arguments[2].sd.cols != columns.cols:
                raise InvalidArgument("incompatible columns")
        return call(self, name, *arguments)

    monkeypatch.setattr(HiveClient, "call", refusing)
    name = f"{registered.database}.t"
    added = {"change": "add_column", "name": "d", "type": "DATE", "first": True}
    registered.catalog.alter_table(name, [added])
    registered.catalog.get_table(name).append([{"k": 3, "v": None, "d": None}])
    registered.check()
    assert "keeps the old columns" in caplog.text


def test_what_others_have_is_left_alone(
    registered: Registered, caplog: pytest.LogCaptureFixture
) -> None:
    """A plain Hive table, and the Iceberg table of another folder."""
    registered.create()
    registered.ours(1)
    known = registered.entry()
    for parameters in ({"EXTERNAL": "TRUE"}, {**(known.parameters or {}), POINTER: "/x/v1.json"}):
        registered.client.call("drop_table", registered.database, "t", False)
        registered.client.call("create_table", replace(known, parameters=parameters))
        before = registered.entry()
        caplog.clear()
        registered.ours(2)
        assert "drop it there" in caplog.text or "is not an Iceberg table" in caplog.text
        assert registered.entry() == before


def test_the_paimon_catalogs_own_entry_is_refused(
    hive_metastore: HiveMetastore, registered: Registered
) -> None:
    catalog = open_catalog(hive_metastore.options)
    catalog.create_database(registered.database)
    hive = {"metadata.iceberg.storage": "hive-catalog", "metadata.iceberg.uri": registered.uri}
    name = f"{registered.database}.t"
    catalog.create_table(name, Schema.of(COLUMNS, options=hive))
    with pytest.raises(UnsupportedFeature, match=r"own entry .*set metadata.iceberg.database"):
        catalog.get_table(name).append([{"k": 1, "v": "a"}])
    change = {"change": "set_option", "key": "metadata.iceberg.table", "value": "t_iceberg"}
    catalog.alter_table(name, [change])
    catalog.get_table(name).append([{"k": 1, "v": "a"}])
    assert registered.keys(name="t_iceberg") == [1]
    assert catalog.get_table(name).to_dicts() == [{"k": 1, "v": "a"}]


def test_a_rollback_sets_the_entry_back(registered: Registered) -> None:
    registered.create()
    for k in (1, 2, 3):
        registered.ours(k)
    name = f"{registered.database}.t"
    ran = caretaker("run", "rollback", name, "-w", registered.lake, "--snapshot", 1)
    assert ran.code == 0, ran.err
    assert registered.pointer() == "v1.metadata.json"
    registered.check()
    registered.ours(4)
    registered.check()


def test_a_table_created_again(registered: Registered) -> None:
    registered.create()
    registered.ours(1)
    registered.ours(2)
    registered.catalog.drop_table(f"{registered.database}.t")
    registered.create()
    registered.ours(7)
    registered.check()
    assert registered.pointer() == "v1.metadata.json"
