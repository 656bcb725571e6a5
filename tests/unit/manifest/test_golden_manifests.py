"""Every manifest list, manifest, entry and index file of the golden tables, against Java's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from metadata_json import MetadataJson

from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import IndexManifestEntry, ManifestEntry, ManifestFileMeta
from paimon_core.manifest.index_manifest import read_index_manifest, write_index_manifest
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.options import Options
from paimon_core.paths import TablePaths
from paimon_core.refs.tags import TagStore
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.store import SnapshotStore

GOLDEN = Path(__file__).parents[2] / "golden"
TABLES = sorted(p.parent for p in GOLDEN.glob("*/*/expected.json"))
IO = LocalFileIO()


def _table_id(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


def _snapshots(root: str) -> dict[str, Snapshot]:
    paths = TablePaths(root=root)
    result = {f"snapshot-{s.id}": s for s in SnapshotStore(IO, paths, "db.t").all()}
    result |= {f"tag-{t.name}": t.snapshot for t in TagStore(IO, paths, "db.t").all()}
    return result


@pytest.mark.one_java
@pytest.mark.parametrize("table", TABLES, ids=_table_id)
def test_manifests_and_files_are_what_java_says(table: Path) -> None:
    expected = json.loads((table / "expected.json").read_text())
    root = str(table / "warehouse/db.db/t")
    printer = MetadataJson(IO, root)
    snapshots = _snapshots(root)
    assert expected["manifests"]
    for key, said in expected["manifests"].items():
        found = printer.manifests(snapshots[key])
        for kind, in_list in said.items():
            for ours, theirs in zip(found[kind]["manifests"], in_list["manifests"], strict=True):
                if "entries" not in theirs:
                    del ours["entries"]  # asked for the last snapshot only
        assert found == said, key
    for key, said in expected["files"].items():
        found = printer.files(snapshots[key])
        assert _by_name(found["files"]) == _by_name(said["files"]), key
        assert found["index_files"] == said["index_files"], key


def _by_name(files: list[dict[str, Any]]) -> dict[str, Any]:
    result = {f["file"]: f for f in files}
    assert len(result) == len(files)
    return result


@pytest.mark.one_java
@pytest.mark.parametrize("table", TABLES, ids=_table_id)
def test_what_was_read_is_written_the_same(table: Path, tmp_path: Path) -> None:
    """Including the partition statistics, computed again from the entries."""
    root = str(table / "warehouse/db.db/t")
    source, target = TablePaths(root=root), TablePaths(root=str(tmp_path))
    schema = MetadataJson(IO, root).schema
    for number, (key, snapshot) in enumerate(_snapshots(root).items()):
        names = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        if key.startswith("snapshot-"):  # a tag does not keep its changelog
            names.append(snapshot.changelog_manifest_list)
        for kind, name in enumerate(n for n in names if n is not None):
            uuid = f"{number}-{kind}"
            metas = read_manifest_list(IO, source.manifest(name))
            written, size = write_manifest_list(
                IO, target, metas, options=Options(), new_uuid=lambda uuid=uuid: uuid
            )
            assert read_manifest_list(IO, target.manifest(written)) == metas
            assert IO.stat(target.manifest(written)).size == size
            for i, meta in enumerate(metas):
                entries = read_manifest(IO, source.manifest(meta.file_name))
                (again,) = write_manifests(
                    IO,
                    target,
                    entries,
                    options=Options(),
                    partition_type=schema.partition_type,
                    new_uuid=lambda uuid=uuid, i=i: f"{uuid}-{i}",
                )
                assert read_manifest(IO, target.manifest(again.file_name)) == entries
                assert _without_file(again) == _without_file(meta)
        if snapshot.index_manifest is not None:
            index = read_index_manifest(IO, source.manifest(snapshot.index_manifest))
            written = write_index_manifest(
                IO, target, index, options=Options(), new_uuid=lambda n=number: str(n)
            )
            assert read_index_manifest(IO, target.manifest(written)) == index


def _without_file(meta: ManifestFileMeta) -> dict[str, Any]:
    return {n: getattr(meta, n) for n in meta.__slots__ if n not in ("file_name", "file_size")}


def test_entries_are_read_the_same_by_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder for the common layout, and the general one over dicts."""
    from paimon_core.manifest.entries import decoding as entry_decoding

    files = sorted(GOLDEN.glob("*/*/warehouse/db.db/t/manifest/manifest-[0-9a-f]*-*"))
    assert len(files) > 500
    fast = [read_manifest(IO, str(f)) for f in files]
    monkeypatch.setattr(entry_decoding, "_ENTRY_LAYOUT", None)
    assert [read_manifest(IO, str(f)) for f in files] == fast
    assert all(isinstance(e, ManifestEntry) for entries in fast for e in entries)


def test_deletion_vectors_are_found() -> None:
    root = str(GOLDEN / "1.4.2/deletion_vectors/warehouse/db.db/t")
    ranges = [
        r
        for s in _snapshots(root).values()
        if s.index_manifest
        for e in read_index_manifest(IO, TablePaths(root=root).manifest(s.index_manifest))
        if isinstance(e, IndexManifestEntry)
        for r in e.index_file.dv_ranges or ()
    ]
    assert ranges
    assert all(r.length > 0 and r.cardinality for r in ranges)
