"""Sorting tables with dynamic buckets: keys move between buckets.

A writer keeps in memory which bucket holds a key, so no writer may be open: each commit is refused
if another writer has committed to the table since the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from paimon_core.clustering.dynamic import sort_dynamic
from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_core.rescale.unit import RescaleResult, RescaleUnit, rescale_units
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.write.external_sort import Clustering
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.exact_commit import commit_exact
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.report import FailedUnit
from paimon_maintenance.job.rewrite_job import (
    OneByOne,
    bucket_changes,
    commit_one_by_one,
    delete_rescaled,
    deleting_on_failure,
    failed_unit,
    run_units,
    wrong_rows,
)
from paimon_maintenance.jobs.sort_compact.group import SortGroup
from paimon_maintenance.jobs.sort_compact.plan import SortPlan
from paimon_maintenance.jobs.sort_compact.query_cost import compare_queries

Moved = tuple[SortGroup, RescaleResult]


def run_dynamic(
    table: FileStoreTable, env: Environment, clustering: Clustering, payload: bytes
) -> bytes:
    """The result of sorting one partition; runs on executors."""
    unit = RescaleUnit.from_bytes(payload)
    return sort_dynamic(table, unit, clustering, env=env).to_bytes()


def execute_dynamic(
    table: FileStoreTable, plan: SortPlan, groups: Sequence[SortGroup], context: RunContext
) -> tuple[list[Moved], list[FailedUnit]]:
    """The new buckets of each partition, and what failed."""
    units = [
        WorkUnit(payload=_unit(plan, g).to_bytes(), expected_bytes=g.bytes, label=g.label)
        for g in groups
    ]
    run = partial(run_dynamic, table, context.env, plan.clustering)

    def delete(payloads: list[bytes]) -> None:
        delete_rescaled(table, map(RescaleResult.from_bytes, payloads))

    with deleting_on_failure(delete) as finished:
        results = run_units(
            units, run, engine=context.engine, progress=context.progress, finished=finished
        )
    done: list[Moved] = []
    failed: list[FailedUnit] = []
    for group, result in zip(groups, results, strict=True):
        if result.payload is None:
            failed.append(failed_unit(result, group.label))
            continue
        moved = RescaleResult.from_bytes(result.payload)
        wrong = wrong_rows(
            *(table, group.label),
            doing="sorting",
            read=group.rows,
            written=moved.rows,
            may_shrink=True,
        )
        if wrong is None:
            done.append((group, moved))
        else:
            delete_rescaled(table, [moved])
            failed.append(FailedUnit(label=group.label, error=wrong))
    return done, failed


def commit_dynamic(
    table: FileStoreTable,
    plan: SortPlan,
    batch: Sequence[Moved],
    failed: Sequence[FailedUnit],
    context: RunContext,
) -> Committed:
    """One OVERWRITE snapshot per partition.

    After a commit of another writer the rest stays as it is.
    """

    def commit(item: Moved, user: str) -> Snapshot:
        group, moved = item
        added = [
            ManifestEntry(FileKind.ADD, b.partition, b.bucket, b.total_buckets, f)
            for b in moved.buckets
            for f in b.after
        ]
        index = [
            IndexManifestEntry(FileKind.ADD, b.partition, b.bucket, i)
            for b in moved.buckets
            for i in b.new_index_files
        ]
        return commit_exact(
            *(table, group.label, group.entries, group.index, added, index),
            user=user,
            env=context.env,
            sole=plan.sole,
        )

    outcome: OneByOne[Moved] = OneByOne()
    commit_one_by_one(
        batch,
        outcome,
        user=context.commit_user,
        commit=commit,
        delete=lambda items: delete_rescaled(table, [moved for _, moved in items]),
    )
    committed = [item for item, _ in outcome.committed]
    refused = [FailedUnit(label=group.label, error=e) for (group, _), e in outcome.refused]
    return Committed(
        snapshots=tuple(s.id for _, s in outcome.committed),
        changes=tuple(
            change
            for group, moved in committed
            for change in bucket_changes(table, group.name, group.by_bucket, _by_bucket(moved))
        ),
        failed_units=(*failed, *refused),
        details=compare_queries(
            *(table, plan.clustering.columns),
            before=[b for group, _ in committed for b in group.by_bucket.values()],
            after=[b for _, moved in committed for b in _by_bucket(moved).values()],
        ),
    )


def _unit(plan: SortPlan, group: SortGroup) -> RescaleUnit:
    """All buckets of the partition as one unit; the rows decide how many buckets there will be."""
    vectors = any(e.index_file.index_type == DELETION_VECTORS_INDEX for e in group.index)
    at = plan.pin.id if vectors and plan.pin is not None else None
    units = rescale_units(group.entries, 1, snapshot=at)
    return units[0]


def _by_bucket(moved: RescaleResult) -> dict[int, list[DataFileMeta]]:
    files: dict[int, list[DataFileMeta]] = defaultdict(list)
    for bucket in moved.buckets:
        files[bucket.bucket] += bucket.after
    return files
