"""No metadata file and no symbolic link makes a job change what is not the table's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from avro_fields import tell_sizes
from command_line import Ran, caretaker, read_rows
from lakes import Lake

from paimon_core.ddl.schema_change import RemoveOption
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_core.manifest.index_manifest import read_index_manifest, write_index_manifest
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.table.open import open_table

EXPIRE = ("--retain-max", 1, "--retain-min", 1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of four commits and a compaction, and a file beside the warehouse."""
    lake = Lake(tmp_path / "w")
    lake.primary_key()
    lake.fill(4)
    assert run(lake, "compact").code == 0
    victim(lake).write_text("somebody else's")
    os.utime(victim(lake), (0, 0))
    return lake


def victim(lake: Lake) -> Path:
    return lake.warehouse.parent / "victim"


def run(lake: Lake, job: str, *more: object) -> Ran:
    return caretaker("run", job, "db.t", "-w", lake.warehouse, "--engine", "local", *more)


def root(lake: Lake) -> Path:
    return lake.warehouse / "db.db" / "t"


def away(lake: Lake, folder: str) -> str:
    """What has to be joined to a folder of the table to reach the victim."""
    return os.path.relpath(victim(lake), root(lake) / folder)


def is_safe(lake: Lake) -> bool:
    return victim(lake).exists() and victim(lake).read_text() == "somebody else's"


def all_jobs(lake: Lake) -> list[Ran]:
    return [
        run(lake, "expire_snapshots", *EXPIRE),
        run(lake, "remove_orphan_files", "--older-than", "0 s", "--allow-young"),
        run(lake, "rollback", "--snapshot", 1, "--force"),
        run(lake, "compact_manifest"),
    ]


# --- the fields of a snapshot -------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("field", "folder"),
    [
        ("baseManifestList", "manifest"),
        ("deltaManifestList", "manifest"),
        ("changelogManifestList", "manifest"),
        ("indexManifest", "manifest"),
        ("statistics", "statistics"),
    ],
)
def test_files_that_a_snapshot_names(field: str, folder: str, lake: Lake) -> None:
    (root(lake) / folder).mkdir(exist_ok=True)
    path = root(lake) / "snapshot" / "snapshot-1"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: away(lake, folder)}))
    expired, *others = all_jobs(lake)
    assert expired.code == 7
    assert "snapshot-1" in expired.err
    assert field in expired.err
    assert all(r.code in (3, 7) for r in others[:2])
    assert is_safe(lake)


# --- the fields of manifests --------------------------------------------------------------------


def rewrite_manifests(
    table: FileStoreTable, change: Callable[[ManifestEntry], ManifestEntry]
) -> str:
    """Change all entries of all manifests in place; the path of one of the manifests."""
    path = ""
    for file in sorted((Path(table.root) / "manifest").glob("manifest-*-*")):
        if file.name.startswith("manifest-list"):
            continue
        path = str(file)
        entries = [change(e) for e in read_manifest(table.io, path)]
        (made,) = write_manifests(
            table.io,
            table.paths,
            entries,
            options=table.options,
            partition_type=table.schema.partition_type,
            new_uuid=lambda: str(uuid4()),
        )
        Path(table.paths.manifest(made.file_name)).replace(file)
    tell_sizes(Path(table.root))
    return path


@pytest.mark.parametrize("field", ["file_name", "extra_files", "external_path"])
def test_files_that_a_manifest_entry_names(field: str, lake: Lake) -> None:
    table = lake.table()
    name: Any = away(lake, "bucket-0")
    if field == "extra_files":
        name = (name,)
    if field == "external_path":
        name = str(victim(lake))

    def change(entry: ManifestEntry) -> ManifestEntry:
        return replace(entry, file=replace(entry.file, **{field: name}))

    path = rewrite_manifests(table, change)
    if field != "external_path":  # whether a whole path is the table's depends on its options
        with pytest.raises(CorruptTable, match=f"_{field.upper()} does not name a file") as error:
            read_manifest(table.io, path)
        assert error.value.file == path
    ran = all_jobs(lake)
    assert 7 in [r.code for r in ran]
    assert is_safe(lake)
    assert caretaker("read", "db.t", "-w", lake.warehouse).code == 7


def test_manifests_that_a_list_names(lake: Lake) -> None:
    table = lake.table()
    for file in (root(lake) / "manifest").glob("manifest-list-*"):
        metas: list[ManifestFileMeta] = read_manifest_list(table.io, str(file))
        changed = [replace(m, file_name=away(lake, "manifest")) for m in metas]
        name, _ = write_manifest_list(
            table.io, table.paths, changed, options=table.options, new_uuid=lambda: str(uuid4())
        )
        Path(table.paths.manifest(name)).replace(file)
        if changed:
            with pytest.raises(CorruptTable, match="_FILE_NAME does not name a file"):
                read_manifest_list(table.io, str(file))
    ran = all_jobs(lake)
    assert 7 in [r.code for r in ran]
    assert is_safe(lake)


@pytest.mark.parametrize("field", ["file_name", "external_path"])
def test_files_that_an_index_manifest_names(field: str, lake: Lake) -> None:
    table = lake.table()
    name = away(lake, "index") if field == "file_name" else str(victim(lake))
    file = IndexFileMeta(index_type="HASH", file_name="index-1", file_size=4, row_count=1)
    entry = IndexManifestEntry(FileKind.ADD, EMPTY_ROW, 0, replace(file, **{field: name}))
    (root(lake) / "index").mkdir()
    made = write_index_manifest(
        table.io, table.paths, [entry], options=table.options, new_uuid=lambda: str(uuid4())
    )
    path = root(lake) / "snapshot" / "snapshot-1"
    path.write_text(json.dumps({**json.loads(path.read_text()), "indexManifest": made}))
    if field == "file_name":
        with pytest.raises(CorruptTable, match="_FILE_NAME does not name a file"):
            read_index_manifest(table.io, table.paths.manifest(made))
    all_jobs(lake)
    assert is_safe(lake)


def test_the_files_of_an_undeclared_folder_stop_the_plan_before_a_reference_goes(
    lake: Lake,
) -> None:
    rewrite_manifests(
        lake.table(),
        lambda e: replace(e, file=replace(e.file, external_path=f"file:{victim(lake)}")),
    )
    ran = run(lake, "expire_snapshots", *EXPIRE)
    assert ran.code == 7
    assert "data-file.external-paths" in ran.err
    assert len(lake.table().snapshots.ids()) == 5
    assert is_safe(lake)


def test_files_stay_the_tables_when_the_option_changes(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "w")
    option = "data-file.external-paths"
    outside = tmp_path / "outside"
    lake.create(
        options={
            "bucket": "1",
            "write-only": "true",
            option: f"file://{outside}",
            f"{option}.strategy": "round-robin",
        }
    )
    lake.fill(3)
    assert run(lake, "compact").code == 0
    rows = read_rows(lake.warehouse)
    before = len(list(outside.rglob("*.parquet")))
    change = [RemoveOption(option)]
    lake._catalog.alter_table("db.t", change, now_millis=1)
    assert read_rows(lake.warehouse) == rows
    assert run(lake, "expire_snapshots", *EXPIRE).code == 0
    assert len(list(outside.rglob("*.parquet"))) < before
    assert read_rows(lake.warehouse) == rows


# --- symbolic links -----------------------------------------------------------------------------


def old_file(path: Path) -> None:
    path.write_text("x")
    os.utime(path, (0, 0))


def orphans(lake: Lake, *more: object) -> Ran:
    return run(
        lake, "remove_orphan_files", "--older-than", "0 s", "--allow-young", "--force", *more
    )


@pytest.mark.parametrize("mode", ["delete", "quarantine"])
@pytest.mark.parametrize("link", ["bucket-7", "index", "statistics", "bucket-8/inner"])
def test_orphans_behind_a_link_are_not_the_tables(link: str, mode: str, lake: Lake) -> None:
    outside = lake.warehouse.parent / "outside"
    outside.mkdir()
    old_file(outside / "data-1.parquet")
    (outside / "bucket-1").mkdir()
    place = root(lake) / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    old_file(root(lake) / "bucket-0" / "data-orphan.parquet")
    (root(lake) / "bucket-0" / "data-link.parquet").symlink_to(outside / "data-1.parquet")
    ran = orphans(lake, "--mode", mode)
    assert ran.code == 0, ran.err
    assert (outside / "data-1.parquet").read_text() == "x"
    assert (outside / "bucket-1").exists()
    assert place.is_symlink()
    assert not (root(lake) / "bucket-0" / "data-orphan.parquet").exists()


def test_orphans_below_linked_partitions_and_data_folders(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "w")
    lake.primary_key(partitioned=True, data__file_path__directory="data")
    lake.fill(1)
    outside = tmp_path / "outside"
    (outside / "bucket-0").mkdir(parents=True)
    old_file(outside / "bucket-0" / "data-1.parquet")
    (root(lake) / "data" / "dt=day9").symlink_to(outside)
    assert orphans(lake).code in (0, 3)
    assert (outside / "bucket-0" / "data-1.parquet").exists()


def test_expiry_stops_before_a_link_and_keeps_the_references(lake: Lake) -> None:
    disk = lake.warehouse.parent / "disk"
    (root(lake) / "bucket-0").rename(disk)
    (root(lake) / "bucket-0").symlink_to(disk)
    files = sorted(p.name for p in disk.iterdir())
    ran = run(lake, "expire_snapshots", *EXPIRE)
    assert ran.code == 7
    assert "symbolic link" in ran.err
    assert sorted(p.name for p in disk.iterdir()) == files
    assert len(lake.table().snapshots.ids()) == 5
    assert read_rows(lake.warehouse)


@pytest.mark.parametrize(
    ("folder", "job"),
    [
        ("bucket-0", ("compact",)),
        ("manifest", ("compact_manifest",)),
        ("manifest", ("drop_partition", "--partition", "dt=day0")),
        ("snapshot", ("compact",)),
        ("schema", ("rescale", "--bucket-num", 2)),
        ("index", ("rescale", "--bucket-num", 2)),
        ("tag", ("create_tag", "--tag", "a")),
        ("branch", ("create_branch", "--name", "a")),
        ("consumer", ("reset_consumer", "--consumer-id", "a", "--next-snapshot", 1)),
        ("statistics", ("analyze",)),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_nothing_is_created_behind_a_link(
    folder: str, job: tuple[object, ...], tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "w")
    lake.primary_key(partitioned="--partition" in job)
    lake.fill(4)
    place, outside = root(lake) / folder, tmp_path / "outside"
    if place.exists():
        place.rename(outside)
    else:
        outside.mkdir()
    place.symlink_to(outside)
    before = all_below(outside)
    ran = run(lake, *job)
    assert all_below(outside) == before
    if folder == "index":  # the table has none
        assert ran.code == 0, ran.err
    else:
        assert ran.code == 7
        assert "symbolic link" in ran.err
    assert len(read_rows(lake.warehouse)) == 10


def all_below(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


def test_a_table_behind_a_link_is_maintained_as_any_other(lake: Lake) -> None:
    rows = read_rows(lake.warehouse)
    real = lake.warehouse.parent / "real"
    root(lake).rename(real)
    root(lake).symlink_to(real)
    old_file(real / "bucket-0" / "data-orphan.parquet")
    assert run(lake, "expire_snapshots", *EXPIRE).code == 0
    assert orphans(lake).code == 0
    assert not (real / "bucket-0" / "data-orphan.parquet").exists()
    assert read_rows(lake.warehouse) == rows
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0


# --- our own files ------------------------------------------------------------------------------


@pytest.mark.parametrize("job", ["restore_orphan_files", "purge_orphan_files"])
@pytest.mark.parametrize("path", ["absolute", "relative"])
def test_paths_in_a_quarantine(job: str, path: str, lake: Lake) -> None:
    folder = root(lake) / "caretaker" / "quarantine" / "q"
    folder.mkdir(parents=True)
    path = str(victim(lake)) if path == "absolute" else away(lake, "caretaker/quarantine/q")
    (folder / "manifest.json").write_text(json.dumps({"files": {path: 1}}))
    assert run(lake, job, "--quarantine", "q").code == 7
    assert run(lake, job, "--quarantine", "..").code == 2
    assert is_safe(lake)
    assert folder.exists()


def test_a_name_of_a_tag_that_leads_away(lake: Lake) -> None:
    table = open_table(str(lake.warehouse), "db.t")
    for name in ("../../x", "a\0b"):
        with pytest.raises(ValueError, match="slash"):
            table.tags.delete(name)
