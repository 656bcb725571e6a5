"""Every job that deletes or commits, with every single file operation failing once.

Each change fails before or after it took effect, or the process dies there; each read fails.  What
is left is a whole table that reads as before or as after the job, and a second run finishes it.
What expiry, deletion and rollback leave on disk is held to more in `test_expire_failures.py`.

CARETAKER_LONG=1 fails every read; without it, every seventh.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from disk import assert_no_leftovers, assert_whole, on_disk
from failing_io import FailingFileIO, Trigger
from replay import run_step

import maintenance.runner
from maintenance.registry import job_named
from maintenance.report import Report, Status
from maintenance.runner import RunRequest, run_table
from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table, open_table_at

Steps = list[dict[str, Any]]
EVERY_READ = 1 if os.environ.get("CARETAKER_LONG") else 7
COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
HOUR = 3_600_000
WATERMARK = 1_700_000_000_000
EXPIRE = {"op": "expire_snapshots", "retain_max": 1, "retain_min": 1}
DONE_BEFORE = (NotFound, AlreadyExists, InvalidArgument)
"""What a second run may say that finds the work done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job on a table made by the steps; `commits`: a failed attempt may leave orphans."""

    job: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    steps: Steps = field(default_factory=list)
    options: Mapping[str, str] = field(default_factory=dict)
    commits: bool = False
    quarantine: bool = False
    litter: bool = False
    copies: bool = False
    """Renaming copies and deletes, as on object stores."""


LATE = [
    {"op": "write", "rows": [[i, "w", "2024-01-02"]], "watermark": WATERMARK + i * HOUR}
    for i in range(2, 5)
]
BRANCH: Steps = [{"op": "create_branch", "name": "b", "tag": "kept"}]
CASES = {
    "expire_partitions": Case(
        job="expire_partitions",
        arguments={"expiration_time": "10 d"},
        options={"partition.expiration-batch-size": "1"},
        commits=True,
    ),
    "drop_partition": Case(
        job="drop_partition", arguments={"partitions": "dt=2024-01-02"}, commits=True
    ),
    "mark_partition_done": Case(
        job="mark_partition_done", arguments={"partitions": "dt=2024-01-01;dt=2024-01-02"}
    ),
    "create_tag": Case(
        job="create_tag",
        arguments={"tag": "new", "snapshot": 3},
        options={"tag.create-success-file": "true"},
    ),
    "replace_tag": Case(
        job="replace_tag", arguments={"tag": "kept", "snapshot": 5}, steps=[EXPIRE]
    ),
    "rename_tag": Case(job="rename_tag", arguments={"tag": "kept", "target_tag": "new"}),
    "rename_tag by copying": Case(
        job="rename_tag", arguments={"tag": "kept", "target_tag": "new"}, copies=True
    ),
    "expire_tags": Case(
        job="expire_tags",
        steps=[
            {"op": "create_tag", "name": "short", "snapshot": 1, "time_retained": "1 ms"},
            {"op": "create_tag", "name": "brief", "snapshot": 3, "time_retained": "1 ms"},
            EXPIRE,
        ],
        options={"tag.create-success-file": "true"},
    ),
    "trigger_tag_automatic_creation": Case(
        job="trigger_tag_automatic_creation",
        steps=[
            {"op": "write", "rows": [[1, "w", "2024-01-02"]], "watermark": WATERMARK},
            {"op": "auto_tag"},
            EXPIRE,
            *LATE,
        ],
        options={
            "tag.automatic-creation": "watermark",
            "tag.creation-period": "hourly",
            "tag.num-retained-max": "2",
            "tag.create-success-file": "true",
        },
    ),
    "expire_consumers": Case(
        job="expire_consumers",
        arguments={"expiration_time": "1 ms"},
        steps=[{"op": "set_consumer", "id": c, "next_snapshot": 2} for c in "ab"],
    ),
    "reset_consumer": Case(
        job="reset_consumer",
        arguments={"consumer_id": "a", "next_snapshot_id": 4},
        steps=[{"op": "set_consumer", "id": "a", "next_snapshot": 2}],
    ),
    "clear_consumers": Case(
        job="clear_consumers",
        arguments={"excluding_consumers": "b"},
        steps=[{"op": "set_consumer", "id": c, "next_snapshot": 2} for c in "abc"],
    ),
    "remove_orphan_files": Case(job="remove_orphan_files", litter=True),
    "quarantine": Case(
        job="remove_orphan_files",
        arguments={"mode": "quarantine"},
        litter=True,
        quarantine=True,
    ),
    "quarantine by copying": Case(
        job="remove_orphan_files",
        arguments={"mode": "quarantine"},
        litter=True,
        quarantine=True,
        copies=True,
    ),
    "rollback to a tag": Case(
        job="rollback", arguments={"tag": "kept", "safety_tag": "0 s"}, steps=[EXPIRE]
    ),
    "rollback with a safety tag": Case(job="rollback", arguments={"snapshot": 2}),
    "rollback_to_as_latest": Case(
        job="rollback_to_as_latest", arguments={"tag": "kept"}, commits=True
    ),
    "create_branch": Case(
        job="create_branch", arguments={"branch_name": "b", "tag": "kept"}, steps=[EXPIRE]
    ),
    "create_branch without tag": Case(job="create_branch", arguments={"branch_name": "b"}),
    "rename_branch": Case(
        job="rename_branch", arguments={"branch_name": "b", "target_branch": "c"}, steps=BRANCH
    ),
    "compact_manifest": Case(
        job="compact_manifest", options={"manifest.merge-min-count": "99"}, commits=True
    ),
}


def do(warehouse: Path, op: str, **fields: Any) -> dict[str, Any]:
    at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    result = run_step({"op": op, **at, **fields})
    assert "error" not in result, result
    return result


def build(warehouse: Path, case: Case) -> None:
    """Two old partitions and a late one, five snapshots, a tag, a second schema."""
    do(
        warehouse,
        "create_table",
        columns=COLUMNS,
        primary_keys=["k", "dt"],
        partition_keys=["dt"],
        options={"bucket": "1", "write-only": "true", **case.options},
    )
    for i in range(2):
        days = ("2024-01-01", "2024-01-02", "2999-01-01")
        do(warehouse, "write", rows=[[i, f"v{i}", day] for day in days])
    change = {"change": "set_option", "key": "x", "value": "y"}
    do(warehouse, "alter_table", changes=[change])
    do(warehouse, "compact", full=True)
    do(warehouse, "create_tag", name="kept", snapshot=2)
    do(warehouse, "write", rows=[[5, "z", "2024-01-02"]])
    do(warehouse, "write", rows=[[6, "z", "2024-01-02"]])
    for step in case.steps:
        do(warehouse, **step)
    if case.litter:
        litter(warehouse)


def litter(warehouse: Path) -> None:
    root = warehouse / "db.db" / "t"
    do(warehouse, "write", rows=[[77, "lost", "2024-01-01"]], commit=False)
    for name in ("manifest/manifest-list-dead-0", "index/index-dead-0", "snapshot/.snapshot-9.tmp"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"x")
    old = time.time() - 2 * 86_400
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))


def run_job(warehouse: Path, name: str, arguments: Mapping[str, object]) -> Report:
    job = job_named(name)
    return run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
            force=True,
        )
    )


def run_failing(
    warehouse: Path, case: Case, trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> Report:
    def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
        plain = open_table(warehouse, name)
        return open_table_at(
            FailingFileIO(trigger), plain.root, name, dynamic_options=options["dynamic_options"]
        )

    with monkeypatch.context() as patch:
        patch.setattr(maintenance.runner, "open_table", opened)
        return run_job(warehouse, case.job, case.arguments)


def state(warehouse: Path) -> dict[str, Any]:
    """What others see of the table; tags by the beginning of their names, for the safety tags'."""
    root = warehouse / "db.db" / "t"
    branches = do(warehouse, "branches")["branches"]
    return {
        "rows": do(warehouse, "read")["rows"],
        "snapshots": [(s["id"], s["commitKind"]) for s in do(warehouse, "snapshots")["snapshots"]],
        "tags": {
            t["name"][:15]: do(warehouse, "read", tag=t["name"])["rows"]
            for t in do(warehouse, "tags")["tags"]
        },
        "consumers": do(warehouse, "consumers")["consumers"],
        "branches": {b: do(warehouse, "read", branch=b)["rows"] for b in branches},
        "marks": sorted(str(p.relative_to(root)) for p in root.rglob("*_SUCCESS")),
    }


def triggers(case: Case, pristine: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trigger]:
    """A failure at each change and at some reads.

    A process that dies after call k leaves what one leaves that dies before call k + 1.
    """

    def counted(*, reads: bool) -> int:
        trigger = Trigger(reads=reads, copies=case.copies)
        copy = pristine.with_name("counted")
        shutil.copytree(pristine, copy)
        assert run_failing(copy, case, trigger, monkeypatch).error is None
        shutil.rmtree(copy)
        return trigger.count

    for k in range(counted(reads=False)):
        yield Trigger(at=k, when="before", copies=case.copies)
        yield Trigger(at=k, when="after", copies=case.copies)
        yield Trigger(at=k, when="before", dead=True, copies=case.copies)
    for k in range(0, counted(reads=True), EVERY_READ):
        yield Trigger(at=k, reads=True)


@pytest.mark.crash
@pytest.mark.parametrize("name", CASES)
def test_every_failure_leaves_a_table_that_a_second_run_finishes(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = CASES[name]
    pristine, clean = tmp_path / "pristine", tmp_path / "clean"
    build(pristine, case)
    shutil.copytree(pristine, clean)
    assert run_job(clean, case.job, case.arguments).status is Status.SUCCESS
    before, after = state(pristine), state(clean)
    assert (before != after) is not case.litter
    if not case.quarantine:
        assert_no_leftovers(clean)
    between = []
    if case.job == "rollback":  # newest to oldest, as in Java
        ids = [s[0] for s in before["snapshots"] if s not in after["snapshots"]]
        between = [do(pristine, "read", snapshot=i)["rows"] for i in ids]
    for trigger in triggers(case, pristine, monkeypatch):
        warehouse = tmp_path / "failed"
        shutil.copytree(pristine, warehouse)
        run_failing(warehouse, case, trigger, monkeypatch)
        assert trigger.fired, trigger
        assert_reads_as_one_of(warehouse, before, after, between, trigger)
        again = run_job(warehouse, case.job, case.arguments)
        assert again.error is None or isinstance(again.error, DONE_BEFORE), (trigger, again.error)
        left = state(warehouse)
        if case.job == "rollback_to_as_latest":
            left["snapshots"] = after["snapshots"]
        assert left == after, trigger
        if case.commits:
            remove_orphans(warehouse)
        if case.quarantine:
            restore_all(warehouse, case)
            assert on_disk(warehouse / "db.db" / "t") == moved(on_disk(pristine / "db.db" / "t"))
        else:
            assert_no_leftovers(warehouse)
        shutil.rmtree(warehouse)


def moved(paths: set[str]) -> set[str]:
    """The same files in the warehouse of the failed run."""
    return {p.replace("/pristine/", "/failed/") for p in paths}


def assert_reads_as_one_of(
    warehouse: Path,
    before: dict[str, Any],
    after: dict[str, Any],
    between: list[Any],
    trigger: Trigger,
) -> None:
    assert_whole(warehouse)
    found = state(warehouse)
    steps = [before["rows"], after["rows"], *between]
    if len(before["snapshots"]) + 1 < len(after["snapshots"]):
        steps.append([r for r in before["rows"] if r[3] != "2024-01-01"])  # a commit a partition
    assert found["rows"] in steps, trigger
    for name, rows in found["tags"].items():
        assert rows in (before["tags"].get(name), after["tags"].get(name)), (trigger, name)
    for name, rows in found["branches"].items():
        known = (before["branches"].get(name), after["branches"].get(name), [])
        assert rows in known, (trigger, name)


def remove_orphans(warehouse: Path) -> None:
    time.sleep(0.002)
    do(warehouse, "remove_orphan_files", older_than_millis=time.time_ns() // 1_000_000)


@pytest.mark.crash
@pytest.mark.parametrize("copies", [False, True], ids=["renaming", "copying"])
@pytest.mark.parametrize("job", ["restore_orphan_files", "purge_orphan_files"])
def test_a_quarantine_ends_however_it_is_interrupted(
    job: str,
    copies: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pristine = tmp_path / "pristine"
    aside = CASES["quarantine"]
    build(pristine, aside)
    whole = on_disk(pristine / "db.db" / "t")
    assert run_job(pristine, aside.job, aside.arguments).error is None
    needed = on_disk(pristine / "db.db" / "t")
    (folder,) = (pristine / "db.db" / "t" / "caretaker" / "quarantine").iterdir()
    case = Case(job=job, arguments={"quarantine": folder.name}, copies=copies)
    expected = whole if job == "restore_orphan_files" else needed
    for trigger in triggers(case, pristine, monkeypatch):
        warehouse = tmp_path / "failed"
        shutil.copytree(pristine, warehouse)
        run_failing(warehouse, case, trigger, monkeypatch)
        again = run_job(warehouse, case.job, case.arguments)
        assert again.error is None or isinstance(again.error, NotFound), (trigger, again.error)
        root = warehouse / "db.db" / "t"
        assert on_disk(root) == moved(expected), trigger
        assert_whole(warehouse)
        if again.details.get("already_there"):
            assert run_job(warehouse, "purge_orphan_files", case.arguments).error is None
            assert on_disk(root) == moved(expected), trigger
        assert not [p for p in root.glob("caretaker/**/*") if p.is_file()], trigger
        shutil.rmtree(warehouse)


def restore_all(warehouse: Path, case: Case) -> None:
    root = warehouse / "db.db" / "t"
    assert run_job(warehouse, case.job, {}).status is Status.NOTHING_TO_DO
    for folder in (root / "caretaker" / "quarantine").glob("*"):
        report = run_job(warehouse, "restore_orphan_files", {"quarantine": folder.name})
        assert report.error is None
