"""Metadata that we wrote, read by Java: each golden table with all of its metadata rewritten.

Every manifest, manifest list, index manifest, snapshot, tag, schema and consumer is decoded and
encoded again in place (same names, so that all references hold).  Java must then say about the
table what it said before, and read the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from metadata_json import MetadataJson

from oracle import Oracle
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.manifest.index_manifest import read_index_manifest, write_index_manifest
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.options import Options
from paimon_core.paths import TablePaths
from paimon_core.refs.consumers import ConsumerStore
from paimon_core.refs.tags import TagStore, tag_to_json
from paimon_core.schema.schema_json import schema_to_json
from paimon_core.schema.store import SchemaStore
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_to_json
from paimon_core.snapshot.store import SnapshotStore

IO = LocalFileIO()
TABLES = [
    "append_unaware",
    "changelog_full_compaction",
    "dedup",
    "deletion_vectors",
    "dynamic_bucket",
    "file_suffix_prefix",
    "manifest_deflate",
    "manifest_null",
    "manifest_snappy",
    "partitions_date",
    "partitions_null",
    "postpone",
    "row_tracking",
    "schema_evolution_pk",
    "stats_not_dense",
    "tags_branches",
    "types_pk_parquet",
]
SIZE = re.compile(r"(ManifestListSize|^size)$")


class _Rewrite:
    """Writes the metadata of one branch of a table again, under the names that they have."""

    def __init__(self, root: str, branch: str) -> None:
        self.paths = TablePaths(root=root, branch=branch)
        self.schema = MetadataJson(IO, root, branch).schema
        self.options = Options(self.schema.options)
        self._sizes: dict[str, int] = {}

    def all(self) -> None:
        snapshots = SnapshotStore(IO, self.paths, "db.t")
        tags = TagStore(IO, self.paths, "db.t")
        for snapshot in snapshots.all():
            text = snapshot_to_json(self.snapshot(snapshot, changelog=True))
            IO.overwrite(self.paths.snapshot(snapshot.id), text.encode())
        for tag in tags.all():
            again = replace(tag, snapshot=self.snapshot(tag.snapshot, changelog=False))
            IO.overwrite(self.paths.tag(tag.name), tag_to_json(again).encode())
        for schema in SchemaStore(IO, self.paths, "db.t").all():
            IO.overwrite(self.paths.schema(schema.id), schema_to_json(schema).encode())
        consumers = ConsumerStore(IO, self.paths, "db.t")
        for consumer in consumers.all():
            consumers.set(consumer.id, consumer.next_snapshot)

    def snapshot(self, snapshot: Snapshot, *, changelog: bool) -> Snapshot:
        # The sizes must be right: Java reads as many bytes as they say, and misses what is behind.
        sizes: dict[str, Any] = {
            f"{kind}_manifest_list_size": self.manifest_list(name)
            for kind, name in (
                ("base", snapshot.base_manifest_list),
                ("delta", snapshot.delta_manifest_list),
                ("changelog", snapshot.changelog_manifest_list if changelog else None),
            )
            if name is not None
        }
        if snapshot.index_manifest is not None:
            self.index_manifest(snapshot.index_manifest)
        return replace(snapshot, **sizes)

    def manifest_list(self, name: str) -> int:
        path = self.paths.manifest(name)
        metas = [self.manifest(m) for m in read_manifest_list(IO, path)]
        written, size = write_manifest_list(
            IO, self.paths, metas, options=self.options, new_uuid=lambda: "again"
        )
        _put(self.paths.manifest(written), path)
        return size

    def manifest(self, meta: ManifestFileMeta) -> ManifestFileMeta:
        path = self.paths.manifest(meta.file_name)
        entries = read_manifest(IO, path)
        if meta.file_name not in self._sizes:
            (again,) = write_manifests(
                IO,
                self.paths,
                entries,
                options=self.options,
                partition_type=self.schema.partition_type,
                new_uuid=lambda: "again",
            )
            self._sizes[meta.file_name] = again.file_size
            _put(self.paths.manifest(again.file_name), path)
        return replace(meta, file_size=self._sizes[meta.file_name])

    def index_manifest(self, name: str) -> None:
        path = self.paths.manifest(name)
        entries = read_index_manifest(IO, path)
        written = write_index_manifest(
            IO, self.paths, entries, options=self.options, new_uuid=lambda: "again"
        )
        _put(self.paths.manifest(written), path)


def _put(source: str, target: str) -> None:
    IO.overwrite(target, IO.read_bytes(source))
    IO.delete(source)


def _asked(oracle: Oracle, warehouse: Path, branch: str) -> list[Any]:
    """What Java says about the table, sizes of manifests and seconds left out."""
    base: dict[str, Any] = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    if branch != "main":
        base["branch"] = branch
    root = str(warehouse / "db.db/t")
    ids = SnapshotStore(IO, TablePaths(root=root, branch=branch), "db.t").ids()
    steps: list[dict[str, Any]] = [
        {"op": op} for op in ("snapshots", "schemas", "tags", "consumers", "read")
    ]
    for i in {ids[0], ids[-1]}:
        steps += [{"op": op, "snapshot": i} for op in ("manifests", "files", "read")]
    for tag in TagStore(IO, TablePaths(root=root, branch=branch), "db.t").names():
        steps += [{"op": op, "tag": tag} for op in ("files", "read")]
    answers = oracle([{**base, **s} for s in steps])
    for answer in answers:
        if "schemas" in answer:
            answer["schemas"].sort(key=lambda s: s["id"])  # Java answers in the order of the folder
    return [
        _without(a, SIZE if a["op"] in ("manifests", "snapshots", "tags") else None)
        for a in answers
    ]


def _without(value: Any, size: re.Pattern[str] | None) -> Any:
    if isinstance(value, dict):
        return {
            k: _without(v, size)
            for k, v in value.items()
            if not k.endswith("seconds") and not (size and size.search(k))
        }
    if isinstance(value, list):
        return [_without(v, size) for v in value]
    return value


@pytest.mark.sampled
@pytest.mark.parametrize("name", TABLES)
def test_java_finds_in_our_metadata_what_was_in_its_own(
    oracle: Oracle, golden: Callable[..., Any], name: str
) -> None:
    table = golden(name, oracle.version, copy=True)
    branches = ["main", *(b for b in ("b1",) if b in table.expected["branches"])]
    before = {b: _asked(oracle, table.warehouse, b) for b in branches}
    for branch in branches:
        _Rewrite(str(table.root), branch).all()
    assert {b: _asked(oracle, table.warehouse, b) for b in branches} == before


@pytest.mark.parametrize("name", ["dedup", "partitions_date", "deletion_vectors", "row_tracking"])
def test_java_goes_on_from_our_metadata(
    oracle: Oracle, golden: Callable[..., Any], name: str
) -> None:
    """It writes, compacts, merges manifests and expires on top of it."""
    table = golden(name, oracle.version, copy=True)
    steps = {"warehouse": str(table.warehouse), "database": "db", "table": "t"}
    build = table.expected["build"]
    row = next(s for s in build if s["op"] == "write")["rows"][:1]
    untouched = golden(name, oracle.version).warehouse
    _Rewrite(str(table.root), "main").all()
    answers = oracle(
        [
            {"op": "write", **steps, "rows": row},
            {"op": "compact", **steps},
            {"op": "compact_manifests", **steps},
            {"op": "expire_snapshots", **steps, "retain_max": 1, "retain_min": 1},
            {"op": "read", **steps},
            {
                "op": "remove_orphan_files",
                **steps,
                "dry_run": True,
                "older_than_millis": 4102444800000,
            },
        ]
    )
    assert answers[4]["count"] >= table.expected["reads"]["latest"]["count"]
    assert answers[5]["deleted_files"] == 0
    assert not list(untouched.rglob("*.tmp"))


def test_tags_and_schemas_that_we_make_are_javas(
    oracle: Oracle, golden: Callable[..., Any]
) -> None:
    from paimon_core.catalog.filesystem import FileSystemCatalog
    from paimon_core.refs.tags import Tag

    table = golden("dedup", oracle.version, copy=True)
    catalog = FileSystemCatalog(str(table.warehouse))
    steps = {"warehouse": str(table.warehouse), "database": "db", "table": "t"}
    ours = catalog.get_table("db.t")
    snapshot = ours.snapshots.get(3)
    day = 86_400 * 10**9
    ours.tags.create(Tag("plain", snapshot))
    ours.tags.create(Tag("kept a day", snapshot, 1_795_248_989_033_059_399, day))
    ours.branches.create("side", tag="plain")
    ours.consumers.set("c", 4)
    catalog.alter_table(
        "db.t",
        [
            {"change": "add_column", "name": "extra", "type": "ROW<a INT, b STRING>"},
            {"change": "update_type", "name": "n", "type": "STRING"},
        ],
        now_millis=5,
    )
    said = oracle(
        [
            {"op": "tags", **steps},
            {"op": "consumers", **steps},
            {"op": "branches", **steps},
            {"op": "schemas", **steps},
            {"op": "read", **steps, "tag": "kept a day"},
            {"op": "read", **steps, "branch": "side"},
            {"op": "read", **steps, "snapshot": 3},
            {"op": "read", **steps},
        ]
    )
    tags = {t["name"]: t["tag"] for t in said[0]["tags"]}
    assert tags["plain"]["id"] == 3
    assert tags["kept a day"]["tagTimeRetained"] == 86400
    assert tags["kept a day"]["tagCreateTime"] == [2026, 11, 21, 8, 16, 29, 33059399]
    assert said[1]["consumers"] == {"c": 4}
    assert said[2]["branches"] == ["side"]
    assert max(s["id"] for s in said[3]["schemas"]) == 1
    # The tag was made before the change, the branch before it too; both read as snapshot 3 did.
    expected = table.expected["reads"]["snapshot-3"]["rows"]
    assert said[5]["rows"] == expected
    assert [r[:3] for r in said[4]["rows"]] == [r[:3] for r in said[6]["rows"]]
    assert said[7]["columns"] == ["k", "v", "n", "d", "extra"]
