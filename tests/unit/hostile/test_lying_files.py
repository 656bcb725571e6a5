"""Small files that lie: schemas, tags, branches, consumers, hints, changelogs, statistics, services.

Whatever they say, a job that deletes refuses them by name or takes no notice: the newest snapshots, and a tag
that is honest, keep their files, and nothing outside the table is touched.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, caretaker, read_rows
from disk import needed_by
from lakes import Lake, age_all, append_to_branch

from paimon_core.io import read_retry
from paimon_core.reachability.references import on_branch, snapshot_reference, tag_reference

JOBS: dict[str, tuple[object, ...]] = {
    "expire_snapshots": ("--retain-max", 1, "--retain-min", 1, "--older-than", "0 s"),
    "expire_changelogs": ("--retain-max", 1, "--retain-min", 1, "--older-than", "0 s"),
    "expire_tags": (),
    "expire_consumers": ("--expiration-time", "1 d"),
    "delete_tag": ("--tag", "t"),
    "delete_branch": ("--branch-name", "c"),
    "remove_orphan_files": ("--older-than", "1 d", "--mode", "delete", "--external-paths"),
    "compact_manifest": (),
    "maintain": ("--engine", "local"),
    "repair": (),
}
CHANGELOGS = {
    "changelog-producer": "input",
    "changelog.num-retained.min": "9",
    "changelog.num-retained.max": "99",
    "bucket": "1",
    "write-only": "true",
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is writing what cannot be read, so it is not tried again."""
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())


def run(lake: Lake, job: str, *more: object, name: str = "db.t") -> Ran:
    return caretaker("run", job, name, "-w", lake.warehouse, "--force", *more)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Two tables that are alike; t has changelogs of expired snapshots, tags, branches, a consumer."""
    for name in ("db.t", "db.other"):
        lake.create(name, options=CHANGELOGS)
        lake.fill(3, name=name)
        for tag in ("t", "honest"):
            assert run(lake, "create_tag", "--tag", tag, "--snapshot", 2, name=name).code == 0
        lake.fill(1, name=name)
        retain = ("--retain-max", 2, "--retain-min", 2)
        assert run(lake, "expire_snapshots", *retain, name=name).code == 0
        for branch in ("b", "c"):
            words = ("--branch-name", branch, "--tag", "honest")
            assert run(lake, "create_branch", *words, name=name).code == 0
        lake.fill(1, name=name)
        lake.table(name).consumers.set("reader", 5)
    append_to_branch(lake, "b")
    assert run(lake, "analyze", "--engine", "local").code in (0, 3)
    age_all(lake.warehouse)
    return lake


def root(lake: Lake, name: str = "t") -> Path:
    return lake.warehouse / "db.db" / name


def change(path: Path, **fields: Any) -> None:
    """Set fields of a JSON file; None removes one."""
    told = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({k: v for k, v in told.items() if v is not None}))


def options(lake: Lake, folder: str = "", /, **more: str) -> None:
    for path in (root(lake) / folder / "schema").iterdir():
        told = json.loads(path.read_text())
        dashed = {k.replace("__", "-").replace("_", "."): v for k, v in more.items()}
        change(path, options={**told["options"], **dashed})


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())


def newest(lake: Lake) -> Path:
    return root(lake) / "snapshot" / f"snapshot-{lake.table().snapshots.latest_id()}"


LIES: dict[str, Callable[[Lake], object]] = {
    # --- schemas ---
    "a schema of other columns": lambda lake: change(
        root(lake) / "schema/schema-0", fields=[], primaryKeys=[], highestFieldId=0
    ),
    "a schema with partitions": lambda lake: change(
        root(lake) / "schema/schema-0", partitionKeys=["v"]
    ),
    "a data folder": lambda lake: options(lake, data__file_path__directory="snapshot"),
    "a data folder above": lambda lake: options(lake, data__file_path__directory="../other"),
    "another table as an external path": lambda lake: options(
        lake, data__file_external__paths=f"file://{root(lake, 'other')}"
    ),
    "the warehouse as an external path": lambda lake: options(
        lake, data__file_external__paths=f"file://{lake.warehouse}"
    ),
    "a bucket of another table as an external path": lambda lake: options(
        lake, data__file_external__paths=f"file://{root(lake, 'other')}/bucket-0"
    ),
    "no changelogs": lambda lake: options(lake, changelog__producer="none"),
    "deletion vectors": lambda lake: options(lake, deletion__vectors_enabled="true"),
    "another branch": lambda lake: options(lake, branch="b"),
    "another schema of a branch": lambda lake: options(lake, "branch/branch-b", bucket="7"),
    "a schema id": lambda lake: change(root(lake) / "schema/schema-0", id=7),
    # --- tags ---
    "another table's tag": lambda lake: copy(
        root(lake, "other") / "tag/tag-t", root(lake) / "tag/tag-t"
    ),
    "a tag of long ago": lambda lake: change(
        root(lake) / "tag/tag-t", tagCreateTime=[1970, 1, 1, 0, 0], tagTimeRetained=0.001
    ),
    "a tag of the future": lambda lake: change(
        root(lake) / "tag/tag-t", tagCreateTime=[9999, 12, 31, 0, 0], tagTimeRetained=1e300
    ),
    "a tag of a negative time": lambda lake: change(
        root(lake) / "tag/tag-t", tagCreateTime=[2024, 1, 1, 0, 0], tagTimeRetained=-86400.0
    ),
    "a tag without its lists": lambda lake: change(
        root(lake) / "tag/tag-t", baseManifestList=None, deltaManifestList=None
    ),
    "a tag without an id": lambda lake: change(root(lake) / "tag/tag-t", id=None),
    "a tag that is the newest snapshot": lambda lake: copy(newest(lake), root(lake) / "tag/tag-t"),
    "a tag of the newest lists": lambda lake: change(
        root(lake) / "tag/tag-t",
        baseManifestList=json.loads(newest(lake).read_text())["baseManifestList"],
        deltaManifestList=json.loads(newest(lake).read_text())["deltaManifestList"],
        baseManifestListSize=None,
        deltaManifestListSize=None,
    ),
    "a tag of a changelog": lambda lake: copy(
        root(lake) / "changelog/changelog-1", root(lake) / "tag/tag-t"
    ),
    # --- branches ---
    "a branch without a schema": lambda lake: (
        root(lake) / "branch/branch-c/schema/schema-0"
    ).unlink(),
    "a branch of another table's snapshots": lambda lake: copy(
        root(lake, "other") / "snapshot/snapshot-5",
        root(lake) / "branch/branch-c/snapshot/snapshot-3",
    ),
    "a branch with the newest snapshot of main": lambda lake: copy(
        newest(lake), root(lake) / "branch/branch-c/snapshot/snapshot-5"
    ),
    "a branch that is named main": lambda lake: copy(
        root(lake) / "schema/schema-0", root(lake) / "branch/branch-main/schema/schema-0"
    ),
    # --- consumers ---
    "a consumer of a negative snapshot": lambda lake: change(
        root(lake) / "consumer/consumer-reader", nextSnapshot=-5
    ),
    "a consumer of the far future": lambda lake: change(
        root(lake) / "consumer/consumer-reader", nextSnapshot=2**62
    ),
    "a consumer of no number": lambda lake: change(
        root(lake) / "consumer/consumer-reader", nextSnapshot="5"
    ),
    "a consumer in a folder": lambda lake: copy(
        newest(lake), root(lake) / "consumer/consumer-x/consumer-y"
    ),
    # --- hints ---
    **{
        f"a hint {hint} of {number} in {folder}": lambda lake, place=(folder, hint, number): (
            root(lake) / place[0] / place[1]
        ).write_text(place[2])
        for folder in ("snapshot", "changelog", "branch/branch-b/snapshot")
        for hint in ("EARLIEST", "LATEST")
        for number in ("99", "0", "4")
    },
    # --- changelogs ---
    "a changelog of the newest lists": lambda lake: change(
        root(lake) / "changelog/changelog-1",
        changelogManifestList=json.loads((root(lake) / "snapshot/snapshot-5").read_text())[
            "changelogManifestList"
        ],
        changelogManifestListSize=None,
    ),
    "a changelog whose list is a base list": lambda lake: change(
        root(lake) / "changelog/changelog-1",
        changelogManifestList=json.loads(newest(lake).read_text())["baseManifestList"],
        changelogManifestListSize=None,
    ),
    "a changelog without a list": lambda lake: change(
        root(lake) / "changelog/changelog-1",
        changelogManifestList=None,
        changelogManifestListSize=None,
        baseManifestList=json.loads(newest(lake).read_text())["baseManifestList"],
        deltaManifestList=json.loads(newest(lake).read_text())["deltaManifestList"],
        baseManifestListSize=None,
        deltaManifestListSize=None,
    ),
    "another table's changelog": lambda lake: copy(
        root(lake, "other") / "changelog/changelog-1", root(lake) / "changelog/changelog-1"
    ),
    "a changelog of a snapshot that is there": lambda lake: copy(
        newest(lake), root(lake) / "changelog/changelog-5"
    ),
    # --- statistics, services ---
    "statistics of another table": lambda lake: [
        p.write_text('{"snapshotId": 99, "schemaId": 99, "mergedRecordCount": -1}')
        for p in (root(lake) / "statistics").iterdir()
    ],
    "statistics that name the newest list": lambda lake: change(
        root(lake) / "tag/tag-t",
        statistics=json.loads(newest(lake).read_text())["baseManifestList"],
    ),
    "a service": lambda lake: copy(newest(lake), root(lake) / "service/service-primary-key-lookup"),
}


def needed(lake: Lake) -> set[str]:
    """The files of what no lie is about: the newest snapshots of main and the branch, and a tag."""
    table = lake.table()
    branch = on_branch(table, "b")
    references = [
        snapshot_reference(table, table.latest_or_not_found()),
        snapshot_reference(branch, branch.latest_or_not_found()),
        tag_reference(table, table.tags.get("honest")),
    ]
    return needed_by(table, references)


def outside(lake: Lake) -> dict[str, bytes]:
    inside = root(lake)
    files = (p for p in lake.warehouse.rglob("*") if p.is_file() and inside not in p.parents)
    return {str(p): p.read_bytes() for p in files}


def own(lake: Lake) -> dict[str, bytes]:
    files = (p for p in root(lake).rglob("*") if p.is_file() and "caretaker" not in p.parts)
    return {str(p): p.read_bytes() for p in files}


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("lie", LIES)
def test_no_live_file_is_lost(lie: str, lake: Lake) -> None:
    wanted = needed(lake)
    honest = own(lake)
    neighbours = outside(lake)
    rows = read_rows(lake.warehouse)
    LIES[lie](lake)
    age_all(lake.warehouse)
    told = own(lake)
    for job, arguments in JOBS.items():
        before = own(lake)
        ran = run(lake, job, *arguments)
        assert "Traceback" not in ran.err, (job, ran.err)
        assert outside(lake) == neighbours, (job, ran.out)
        lost = {p for p in wanted if not Path(p).exists()}
        assert not lost, (job, ran.code, ran.out, ran.err, lost)
        if ran.code not in (0, 3, 5):
            assert str(lake.warehouse) in ran.err or "db.t" in ran.err, (job, ran.err)
            assert before.keys() <= own(lake).keys(), (job, ran.err)
    for path, content in honest.items():
        if told.get(path) != content and Path(path).exists():
            Path(path).write_bytes(content)
    for path in told.keys() - honest.keys():
        Path(path).unlink(missing_ok=True)
    if not (root(lake) / "schema/schema-0").exists():
        (root(lake) / "schema/schema-0").write_bytes(honest[str(root(lake) / "schema/schema-0")])
    assert read_rows(lake.warehouse) == rows


def data_of_tag(lake: Lake, name: str) -> None:
    change(root(lake) / "tag/tag-t", baseManifestList=name, baseManifestListSize=None)


CHANGELOG_LIES: dict[str, Callable[[Lake, str], object]] = {
    "a list": data_of_tag,
    "a manifest": lambda lake, name: (
        copy(root(lake) / "manifest" / name, root(lake) / "manifest" / "manifest-list-x-0"),
        data_of_tag(lake, "manifest-list-x-0"),
    ),
}


@pytest.mark.parametrize("lie", CHANGELOG_LIES)
def test_a_tag_that_takes_a_changelog_for_data(lie: str, lake: Lake) -> None:
    """A job that deletes the tag leaves the changelog files to the snapshot that has them."""
    table = lake.table()
    snapshot = table.snapshots.get(4)
    assert snapshot.changelog_manifest_list is not None
    wanted = needed_by(table, [snapshot_reference(table, snapshot)])
    change(root(lake) / "tag/tag-t", id=99)
    CHANGELOG_LIES[lie](lake, snapshot.changelog_manifest_list)
    ran = run(lake, "rollback", "--snapshot", 4, "--safety-tag", "0 s")
    assert ran.code == 0, ran.err
    assert not (root(lake) / "tag/tag-t").exists()
    assert not {p for p in wanted if not Path(p).exists()}
