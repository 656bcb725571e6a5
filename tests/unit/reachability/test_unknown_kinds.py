"""Files of kinds that this version does not know are no orphans by their age."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from avro_fields import add_fields, tell_sizes
from command_line import Ran, caretaker
from lakes import Lake

from paimon_core.options import Options
from paimon_core.reachability.known_kinds import Folder, is_known_kind
from paimon_core.write.file_layout import append_layout
from paimon_maintenance.job.exit_codes import ExitCode

KNOWN = {
    Folder.BUCKET: [
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.parquet",
        "changelog-82ac932c-c769-4630-b4cd-359b8eba0bf1-12.zstd.orc",
        "my.prefix-82ac932c-c769-4630-b4cd-359b8eba0bf1-0.avro",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.parquet.index",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-2.index",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.blob",
        "my.prefix-82ac932c-c769-4630-b4cd-359b8eba0bf1-0.blob",
        "compacted-changelog-a-0$1-23-45-67.cc-parquet",
        "index-82ac932c-c769-4630-b4cd-359b8eba0bf1-0",
        ".data-1.parquet.6a1e.tmp",
    ],
    Folder.MANIFEST: ["manifest-a-0", "manifest-list-a-1", "index-manifest-a-0"],
    Folder.INDEX: ["index-a-0", "btree-global-index-a.index"],
    Folder.STATISTICS: ["stat-a-0"],
}
UNKNOWN = {
    Folder.BUCKET: [
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.managed.blob",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.parquet.blobref",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.parquet.avro.sidecar",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.parquet.row",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.vector.lance",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.vector.parquet",
        "data-82ac932c-c769-4630-b4cd-359b8eba0bf1-1.future",
        "_SUCCESS",
    ],
    Folder.MANIFEST: ["manifest-a-0.bloom", "row-manifest-a-0"],
    Folder.INDEX: ["lookup-a-0.sst"],
    Folder.STATISTICS: ["sketch-a-0"],
}


@pytest.mark.parametrize("folder", list(Folder))
def test_patterns(folder: Folder) -> None:
    assert [n for n in KNOWN[folder] if not is_known_kind(n, folder)] == []
    assert [n for n in UNKNOWN[folder] if is_known_kind(n, folder)] == []


@pytest.mark.parametrize("compression", ["zstd", "gzip", "BZIP2", "lz4", "SNAPPY", "none"])
def test_files_with_their_compression_in_the_name_are_known(compression: str) -> None:
    options = {"file.suffix.include.compression": "true", "file.compression": compression}
    name = append_layout(Options(options)).name("82ac932c-c769-4630-b4cd-359b8eba0bf1", 0)
    assert is_known_kind(name, Folder.BUCKET)


@pytest.fixture
def root(lake: Lake) -> Path:
    lake.primary_key()
    lake.fill(2)
    return Path(lake.table().root)


def _put(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"12345")
    os.utime(path, (1_000_000, 1_000_000))
    return path


def _run(root: Path, command: str = "run", *more: object) -> Ran:
    warehouse = root.parent.parent
    return caretaker(command, "remove_orphan_files", "db.t", "-w", warehouse, "--json", *more)


def _litter(root: Path) -> tuple[list[Path], list[Path]]:
    folders = {
        Folder.BUCKET: root / "bucket-0",
        Folder.MANIFEST: root / "manifest",
        Folder.INDEX: root / "index",
        Folder.STATISTICS: root / "statistics",
    }
    known = [_put(folders[f] / name) for f, names in KNOWN.items() for name in names]
    unknown = [_put(folders[f] / name) for f, names in UNKNOWN.items() for name in names]
    unknown += [_put(root / "snapshot" / "FUTURE"), _put(root / "tag" / ".marker")]
    return known, unknown


@pytest.mark.parametrize("mode", ["delete", "quarantine"])
def test_they_stay_and_are_named(root: Path, mode: str) -> None:
    known, unknown = _litter(root)
    listed = sorted(str(p) for p in unknown if p.parent.name not in {"snapshot", "tag"})
    plan = _run(root, "plan").json
    assert plan["details"]["unknown"] == listed
    assert any(k["what"] == "files of unknown kinds" for k in plan["kept"])
    words = ("plan", "remove_orphan_files", "db.t", "-w", root.parent.parent)
    assert "keep files of unknown kinds (12, 60 B)" in caretaker(*words).out
    ran = _run(root, "run", "--force", "--mode", mode)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert ran.json["details"]["files_of_unknown_kinds"] == listed
    assert [p for p in known if p.exists()] == []
    assert [p for p in unknown if not p.exists()] == []
    assert _run(root, "run", "--force").code == ExitCode.NOTHING_TO_DO


def test_an_argument_removes_them_but_never_packs_of_blobs(root: Path) -> None:
    _, unknown = _litter(root)
    ran = _run(root, "run", "--force", "--unknown-kinds")
    assert ran.code == ExitCode.SUCCESS, ran.err
    left = {p.name for p in unknown if p.exists()}
    assert left == {UNKNOWN[Folder.BUCKET][0], "FUTURE", ".marker"}


def test_names_in_unknown_fields_are_mentioned(root: Path) -> None:
    kept = _put(root / "bucket-0" / "data-deadbeef-0.parquet")
    gone = _put(root / "bucket-0" / "data-deadbeef-1.parquet")
    manifest = next(
        p for p in (root / "manifest").iterdir() if not p.name.startswith("manifest-list-")
    )
    names = {"_BESIDE": ({"type": "array", "items": "string"}, [f"x/{kept.name}"])}
    manifest.write_bytes(add_fields(manifest, names, record=("_FILE",)))
    tell_sizes(root)
    assert _run(root, "run", "--force").code == ExitCode.SUCCESS
    assert kept.exists()
    assert not gone.exists()


def test_an_unknown_field_that_names_a_metadata_file_stops_the_job(root: Path) -> None:
    pointer = _put(root / "manifest" / "row-manifest-list-a-0")
    orphan = _put(root / "bucket-0" / "data-deadbeef-1.parquet")
    path = root / "snapshot" / "snapshot-1"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"rowManifests": [{"list": pointer.name}]}))
    ran = _run(root, "run", "--force")
    assert ran.code == ExitCode.REFUSED
    assert "rowManifests" in ran.json["error"]["message"]
    assert orphan.exists()
