"""Metadata that gives a file of the table a second path, or a second meaning.

What is needed is found by names, and what goes is deleted by paths: where the two do not belong
together, live files and metadata would go with garbage.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from avro_fields import tell_sizes
from command_line import Ran, caretaker, read_rows
from disk import needed_by
from lakes import Lake, age_all

from paimon_core import SchemaChange, open_catalog
from paimon_core.errors import OutsideTable
from paimon_core.io import read_retry
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_core.manifest.entries.records import ENTRY_KIND
from paimon_core.manifest.index_manifest import write_index_manifest
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.manifest.metadata_file import write_metadata
from paimon_core.reachability.references import snapshot_reference
from paimon_core.scan import columns
from paimon_core.scan.manifests import data_manifests, delta_manifests
from paimon_core.scan.scan import scan_files

EXPIRE = ("--retain-max", 1, "--retain-min", 1, "--force")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is writing what cannot be read, so it is not tried again."""
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Snapshots 1 to 6; 1 and 2 are compacted into 3; the tag t is snapshot 4."""
    lake.primary_key()
    lake.fill(2)
    run(lake, "compact")
    lake.fill(1)
    run(lake, "create_tag", "--tag", "t")
    run(lake, "compact")
    lake.fill(1)
    return lake


def run(lake: Lake, job: str, *more: object) -> Ran:
    engine = ("--engine", "local") if job == "compact" else ()
    return caretaker("run", job, "db.t", "-w", lake.warehouse, *engine, *more)


def root(lake: Lake) -> Path:
    return Path(lake.table().root)


def content(lake: Lake) -> dict[str, bytes]:
    files = (p for p in root(lake).rglob("*") if p.is_file() and "caretaker" not in p.parts)
    return {str(p): p.read_bytes() for p in files}


def change_deltas(
    lake: Lake, change: Callable[[ManifestEntry], ManifestEntry], ids: tuple[int, ...]
) -> None:
    """Change the entries that the deltas of these snapshots delete, sizes and counts included."""
    table = lake.table()
    for number in ids:
        path = root(lake) / "snapshot" / f"snapshot-{number}"
        snapshot = table.snapshots.get(number)
        metas = read_manifest_list(table.io, table.paths.manifest(snapshot.delta_manifest_list))
        entries = [
            e for m in metas for e in read_manifest(table.io, table.paths.manifest(m.file_name))
        ]
        changed = [change(e) if e.kind is FileKind.DELETE else e for e in entries]
        made = write_manifests(
            table.io,
            table.paths,
            changed,
            options=table.options,
            partition_type=table.schema.partition_type,
            new_uuid=lambda n=number: f"lie-{n}",
        )
        name, size = write_manifest_list(
            table.io, table.paths, made, options=table.options, new_uuid=lambda n=number: f"lie-{n}"
        )
        told = json.loads(path.read_text())
        path.write_text(
            json.dumps({**told, "deltaManifestList": name, "deltaManifestListSize": size})
        )


def live_of_the_tag(lake: Lake) -> list[str]:
    """Paths of files that the tag needs and the newest snapshot does not."""
    table = lake.table()
    needed = {
        table.paths.data_file(e.partition, e.bucket, e.file)
        for e in scan_files(table, table.tags.get("t").snapshot)
    }
    newest = {
        table.paths.data_file(e.partition, e.bucket, e.file)
        for e in scan_files(table, table.latest_or_not_found())
    }
    assert needed - newest
    return sorted(needed - newest)


def is_whole(lake: Lake) -> bool:
    return (
        len(read_rows(lake.warehouse)) == 10
        and len(read_rows(lake.warehouse, "--tag", "t")) == 10
        and caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    )


# --- manifests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["as its path says", "otherwise"])
@pytest.mark.parametrize("victim", ["schema/schema-0", "tag/tag-t", "snapshot/snapshot-6", "live"])
def test_an_external_path_that_is_metadata_or_another_file(
    victim: str, named: str, lake: Lake
) -> None:
    path = live_of_the_tag(lake)[0] if victim == "live" else str(root(lake) / victim)
    same = named == "as its path says"
    if victim == "live" and same:
        pytest.skip("then it is the live file")

    def lie(entry: ManifestEntry) -> ManifestEntry:
        file = replace(entry.file, external_path=f"file:{path}")
        return replace(entry, file=replace(file, file_name=Path(path).name) if same else file)

    change_deltas(lake, lie, (3,))
    ran = run(lake, "expire_snapshots", *EXPIRE)
    assert ran.code == 7, ran.out
    assert "db.t" in ran.err
    assert path in ran.err
    assert Path(path).exists()
    assert len(lake.table().snapshots.ids()) == 6


def test_an_extra_file_that_a_tag_needs(lake: Lake) -> None:
    victims = tuple(Path(p).name for p in live_of_the_tag(lake))
    change_deltas(
        lake, lambda e: replace(e, file=replace(e.file, extra_files=(*victims, "x.index"))), (3,)
    )
    (root(lake) / "bucket-0" / "x.index").write_text("x")
    run(lake, "expire_snapshots", *EXPIRE)
    assert not (root(lake) / "bucket-0" / "x.index").exists()
    assert is_whole(lake)


@pytest.mark.parametrize("place", ["external", "beside data"])
def test_an_index_file_that_is_a_data_file(place: str, lake: Lake) -> None:
    victim = live_of_the_tag(lake)[0]
    external = place == "external"
    if not external:
        lake.change_options("db.t", "index-file-in-data-file-dir", "true")
    table = lake.table()
    file = IndexFileMeta(
        index_type="HASH",
        file_name=Path(victim).name,
        file_size=4,
        row_count=1,
        external_path=f"file:{victim}" if external else None,
    )
    entry = IndexManifestEntry(FileKind.ADD, EMPTY_ROW, 0, file)
    made = write_index_manifest(
        table.io, table.paths, [entry], options=table.options, new_uuid=lambda: "lie"
    )
    path = root(lake) / "snapshot" / "snapshot-1"
    path.write_text(json.dumps({**json.loads(path.read_text()), "indexManifest": made}))
    run(lake, "expire_snapshots", *EXPIRE)
    assert Path(victim).exists()
    assert is_whole(lake)


@pytest.mark.parametrize("objects", [5000, 0])
@pytest.mark.parametrize("lie", ["an ADD that became a DELETE", "another manifest"])
def test_a_manifest_that_is_not_the_one_of_its_list(
    lie: str, objects: int, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compaction of snapshot 3 adds a file that snapshot 4 and the tag need."""
    monkeypatch.setattr(columns, "MOST_OBJECTS", objects)
    table = lake.table()
    lists = [table.snapshots.get(i).delta_manifest_list for i in (3, 4)]
    paths = [
        table.paths.manifest(read_manifest_list(table.io, table.paths.manifest(name))[0].file_name)
        for name in lists
    ]
    if lie == "another manifest":
        shutil.copy(paths[0], paths[1])
    else:
        entries = [
            replace(e, kind=FileKind.DELETE) if e.kind is FileKind.ADD else e
            for e in read_manifest(table.io, paths[0])
        ]
        Path(paths[0]).unlink()
        write_metadata(table.io, paths[0], ENTRY_KIND, entries, table.options)
        tell_sizes(root(lake))
    (root(lake) / "bucket-0" / "data-0-0.parquet").write_text("an orphan")
    age_all(lake.warehouse)
    before = content(lake)
    orphans = ("--older-than", "1 d", "--mode", "delete", "--force")
    for job, more in {"expire_snapshots": EXPIRE, "remove_orphan_files": orphans}.items():
        ran = run(lake, job, *more)
        assert ran.code == 7, (job, ran.out)
        assert paths[lie == "another manifest"] in ran.err
        assert "but its manifest list says" in ran.err
        assert content(lake) == before


@pytest.mark.parametrize("lists", [["base"], ["delta"], ["base", "delta"]])
@pytest.mark.parametrize("file", ["snapshot/snapshot-2", "tag/tag-t"])
def test_a_version_that_names_the_lists_of_another_one(
    file: str, lists: list[str], lake: Lake
) -> None:
    """Its own may still be needed, once its file comes back from a backup."""
    told = json.loads((root(lake) / file).read_text())
    other = json.loads((root(lake) / "snapshot" / "snapshot-5").read_text())
    for kind in lists:
        for key in (f"{kind}ManifestList", f"{kind}ManifestListSize"):
            told[key] = other[key]
    (root(lake) / file).write_text(json.dumps(told))
    (root(lake) / "bucket-0" / "data-0-0.parquet").write_text("an orphan")
    age_all(lake.warehouse)
    before = content(lake)
    found = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert found.code == 7
    assert "shared_list" in found.out
    orphans = ("--older-than", "1 d", "--mode", "delete", "--force")
    expire = ("--retain-max", 5, "--retain-min", 5, "--older-than", "0 s", "--force")
    for job, more in {"remove_orphan_files": orphans, "expire_snapshots": expire}.items():
        ran = run(lake, job, *more)
        assert ran.code == 7, (ran.out, ran.err)
        assert "name the same manifest list" in ran.err
        assert content(lake) == before


@pytest.mark.parametrize("job", ["compact", "compact_manifest"])
def test_a_commit_does_not_build_on_a_manifest_of_another_commit(job: str, lake: Lake) -> None:
    """The manifest of snapshot 6 names the file of snapshot 1, which was compacted since."""
    table = lake.table()
    theirs, ours = (
        Path(table.paths.manifest(delta_manifests(table, table.snapshots.get(i))[0].file_name))
        for i in (1, 6)
    )
    entries = read_manifest(table.io, str(theirs))
    ours.unlink()
    plain = lake.table(manifest_compression="null").options
    write_metadata(table.io, str(ours), ENTRY_KIND, entries, plain)
    before = content(lake)
    ran = run(lake, job, *(("--strategy", "full") if job == "compact" else ()))
    assert ran.code == 7, (ran.out, ran.err)
    assert str(ours) in ran.err
    assert "but its manifest list says" in ran.err
    assert lake.table().snapshots.latest_id() == 6
    left = {p: b for p, b in content(lake).items() if p in before}
    assert left == before


@pytest.mark.parametrize("job", ["compact", "compact_manifest", "analyze"])
def test_a_commit_does_not_build_on_a_list_of_another_commit(job: str, lake: Lake) -> None:
    """The base of snapshot 6 names the manifests of snapshot 3 alone."""
    table = lake.table()
    ours = Path(table.paths.manifest(table.snapshots.get(6).base_manifest_list))
    metas = data_manifests(table, table.snapshots.get(3))
    plain = lake.table(manifest_compression="null").options
    name, _ = write_manifest_list(
        table.io, table.paths, metas, options=plain, new_uuid=lambda: "lie"
    )
    Path(table.paths.manifest(name)).replace(ours)
    before = content(lake)
    ran = run(lake, job, *(("--strategy", "full") if job == "compact" else ()))
    assert ran.code == 7, (ran.out, ran.err)
    assert f"manifest list {ours}" in ran.err
    assert "but its snapshot says" in ran.err
    assert lake.table().snapshots.latest_id() == 6
    assert {p: b for p, b in content(lake).items() if p in before} == before


# --- numbers ------------------------------------------------------------------------------------


def test_a_changelog_that_says_another_number(lake: Lake) -> None:
    folder = root(lake) / "changelog"
    folder.mkdir()
    for number in (1, 2, 3):
        shutil.copy(root(lake) / "snapshot" / f"snapshot-{number}", folder / f"changelog-{number}")
    shutil.copy(root(lake) / "snapshot" / "snapshot-2", folder / "changelog-1")
    (root(lake) / "bucket-0" / "data-0.parquet").write_text("an orphan")
    age_all(lake.warehouse)
    for job in ("expire_changelogs", "remove_orphan_files", "expire_snapshots"):
        ran = run(lake, job, *(EXPIRE if "expire" in job else ()))
        assert ran.code == 7, (job, ran.out)
        assert str(folder / "changelog-1") in ran.err
        assert "says that it is changelog 2" in ran.err
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("name", ["snapshot-06", "snapshot-6_0", "snapshot-007", "snapshot-+7"])
def test_a_snapshot_in_another_spelling_is_no_snapshot(name: str, lake: Lake) -> None:
    folder = root(lake) / "snapshot"
    shutil.copy(folder / "snapshot-6", folder / name)
    (folder / "LATEST").unlink()
    assert lake.table().snapshots.ids() == [1, 2, 3, 4, 5, 6]
    assert run(lake, "expire_snapshots", *EXPIRE).code == 0
    assert is_whole(lake)
    assert (folder / name).exists()


def test_a_schema_in_another_spelling_is_no_schema(lake: Lake) -> None:
    folder = root(lake) / "schema"
    (folder / "schema-01").write_text("{")
    assert lake.table().schemas.ids() == [0]
    assert is_whole(lake)


# --- links --------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", ["delete_branch", "fast_forward", "rename_branch"])
@pytest.mark.parametrize("target", ["../", "branch-b"])
def test_a_branch_that_is_a_link_to_the_table_or_another_branch(
    target: str, job: str, lake: Lake
) -> None:
    assert run(lake, "create_branch", "--name", "b", "--tag", "t").code == 0
    (root(lake) / "branch" / "branch-c").symlink_to(target)
    before = content(lake)
    more = ("--new-name", "d") if job == "rename_branch" else ()
    ran = run(lake, job, "--name", "c", "--force", *more)
    assert "Traceback" not in ran.err
    assert "Errno" not in ran.err
    (root(lake) / "branch" / ("branch-d" if job == "rename_branch" else "branch-c")).unlink()
    if job != "fast_forward":  # a branch by two names is read as one
        assert content(lake) == before
    assert is_whole(lake)


def test_snapshots_that_are_those_of_a_branch(lake: Lake) -> None:
    assert run(lake, "create_branch", "--name", "b", "--tag", "t").code == 0
    (root(lake) / "snapshot").rename(root(lake) / "away")
    (root(lake) / "snapshot").symlink_to("branch/branch-b/snapshot")
    ran = run(lake, "delete_tag", "--tag", "t", "--force")
    assert "Errno" not in ran.err
    ran = run(lake, "expire_snapshots", *EXPIRE)
    assert "Errno" not in ran.err
    assert len(read_rows(lake.warehouse, "--branch", "b")) == 10


def test_schemas_behind_a_link_get_no_other_file(lake: Lake, tmp_path: Path) -> None:
    folder, away = root(lake) / "schema", tmp_path / "away"
    folder.rename(away)
    folder.symlink_to(away)
    change = [SchemaChange.add_column("more", "INT")]
    with pytest.raises(OutsideTable, match="a symbolic link that leads out of the table"):
        open_catalog(str(lake.warehouse)).alter_table("db.t", change)
    assert [p.name for p in away.iterdir()] == ["schema-0"]


# --- our own files ------------------------------------------------------------------------------


def test_a_quarantine_whose_manifest_forgets_files(lake: Lake) -> None:
    names = ["data-1.parquet", "data-2.parquet"]
    for name in names:
        (root(lake) / "bucket-0" / name).write_text(name)
    age_all(lake.warehouse)
    ran = run(lake, "remove_orphan_files", "--mode", "quarantine", "--force")
    assert ran.code == 0, ran.err
    (folder,) = (root(lake) / "caretaker" / "quarantine").iterdir()
    manifest = folder / "manifest.json"
    told = json.loads(manifest.read_text())
    del told["files"]["bucket-0/data-1.parquet"]
    manifest.write_text(json.dumps(told))
    ran = run(lake, "restore_orphan_files", "--quarantine", folder.name)
    assert ran.code == 0, ran.err
    assert "bucket-0/data-1.parquet" in ran.out + ran.err
    assert (root(lake) / "bucket-0" / "data-2.parquet").read_text() == "data-2.parquet"
    assert (folder / "bucket-0" / "data-1.parquet").read_text() == "data-1.parquet"
    assert manifest.exists()


def test_a_pipe_in_the_place_of_the_next_snapshot(lake: Lake) -> None:
    path = root(lake) / "snapshot" / "snapshot-7"
    os.mkfifo(path)
    jobs = {"expire_snapshots": EXPIRE, "repair": (), "delete_tag": ("--tag", "t")}
    for job, more in jobs.items():
        ran = run(lake, job, *more)
        assert ran.code in (3, 7), ran.err
        assert "Errno" not in ran.err
        if ran.code == 7:
            assert f"{path} should be a file but is a pipe or device" in ran.err


@pytest.mark.parametrize("row", [b"", bytes(12), b"\xff" * 12])
def test_a_partition_that_the_table_cannot_have(row: bytes, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(partitioned=True)
    lake.fill(3)
    table = lake.table()
    newest = table.latest_or_not_found()
    (meta,) = read_manifest_list(table.io, table.paths.manifest(newest.delta_manifest_list))
    path = table.paths.manifest(meta.file_name)
    entries = [replace(e, partition=row) for e in read_manifest(table.io, path)]
    Path(path).unlink()
    write_metadata(table.io, path, ENTRY_KIND, entries, table.options)
    age_all(lake.warehouse)
    jobs = {"compact_manifest": (), "expire_snapshots": EXPIRE, "remove_orphan_files": ()}
    (root(lake) / "dt=day0" / "bucket-0" / "data-0.parquet").write_text("an orphan")
    age_all(lake.warehouse)
    for job, more in jobs.items():
        ran = run(lake, job, *more)
        assert ran.code == 7, (job, ran.out)
        assert path in ran.err
        assert "db.t" in ran.err


@pytest.mark.parametrize("number", [1, 2, 2**40])
@pytest.mark.parametrize("source", [4, 5, 6])
def test_a_journal_of_snapshots_that_never_were(source: int, number: int, lake: Lake) -> None:
    """It says that an old snapshot went, and names the lists of one that is there."""
    run(lake, "expire_snapshots", "--retain-max", 4, "--retain-min", 1)
    told = json.loads((root(lake) / "snapshot" / f"snapshot-{source}").read_text())
    told |= {"id": number, "commitUser": "nobody"}
    journal = root(lake) / "caretaker" / "released" / "x.json"
    journal.parent.mkdir(exist_ok=True)
    item = {"branch": "main", "kind": "snapshot", "name": str(number), "snapshot": told}
    journal.write_text(json.dumps({"references": [item]}))
    assert run(lake, "expire_snapshots", "--retain-max", 99).code == 0
    assert not journal.exists()
    assert is_whole(lake)


def test_a_snapshot_that_names_the_delta_of_another_one(lake: Lake) -> None:
    """What snapshot 3 added is still there in snapshot 4, and in a branch that goes."""
    assert run(lake, "create_branch", "--name", "b", "--tag", "t").code == 0
    table = lake.table()
    wanted = needed_by(table, [snapshot_reference(table, table.snapshots.get(4))])
    second, third = table.snapshots.get(2), table.snapshots.get(3)
    copied = "manifest-list-copied-0"  # the name of the list itself would show the lie
    shutil.copy(table.paths.manifest(second.delta_manifest_list), table.paths.manifest(copied))
    table.snapshots.replace(
        replace(
            third,
            delta_manifest_list=copied,
            delta_manifest_list_size=second.delta_manifest_list_size,
        )
    )
    assert run(lake, "delete_branch", "--name", "b", "--force").code == 0
    assert not {p for p in wanted if not Path(p).exists()}


def test_a_tag_that_says_an_older_number(lake: Lake) -> None:
    """It names the lists of snapshot 5, whose files the newest one has no more."""
    run(lake, "compact")
    run(lake, "expire_snapshots", "--retain-max", 5, "--retain-min", 1)
    told = json.loads((root(lake) / "snapshot" / "snapshot-5").read_text())
    (root(lake) / "tag" / "tag-x").write_text(json.dumps({**told, "id": 1, "commitUser": "x"}))
    run(lake, "delete_tag", "--tag", "x", "--force")
    assert is_whole(lake)


@pytest.mark.parametrize("number", [0, -1, -(2**40)])
def test_a_tag_of_an_impossible_number(number: int, lake: Lake) -> None:
    """To go back to it would remove all snapshots."""
    path = root(lake) / "tag" / "tag-t"
    path.write_text(json.dumps({**json.loads(path.read_text()), "id": number}))
    before = content(lake)
    for job in ("rollback", "rollback_to_as_latest", "delete_tag"):
        ran = run(lake, job, "--tag", "t", "--force")
        assert ran.code == 7, (job, ran.out)
        assert str(path) in ran.err
    assert content(lake) == before


def test_a_tag_of_a_snapshot_with_other_lists(lake: Lake) -> None:
    """It calls itself snapshot 6, and names the lists of snapshot 2."""
    folder = root(lake) / "snapshot"
    second = json.loads((folder / "snapshot-2").read_text())
    newest = json.loads((folder / "snapshot-6").read_text())
    lists = {k: v for k, v in second.items() if "ManifestList" in k}
    (root(lake) / "tag" / "tag-x").write_text(json.dumps({**newest, **lists}))
    before = read_rows(lake.warehouse, "--tag", "x")
    run(lake, "expire_snapshots", *EXPIRE)
    assert read_rows(lake.warehouse, "--tag", "x") == before
    assert is_whole(lake)
