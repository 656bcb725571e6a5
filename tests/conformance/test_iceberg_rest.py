"""Tables in Iceberg's own REST catalog server: what pyiceberg reads there after our commits."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from iceberg_reader import local, records, unreferenced
from iceberg_rest_server import IcebergRestServer

from oracle import skip_without
from paimon_core import Catalog, Schema, Table, open_catalog
from paimon_core.commit import committer
from paimon_core.commit.iceberg import publish as iceberg_publish
from paimon_core.errors import AlreadyExists
from paimon_core.iceberg import register as iceberg_register
from paimon_core.iceberg.rest_entry import RestEntry
from paimon_core.remote.iceberg_rest import IcebergRest

COLUMNS = {"k": "INT NOT NULL", "v": "STRING", "p": "STRING NOT NULL", "m": "MAP<STRING, INT>"}
TOKEN = secrets.token_hex(16)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRestServer]:
    skip_without()
    started = IcebergRestServer(tmp_path_factory.mktemp("iceberg-rest"))
    yield started
    started.end()


class Shown:
    """One table of ours, and what the server shows of it."""

    def __init__(self, server: IcebergRestServer, lake: Path) -> None:
        self.server = server
        self.lake = lake
        self.name = f"t{abs(hash(lake))}"
        self.folder = lake / "iceberg" / "db" / self.name / "metadata"
        self.catalog: Catalog = open_catalog(str(lake))
        self.catalog.create_database("db", ignore_if_exists=True)

    def create(
        self, options: Mapping[str, str] | None = None, *, keys: tuple[str, ...] = ("p",)
    ) -> Table:
        rest = {
            "metadata.iceberg.storage": "rest-catalog",
            "metadata.iceberg.rest.uri": self.server.uri,
        }
        schema = Schema.of(COLUMNS, partition_keys=keys, options=rest | dict(options or {}))
        return self.catalog.create_table(f"db.{self.name}", schema)

    def table(self) -> Table:
        return self.catalog.get_table(f"db.{self.name}")

    def iceberg(self) -> Any:
        catalogs = pytest.importorskip("pyiceberg.catalog.rest")
        return catalogs.RestCatalog("rest", uri=self.server.uri).load_table(("db", self.name))

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.iceberg().scan().to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)

    def check(self, *, leftovers: bool = False) -> Any:
        """The server shows the newest rows, and all its snapshots can be read."""
        ours = sorted((tuple(r.values()) for r in self.table().to_dicts()), key=repr)
        assert self.rows() == ours
        shown = self.iceberg()
        for snapshot in shown.metadata.snapshots:
            for manifest in records(local(snapshot.manifest_list)):
                assert local(manifest["manifest_path"]).exists()
        assert leftovers or unreferenced(self.folder) == set()
        return shown


@pytest.fixture
def shown(server: IcebergRestServer, tmp_path: Path) -> Shown:
    return Shown(server, tmp_path / "lake")


def row(k: int, p: str = "a") -> dict[str, Any]:
    return {"k": k, "v": f"v{k}", "p": p, "m": [("x", k)]}


@pytest.mark.sampled
@pytest.mark.parametrize("keys", [("p",), ("k",), ()])
def test_every_commit_is_one_of_the_catalog(shown: Shown, keys: tuple[str, ...]) -> None:
    """Partitioned by another column, by the first one, whose id is 0, and not at all."""
    bounded = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}
    table = shown.create(bounded, keys=keys)
    table.append([row(1), row(2, "b")])
    first = shown.check()
    assert [f.name for f in first.spec().fields] == [k for k in keys if k != "k"]
    assert first.properties["gc.enabled"] == "false"
    table.append([row(3)])
    table.delete("k = 1")
    assert [s.snapshot_id for s in shown.check().metadata.snapshots] == [1, 2, 3]
    name = f"db.{shown.name}"
    for words in (
        ("create_tag", "--tag", "t1", "--snapshot", "2"),
        ("create_tag", "--tag", "t2", "--snapshot", "3"),
        ("delete_tag", "--tag", "t1"),
    ):
        assert caretaker("run", words[0], name, "-w", shown.lake, *words[1:]).code == 0
    assert {n: r.snapshot_id for n, r in shown.check().metadata.refs.items()} == {
        "main": 3,
        "t2": 3,
    }
    added = [{"change": "add_column", "name": "n", "type": "ARRAY<INT>"}]
    shown.catalog.alter_table(name, added)
    shown.table().append([{**row(4), "n": [4]}])
    last = shown.check()
    assert [s.snapshot_id for s in last.metadata.snapshots] == [2, 3, 4]
    assert last.metadata.table_uuid == first.metadata.table_uuid
    assert last.schema().find_field("n").field_id == 4
    ran = caretaker("run", "rollback", name, "-w", shown.lake, "--snapshot", 2)
    assert ran.code == 0, ran.err
    assert shown.check(leftovers=True).metadata.current_snapshot_id == 2
    shown.table().append([{**row(5), "n": None}])
    assert shown.check(leftovers=True).metadata.current_snapshot_id == 3


def test_lost_replies(shown: Shown) -> None:
    """Each change of the catalog is made once, though its answer is lost."""
    with shown.server.losing_replies() as lost:
        table = shown.create()
        table.append([row(1)])
        table.append([row(2)])
        caretaker("run", "rollback", f"db.{shown.name}", "-w", shown.lake, "--snapshot", 1)
        shown.table().append([row(3)])
    changes = [c.split(" ", 1) for c in lost]
    assert {method for method, _ in changes} == {"POST", "DELETE"}
    assert len(lost) >= 4
    assert [s.snapshot_id for s in shown.check(leftovers=True).metadata.snapshots] == [1, 2]


def test_a_catalog_that_is_down(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Commits count, what the catalog shows stays readable, and the next commit makes up for it."""
    monkeypatch.setattr(iceberg_publish, "SETTLED_MILLIS", 0)
    table = shown.create({"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"})
    table.append([row(1)])
    table.append([row(2)])
    with shown.server.down():
        for k in (3, 4, 5):
            table.append([row(k)])
    warned = [
        text
        for text in (r.getMessage() for r in caplog.records)
        if "cannot register in the external catalog" in text
    ]
    assert len(warned) == 3
    assert [r[0] for r in shown.rows()] == [1, 2]
    snapshots = shown.iceberg().metadata.snapshots
    assert [len(records(local(s.manifest_list))) for s in snapshots] == [1, 2]
    uuid = shown.iceberg().metadata.table_uuid
    table.append([row(6)])
    assert [s.snapshot_id for s in shown.check().metadata.snapshots] == [5, 6]
    assert shown.iceberg().metadata.table_uuid == uuid
    assert sorted(p.name for p in shown.folder.glob("v*.json")) == ["v6.metadata.json"]


def test_versions_that_are_kept_can_be_read(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_publish, "SETTLED_MILLIS", 0)
    bounded = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = shown.create({"metadata.iceberg.previous-versions-max": "2", **bounded})
    for k in range(1, 7):
        table.append([row(k)])
    kept = sorted(shown.folder.glob("v*.json"))
    assert [p.name for p in kept] == [f"v{n}.metadata.json" for n in (4, 5, 6)]
    tables = pytest.importorskip("pyiceberg.table")
    counts = [tables.StaticTable.from_metadata(str(p)).scan().count() for p in kept]
    assert counts == [4, 5, 6]
    assert len([*shown.folder.glob("snap-*.avro")]) == 3
    key = "metadata.iceberg.delete-after-commit.enabled"
    change = {"change": "set_option", "key": key, "value": "false"}
    shown.catalog.alter_table(f"db.{shown.name}", [change])
    for k in (7, 8, 9):
        shown.table().append([row(k)])
    assert len([*shown.folder.glob("v*.json")]) == 6
    assert (
        shown.check(leftovers=True).properties["write.metadata.delete-after-commit.enabled"]
        == "false"
    )


@pytest.mark.parametrize("step", ["register", "publish_commit"])
def test_an_end_between_the_snapshot_and_the_catalog(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    table = shown.create()
    table.append([row(1)])

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    where = iceberg_register if step == "register" else committer
    with monkeypatch.context() as patch:
        patch.setattr(where, step, end)
        with pytest.raises(KeyboardInterrupt):
            table.append([row(2)])
    assert [r[0] for r in shown.rows()] == [1]
    table.append([row(3)])
    assert len(shown.check(leftovers=True).metadata.snapshots) == (3 if step == "register" else 1)


def test_a_drop_that_interrupts_ends(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends after the drop leaves no table; the next commit creates it."""
    table = shown.create()
    for k in (1, 2, 3):
        table.append([row(k)])
    with monkeypatch.context() as patch:

        def end(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(RestEntry, "_create", end)
        patch.setattr("paimon_maintenance.jobs.versions.removal_steps.republish", lambda *_: None)
        caretaker("run", "rollback", f"db.{shown.name}", "-w", shown.lake, "--snapshot", 1)
        with pytest.raises(KeyboardInterrupt):
            shown.table().append([row(4)])
    shown.table().append([row(5)])
    assert [s.snapshot_id for s in shown.check(leftovers=True).metadata.snapshots][-1] == 3


def test_many_writers_at_once(shown: Shown) -> None:
    shown.create().append([row(0)])

    def work(start: int) -> None:
        own = open_catalog(str(shown.lake)).get_table(f"db.{shown.name}")
        for k in range(start, start + 5):
            own.append([row(k)])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, (100, 200, 300)))
    uuid = shown.iceberg().metadata.table_uuid
    shown.table().append([row(1)])
    assert shown.check(leftovers=True).metadata.current_snapshot_id == 17
    assert shown.iceberg().metadata.table_uuid == uuid


def test_conflicts(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others commit between our look and our commit: another program, and a later commit of ours."""
    table = shown.create()
    table.append([row(1)])
    commit = IcebergRest.commit
    seen: list[str] = []

    def slow(self: IcebergRest, *arguments: Any) -> None:
        if not seen:
            seen.append("first")
            with shown.iceberg().manage_snapshots() as other:
                other.create_branch(1, "theirs")
            shown.table().append([row(3)])
            assert shown.iceberg().metadata.current_snapshot_id == 3
        try:
            commit(self, *arguments)
        except AlreadyExists as e:
            seen.append(e.message)
            raise

    monkeypatch.setattr(IcebergRest, "commit", slow)
    table.append([row(2)])
    assert len(seen) == 2
    assert "branch main has changed" in seen[1]
    refs = shown.check().metadata.refs
    assert (refs["theirs"].snapshot_id, refs["main"].snapshot_id) == (1, 3)


def test_a_table_of_others_is_left_alone(shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog.rest")
    types = pytest.importorskip("pyiceberg.types")
    schemas = pytest.importorskip("pyiceberg.schema")
    theirs = catalogs.RestCatalog("rest", uri=shown.server.uri)
    theirs.create_namespace_if_not_exists("db")
    schema = schemas.Schema(types.NestedField(1, "k", types.IntegerType(), required=False))
    made = theirs.create_table(("db", shown.name), schema)
    table = shown.create()
    table.append([row(1)])
    assert "is another table" in caplog.text
    assert shown.iceberg().metadata.table_uuid == made.metadata.table_uuid
    assert shown.iceberg().metadata.snapshots == []


def test_a_table_created_again(shown: Shown) -> None:
    table = shown.create()
    table.append([row(1)])
    table.append([row(2)])
    old = shown.check().metadata.table_uuid
    shown.catalog.drop_table(f"db.{shown.name}")
    shown.create(keys=()).append([row(7)])
    assert shown.check().metadata.table_uuid != old
    shown.table().append([row(8)])
    assert [s.snapshot_id for s in shown.check().metadata.snapshots] == [1, 2]


def test_the_token_goes_to_the_server_only(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From the environment, by the server's address; no output has it."""
    monkeypatch.setenv("CARETAKER_ICEBERG", json.dumps({f"{shown.server.uri}/": {"token": TOKEN}}))
    table = shown.create(
        {"metadata.iceberg.rest.header.X-Test": "set", "compaction.min.file-num": "2"}
    )
    for k in (1, 2, 3):
        table.append([row(k)])
    key = "metadata.iceberg.rest.token"
    change = {"change": "set_option", "key": key, "value": f"{TOKEN}-of-the-table"}
    shown.catalog.alter_table(f"db.{shown.name}", [change])
    before = len(shown.server.requests)
    for words in (("plan", "compact"), ("run", "compact"), ("inspect",), ("verify",), ("history",)):
        flags = () if words[0] == "history" else ("-w", shown.lake)
        ran = caretaker(*words, f"db.{shown.name}", *flags, "--json")
        assert TOKEN not in ran.out + ran.err
    sent = [headers for _, _, headers in shown.server.requests[before:]]
    assert sent
    assert {h["Authorization"] for h in sent} == {f"Bearer {TOKEN}"}
    assert {h["X-Test"] for h in sent} == {"set"}
    with shown.server.down():
        shown.table().append([row(4)])
    assert "cannot register" in caplog.text
    assert TOKEN not in caplog.text
    monkeypatch.delenv("CARETAKER_ICEBERG")
    shown.table().append([row(5)])
    assert shown.server.requests[-1][2]["Authorization"] == f"Bearer {TOKEN}-of-the-table"


def test_a_credential_becomes_a_token(shown: Shown) -> None:
    shown.create({"metadata.iceberg.rest.credential": "user:word"}).append([row(1)])
    path, headers = shown.server.requests[-1][1:]
    assert path.endswith(shown.name)
    assert headers["Authorization"].startswith("Bearer client-credentials-token:sub=user")
    assert shown.rows() == [(1, "v1", "a", [("x", 1)])]
