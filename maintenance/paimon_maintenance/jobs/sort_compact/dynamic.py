"""Sorting tables with dynamic buckets: keys move between buckets.

A writer keeps in memory which bucket a key is in, so none may be open: each commit is refused if
anybody else committed to the table since the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from paimon_core.clustering.dynamic import sort_dynamic
from paimon_core.clustering.external_sort import Clustering
from paimon_core.compaction.due import delete_results
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, CorruptTable, MaintenanceError
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
from paimon_maintenance.engines.engine import UnitResult, WorkUnit
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.pinned import commit_pinned
from paimon_maintenance.job.report import BucketChange, FailedUnit, Size
from paimon_maintenance.jobs.sort_compact.bought import bought
from paimon_maintenance.jobs.sort_compact.pile import Pile
from paimon_maintenance.jobs.sort_compact.plan import SortPlan

Sorted = tuple[Pile, RescaleResult]


def run_dynamic(
    table: FileStoreTable, env: Environment, clustering: Clustering, payload: bytes
) -> bytes:
    """The result of sorting one partition; runs on executors."""
    unit = RescaleUnit.from_bytes(payload)
    return sort_dynamic(table, unit, clustering, env=env).to_bytes()


def execute_dynamic(
    table: FileStoreTable, plan: SortPlan, piles: Sequence[Pile], context: RunContext
) -> tuple[list[Sorted], list[FailedUnit]]:
    """The new buckets of each partition, and what failed."""
    units = [
        WorkUnit(payload=_unit(plan, p).to_bytes(), expected_bytes=p.bytes, label=p.label)
        for p in piles
    ]
    finished: list[bytes] = []

    def on_done(result: UnitResult) -> None:
        if result.payload is not None:
            finished.append(result.payload)
        context.progress.advance(1, piles[result.index].bytes)

    context.progress.expect(len(units), sum(p.bytes for p in piles))
    run = partial(run_dynamic, table, context.env, plan.clustering)
    try:
        results = context.engine.run_units(units, run, on_done=on_done)
    except BaseException:
        delete_moved(table, map(RescaleResult.from_bytes, finished))
        raise
    done: list[Sorted] = []
    failed: list[FailedUnit] = []
    for pile, result in zip(piles, results, strict=True):
        if result.payload is None:
            error = result.error or MaintenanceError(f"{pile.label} came back without a result")
            failed.append(FailedUnit(label=pile.label, error=error))
            continue
        moved = RescaleResult.from_bytes(result.payload)
        if moved.rows > pile.rows:
            delete_moved(table, [moved])
            failed.append(FailedUnit(label=pile.label, error=_too_many(table, pile, moved)))
        else:
            done.append((pile, moved))
    return done, failed


def commit_dynamic(
    table: FileStoreTable,
    plan: SortPlan,
    batch: Sequence[Sorted],
    failed: Sequence[FailedUnit],
    context: RunContext,
) -> Committed:
    """One OVERWRITE snapshot a partition; after a commit of somebody else the rest stays as it was."""
    made: list[Snapshot] = []
    changes: list[BucketChange] = []
    committed: list[Sorted] = []
    failures = list(failed)
    left = list(batch)
    while left:
        pile, moved = left.pop(0)
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
        user = f"{context.commit_user}-{len(batch) - len(left)}"
        try:
            made.append(
                commit_pinned(
                    *(table, pile.label, pile.entries, pile.index, added, index),
                    user=user,
                    env=context.env,
                    sole=plan.sole,
                )
            )
        except CommitConflict as e:
            delete_moved(table, [moved])
            failures.append(FailedUnit(label=pile.label, error=e))
            continue
        except BaseException:
            # Of this partition nothing is certain, so nothing of it is deleted.
            delete_moved(table, [rest for _, rest in left])
            raise
        changes += _changes(pile, moved)
        committed.append((pile, moved))
    return Committed(
        snapshots=tuple(s.id for s in made),
        changes=tuple(changes),
        failed_units=tuple(failures),
        details=bought(
            *(table, plan.clustering.columns),
            before=[b for pile, _ in committed for b in pile.by_bucket.values()],
            after=[b for _, moved in committed for b in _by_bucket(moved).values()],
        ),
    )


def _unit(plan: SortPlan, pile: Pile) -> RescaleUnit:
    """All buckets of the partition as one unit; how many there will be is up to the rows."""
    vectors = any(e.index_file.index_type == DELETION_VECTORS_INDEX for e in pile.index)
    at = plan.pin.id if vectors and plan.pin is not None else None
    units = rescale_units(pile.entries, 1, snapshot=at)
    return units[0]


def _too_many(table: FileStoreTable, pile: Pile, moved: RescaleResult) -> CorruptTable:
    return CorruptTable(
        f"sorting {pile.label} of table {table.name} went wrong: {pile.rows:,} rows were read, "
        f"{moved.rows:,} written; nothing of it was committed",
        table=table.name,
        next_step="run `caretaker verify` on the table, and report this as a defect",
    )


def _by_bucket(moved: RescaleResult) -> dict[int, list[DataFileMeta]]:
    files: dict[int, list[DataFileMeta]] = defaultdict(list)
    for bucket in moved.buckets:
        files[bucket.bucket] += bucket.after
    return files


def _changes(pile: Pile, moved: RescaleResult) -> Iterator[BucketChange]:
    before, after = pile.by_bucket, _by_bucket(moved)
    for number in sorted({*before, *after}):
        yield BucketChange(
            partition=pile.name,
            bucket=number,
            before=_size(before.get(number, ())),
            after=_size(after.get(number, ())),
        )


def _size(files: Sequence[DataFileMeta]) -> Size:
    return Size(
        files=len(files),
        bytes=sum(f.file_size for f in files),
        rows=sum(f.row_count for f in files),
        sorted_runs=sum(f.level == 0 for f in files) + len({f.level for f in files} - {0}),
    )


def delete_moved(table: FileStoreTable, results: Iterable[RescaleResult]) -> None:
    """Delete the files that exist only because of these results; what cannot be is an orphan."""
    delete_results(table, [bucket for result in results for bucket in result.buckets])
