"""A table for each maintenance job, made by Java in a catalog, and what the job leaves of its rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from oracle import Oracle
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_files
from paimon_maintenance.job.report import Report

Row = tuple[Any, ...]
Prepared = Mapping[str, object]
"""Arguments of the job that are only known once the table is prepared."""
RunJob = Callable[..., Report]

COLUMNS: Final = [
    {"name": "id", "type": "BIGINT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
DAYS: Final = ("2024-01-01", "2024-01-02", "2998-01-01")
BESIDE: Final = "2999-01-01"
"""The partition of what Java writes while the job runs."""
DAY_MILLIS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Java:
    """Java's clients: `table` goes through the catalog, `branch` to the branches of the table.

    Java's JDBC catalog has no branches, so there `branch` is a filesystem catalog of the same folder.
    """

    table: Oracle
    branch: Oracle


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job, its table, and the rows of main after the job without those written beside it.

    `rows_of` is the version whose rows main holds then (fields of Java's `read`; by default the
    newest), without those for which `gone` is true.  `branched`: that version is in a branch.
    `drops`: the job is asked to drop commits, so the oldest ones beside it may be lost.
    `refused` holds the kinds of catalogs that refuse the job, with a part of the message.
    """

    job: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    build: Callable[[Java, Mapping[str, str]], None]
    options: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[FileStoreTable, RunJob], Prepared] = lambda _, __: {}
    rows_of: Mapping[str, object] = field(default_factory=dict)
    gone: Callable[[Row], bool] = lambda _: False
    drops: bool = False
    day: Callable[[int], str] = lambda _: BESIDE
    """The partition of each row that is written beside the job."""
    then: tuple[str, Mapping[str, object]] | None = None
    """A job, and its arguments, without which the table is not whole."""
    refused: Mapping[str, str] = field(default_factory=dict)


# --- tables -------------------------------------------------------------------------------------


def keyed(java: Java, options: Mapping[str, str]) -> None:
    """Three partitions, six snapshots, three tags, a branch of two commits, an uncommitted file."""
    _create(java, {"bucket": "1", **options}, keys=["id", "dt"])
    _fill(java)


def appended(java: Java, options: Mapping[str, str]) -> None:
    """The same without a key."""
    _create(java, {"bucket": "-1", **options}, keys=[])
    _fill(java)


def evolving(java: Java, options: Mapping[str, str]) -> None:
    """The same with data evolution, and no compaction."""
    evolves = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    _create(java, {"bucket": "-1", **evolves, **options}, keys=[])
    _fill(java, compact=False)


def with_changelogs(java: Java, options: Mapping[str, str]) -> None:
    """Changelogs of snapshots that Java has expired."""
    keep = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    keep |= {"changelog.num-retained.min": "9", "changelog.num-retained.max": "99"}
    told = {"bucket": "1", "changelog-producer": "input", **keep, **options}
    _create(java, told, keys=["id", "dt"])
    for i in range(4):
        _write(java.table, i)
    java.table.one("expire_snapshots", as_commit=True)


def consumed(java: Java, options: Mapping[str, str]) -> None:
    """With three consumers, which keep all snapshots but the first."""
    keyed(java, options)
    for name in "abc":
        java.table.one("set_consumer", id=name, next_snapshot=2)


def tagged_by_day(java: Java, options: Mapping[str, str]) -> None:
    """Without a compaction by Java, which creates tags too."""
    tagging = {"tag.automatic-creation": "process-time"}
    _create(java, {"bucket": "1", **tagging, **options}, keys=["id", "dt"])
    _fill(java, compact=False)


def _create(java: Java, options: Mapping[str, str], keys: list[str]) -> None:
    java.table.one(
        "create_table",
        columns=COLUMNS,
        partition_keys=["dt"],
        primary_keys=keys,
        options={"write-only": "true", "commit.max-retries": "1000", **options},
    )


def _fill(java: Java, *, compact: bool = True) -> None:
    table = java.table
    _write(table, 0)
    table.one("create_tag", name="old", snapshot=1)
    _write(table, 1)
    table.one("create_tag", name="kept", snapshot=2)
    if compact:
        table.one("compact", full=True)
    else:
        _write(table, 1)
    java.branch.one("create_branch", name="b", tag="kept")
    for i in (20, 21):
        _write(java.branch, i, branch="b")
    for i in (2, 3, 4):
        _write(table, i)
    table.one("create_tag", name="short", snapshot=5, time_retained="1 ms")
    table.one("write", rows=[[77, "lost", DAYS[0]]], commit=False)


def _write(java: Oracle, number: int, **where: str) -> None:
    rows = [[number, f"v{number}", day] for day in DAYS] + [[100, f"v{number}", DAYS[1]]]
    java.one("write", rows=rows, **where)


# --- what is done to them before the job --------------------------------------------------------


def age(table: FileStoreTable, _: RunJob) -> Prepared:
    """All files are two days old, as what a failed writer left."""
    old = time.time() - 2 * DAY_MILLIS / 1000
    for path in Path(table.root).rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    return {}


def quarantine(table: FileStoreTable, run: RunJob) -> Prepared:
    """The name of a quarantine that holds the uncommitted files."""
    age(table, run)
    report = run("remove_orphan_files", mode="quarantine")
    assert report.error is None, report.error
    return {"quarantine": report.details["quarantine"]}


def index(_: FileStoreTable, run: RunJob) -> Prepared:
    """A column has a global index."""
    report = run("create_global_index", index_column="v")
    assert report.error is None, report.error
    return {}


def lose_a_file(table: FileStoreTable, _: RunJob) -> Prepared:
    """The file of the newest row in the first partition is gone."""
    files = scan_files(table, table.latest_or_not_found())
    paths = [Path(table.paths.data_file(e.partition, e.bucket, e.file)) for e in files]
    inside = [path for path in paths if f"dt={DAYS[0]}" in path.parts]
    max(inside, key=lambda path: path.stat().st_mtime_ns).unlink()
    return {}


def point_ahead(table: FileStoreTable, _: RunJob) -> Prepared:
    """A consumer waits for a snapshot that a rollback has removed."""
    table.consumers.set("ahead", 10_000)
    return {}


def first_day(row: Row) -> bool:
    return bool(row[2] == DAYS[0])


def lost_row(row: Row) -> bool:
    return row == (4, "v4", DAYS[0])


def old_days(row: Row) -> bool:
    return bool(row[2] in DAYS[:2])


EXPIRE: Final = {"retain_max": 1, "retain_min": 1}
DUE: Final = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "partition.expiration-time": "7 d",
    "partition.timestamp-formatter": "yyyy-MM-dd",
    "consumer.expiration-time": "1 d",
    "tag.automatic-creation": "process-time",
    "tag.num-retained-max": "3",
}

CASES: Final[Mapping[str, Case]] = {
    # --- data ---
    "compact": Case(job="compact", arguments={"strategy": "full"}, build=keyed),
    "compact without key": Case(job="compact", arguments={"strategy": "full"}, build=appended),
    # Java's write-only writers do not look at the number of buckets that a partition has.
    "rescale": Case(
        job="rescale", arguments={"bucket_num": 2}, build=keyed, day=lambda key: f"w{key}"
    ),
    "sort_compact": Case(job="sort_compact", arguments={"order_by": ["v", "id"]}, build=appended),
    "analyze": Case(job="analyze", arguments={"all_columns": True}, build=keyed),
    "create_global_index": Case(
        job="create_global_index", arguments={"index_column": "v"}, build=evolving
    ),
    "drop_global_index": Case(
        job="drop_global_index", arguments={"index_column": "v"}, build=evolving, prepare=index
    ),
    "reassign_row_id": Case(job="reassign_row_id", build=evolving),
    "compact_manifest": Case(
        job="compact_manifest", build=keyed, options={"manifest.merge-min-count": "99"}
    ),
    # --- expiry ---
    "expire_snapshots": Case(job="expire_snapshots", arguments=EXPIRE, build=keyed),
    "expire_changelogs": Case(job="expire_changelogs", arguments=EXPIRE, build=with_changelogs),
    "expire_partitions": Case(
        job="expire_partitions", arguments={"expiration_time": "10 d"}, build=keyed, gone=old_days
    ),
    "drop_partition": Case(
        job="drop_partition",
        arguments={"partitions": [f"dt={DAYS[0]}"]},
        build=keyed,
        gone=first_day,
    ),
    "mark_partition_done": Case(
        job="mark_partition_done", arguments={"partitions": [f"dt={DAYS[0]}"]}, build=keyed
    ),
    # --- tags and consumers ---
    "create_tag": Case(job="create_tag", arguments={"tag": "mine", "snapshot": 4}, build=keyed),
    "replace_tag": Case(job="replace_tag", arguments={"tag": "old", "snapshot": 5}, build=keyed),
    "rename_tag": Case(
        job="rename_tag", arguments={"tag": "old", "target_tag": "new"}, build=keyed
    ),
    "delete_tag": Case(job="delete_tag", arguments={"tag": ["old"]}, build=keyed),
    "expire_tags": Case(job="expire_tags", build=keyed),
    "trigger_tag_automatic_creation": Case(
        job="trigger_tag_automatic_creation", build=tagged_by_day
    ),
    "expire_consumers": Case(
        job="expire_consumers", arguments={"expiration_time": "1 ms"}, build=consumed
    ),
    "reset_consumer": Case(
        job="reset_consumer", arguments={"consumer_id": "a", "next_snapshot_id": 4}, build=consumed
    ),
    "clear_consumers": Case(
        job="clear_consumers", arguments={"excluding_consumers": "b"}, build=consumed
    ),
    # --- history and branches ---
    "rollback": Case(
        job="rollback",
        arguments={"snapshot": 4},
        build=keyed,
        rows_of={"snapshot": 4},
        drops=True,
    ),
    "rollback to a tag": Case(
        job="rollback",
        arguments={"tag": "kept"},
        build=keyed,
        rows_of={"tag": "kept"},
        drops=True,
    ),
    "rollback_to_as_latest": Case(
        job="rollback_to_as_latest",
        arguments={"tag": "old"},
        build=keyed,
        rows_of={"tag": "old"},
        drops=True,
    ),
    "create_branch": Case(
        job="create_branch", arguments={"branch_name": "c", "tag": "old"}, build=keyed
    ),
    "rename_branch": Case(
        job="rename_branch", arguments={"branch_name": "b", "target_branch": "d"}, build=keyed
    ),
    "delete_branch": Case(job="delete_branch", arguments={"branch_name": ["b"]}, build=keyed),
    "fast_forward": Case(
        job="fast_forward",
        arguments={"branch_name": "b"},
        build=keyed,
        rows_of={"branch": "b"},
        drops=True,
    ),
    # --- files ---
    "remove_orphan_files": Case(
        job="remove_orphan_files", arguments={"mode": "delete"}, build=keyed, prepare=age
    ),
    "restore_orphan_files": Case(job="restore_orphan_files", build=keyed, prepare=quarantine),
    "purge_orphan_files": Case(job="purge_orphan_files", build=keyed, prepare=quarantine),
    "repair": Case(
        job="repair",
        arguments={"repairs": ["reset_consumer"]},
        build=keyed,
        prepare=point_ahead,
        refused={"rest": "REST catalog"},
    ),
    "remove_unexisting_files": Case(
        job="remove_unexisting_files",
        build=keyed,
        prepare=lose_a_file,
        gone=lost_row,
        then=("expire_snapshots", EXPIRE),
    ),
    # --- all that is due ---
    "maintain": Case(
        job="maintain", arguments={"compact": "full"}, build=consumed, options=DUE, gone=old_days
    ),
}
