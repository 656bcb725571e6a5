"""Jobs that write no rows: references, expiry, partitions, orphans, manifests, statistics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harness import Case, do, run_job

from paimon_core.errors import NotFound

Steps = list[dict[str, Any]]
COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
]
DAY = {"name": "dt", "type": "STRING NOT NULL"}
HOUR = 3_600_000
WATERMARK = 1_700_000_000_000
EXPIRE = {"op": "expire_snapshots", "retain_max": 1, "retain_min": 1}
BRANCH: Steps = [{"op": "create_branch", "name": "b", "tag": "kept"}]
GROWN: Steps = [*BRANCH, *({"op": "write", "branch": "b", "rows": [[i, "b"]]} for i in (8, 9))]
LATE: Steps = [
    {"op": "write", "rows": [[i, "w", "2024-01-02"]], "watermark": WATERMARK + i * HOUR}
    for i in range(2, 5)
]
CONSUMERS: Steps = [{"op": "set_consumer", "id": c, "next_snapshot": 2} for c in "abc"]
SUCCESS_FILE = {"tag.create-success-file": "true"}


def build(warehouse: Path, steps: Steps, options: dict[str, str]) -> None:
    """One bucket, four snapshots, a tag."""
    told = {"bucket": "1", "write-only": "true", **options}
    do(warehouse, "create_table", columns=COLUMNS, primary_keys=["k"], options=told)
    for i in range(3):
        do(warehouse, "write", rows=[[i, "x"], [i + 1, "y"]])
    do(warehouse, "compact", full=True)
    do(warehouse, "create_tag", name="kept", snapshot=2)
    do(warehouse, "write", rows=[[7, "z"]])
    for step in steps:
        do(warehouse, **step)


def build_days(warehouse: Path, steps: Steps, options: dict[str, str]) -> None:
    """Two old partitions and a late one, five snapshots, a tag, a second schema."""
    do(
        warehouse,
        "create_table",
        columns=[*COLUMNS, DAY],
        primary_keys=["k", "dt"],
        partition_keys=["dt"],
        options={"bucket": "1", "write-only": "true", **options},
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
    for step in steps:
        do(warehouse, **step)


def upgraded(warehouse: Path) -> None:
    """A tag on a file at level 0, which compaction moved up as it is."""
    told = {"bucket": "1", "write-only": "true"}
    do(warehouse, "create_table", columns=COLUMNS, primary_keys=["k"], options=told)
    do(warehouse, "write", rows=[[1, "x"]])
    do(warehouse, "create_tag", name="kept", snapshot=1)
    do(warehouse, "compact", full=True)
    do(warehouse, "write", rows=[[2, "y"]])


def plain(steps: Steps | None = None, **options: str) -> Callable[[Path], None]:
    return partial(build, steps=steps or [], options=options)


def days(steps: Steps | None = None, **options: str) -> Callable[[Path], None]:
    return partial(build_days, steps=steps or [], options=options)


def littered(warehouse: Path) -> None:
    build_days(warehouse, [], {})
    root = warehouse / "db.db" / "t"
    do(warehouse, "write", rows=[[77, "lost", "2024-01-01"]], commit=False)
    for name in ("manifest/manifest-list-dead-0", "index/index-dead-0", "snapshot/.snapshot-9.tmp"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"x")
    old = time.time() - 2 * 86_400
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))


QUARANTINE = {"mode": "quarantine"}


def quarantined(warehouse: Path) -> None:
    littered(warehouse)
    assert run_job(warehouse, "remove_orphan_files", QUARANTINE).error is None
    (folder,) = quarantines(warehouse)
    # So that its name is known.
    folder.rename(folder.with_name("20240131-120000-1a2b3c4d"))


def quarantines(warehouse: Path) -> list[Path]:
    return list((warehouse / "db.db" / "t" / "caretaker" / "quarantine").glob("*"))


def put_all_back(warehouse: Path) -> None:
    """An interrupted run leaves a quarantine, and the next makes another."""
    remove_temporary(warehouse)
    for folder in quarantines(warehouse):
        report = run_job(warehouse, "restore_orphan_files", {"quarantine": folder.name})
        assert report.error is None or isinstance(report.error, NotFound), report.error
    purge_all(warehouse)


def purge_all(warehouse: Path) -> None:
    """What was there already, when it was to be put back, is left in the quarantine."""
    remove_temporary(warehouse)
    for folder in quarantines(warehouse):
        report = run_job(warehouse, "purge_orphan_files", {"quarantine": folder.name})
        assert report.error is None or isinstance(report.error, NotFound), report.error


def remove_temporary(warehouse: Path) -> None:
    """What the orphan job removes, without the other orphans: the case is about them."""
    for path in warehouse.rglob(".*.tmp"):
        path.unlink()


OF_QUARANTINE = {"quarantine": "20240131-120000-1a2b3c4d"}

CASES = {
    # --- expiry ---
    "expire_snapshots": Case(
        job="expire_snapshots", arguments={"retain_max": 1, "retain_min": 1}, build=plain()
    ),
    "expire_changelogs": Case(
        job="expire_changelogs",
        arguments={"retain_max": 2, "retain_min": 1},
        build=plain(
            [EXPIRE],
            **{"changelog.num-retained.min": "9", "changelog.num-retained.max": "9"},
        ),
    ),
    "expire_partitions": Case(
        job="expire_partitions",
        arguments={"expiration_time": "10 d"},
        build=days(**{"partition.expiration-batch-size": "1"}),
        leaves=True,
    ),
    "drop_partition": Case(
        job="drop_partition",
        arguments={"partitions": "dt=2024-01-02"},
        build=days(),
        leaves=True,
    ),
    "mark_partition_done": Case(
        job="mark_partition_done",
        arguments={"partitions": "dt=2024-01-01;dt=2024-01-02"},
        build=days(),
    ),
    # --- tags ---
    "create_tag": Case(
        job="create_tag", arguments={"tag": "new", "snapshot": 3}, build=days(**SUCCESS_FILE)
    ),
    "delete_tag": Case(job="delete_tag", arguments={"tag": ["kept"]}, build=plain([EXPIRE])),
    "replace_tag": Case(
        job="replace_tag", arguments={"tag": "kept", "snapshot": 5}, build=days([EXPIRE])
    ),
    "rename_tag": Case(
        job="rename_tag", arguments={"tag": "kept", "target_tag": "new"}, build=days()
    ),
    "rename_tag by copying": Case(
        job="rename_tag", arguments={"tag": "kept", "target_tag": "new"}, build=days(), copies=True
    ),
    "expire_tags": Case(
        job="expire_tags",
        build=days(
            [
                {"op": "create_tag", "name": "short", "snapshot": 1, "time_retained": "1 ms"},
                {"op": "create_tag", "name": "brief", "snapshot": 3, "time_retained": "1 ms"},
                EXPIRE,
            ],
            **SUCCESS_FILE,
        ),
    ),
    "trigger_tag_automatic_creation": Case(
        job="trigger_tag_automatic_creation",
        build=days(
            [
                {"op": "write", "rows": [[1, "w", "2024-01-02"]], "watermark": WATERMARK},
                {"op": "auto_tag"},
                EXPIRE,
                *LATE,
            ],
            **SUCCESS_FILE,
            **{
                "tag.automatic-creation": "watermark",
                "tag.creation-period": "hourly",
                "tag.num-retained-max": "2",
            },
        ),
    ),
    # --- consumers ---
    "expire_consumers": Case(
        job="expire_consumers", arguments={"expiration_time": "1 ms"}, build=plain(CONSUMERS)
    ),
    "reset_consumer": Case(
        job="reset_consumer",
        arguments={"consumer_id": "a", "next_snapshot_id": 4},
        build=plain(CONSUMERS),
    ),
    "clear_consumers": Case(
        job="clear_consumers", arguments={"excluding_consumers": "b"}, build=plain(CONSUMERS)
    ),
    # --- versions ---
    "rollback": Case(job="rollback", arguments={"snapshot": 3}, build=plain()),
    "rollback to a tag": Case(
        job="rollback",
        arguments={"tag": "kept", "safety_tag": "0 s"},
        build=days([EXPIRE]),
        passing=frozenset({"snapshot_gap"}),
    ),
    "rollback with a safety tag": Case(job="rollback", arguments={"snapshot": 2}, build=days()),
    "rollback_to_as_latest": Case(
        job="rollback_to_as_latest", arguments={"tag": "kept"}, build=days(), leaves=True
    ),
    "rollback_to_as_latest, two snapshots": Case(
        job="rollback_to_as_latest", arguments={"tag": "kept"}, build=upgraded, leaves=True
    ),
    "create_branch": Case(
        job="create_branch", arguments={"branch_name": "b", "tag": "kept"}, build=days([EXPIRE])
    ),
    "create_branch without tag": Case(
        job="create_branch", arguments={"branch_name": "b"}, build=days()
    ),
    "rename_branch": Case(
        job="rename_branch",
        arguments={"branch_name": "b", "target_branch": "c"},
        build=plain(BRANCH),
    ),
    # Main has only a snapshot right after the branch's: they are no line.
    "delete_branch": Case(
        job="delete_branch", arguments={"branch_name": "b"}, build=plain([*GROWN, EXPIRE])
    ),
    "fast_forward": Case(job="fast_forward", arguments={"branch_name": "b"}, build=plain(GROWN)),
    # --- files ---
    "compact_manifest": Case(
        job="compact_manifest", build=days(**{"manifest.merge-min-count": "99"}), leaves=True
    ),
    "analyze": Case(job="analyze", arguments={"all_columns": True}, build=plain(), leaves=True),
    "remove_orphan_files": Case(job="remove_orphan_files", build=littered),
    "quarantine": Case(
        job="remove_orphan_files",
        arguments=QUARANTINE,
        build=littered,
        finish=put_all_back,
        leaves=True,
    ),
    "quarantine by copying": Case(
        job="remove_orphan_files",
        arguments=QUARANTINE,
        build=littered,
        finish=put_all_back,
        leaves=True,
        copies=True,
    ),
    "restore_orphan_files": Case(
        job="restore_orphan_files",
        arguments=OF_QUARANTINE,
        build=quarantined,
        finish=purge_all,
        leaves=True,
    ),
    "restore_orphan_files by copying": Case(
        job="restore_orphan_files",
        arguments=OF_QUARANTINE,
        build=quarantined,
        finish=purge_all,
        leaves=True,
        copies=True,
    ),
    "purge_orphan_files": Case(
        job="purge_orphan_files", arguments=OF_QUARANTINE, build=quarantined, leaves=True
    ),
}
