"""Manifests and manifest lists that were cut between two blocks, where Avro looks whole.

A manifest without its entries names no files, so that all of them look like garbage: no job may
delete anything then.
"""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from avro_fields import add_fields
from command_line import Ran, caretaker
from lakes import Lake, age_all
from row_deletes import delete_rows

from paimon_core.commit import prepare
from paimon_core.format.avro.container import Container
from paimon_core.io import read_retry
from paimon_core.manifest.entries import columns_codec
from paimon_core.scan import columns
from paimon_core.scan.manifests import data_manifests

EXPIRE = ("--retain-max", 1, "--retain-min", 1)
ORPHANS = ("--older-than", "1 d", "--mode", "delete", "--force")
VECTORS = {"bucket": "-1", "write-only": "true", "deletion-vectors.enabled": "true"}
JOBS = {
    "remove_orphan_files": ORPHANS,
    "expire_snapshots": EXPIRE,
    "compact_manifest": (),
    "rollback": ("--snapshot", 2, "--force", "--safety-tag", "0 s"),
    "delete_tag": ("--tag", "t"),
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is writing what cannot be read, so it is not tried again."""
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key(buckets=2)
    lake.fill(2)
    run(lake, "compact")
    run(lake, "create_tag", "--tag", "t")
    lake.fill(2)
    age_all(lake.warehouse)
    return lake


def run(lake: Lake, job: str, *more: object) -> Ran:
    engine = ("--engine", "local") if job == "compact" else ()
    return caretaker("run", job, "db.t", "-w", lake.warehouse, *engine, *more)


def cut(path: Path) -> None:
    """Leave the header only."""
    data = path.read_bytes()
    container = Container(BytesIO(data))
    left = container._source.left
    assert left, "the file has no block"
    path.write_bytes(data[:-left])


def files(lake: Lake) -> set[Path]:
    root = Path(lake.table().root)
    return {p for p in root.rglob("*") if p.is_file() and "caretaker" not in p.parts}


def cut_part(lake: Lake, which: str) -> Path:
    """Cut what the newest snapshot needs; the path of the file."""
    table = lake.table()
    latest = table.latest_or_not_found()
    name = {
        "base list": latest.base_manifest_list,
        "delta list": latest.delta_manifest_list,
        "manifest": data_manifests(table, latest)[-1].file_name,
    }[which]
    path = Path(table.paths.manifest(name))
    cut(path)
    return path


@pytest.mark.parametrize("which", ["base list", "delta list", "manifest"])
@pytest.mark.parametrize("job", JOBS)
def test_no_job_deletes_what_a_cut_file_no_longer_names(job: str, which: str, lake: Lake) -> None:
    path = cut_part(lake, which)
    before = files(lake)
    needed = {p for p in before if "bucket-" in str(p)} | {path}
    ran = run(lake, job, *JOBS[job])
    assert "Traceback" not in ran.err
    if ran.code not in (0, 3):
        assert ran.code in (1, 7), ran.err
        assert str(path) in ran.err
        assert "db.t" in ran.err
        assert files(lake) == before
        return
    # The job had no need to read it, and took only what other files show to be garbage.
    assert job in ("delete_tag", "rollback"), (job, ran.out)
    assert needed <= files(lake)


@pytest.mark.parametrize("which", ["base list", "delta list", "changelog list"])
@pytest.mark.parametrize("job", JOBS)
def test_no_job_believes_a_cut_list_whose_size_nobody_noted(
    job: str, which: str, lake: Lake
) -> None:
    """As Java up to 1.0 and other writers leave it: the number of records tells."""
    if which == "changelog list":
        options = {"bucket": "1", "write-only": "true", "changelog-producer": "input"}
        lake.create("db.c", options=options)
        lake.fill(4, name="db.c")
        tag = ("--tag", "t", "--snapshot", 2, "-w", lake.warehouse)
        assert caretaker("run", "create_tag", "db.c", *tag).code == 0
    name = "db.c" if which == "changelog list" else "db.t"
    table = lake.table(name)
    newest = table.latest_or_not_found()
    list_name = getattr(newest, f"{which.split(maxsplit=1)[0]}_manifest_list")
    path = Path(table.paths.manifest(list_name))
    cut(path)
    for noted in (*Path(table.root).glob("snapshot/snapshot-*"), *Path(table.root).glob("tag/*")):
        kept = {k: v for k, v in json.loads(noted.read_text()).items() if "ListSize" not in k}
        noted.write_text(json.dumps(kept))
    age_all(lake.warehouse)
    before = {p for p in Path(table.root).rglob("*-*-*") if p.is_file()}
    live = {p for p in before if "bucket-" in str(p)}
    ran = caretaker("run", job, name, "-w", lake.warehouse, *JOBS[job])
    assert "Traceback" not in ran.err
    if ran.code == 7:
        assert f"{path} of table {name} names no manifest" in ran.err
        assert all(p.exists() for p in before)
        assert path.name in caretaker("verify", name, "-w", lake.warehouse).out
        return
    # The job had no need to read it, and took only what other files show to be garbage.
    assert job != "remove_orphan_files"
    assert ran.code in (0, 3), ran.err
    assert job in ("rollback", "compact_manifest") or all(p.exists() for p in live), ran.out


@pytest.mark.parametrize("which", ["base list", "delta list", "manifest"])
def test_it_is_not_read_as_fewer_rows(which: str, lake: Lake) -> None:
    path = cut_part(lake, which)
    ran = caretaker("read", "db.t", "-w", lake.warehouse)
    assert ran.code == 7
    assert str(path) in ran.err


@pytest.mark.parametrize("which", ["base list", "delta list", "manifest", "of another layout"])
def test_verify_and_repair_name_it(which: str, lake: Lake) -> None:
    path = cut_part(lake, which if which.endswith(("list", "manifest")) else "manifest")
    if which == "of another layout":
        path.write_bytes(add_fields(path, {"_NEW": ("int", 1)}))
    ran = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert ran.code == 7, ran.err
    assert path.name in ran.out
    before = files(lake)
    ran = run(lake, "repair")
    assert ran.code in (3, 7), ran.err
    assert files(lake) == before


def test_a_manifest_of_many_entries(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_OBJECTS", 0)
    monkeypatch.setattr(prepare, "MOST_OBJECTS", 0)
    path = cut_part(lake, "manifest")
    before = files(lake)
    for job in ("remove_orphan_files", "expire_snapshots", "compact_manifest"):
        ran = run(lake, job, *JOBS[job])
        assert ran.code == 7
        assert str(path) in ran.err
    assert files(lake) == before


@pytest.mark.parametrize("place", ["schema", "codec", "block", "middle", "end"])
def test_a_damaged_manifest_of_many_entries_is_named(
    place: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MOST_OBJECTS", 0)
    monkeypatch.setattr(prepare, "MOST_OBJECTS", 0)
    monkeypatch.setattr(columns_codec, "_LEAST_LANES", 1)
    table = lake.table()
    meta = data_manifests(table, table.latest_or_not_found())[-1]
    path = Path(table.paths.manifest(meta.file_name))
    data = path.read_bytes()
    at = {
        "schema": data.index(b'"null"') + 2,
        "codec": data.index(b"zstandard"),
        "block": data.index(b"\x28\xb5\x2f\xfd") - 1,
        "middle": data.index(b"\x28\xb5\x2f\xfd") + 40,
        "end": len(data) - 20,
    }[place]
    path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
    before = files(lake)
    for job in ("remove_orphan_files", "expire_snapshots", "compact_manifest"):
        ran = run(lake, job, *JOBS[job])
        assert ran.code in (4, 7), (job, ran.out)
        assert str(path) in ran.err
    assert files(lake) == before


def test_repair_does_not_take_the_size_of_a_cut_list_for_the_right_one(lake: Lake) -> None:
    cut_part(lake, "base list")
    snapshot = Path(lake.table().paths.snapshot(lake.table().snapshots.latest_id() or 0))
    said = snapshot.read_bytes()
    run(lake, "repair")
    assert snapshot.read_bytes() == said
    assert run(lake, "remove_orphan_files", *ORPHANS).code == 7


# --- index manifests: nothing holds their number of entries -----------------------------------------


@pytest.fixture
def indexed(lake: Lake) -> Lake:
    """Snapshots with deletion vectors, then one more, whose index manifest is another file."""
    lake.create("db.v", primary_key=False, options=VECTORS)
    lake.append({"k": [1, 2, 3], "v": ["a", "b", "c"]}, "db.v")
    table = lake.table("db.v")
    delete_rows(table, [1])
    lake.append({"k": [4, 5], "v": ["d", "e"]}, "db.v")
    delete_rows(table, [4])
    return lake


def cut_newest_index(lake: Lake) -> Path:
    table = lake.table("db.v")
    path = Path(table.paths.manifest(str(table.latest_or_not_found().index_manifest)))
    cut(path)
    age_all(lake.warehouse)
    return path


def on(lake: Lake, job: str, *more: object) -> Ran:
    return caretaker("run", job, "db.v", "-w", lake.warehouse, *more)


def indexes(lake: Lake) -> set[str]:
    return {p.name for p in (Path(lake.table("db.v").root) / "index").iterdir()}


def test_expiry_keeps_the_vectors_that_a_cut_index_manifest_no_longer_names(indexed: Lake) -> None:
    path, before = cut_newest_index(indexed), indexes(indexed)
    ran = on(indexed, "expire_snapshots", *EXPIRE)
    assert ran.code == 7, ran.out
    assert str(path) in ran.err
    assert indexes(indexed) == before
    assert indexed.table("db.v").snapshots.ids() == [1, 2, 3, 4]


def test_orphans_are_no_index_files_beside_a_cut_index_manifest(indexed: Lake) -> None:
    before = indexes(indexed)
    assert len(before) > 1
    path = cut_newest_index(indexed)
    table = indexed.table("db.v")
    for number in (2, 3):  # nothing else names the index files
        table.snapshots.delete(number)
    table.snapshots.delete(1)
    # Only snapshots name index manifests.
    orphans = [
        Path(table.root) / n for n in ("bucket-0/data-1-0.parquet", "manifest/index-manifest-1-0")
    ]
    for orphan in orphans:
        orphan.write_text("an orphan")
    age_all(indexed.warehouse)
    planned = caretaker("plan", "remove_orphan_files", "db.v", "-w", indexed.warehouse)
    assert str(path) in planned.out
    assert on(indexed, "remove_orphan_files", *ORPHANS).code == 0
    assert indexes(indexed) == before
    assert not any(orphan.exists() for orphan in orphans)


def test_an_index_manifest_that_is_whole_lets_its_files_go(indexed: Lake) -> None:
    before = indexes(indexed)
    age_all(indexed.warehouse)
    assert on(indexed, "expire_snapshots", *EXPIRE).code == 0
    orphan = Path(indexed.table("db.v").root) / "index" / "index-1-0"
    orphan.write_text("an orphan")
    age_all(indexed.warehouse)
    assert on(indexed, "remove_orphan_files", *ORPHANS).code == 0
    assert not orphan.exists()
    assert indexes(indexed) <= before


def test_an_index_manifest_without_entries_is_believed_where_its_files_are_gone(
    indexed: Lake,
) -> None:
    """Java writes one when a compaction has taken all rows out that were deleted."""
    table = indexed.table("db.v")
    assert on(indexed, "compact", "--engine", "local", "--strategy", "full").code == 0
    latest = table.latest_or_not_found()
    assert latest.index_manifest is None, "ours writes none"
    name = str(table.snapshots.get(4).index_manifest)
    empty = Path(table.paths.manifest("index-manifest-empty-0"))
    empty.write_bytes(Path(table.paths.manifest(name)).read_bytes())
    cut(empty)
    table.snapshots.replace(replace(latest, index_manifest=empty.name))
    age_all(indexed.warehouse)
    assert on(indexed, "expire_snapshots", *EXPIRE).code == 0
    assert indexes(indexed) == set()
