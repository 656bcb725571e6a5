"""What each job that deletes tells the guards, and that it is stopped by them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lakes import Lake

from paimon_core.errors import GuardTripped
from paimon_core.reachability.garbage import Garbage
from paimon_core.reachability.stored_files import StoredFiles
from paimon_core.scan.scan import scan_files
from paimon_maintenance.job.guards import FREE, Guards
from paimon_maintenance.job.plan import Loss, LossKind
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table


def request(lake: Lake, job: str, guards: Guards, arguments: dict[str, object]) -> RunRequest:
    found = job_named(job)
    return RunRequest(
        job=found,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=found.read_arguments(arguments),
        guards=guards,
        force=False,
    )


def run(lake: Lake, job: str, guards: Guards | None = None, **arguments: object) -> Report:
    return run_table(request(lake, job, guards or Guards(), arguments))


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Six snapshots of one bucket; the last two are compactions of all before."""
    lake.primary_key(partitioned=True)
    lake.fill(4)
    assert run(lake, "compact", strategy="full").error is None
    lake.fill(1)
    assert run(lake, "compact", strategy="full").error is None
    return lake


def with_changelogs(lake: Lake) -> None:
    arguments = {"retain_max": 1, "retain_min": 1, "options": {"changelog.num-retained.max": "99"}}
    assert run(lake, "expire_snapshots", **arguments).error is None


def with_tags(lake: Lake) -> None:
    for number in (1, 2, 3):
        assert run(lake, "create_tag", tag=f"t{number}", snapshot=number).error is None


def with_old_tags(lake: Lake) -> None:
    for number in (1, 2, 3):
        arguments = {"tag": f"t{number}", "snapshot": number, "time_retained": "1 ms"}
        assert run(lake, "create_tag", **arguments).error is None
    time.sleep(0.01)


def with_branches(lake: Lake) -> None:
    with_tags(lake)
    for name in ("b1", "b2"):
        assert run(lake, "create_branch", branch_name=name, tag="t2").error is None


def with_orphans(lake: Lake) -> None:
    root = Path(lake.table().root)
    for place in ("dt=day0/bucket-0/data-orphan.parquet", "manifest/manifest-orphan"):
        (root / place).write_bytes(b"0123456789")
        os.utime(root / place, (0, 0))


def with_quarantine(lake: Lake) -> None:
    with_orphans(lake)
    assert run(lake, "remove_orphan_files", mode="quarantine").error is None


def with_a_lost_file(lake: Lake) -> None:
    table = lake.table()
    entry = scan_files(table, table.latest_or_not_found())[0]
    Path(table.paths.data_file(entry.partition, entry.bucket, entry.file)).unlink()


def nothing(_: Lake) -> None:
    pass


# Of six snapshots: what goes and how much of that there is.  None: no share is compared.
CASES: dict[str, tuple[Callable[[Lake], None], str, dict[str, object], dict[LossKind, object]]] = {
    "expire_snapshots": (
        nothing,
        "expire_snapshots",
        {"retain_max": 1, "retain_min": 1},
        {LossKind.SNAPSHOTS: (6, 7), LossKind.FILES: (12, None), LossKind.METADATA: ("some", None)},
    ),
    "expire_changelogs": (
        with_changelogs,
        "expire_changelogs",
        {"retain_max": 1, "retain_min": 1},
        {LossKind.CHANGELOGS: (5, 6), LossKind.METADATA: ("some", None)},
    ),
    "delete_tag": (with_tags, "delete_tag", {"tag": ["t1", "t2"]}, {LossKind.TAGS: (2, 3)}),
    "expire_tags": (with_old_tags, "expire_tags", {}, {LossKind.TAGS: (3, 3)}),
    "automatic tags": (
        with_old_tags,
        "trigger_tag_automatic_creation",
        {},
        {LossKind.TAGS: (3, 3)},
    ),
    "delete_branch": (
        with_branches,
        "delete_branch",
        {"branch_name": ["b1"]},
        {LossKind.BRANCHES: (1, 2), LossKind.SNAPSHOTS: (1, 1)},
    ),
    "remove_orphan_files": (
        with_orphans,
        "remove_orphan_files",
        {},
        {LossKind.FILES: (1, 15), LossKind.BYTES: (10, "some"), LossKind.METADATA: (1, "some")},
    ),
    "purge_orphan_files": (
        with_quarantine,
        "purge_orphan_files",
        {},
        {LossKind.FILES: (2, None), LossKind.BYTES: (20, None)},
    ),
    "drop_partition": (
        nothing,
        "drop_partition",
        {"partitions": "dt=day0"},
        {LossKind.FILES: (1, 2), LossKind.BYTES: ("some", "some")},
    ),
    "expire_partitions": (
        nothing,
        "expire_partitions",
        {"expiration_time": "0 ms", "expire_strategy": "update-time"},
        {LossKind.FILES: (2, 2), LossKind.BYTES: ("some", "some")},
    ),
    "rollback": (
        nothing,
        "rollback",
        {"snapshot": 2, "safety_tag": "0"},
        {LossKind.SNAPSHOTS: (5, 7), LossKind.FILES: (2, 2), LossKind.BYTES: ("some", "some")},
    ),
    "fast_forward": (
        with_branches,
        "fast_forward",
        {"branch_name": "b1", "safety_tag": "0"},
        {LossKind.SNAPSHOTS: (5, 7), LossKind.TAGS: (1, 3), LossKind.FILES: (2, 2)},
    ),
    "repair": (
        with_a_lost_file,
        "repair",
        {"repairs": ["remove_unexisting_files"]},
        {LossKind.FILES: (1, 2), LossKind.BYTES: ("some", "some")},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_job_is_guarded(case: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, job, arguments, expected = CASES[case]
    prepare(lake)
    if job == "purge_orphan_files":
        (folder,) = (Path(lake.table().root) / "caretaker" / "quarantine").iterdir()
        arguments = {"quarantine": folder.name}
    effect = plan_table(request(lake, job, Guards(), arguments)).effect
    found: dict[LossKind, list[Loss]] = {}
    for loss in effect.losses:
        found.setdefault(loss.kind, []).append(loss)
    for kind, (part, whole) in expected.items():
        assert any(
            (loss.part > 0 if part == "some" else loss.part == part)
            and (loss.whole is not None if whole == "some" else loss.whole == whole)
            for loss in found[kind]
        ), (kind, found[kind])
    assert effect.needed == ()
    for loss in effect.losses:
        assert loss.whole is None or loss.part <= loss.whole, loss

    for kind in LossKind:
        monkeypatch.setitem(FREE, kind, 0)  # type: ignore[misc] # a dict
    before = sorted(p for p in Path(lake.table().root).rglob("*") if p.is_file())
    guards = [Guards(max_deleted_files=0, max_deleted_bytes=0, max_deleted_snapshots=0)]
    if any(loss.part and loss.whole for loss in effect.losses):
        guards.append(Guards(max_deleted_share=0.01))
    for guard in guards:
        report = run(lake, job, guard, **arguments)
        assert isinstance(report.error, GuardTripped), report
        assert sorted(p for p in Path(lake.table().root).rglob("*") if p.is_file()) == before


def test_an_ordinary_expiry_passes(tmp_path: Path) -> None:
    """Sixty snapshots down to one, and 120 superseded files for 2 live ones."""
    lake = Lake(tmp_path)
    lake.primary_key(buckets=2)
    lake.fill(59, rows=4)
    assert run(lake, "compact", strategy="full").error is None
    effect = plan_table(
        request(
            lake,
            "expire_snapshots",
            Guards(),
            {"retain_max": 1, "retain_min": 1, "max_deletes": 500},
        )
    ).effect
    assert effect.deleted_files > 50 * effect.table_files > 0
    report = run(lake, "expire_snapshots", retain_max=1, retain_min=1, max_deletes=500)
    assert report.status is Status.SUCCESS, report.error
    assert lake.on_disk() == lake.referenced()


def test_a_young_table_can_be_rolled_back(tmp_path: Path) -> None:
    """Metadata files never count beside data files: four of them are no share of three of those."""
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill(3)
    report = run(lake, "rollback", snapshot=1, safety_tag="0")
    assert report.status is Status.SUCCESS, report.error


def test_a_step_of_maintain_is_guarded_by_itself(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FREE, LossKind.SNAPSHOTS, 3)  # type: ignore[misc] # a dict
    steps = {f"expire_snapshots.{k}": "1" for k in ("retain_max", "retain_min")}
    report = run(lake, "maintain", step_arguments=steps)
    assert isinstance(report.error, GuardTripped)
    assert "6 of 7 snapshots" in report.error.message
    assert len(lake.table().snapshots.ids()) == 7


@pytest.mark.parametrize("job", ["expire_snapshots", "maintain"])
def test_what_the_newest_snapshot_needs_is_never_deleted(
    job: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the search for garbage were wrong, and whatever the flags are."""
    from paimon_core.reachability.files import data_files
    from paimon_core.retention import snapshots

    table = lake.table()
    entry = scan_files(table, table.latest_or_not_found())[0]
    wrong = Garbage(StoredFiles.of(data_files(table, entry)))
    monkeypatch.setattr(snapshots, "find_garbage", lambda *_: wrong)
    arguments: dict[str, object] = {"retain_max": 1, "retain_min": 1}
    if job == "maintain":
        arguments = {"step_arguments": {f"expire_snapshots.{k}": "1" for k in arguments}}
    asked = request(lake, job, Guards(max_deleted_share=1), arguments)
    for force in (False, True):
        found = run_table(RunRequest(**{**_fields(asked), "force": force}))
        assert isinstance(found.error, GuardTripped)
        assert entry.file.file_name in found.error.message
    assert len(lake.table().snapshots.ids()) == 7


def _fields(asked: RunRequest) -> dict[str, object]:
    return {name: getattr(asked, name) for name in RunRequest.__dataclass_fields__}
