"""Plans and runs `analyze` (Java: Spark's `PaimonAnalyzeTableColumnCommand`)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.ddl.column_directives import is_blob_column
from paimon_core.errors import CommitConflict, CorruptTable, InvalidArgument, UnsupportedFeature
from paimon_core.features import check_committable, check_readable, check_rows_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import POSTPONE_MERGE_ON_READ
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.table.source.postponed_rows import postponed_tasks
from paimon_core.table.statistics import (
    ColumnStatistics,
    Statistics,
    read_statistics,
    write_statistics,
)
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import type_to_sql
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import Effect, Retained, SnapshotPin
from paimon_maintenance.job.read_units import read_units
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.jobs.analyze.columns import StatisticsCollector, can_be_analyzed

UNIT_BYTES: Final = 512 * 1024**2
"""Approximate size of a unit; the driver process analyzes smaller tables itself."""


@dataclass(frozen=True, slots=True)
class ReadUnit:
    """Files of one unit: whole buckets of a primary-key table, or files of an append table."""

    files: frozenset[str]
    bytes: int


@dataclass(frozen=True, slots=True)
class AnalyzeWork:
    """The snapshot, the columns, and the units to read."""

    snapshot: Snapshot | None = None
    columns: tuple[str, ...] = ()
    parts: tuple[ReadUnit, ...] = ()
    bytes: int = 0


Plan = MetadataPlan[AnalyzeWork]


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The units to read; empty if the newest snapshot already has these statistics."""
    latest = table.snapshots.latest()
    if latest is not None and has_data_evolution(table):
        check_rows_readable(table, latest)
    else:
        check_readable(table)
    check_committable(table)
    if latest is not None and postponed_tasks(table, latest):
        raise UnsupportedFeature(
            f"statistics of postponed rows ({POSTPONE_MERGE_ON_READ.key})",
            table=table.name,
            snapshot=latest.id,
            next_step="run compact on the table first: then all rows are in real buckets",
        )
    columns, kept = _columns(table, arguments)
    if latest is None or _is_fresh(table, latest, columns):
        return _plan(table, latest, AnalyzeWork(), arguments, (), kept)
    entries = scan_files(table, latest)
    parts = _parts(table, entries)
    work = AnalyzeWork(
        snapshot=latest,
        columns=tuple(f.name for f in columns),
        parts=parts,
        bytes=sum(e.file.file_size for e in entries),
    )
    what = counted(len(columns), "columns") if columns else "rows and bytes"
    action = Action(
        f"collect statistics of snapshot {latest.id}: {what}",
        f"reads {human_bytes(work.bytes)} in {counted(len(entries), 'files')}",
        {"columns": list(work.columns), "files": len(entries), "bytes": work.bytes},
    )
    return _plan(table, latest, work, arguments, (action,), kept, files=len(entries))


def _plan(
    table: FileStoreTable,
    latest: Snapshot | None,
    work: AnalyzeWork,
    arguments: Mapping[str, object],
    actions: tuple[Action, ...],
    kept: Sequence[Retained],
    *,
    files: int = 0,
) -> Plan:
    large = work.bytes > UNIT_BYTES
    return MetadataPlan(
        job="analyze",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=work,
        actions=actions,
        kept=tuple(kept),
        # Nothing is rewritten, but the whole table is read: a large one needs Spark.
        effect=Effect(
            rewritten_files=files if large else 0, rewritten_bytes=work.bytes if large else 0
        ),
        arguments=arguments,
    )


def _columns(
    table: FileStoreTable, arguments: Mapping[str, object]
) -> tuple[list[DataField], list[Retained]]:
    names = cast("Sequence[str]", arguments.get("columns") or ())
    everything = bool(arguments.get("all_columns"))
    if names and everything:
        raise InvalidArgument("set either columns or all_columns, not both", table=table.name)
    fields = {f.name: f for f in table.schema.fields}
    unknown = [n for n in names if n not in fields]
    if unknown:
        raise InvalidArgument(
            f"table {table.name} has no column {unknown[0]!r} (columns: {', '.join(fields)})",
            table=table.name,
        )
    wanted = [fields[n] for n in (fields if everything else dict.fromkeys(names))]
    refused = [f for f in wanted if not can_be_analyzed(f.type)]
    if refused and not everything:
        sql = type_to_sql(refused[0].type)
        raise InvalidArgument(
            f"column {refused[0].name!r} of type {sql} does not support statistics",
            table=table.name,
        )
    kept = [
        Retained(what=f"column {f.name}", why=f"type {f.type.root} does not support statistics")
        for f in refused
    ]
    return [f for f in wanted if f not in refused], kept


def _is_fresh(table: FileStoreTable, latest: Snapshot, columns: Sequence[DataField]) -> bool:
    if latest.commit_kind is not CommitKind.ANALYZE:
        return False
    found = _statistics(table, latest)
    return (
        found is not None
        and found.snapshot_id == latest.id - 1
        and all(f.name in found.columns for f in columns)
    )


def _statistics(table: FileStoreTable, snapshot: Snapshot) -> Statistics | None:
    try:
        return read_statistics(table, snapshot)
    except CorruptTable:
        return None  # missing or unreadable: compute all of them


def _parts(table: FileStoreTable, entries: Sequence[ManifestEntry]) -> tuple[ReadUnit, ...]:
    """The files in groups of about UNIT_BYTES; the files of a bucket with merging stay together.

    With data evolution, all are one group: files that share rows are only read together.
    """
    if entries and has_data_evolution(table):
        every = frozenset(e.file.file_name for e in entries)
        return (ReadUnit(every, sum(e.file.file_size for e in entries)),)
    groups: dict[object, list[ManifestEntry]] = {}
    for entry in entries:
        whole = (entry.partition, entry.bucket)
        groups.setdefault(whole if table.has_primary_key else entry.identity, []).append(entry)
    parts: list[ReadUnit] = []
    names: set[str] = set()
    size = 0
    for group in groups.values():
        names.update(e.file.file_name for e in group)
        size += sum(e.file.file_size for e in group)
        if size >= UNIT_BYTES:
            parts.append(ReadUnit(frozenset(names), size))
            names, size = set(), 0
    if names:
        parts.append(ReadUnit(frozenset(names), size))
    return tuple(parts)


# --- execution ----------------------------------------------------------------------------------


def gather(
    table: FileStoreTable, snapshot: Snapshot, columns: Sequence[str], payload: bytes
) -> bytes:
    """Collect the column statistics of the files in the payload."""
    files: frozenset[str] = pickle.loads(payload)  # noqa: S301 - our own
    fields = {f.name: f for f in table.schema.fields}
    gatherer = StatisticsCollector([fields[c] for c in columns])
    # Without columns, read one to count rows.
    read = columns or [f.name for f in table.schema.fields if not is_blob_column(f.type)][:1]
    keep = None if has_data_evolution(table) else lambda e: e.file.file_name in files
    for batch in read_table(table, snapshot, columns=read, keep=keep):
        gatherer.add(batch)
    return pickle.dumps(gatherer)


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Read the units, merge their statistics and commit one ANALYZE snapshot."""
    work = plan.work
    assert work.snapshot is not None
    whole = _gathered(table, work, context)
    statistics = _merged(table, work, whole)
    name = write_statistics(table, statistics, new_uuid=context.env.new_uuid)
    request = CommitRequest(
        user=context.commit_user, kind=CommitKind.ANALYZE, statistics=name, check=False
    )
    try:
        made = commit_changes(
            table, lambda _: ManifestChanges((), (), ()), request, env=context.env
        )
    except CommitConflict:
        table.io.delete(table.paths.statistics(name))
        raise
    details = {
        "rows": whole.rows,
        "statistics": name,
        "columns": {n: c.distinct_count for n, c in statistics.columns.items()},
    }
    return Committed(snapshots=(made.id,), details=details)


def _gathered(table: FileStoreTable, work: AnalyzeWork, context: RunContext) -> StatisticsCollector:
    fields = {f.name: f for f in table.schema.fields}
    whole = StatisticsCollector([fields[c] for c in work.columns])
    units = [
        WorkUnit(
            payload=pickle.dumps(part.files),
            expected_bytes=part.bytes,
            label=f"{table.name}: statistics, part {i + 1} of {len(work.parts)}",
        )
        for i, part in enumerate(work.parts)
    ]
    if not units:
        return whole
    run = partial(gather, table, cast("Snapshot", work.snapshot), work.columns)
    for result in read_units(units, run, context, small=UNIT_BYTES):
        if result.error is not None:
            raise result.error
        whole.merge(pickle.loads(cast("bytes", result.payload)))  # noqa: S301 - our own
    return whole


def _merged(table: FileStoreTable, work: AnalyzeWork, whole: StatisticsCollector) -> Statistics:
    """The new statistics, and the previous ones of columns that were not analyzed."""
    snapshot = cast("Snapshot", work.snapshot)
    ids = {f.name: f.id for f in table.schema.fields}
    columns: dict[str, ColumnStatistics] = {}
    old = _statistics(table, snapshot)
    if old is not None and old.schema_id == table.schema.id:
        columns.update(old.columns)
    columns.update({n: c.result(ids[n]) for n, c in whole.columns.items()})
    physical = snapshot.total_record_count or 0
    # Java truncates the share of rows to 0 or 1 before multiplying; we use the exact share.
    size = work.bytes if whole.rows >= physical else work.bytes * whole.rows // physical
    return Statistics(
        snapshot_id=snapshot.id,
        schema_id=table.schema.id,
        merged_record_count=whole.rows,
        merged_record_size=size,
        columns=columns,
    )


STEPS: Final = metadata_steps(make, apply)
