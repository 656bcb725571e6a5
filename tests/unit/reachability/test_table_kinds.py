"""Tables of newer kinds, written by Java 2.0.0: read exactly or refused by name, and never robbed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import caretaker, in_order
from lakes import age_all

from paimon_maintenance.job.exit_codes import ExitCode

GOLDEN = Path(__file__).parents[2] / "golden" / "newer" / "kinds"
REWRITTEN = {
    *("variant", "variant_shredded", "vector", "map_shared_shredding", "primary_key_index"),
}
COMPACTED = {"blob_managed", "blob", "blob_values", "data_evolution", "global_index"}
"""They are compacted, and not rewritten in other ways."""
KINDS = sorted(p.name for p in GOLDEN.iterdir())


@pytest.fixture
def warehouse(tmp_path: Path, kind: str) -> Path:
    shutil.copytree(GOLDEN / kind / "warehouse", tmp_path / "lake")
    age_all(tmp_path)
    return tmp_path / "lake"


def _files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_java(warehouse: Path, kind: str) -> None:
    expected = json.loads((GOLDEN / kind / "rows.json").read_text())
    columns = ("--columns", ",".join(expected["columns"])) if expected["columns"] else ()
    ran = caretaker("read", "db.t", "-w", warehouse, *columns)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert in_order(ran.rows) == in_order(expected["rows"])


@pytest.mark.parametrize("kind", ["map_shared_shredding"])
def test_the_layout_of_files_counts_not_the_option(warehouse: Path, kind: str) -> None:
    rows = caretaker("read", "db.t", "-w", warehouse).rows
    schema = warehouse / "db.db" / "t" / "schema" / "schema-0"
    content = json.loads(schema.read_text())
    del content["options"]["fields.m.map.storage-layout"]
    schema.write_text(json.dumps(content))
    assert caretaker("read", "db.t", "-w", warehouse).rows == rows
    content["options"]["fields.m.map.storage-layout"] = "later"
    schema.write_text(json.dumps(content))
    ran = caretaker("read", "db.t", "-w", warehouse)
    assert ran.code == ExitCode.REFUSED
    assert "fields.m.map.storage-layout=later" in ran.err
    assert len(caretaker("read", "db.t", "-w", warehouse, "--columns", "k").rows) == 9


@pytest.mark.parametrize("kind", ["blob"])
def test_blobs_are_read(warehouse: Path, kind: str) -> None:
    ran = caretaker("read", "db.t", "-w", warehouse)
    assert in_order(ran.rows) == in_order(
        ["+I", k, value] for i in range(3) for k, value in ((i, "0102"), (10 + i, "0304"))
    )


@pytest.mark.parametrize("kind", ["vector"])
def test_vectors_are_read(warehouse: Path, kind: str) -> None:
    ran = caretaker("read", "db.t", "-w", warehouse)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert in_order(ran.rows) == [["+I", i, [1.5, float(i)]] for i in range(3)]


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_is_an_orphan(warehouse: Path, kind: str) -> None:
    before = _files(warehouse)
    for more in ((), ("--unknown-kinds",)):
        ran = caretaker("run", "remove_orphan_files", "db.t", "-w", warehouse, "--force", *more)
        assert ran.code == ExitCode.NOTHING_TO_DO, ran.out
    assert _files(warehouse) == before


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in REWRITTEN])
def test_rewrites_are_refused_and_change_nothing(warehouse: Path, kind: str) -> None:
    before = _files(warehouse)
    for words in (
        ("compact", "--strategy", "full"),
        ("sort_compact", "--order-strategy", "order", "--order-by", "k"),
        ("rescale", "--bucket-num", 2),
    ):
        if words[0] == "compact" and kind in COMPACTED:
            continue
        local = ("--engine", "local")
        ran = caretaker("run", words[0], "db.t", "-w", warehouse, "--force", *local, *words[1:])
        assert ran.code == ExitCode.REFUSED, (words, ran.out)
    assert _files(warehouse) == before


@pytest.mark.parametrize("kind", ["map_shared_shredding"])
def test_rewrites_of_maps_keep_rows_and_files(warehouse: Path, kind: str) -> None:
    rows = in_order(caretaker("read", "db.t", "-w", warehouse).rows)
    words = ("-w", warehouse, "--force", "--engine", "local")
    for job in (("sort_compact", "--order-strategy", "order", "--order-by", "k"), ("analyze",)):
        ran = caretaker("run", job[0], "db.t", *words, *job[1:])
        assert ran.code == ExitCode.SUCCESS, (ran.out, ran.err)
    assert in_order(caretaker("read", "db.t", "-w", warehouse).rows) == rows
    assert caretaker("verify", "db.t", "-w", warehouse, "--deep").code == 0


@pytest.mark.parametrize("kind", sorted({*COMPACTED, "primary_key_index"}))
def test_compaction_keeps_rows_and_files(warehouse: Path, kind: str) -> None:
    before = caretaker("read", "db.t", "-w", warehouse)
    words = ("-w", warehouse, "--force", "--engine", "local")
    all_files = ("--option", "compaction.min.file-num=2")
    ran = caretaker("run", "compact", "db.t", *words, *all_files)
    assert ran.code == ExitCode.SUCCESS, (ran.out, ran.err)
    assert in_order(caretaker("read", "db.t", "-w", warehouse).rows) == in_order(before.rows)
    orphans = caretaker("run", "remove_orphan_files", "db.t", "-w", warehouse, "--force")
    assert orphans.code == ExitCode.NOTHING_TO_DO, orphans.out
    assert caretaker("verify", "db.t", "-w", warehouse).code == 0


@pytest.mark.parametrize("kind", KINDS)
def test_expiry_deletes_no_pack_of_blobs(warehouse: Path, kind: str) -> None:
    packs = {f for f in _files(warehouse) if f.endswith(".managed.blob")}
    assert bool(packs) == (kind == "blob_managed")
    tag = caretaker("run", "delete_tag", "db.t", "-w", warehouse, "--tag", "old", "--force")
    assert tag.code == ExitCode.SUCCESS, tag.err
    words = ("--retain-max", 1, "--retain-min", 1, "--older-than", "2100-01-01", "--force")
    ran = caretaker("run", "expire_snapshots", "db.t", "-w", warehouse, *words)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert packs <= _files(warehouse)
    assert caretaker("verify", "db.t", "-w", warehouse).code == 0


@pytest.mark.parametrize("kind", ["blob_values"])
def test_values_of_a_commit_that_did_not_happen_are_orphans(warehouse: Path, kind: str) -> None:
    """A killed writer leaves a `.blob` file beside its data file; manifests name both or neither."""
    before = _files(warehouse)
    blob = next(warehouse.rglob("*.blob"))
    shutil.copy2(blob, blob.with_name("data-deadbeef-9320-4d5e-8f0a-8f9e2d6c1a11-1.blob"))
    words = ("-w", warehouse, "--force", "--mode", "delete")
    ran = caretaker("run", "remove_orphan_files", "db.t", *words)
    assert ran.code == ExitCode.SUCCESS, ran.out
    assert _files(warehouse) == before
    assert caretaker("verify", "db.t", "-w", warehouse).code == 0
