"""The rows that `CALL` answers with: what Java's procedures return after a run of the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import unescape_path_name
from paimon_core.scan.scan import scan_files
from paimon_maintenance.job.report import Report

Rows = list[list[Any]]


@dataclass(frozen=True, slots=True)
class Before:
    """What a table held before the job."""

    snapshots: tuple[int, ...]
    changelogs: tuple[int, ...]
    tags: tuple[str, ...]
    partitions: tuple[str, ...]
    latest: int | None


def state_of(table: FileStoreTable) -> Before:
    """Return what the table holds now."""
    return Before(
        snapshots=tuple(table.snapshots.ids()),
        changelogs=tuple(table.changelogs.ids()),
        tags=tuple(t.name for t in table.tags.all()),
        partitions=_partitions(table),
        latest=table.snapshots.latest_id(),
    )


def _partitions(table: FileStoreTable) -> tuple[str, ...]:
    latest = table.snapshots.latest()
    if latest is None or not table.schema.partition_keys:
        return ()
    found = {e.partition for e in scan_files(table, latest)}
    return tuple(sorted(table.paths.partition_path(p).strip("/") for p in found))


def _true(_: Report, __: Before, ___: FileStoreTable) -> Rows:
    return [[True]]


def _success(_: Report, __: Before, ___: FileStoreTable) -> Rows:
    return [["Success"]]


def _expired_snapshots(_: Report, before: Before, after: FileStoreTable) -> Rows:
    return [[len(set(before.snapshots) - set(after.snapshots.ids()))]]


def _expired_changelogs(_: Report, before: Before, after: FileStoreTable) -> Rows:
    return [[len(set(before.changelogs) - set(after.changelogs.ids()))]]


def _expired_partitions(_: Report, before: Before, after: FileStoreTable) -> Rows:
    gone = sorted(set(before.partitions) - set(_partitions(after)))
    return [[unescape_path_name(p.replace("/", ", "))] for p in gone] or [
        ["No expired partitions."]
    ]


def _expired_tags(_: Report, before: Before, after: FileStoreTable) -> Rows:
    gone = sorted(set(before.tags) - {t.name for t in after.tags.all()})
    return [[t] for t in gone] or [["No expired tags."]]


def _tag(report: Report, _: Before, after: FileStoreTable) -> Rows:
    snapshot = after.tags.get(str(report.arguments["tag"])).snapshot
    watermark = "null" if snapshot.watermark is None else str(snapshot.watermark)
    return [[report.arguments["tag"], snapshot.id, snapshot.time_millis, watermark]]


def _snapshots(_: Report, before: Before, after: FileStoreTable) -> Rows:
    return [[before.latest, after.snapshots.latest_id()]]


def _deleted_files(report: Report, _: Before, __: FileStoreTable) -> Rows:
    planned = (report.plan or {}).get("effect")  # of a dry run, which has no details
    effect = planned if isinstance(planned, Mapping) else report.details
    return [[effect.get("deleted_files", 0), effect.get("deleted_bytes", 0)]]


def _file_names(report: Report, _: Before, __: FileStoreTable) -> Rows:
    names = report.details.get("files", ())
    return [[str(n)] for n in names] if isinstance(names, Sequence) else []


def _dropped_index_files(report: Report, _: Before, __: FileStoreTable) -> Rows:
    planned = (report.plan or {}).get("details")  # of a dry run, which has no other details
    details = planned if isinstance(planned, Mapping) else report.details
    return [[True, details.get("index_files", 0)]]


ANSWERS: Final[Mapping[str, Callable[[Report, Before, FileStoreTable], Rows]]] = {
    "true": _true,
    "success": _success,
    "expired_snapshots": _expired_snapshots,
    "expired_changelogs": _expired_changelogs,
    "expired_partitions": _expired_partitions,
    "expired_tags": _expired_tags,
    "tag": _tag,
    "snapshots": _snapshots,
    "deleted_files": _deleted_files,
    "file_names": _file_names,
    "dropped_index_files": _dropped_index_files,
}
