"""Garbage, found the quick way, against the slow one: all that goes, less all that stays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from disk import needed_by
from replay import run_step

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.files import Metadata, resolved_changelog_path
from paimon_core.reachability.garbage import find_garbage
from paimon_core.reachability.references import Reference, RefKind, all_references, without
from paimon_core.scan import columns
from paimon_core.table.open import open_table


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with compactions, an overwrite, tags, and a branch that lives on."""
    folder = tmp_path_factory.mktemp("garbage")
    at = {"warehouse": str(folder), "database": "db", "table": "t"}
    rng = random.Random(5)

    def do(op: str, **fields: Any) -> None:
        result = run_step({"op": op, **at, **fields})
        assert "error" not in result, result

    def write(**fields: Any) -> None:
        rows = [[rng.randint(0, 9), "x", rng.choice("ab")] for _ in range(3)]
        do("write", rows=rows, **fields)

    do(
        "create_table",
        columns=[
            {"name": "k", "type": "INT NOT NULL"},
            {"name": "v", "type": "STRING"},
            {"name": "dt", "type": "STRING NOT NULL"},
        ],
        primary_keys=["k", "dt"],
        partition_keys=["dt"],
        options={
            "bucket": "1",
            "write-only": "true",
            "manifest.merge-min-count": "3",
            "snapshot.num-retained.min": "2",
        },
    )
    write()
    write()
    do("compact")  # 3
    do("create_tag", name="t3", snapshot=3)
    do("create_branch", name="b", tag="t3")
    write()
    do("drop_partition", partitions=[{"dt": "a"}])  # 5
    do("create_tag", name="t5", snapshot=5)
    write()
    do("compact")  # 7
    write()
    write()
    do("create_tag", name="t9", snapshot=9)
    for _ in range(2):
        write(branch="b")
    do("compact", branch="b")
    write(branch="b")
    return folder


def names(references: Sequence[Reference]) -> list[str]:
    return [r.label for r in references]


def choose(references: Sequence[Reference], *labels: str) -> list[Reference]:
    found = [r for r in references if r.label in labels]
    assert len(found) == len(labels), names(references)
    return found


def snapshots(first: int, last: int, place: str = "") -> list[str]:
    return [f"snapshot {i}{place}" for i in range(first, last + 1)]


CASES = {
    "the oldest": snapshots(1, 4),
    "the oldest, and a tag": [*snapshots(1, 4), "tag t3"],
    "all but the newest": snapshots(1, 8),
    "all but the newest, and tags": [*snapshots(1, 8), "tag t3", "tag t5", "tag t9"],
    "the newest": [*snapshots(6, 9), "tag t9"],
    "a tag whose snapshot is there": ["tag t5"],
    "the branch": [*snapshots(3, 7, " of branch b"), "tag t3 of branch b"],
    "the oldest of the branch": snapshots(3, 5, " of branch b"),
    "the newest of the branch": snapshots(6, 7, " of branch b"),
    "main, as far as the branch": [*snapshots(1, 3), "tag t3"],
}


def both_ways(table: FileStoreTable, going: list[Reference]) -> tuple[set[str], set[str]]:
    staying = without(all_references(table), going)
    quick = {f.path for f in find_garbage(table, going, staying, Metadata(table)).files}
    return quick, needed_by(table, going) - needed_by(table, staying)


@pytest.fixture(params=["objects", "columns"])
def decoded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests are decoded into objects if they are few, else into columns."""
    if request.param == "columns":
        monkeypatch.setattr(columns, "MOST_OBJECTS", 0)


@pytest.mark.usefixtures("decoded")
@pytest.mark.parametrize("case", CASES)
def test_quick_is_slow(case: str, warehouse: Path) -> None:
    table = open_table(str(warehouse), "db.t")
    quick, slow = both_ways(table, choose(all_references(table), *CASES[case]))
    assert quick == slow


@pytest.mark.usefixtures("decoded")
def test_whatever_goes_nothing_needed_is_garbage(warehouse: Path) -> None:
    table = open_table(str(warehouse), "db.t")
    references = all_references(table)
    rng = random.Random(3)
    for _ in range(40):
        going = [r for r in references if rng.random() < rng.choice([0.1, 0.5, 0.9])]
        staying = without(references, going)
        quick = {f.path for f in find_garbage(table, going, staying, Metadata(table)).files}
        assert not quick & needed_by(table, staying), names(going)


def test_who_holds_what(warehouse: Path) -> None:
    table = open_table(str(warehouse), "db.t")
    references = all_references(table)
    going = choose(references, *snapshots(1, 8))
    garbage = find_garbage(table, going, without(references, going), Metadata(table))
    assert "snapshot 3 of branch b" in garbage.held
    assert all(size > 0 for _, size in garbage.held.values())


def test_what_stays_must_be_readable(warehouse: Path) -> None:
    table = open_table(str(warehouse), "db.t")
    references = all_references(table)
    going = choose(references, *snapshots(1, 8))
    staying = without(references, going)
    (last,) = (r for r in staying if r.label == "snapshot 9")
    path = Path(table.paths.manifest(last.snapshot.base_manifest_list))
    content = path.read_bytes()
    path.unlink()
    try:
        with pytest.raises(CorruptTable):
            find_garbage(table, going, staying, Metadata(table))
    finally:
        path.write_bytes(content)


def test_what_goes_need_not_be_readable(warehouse: Path) -> None:
    table = open_table(str(warehouse), "db.t")
    references = all_references(table)
    going = choose(references, *snapshots(1, 8))
    staying = without(references, going)
    whole = {f.path for f in find_garbage(table, going, staying, Metadata(table)).files}
    path = Path(table.paths.manifest(going[6].snapshot.delta_manifest_list))
    content = path.read_bytes()
    path.unlink()
    later = open_table(str(warehouse), "db.t")
    try:
        garbage = find_garbage(later, going, staying, Metadata(later))
    finally:
        path.write_bytes(content)
    assert {f.path for f in garbage.files} < whole


def test_kinds_of_references(warehouse: Path) -> None:
    references = all_references(open_table(str(warehouse), "db.t"))
    assert {r.kind for r in references} == {RefKind.SNAPSHOT, RefKind.TAG}
    assert {r.table.branch for r in references} == {"main", "b"}


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/t/bucket-0/data-1-0.parquet", "/t/bucket-0/data-1-0.parquet"),
        (
            "/t/bucket-3/compacted-changelog-u$1-300.cc-parquet",
            "/t/bucket-3/compacted-changelog-u$1-300.cc-parquet",
        ),
        (
            "/t/bucket-3/compacted-changelog-u$1-300-100-50.cc-parquet",
            "/t/bucket-1/compacted-changelog-u$1-300.cc-parquet",
        ),
    ],
)
def test_slices_of_compacted_changelogs(path: str, real: str) -> None:
    assert resolved_changelog_path(path) == real
