"""The jobs that the demo runs after compaction, with their effect on the orders table.

Tags, an expired partition, snapshots that a consumer retains, a rescale, and files of a failed
write.  Some jobs run through Airflow's REST API, the others in this process, like `caretaker run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from paimon_core.errors import MaintenanceError
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_maintenance.demo import lake
from paimon_maintenance.demo.accidents import fail_a_write, leave_a_consumer
from paimon_maintenance.demo.run_here import run_here
from paimon_maintenance.history.entry import History
from paimon_maintenance.job.text import human_bytes

TABLE: Final = lake.ORDERS
READER: Final = "nightly-report"
TAG: Final = "end-of-week"
OLDEST_DAY, _, NEWEST_DAY = lake.DAYS

InAirflow = Callable[[str, Mapping[str, object]], Mapping[str, Any]]
"""Triggers the DAG of the job with these params, waits, and returns the report of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One job on the table.  `before` prepares the table; `shows` names the figures to print."""

    title: str
    job: str
    shows: tuple[str, ...]
    arguments: Mapping[str, object] = field(default_factory=dict)
    in_airflow: bool = False
    force: bool = False
    before: Callable[[str], None] | None = None
    note: str = ""


def chapters() -> tuple[Chapter, ...]:
    """All chapters, in order."""
    return (
        Chapter(
            title=f"Tag {TAG!r} keeps the newest snapshot for a week",
            job="create_tag",
            arguments={"tag": TAG, "time_retained": "7 d"},
            shows=("tags",),
            in_airflow=True,
        ),
        Chapter(
            title=f"Day {OLDEST_DAY} is too old: its partition expires",
            job="expire_partitions",
            arguments={
                "expiration_time": _age_of_oldest_day(),
                "timestamp_formatter": "yyyy-MM-dd",
            },
            shows=("partitions", "rows", "files on storage"),
            note="Its files remain until the earlier snapshots and the tag expire.",
        ),
        Chapter(
            title=f"Snapshots expire, but reader {READER!r} retains those from 20 on",
            job="expire_snapshots",
            arguments={"retain_max": 1, "retain_min": 1},
            shows=("snapshots", "consumers", "files on storage", "bytes on storage"),
            in_airflow=True,
            force=True,
            before=_leave_a_consumer,
        ),
        Chapter(
            title="The reader has been inactive for ten days: it expires",
            job="expire_consumers",
            arguments={"expiration_time": "7 d"},
            shows=("consumers",),
        ),
        Chapter(
            title="Now the other snapshots expire",
            job="expire_snapshots",
            arguments={"retain_max": 1, "retain_min": 1},
            shows=("snapshots", "files on storage", "bytes on storage"),
            force=True,
        ),
        Chapter(
            title=f"Day {NEWEST_DAY} grows: its rows move from 5 to 10 buckets",
            job="rescale",
            arguments={"bucket_num": 10, "partitions": [f"dt={NEWEST_DAY}"]},
            shows=(f"buckets of {NEWEST_DAY}", "rows", "tags"),
        ),
        Chapter(
            title="A write failed two days ago: its orphan files are removed",
            job="remove_orphan_files",
            arguments={"mode": "delete"},
            shows=("files on storage", "files of no snapshot"),
            in_airflow=True,
            before=_fail_a_write,
        ),
    )


def tell(
    chapter: Chapter, warehouse: str, in_airflow: InAirflow, history: History
) -> list[tuple[str, str, str]]:
    """Run the chapter; its figures before and after, or MaintenanceError if the job failed.

    A job that does not run in Airflow is recorded in the history, where the page finds it.
    """
    if chapter.before is not None:
        chapter.before(warehouse)
    before = figures(warehouse)
    if chapter.in_airflow:
        conf = {"warehouse": warehouse, "tables": [TABLE], "force": chapter.force, "dry_run": False}
        report = in_airflow(chapter.job, {**conf, **chapter.arguments})
        failed = {**(report.get("failed") or {}), **(report.get("refused") or {})}
        failed = failed or ({} if report else {TABLE: "no report"})
        if failed:
            raise MaintenanceError(f"{chapter.job}: {failed}", next_step="check the run in Airflow")
    else:
        run_here(
            chapter.job,
            warehouse,
            TABLE,
            chapter.arguments,
            history=history,
            force=chapter.force,
        )
    after = figures(warehouse)
    return [(name, before[name], after[name]) for name in chapter.shows]


def figures(warehouse: str) -> dict[str, str]:
    """The figures of the table: versions, partitions and storage."""
    table = open_table(warehouse, TABLE)
    snapshots = [snapshot.id for snapshot in table.snapshots.all()]
    entries = scan_files(table, table.latest_or_not_found())
    buckets: dict[str, int] = {
        table.paths.partition_path(entry.partition): entry.total_buckets for entry in entries
    }
    stored = [file for file in Path(table.root).rglob("*") if file.is_file()]
    data = [file for file in stored if file.name.startswith("data-")]
    return {
        "snapshots": f"{len(snapshots)} ({snapshots[0]} to {snapshots[-1]})",
        "tags": _named(table.tags.names()),
        "consumers": _named([consumer.id for consumer in table.consumers.all()]),
        "partitions": str(len(buckets)),
        "rows": f"{sum(entry.file.row_count for entry in entries):,}",
        "files on storage": f"{len(stored):,}",
        "bytes on storage": human_bytes(sum(file.stat().st_size for file in stored)),
        "files of no snapshot": str(len({file.name for file in data} - _referenced(warehouse))),
        f"buckets of {NEWEST_DAY}": str(buckets.get(f"dt={NEWEST_DAY}", 0)),
    }


def _referenced(warehouse: str) -> set[str]:
    """The data files that snapshots and tags need."""
    table = open_table(warehouse, TABLE)
    heads = [*table.snapshots.all(), *(tag.snapshot for tag in table.tags.all())]
    return {entry.file.file_name for head in heads for entry in scan_files(table, head)}


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _age_of_oldest_day() -> str:
    """The age of noon on the oldest day: only partitions that start before it are expired."""
    noon = datetime.fromisoformat(OLDEST_DAY) + timedelta(hours=12)
    return f"{int((datetime.now() - noon).total_seconds())} s"  # noqa: DTZ005 - the wall clock


def _leave_a_consumer(warehouse: str) -> None:
    leave_a_consumer(open_table(warehouse, TABLE), READER, 20)


def _fail_a_write(warehouse: str) -> None:
    fail_a_write(open_table(warehouse, TABLE), *lake.orders_of(NEWEST_DAY))
