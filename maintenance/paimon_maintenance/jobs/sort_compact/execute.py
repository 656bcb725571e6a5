"""Does what a plan to sort says, and commits it as a compaction.

A group is the work of one task, unless it is larger than `range_bytes` and the engine can shuffle
rows (ranges.py).  Tables with dynamic buckets have a way of their own (dynamic.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from paimon_core.clustering.rewrite import SortUnit, sort_files
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges, compact_changes
from paimon_core.commit.request import CommitRequest
from paimon_core.compaction.due import delete_results
from paimon_core.compaction.unit import CompactResult, merged
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_maintenance.job.engine import ShuffleEngine, UnitResult, WorkUnit
from paimon_maintenance.job.exact_commit import index_changed
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.report import BucketChange, FailedUnit
from paimon_maintenance.job.rewrite_job import (
    batches_of,
    commit_fitting,
    deleting_on_failure,
    failed_unit,
    run_units,
    size_of,
    wrong_rows,
)
from paimon_maintenance.jobs.sort_compact.dynamic import Moved, commit_dynamic, execute_dynamic
from paimon_maintenance.jobs.sort_compact.group import SortGroup
from paimon_maintenance.jobs.sort_compact.plan import SortPlan
from paimon_maintenance.jobs.sort_compact.query_cost import compare_queries
from paimon_maintenance.jobs.sort_compact.ranges import sort_by_ranges

SortBatch = tuple[SortGroup, ...]
Sorted = tuple[SortGroup, CompactResult]


@dataclass(slots=True)
class SortResult:
    """The new files of each group, and what failed; `moved` for tables with dynamic buckets."""

    sorted: list[Sorted] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    failed: list[FailedUnit] = field(default_factory=list)


def batches(plan: SortPlan) -> Iterator[SortBatch]:
    """The groups in parts of about `batch_bytes`, each committed by itself."""
    return batches_of(plan.groups, lambda g: g.bytes, most=plan.batch_bytes)


def run_whole(table: FileStoreTable, env: Environment, payload: bytes) -> bytes:
    """The result of sorting a whole group; runs on executors."""
    unit = SortUnit.from_bytes(payload)
    result = sort_files(table, unit, env=env)
    return result.to_bytes()


def execute(
    table: FileStoreTable, plan: SortPlan, batch: SortBatch, context: RunContext
) -> SortResult:
    """The new files of the batch's groups; a group with a failed unit has none."""
    context.progress.expect(len(batch), sum(g.bytes for g in batch))
    if plan.sole is not None:
        plan.sole.check(table, table.snapshots.latest())
        moved, failed = execute_dynamic(table, plan, batch, context)
        return SortResult(moved=moved, failed=failed)
    gathered = SortResult()
    found: dict[bytes, list[CompactResult]] = defaultdict(list)
    with deleting_on_failure(partial(_delete_payloads, table)) as finished:
        for group, unit in _run(table, plan, batch, context, finished):
            if unit.payload is None:
                gathered.failed.append(failed_unit(unit, group.label))
            else:
                # The group itself says what is replaced.
                part = CompactResult.from_bytes(unit.payload)
                found[group.row].append(replace(part, before=()))
    broken = {f.label for f in gathered.failed}
    for group in batch:
        if group.label in broken:
            delete_results(table, found[group.row])
            continue
        result = _whole_result(plan, group, found[group.row])
        written = sum(f.row_count for f in result.after)
        wrong = wrong_rows(
            *(table, group.label),
            doing="sorting",
            read=group.rows,
            written=written,
            may_shrink=bool(group.index),
        )
        if wrong is None:
            gathered.sorted.append((group, result))
        else:
            delete_results(table, [result])
            gathered.failed.append(FailedUnit(label=group.label, error=wrong))
    return gathered


def _run(
    table: FileStoreTable,
    plan: SortPlan,
    batch: SortBatch,
    context: RunContext,
    finished: list[bytes],
) -> Iterator[tuple[SortGroup, UnitResult]]:
    engine = context.engine
    large: list[SortGroup] = []
    if isinstance(engine, ShuffleEngine):
        large = [g for g in batch if g.bytes > plan.range_bytes]
    whole = [g for g in batch if g not in large]
    units = [
        WorkUnit(payload=plan.unit(g).to_bytes(), expected_bytes=g.bytes, label=g.label)
        for g in whole
    ]
    run = partial(run_whole, table, context.env)
    results = run_units(units, run, engine=engine, progress=context.progress, finished=finished)
    yield from zip(whole, results, strict=True)
    if large and isinstance(engine, ShuffleEngine):
        for group, result in sort_by_ranges(table, plan, large, engine, context):
            if result.payload is not None:
                finished.append(result.payload)
            yield group, result


def _delete_payloads(table: FileStoreTable, payloads: Sequence[bytes]) -> None:
    delete_results(table, map(CompactResult.from_bytes, payloads))


def _whole_result(
    plan: SortPlan, group: SortGroup, parts: Sequence[CompactResult]
) -> CompactResult:
    source = plan.unit(group).source
    everything = CompactResult(
        partition=group.row,
        bucket=source.bucket,
        total_buckets=source.total_buckets,
        before=group.files,
    )
    result = merged([everything, *parts])
    if group.output_level:
        upgraded = tuple(f.upgraded(group.output_level) for f in result.after)
        result = replace(result, after=upgraded)
    return result


# --- committing ---------------------------------------------------------------------------------


def commit(
    table: FileStoreTable, plan: SortPlan, batch: SortResult, context: RunContext
) -> Committed:
    """One COMPACT snapshot for all groups that still are as they were read."""
    if plan.sole is not None:
        return commit_dynamic(table, plan, batch.moved, batch.failed, context)
    fitting = commit_fitting(
        table,
        {group.row: (group, result) for group, result in batch.sorted},
        commit=lambda groups: [_commit(table, groups, context)],
        find_stale=partial(_stale, table),
        delete=lambda groups: delete_results(table, [result for _, result in groups]),
    )
    committed = list(fitting.committed.values())
    labels = {group.row: group.label for group, _ in batch.sorted}
    return Committed(
        snapshots=tuple(s.id for s in fitting.snapshots),
        conflicts=tuple(labels[row] for row in fitting.stale),
        failed_units=tuple(batch.failed),
        changes=tuple(
            BucketChange(
                partition=group.name,
                bucket=result.bucket,
                before=size_of(table, result.before),
                after=size_of(table, result.after),
            )
            for group, result in committed
        ),
        details=compare_queries(
            *(table, plan.clustering.columns),
            before=[result.before for _, result in committed],
            after=[result.after for _, result in committed],
        ),
    )


def _commit(table: FileStoreTable, groups: Sequence[Sorted], context: RunContext) -> Snapshot:
    replaced = compact_changes([result.to_message() for _, result in groups])
    dropped = [replace(e, kind=FileKind.DELETE) for group, _ in groups for e in group.index]
    changes = ManifestChanges(replaced.files, (), tuple(dropped))

    def provide(latest: Snapshot | None) -> ManifestChanges:
        for group, _ in groups:
            if index_changed(table, latest, group.row, group.index):
                raise CommitConflict(
                    f"rows of {group.label} of table {table.name} were deleted while it was sorted",
                    table=table.name,
                    snapshot=None if latest is None else latest.id,
                )
        return changes

    request = CommitRequest(user=context.commit_user, kind=CommitKind.COMPACT)
    return commit_changes(table, provide, request, env=context.env)


def _stale(table: FileStoreTable, groups: Mapping[bytes, Sorted]) -> Collection[bytes]:
    """The groups with a file, or deleted rows, that are no longer as they were read."""
    latest = table.snapshots.latest()
    if latest is None:
        return list(groups)
    live = {e.identity for e in scan_files(table, latest, partitions=set(groups))}
    return [
        row
        for row, (group, _) in groups.items()
        if any(e.identity not in live for e in group.entries)
        or index_changed(table, latest, row, group.index)
    ]
