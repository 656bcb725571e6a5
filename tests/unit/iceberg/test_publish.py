"""The Iceberg metadata of tables that Caretaker alone writes, read by pyiceberg."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from iceberg_reader import iceberg_rows, manifests, metadata, newest, unreferenced

from paimon_core import Catalog, Schema, Table, open_catalog
from paimon_core.commit.iceberg import publish as iceberg_publish
from paimon_core.errors import UnsupportedFeature
from paimon_core.remote.iceberg_rest import IcebergRest
from paimon_core.remote.rest_auth import NoAuth
from paimon_core.remote.rest_client import RestClient

COLUMNS = {"k": "INT NOT NULL", "v": "STRING", "p": "STRING"}
STORAGE = {"metadata.iceberg.storage": "table-location"}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = open_catalog(str(tmp_path))
    made.create_database("db")
    return made


def create(
    catalog: Catalog,
    options: Mapping[str, str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    partition_keys: tuple[str, ...] = ("p",),
) -> Table:
    schema = Schema.of(
        columns or COLUMNS, partition_keys=partition_keys, options=STORAGE | dict(options or {})
    )
    return catalog.create_table("db.t", schema)


def row(k: int, p: str | None = "a") -> dict[str, Any]:
    return {"k": k, "v": f"v{k}", "p": p}


def check(tmp_path: Path, table: Table, *, leftovers: bool = False) -> Path:
    """pyiceberg reads the table's rows, and there are no other files, except after races."""
    folder = tmp_path / "db.db" / "t" / "metadata"
    assert iceberg_rows(folder) == sorted((tuple(r.values()) for r in table.to_dicts()), key=repr)
    assert leftovers or unreferenced(folder) == set()
    return folder


def test_null_partitions(catalog: Catalog, tmp_path: Path) -> None:
    table = create(catalog)
    table.append([row(1, None)])
    table.append([row(2, "a"), row(3, None)])
    folder = check(tmp_path, table)
    assert [p["contains_null"] for m in manifests(folder) for p in m["partitions"]] == [True, True]
    table.delete("p IS NULL")
    check(tmp_path, table)
    assert iceberg_rows(folder, where="p is null") == []


def test_a_strange_answer_of_the_catalog_fails_no_commit(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told of an error would write the rows again."""
    options = {"storage": "rest-catalog", "rest.uri": "http://127.0.0.1:1"}
    given = {f"metadata.iceberg.{k}": v for k, v in options.items()}
    table = catalog.create_table("db.t", Schema.of(COLUMNS, options=given))
    monkeypatch.setattr(IcebergRest, "connect", lambda _: IcebergRest(RestClient({}, NoAuth())))
    monkeypatch.setattr(IcebergRest, "load", lambda *_: {"snapshots": ["no object"]})
    table.append([row(1)])
    assert len(table.to_dicts()) == 1


def test_many_writers_at_once(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slower commits write older versions than faster ones; what they leave goes later."""
    table = create(catalog, {"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "5"})
    table.append([row(-1)])

    def work(start: int) -> None:
        own = open_catalog(str(tmp_path)).get_table("db.t")
        for k in range(start, start + 8):
            own.append([row(k, "abc"[k % 3])])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, (0, 100, 200)))
    monkeypatch.setattr(iceberg_publish, "SETTLED_MILLIS", 0)
    table.append([row(1000)])
    folder = check(tmp_path, table, leftovers=True)
    assert len(table.to_dicts()) == 26
    assert [p.name for p in folder.glob("v*.json")] == ["v26.metadata.json"]


def test_retention_of_one_snapshot(catalog: Catalog, tmp_path: Path) -> None:
    table = create(catalog, {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    for k in range(4):
        table.append([row(k)])
        folder = check(tmp_path, table)
        assert [s["snapshot-id"] for s in metadata(folder)["snapshots"]] == [k + 1]


def test_a_branch_is_not_in_the_metadata(catalog: Catalog, tmp_path: Path) -> None:
    table = create(catalog)
    table.append([row(1)])
    table.create_tag("start")
    branch = ("create_branch", "db.t", "-w", tmp_path, "--branch-name", "b", "--tag", "start")
    assert caretaker("run", *branch).code == 0
    table.branch("b").append([row(2)])
    check(tmp_path, table)
    table.append([row(3)])
    check(tmp_path, table)
    moved = caretaker("run", "fast_forward", "db.t", "-w", tmp_path, "--branch-name", "b")
    assert moved.code == 0, moved.err
    folder = check(tmp_path, table)
    assert iceberg_rows(folder) == [(1, "v1", "a"), (2, "v2", "a")]


def test_a_later_format_version_describes_all_again(catalog: Catalog, tmp_path: Path) -> None:
    table = create(catalog)
    table.append([row(1)])
    later = table.copy({"metadata.iceberg.format-version": "3"})
    later.append([row(2)])
    folder = check(tmp_path, table)
    assert metadata(folder)["format-version"] == 3
    table.append([row(3)])  # an older version is refused, with a warning
    assert newest(folder).name == "v2.metadata.json"


def test_unknown_fields_are_not_built_on(catalog: Catalog, tmp_path: Path) -> None:
    table = create(catalog)
    table.append([row(1)])
    path = newest(check(tmp_path, table))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"next-row-id": 7}))
    table.append([row(2)])
    found = metadata(path.parent)
    assert "next-row-id" not in found
    assert len(found["snapshots"]) == 1
    assert len(iceberg_rows(path.parent)) == 2


@pytest.mark.parametrize(
    ("options", "columns", "named"),
    [
        ({"metadata.iceberg.storage": "rest-catalog"}, {}, "metadata.iceberg.storage=rest-catalog"),
        ({"metadata.iceberg.format-version": "1"}, {}, "metadata.iceberg.format-version=1"),
        ({"metadata.iceberg.manifest-compression": "lz4"}, {}, "manifest-compression=lz4"),
        ({}, {"x": "TIMESTAMP(2)"}, "column x: TIMESTAMP"),
        ({}, {"x": "ARRAY<ROW<y VARIANT>>"}, "column x: VARIANT"),
        ({}, {"x": "TIME(6)"}, "column x: TIME"),
    ],
)
def test_what_is_refused_before_a_commit(
    catalog: Catalog, options: dict[str, str], columns: dict[str, str], named: str
) -> None:
    table = create(catalog, options, columns=COLUMNS | columns)
    with pytest.raises(UnsupportedFeature, match=named):
        table.append([row(1) | dict.fromkeys(columns)])
    assert table.snapshots() == []


def test_partition_keys_that_avro_cannot_name(catalog: Catalog) -> None:
    table = create(catalog, columns={"k": "INT", "a-b": "INT"}, partition_keys=("a-b",))
    with pytest.raises(UnsupportedFeature, match="'a-b'"):
        table.append([{"k": 1, "a-b": 2}])


def test_a_table_created_again_outside_of_its_folder(catalog: Catalog, tmp_path: Path) -> None:
    outside = {"metadata.iceberg.storage": "hadoop-catalog"}
    table = create(catalog, outside)
    table.append([row(1)])
    folder = tmp_path / "iceberg" / "db" / "t" / "metadata"
    (folder / "notes.txt").write_text("not ours")
    shutil.rmtree(tmp_path / "db.db" / "t")
    table = create(catalog, outside)
    table.append([row(2)])
    assert iceberg_rows(folder) == [(2, "v2", "a")]
    assert unreferenced(folder) == set()
    assert (folder / "notes.txt").exists()
