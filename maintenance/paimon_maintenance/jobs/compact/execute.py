"""Does what a compaction plan says: rewrites on the engine, commits on the driver.

Units whose work is metadata alone never leave this process.  What is committed replaces exactly
the files that were read.  Results that a concurrent commit has made worthless are dropped with
their files, and the runner plans anew for their buckets; the others are committed.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from paimon_core.commit.committer import commit as commit_messages
from paimon_core.compaction.due import delete_results
from paimon_core.compaction.postpone import replay
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.slices import slice_unit
from paimon_core.compaction.unit import CompactResult, CompactUnit, merged
from paimon_core.compaction.vectors import ranges_by_file, with_index_files
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, CorruptTable, MaintenanceError, PaimonError
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.engines.engine import Engine, UnitResult, WorkUnit
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.report import BucketChange, FailedUnit
from paimon_maintenance.jobs.compact.plan import BucketKey, CompactPlan, size_of

logger = logging.getLogger(__name__)

COMMIT_ATTEMPTS: Final = 3
"""How often the part of a batch that still fits is committed when other commits interfere."""

Batch = tuple[CompactUnit, ...]


@dataclass(slots=True)
class BatchResult:
    """What became of a batch's units: the results of whole buckets, and what failed."""

    results: dict[BucketKey, CompactResult] = field(default_factory=dict)
    failed: list[tuple[BucketKey, FailedUnit]] = field(default_factory=list)


def recheck(_table: FileStoreTable, plan: CompactPlan) -> CompactPlan:
    """The plan as it is: the commit itself checks every file, so nothing is done twice here."""
    return plan


def batches(plan: CompactPlan) -> Iterator[Batch]:
    """The plan's units in parts that are committed one by one; a bucket is never divided."""
    if plan.commit_bytes is None:
        yield plan.units
        return
    by_bucket: dict[BucketKey, list[CompactUnit]] = defaultdict(list)
    for unit in plan.units:
        by_bucket[unit.partition, unit.bucket].append(unit)
    batch: list[CompactUnit] = []
    size = 0
    for units in by_bucket.values():
        batch += units
        # Slices of a bucket all name the same files.
        size += sum({f.file_name: f.file_size for u in units for f in u.rewritten_files}.values())
        if size >= plan.commit_bytes:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


# --- executing ----------------------------------------------------------------------------------


def run_unit(table: FileStoreTable, env: Environment, payload: bytes) -> bytes:
    """The bytes of the result of one unit; runs on executors."""
    unit = CompactUnit.from_bytes(payload)
    if unit.replay is not None:
        return replay(table, unit, env=env).to_bytes()
    result = rewrite(table, unit, new_uuid=env.new_uuid, creation_time=env.local_millis)
    return result.to_bytes()


def execute(
    table: FileStoreTable, plan: CompactPlan, batch: Batch, context: RunContext
) -> BatchResult:
    """The results of the batch's units.

    A bucket of which one unit failed has no result: what its other units wrote is deleted again.
    """
    light = [u for u in batch if u.is_metadata_only]
    heavy = [s for u in batch if not u.is_metadata_only for s in _sliced(table, plan, u, context)]
    done: list[tuple[CompactUnit, UnitResult]] = []
    finished: list[bytes] = []
    context.progress.expect(len(batch), sum(expected_bytes(heavy)))
    try:
        for units, engine in ((light, context.local), (heavy, context.engine)):
            if units:
                results = _run(table, units, engine, plan, context, finished)
                done += zip(units, results, strict=True)
    except BaseException:
        # The engine gave up, or Ctrl-C: nobody will ever name these files.
        delete_results(table, map(CompactResult.from_bytes, finished))
        raise
    gathered = _gathered(table, plan, done)
    _write_index_files(table, plan, gathered, context)
    return gathered


def _run(
    table: FileStoreTable,
    units: Sequence[CompactUnit],
    engine: Engine,
    plan: CompactPlan,
    context: RunContext,
    finished: list[bytes],
) -> list[UnitResult]:
    sizes = expected_bytes(units)
    told = 0

    def on_done(result: UnitResult) -> None:
        if result.payload is not None:
            finished.append(result.payload)
        if not told:
            context.progress.advance(1, sizes[result.index])

    def on_share(share: float) -> None:
        nonlocal told
        now = int(share * sum(sizes))
        if now > told:
            context.progress.advance(1, now - told)
            told = now

    work_units = [
        WorkUnit(payload=u.to_bytes(), expected_bytes=size, label=plan.label(u))
        for u, size in zip(units, sizes, strict=True)
    ]
    return engine.run_units(
        work_units, partial(run_unit, table, context.env), on_done=on_done, on_share=on_share
    )


def _sliced(
    table: FileStoreTable, plan: CompactPlan, unit: CompactUnit, context: RunContext
) -> list[CompactUnit]:
    """The unit, cut by key range if it is huge and the engine can work on several parts at once."""
    if plan.slice_bytes is None or not context.engine.is_parallel:
        return [unit]
    slices = slice_unit(table, unit, slice_bytes=plan.slice_bytes)
    if len(slices) > 1:
        logger.info("table=%s %s cut into %d slices", table.name, plan.label(unit), len(slices))
    return slices


def expected_bytes(units: Sequence[CompactUnit]) -> list[int]:
    """The bytes that each unit really reads: slices of a bucket share its files."""
    slices = Counter((u.partition, u.bucket) for u in units if u.key_range is not None)
    return [
        u.read_bytes // (slices[u.partition, u.bucket] if u.key_range is not None else 1)
        for u in units
    ]


def _gathered(
    table: FileStoreTable, plan: CompactPlan, done: Iterable[tuple[CompactUnit, UnitResult]]
) -> BatchResult:
    """Results by bucket; buckets of which something failed, or cannot be right, are dropped."""
    gathered = BatchResult()
    parts: dict[BucketKey, list[CompactResult]] = defaultdict(list)
    for unit, outcome in done:
        key = (unit.partition, unit.bucket)
        if outcome.payload is not None:
            parts[key].append(CompactResult.from_bytes(outcome.payload))
        else:
            error = outcome.error or MaintenanceError("a unit came back without a result")
            gathered.failed.append((key, FailedUnit(label=plan.label(unit), error=error)))
    broken = {key for key, _ in gathered.failed}
    for key, results in parts.items():
        result = merged(results)
        wrong = None if key in broken else _wrong_result(table, plan, key, result)
        if wrong is not None:
            gathered.failed.append((key, FailedUnit(label=_label(plan, key), error=wrong)))
        if wrong is not None or key in broken:
            delete_results(table, [result])
        else:
            gathered.results[key] = result
    return gathered


def _write_index_files(
    table: FileStoreTable, plan: CompactPlan, gathered: BatchResult, context: RunContext
) -> None:
    """Give each bucket's result the deletion vectors that hold after it (changes `gathered`).

    A bucket whose index file cannot be written is dropped like one of which a unit failed.
    """

    def finish(key: BucketKey) -> CompactResult | Exception:
        try:
            return with_index_files(
                table,
                gathered.results[key],
                plan.vector_files.get(key, ()),
                live=[f.file_name for f in plan.files[key]],
                new_uuid=context.env.new_uuid,
            )
        except (OSError, PaimonError) as e:
            return e

    keys = [k for k, r in gathered.results.items() if r.superseded or plan.vector_files.get(k)]
    for key, finished in zip(keys, map_parallel(table.io, finish, keys), strict=True):
        if isinstance(finished, CompactResult):
            gathered.results[key] = finished
        else:
            delete_results(table, [gathered.results.pop(key)])
            gathered.failed.append((key, FailedUnit(label=_label(plan, key), error=finished)))


def _wrong_result(
    table: FileStoreTable, plan: CompactPlan, key: BucketKey, result: CompactResult
) -> CorruptTable | None:
    """An error if a result cannot be right: no compaction adds rows, or loses appended ones."""
    ranges = ranges_by_file(plan.vector_files.get(key, ()))
    deleted = [ranges[f.file_name].cardinality for f in result.before if f.file_name in ranges]
    stays = {f.file_name for f in result.after}
    read = sum(f.row_count for f in result.before)
    read -= sum(
        ranges[f.file_name].cardinality or 0
        for f in result.before
        if f.file_name in ranges and f.file_name not in stays
    )
    written = sum(f.row_count for r in (result, *result.moved) for f in r.after)
    if written == read or (written < read and (table.has_primary_key or None in deleted)):
        return None
    return CorruptTable(
        f"compacting {_label(plan, key)} of table {table.name} went wrong: {read:,} rows were "
        f"read, {written:,} written; nothing of it was committed",
        table=table.name,
        next_step="run `caretaker verify` on the table, and report this as a defect",
    )


# --- committing ---------------------------------------------------------------------------------


def commit(
    table: FileStoreTable, plan: CompactPlan, batch: BatchResult, context: RunContext
) -> Committed:
    """One COMPACT snapshot for all results that still fit; the others are given up.

    Files are deleted only after a conflict, when they certainly are not part of the table.
    """
    results = dict(batch.results)
    failed, conflicts = _told_apart(table, plan, batch)
    made: Sequence[Snapshot] = ()
    for attempt in range(1, COMMIT_ATTEMPTS + 1):
        if not results:
            break
        messages = [m for r in results.values() for m in r.to_messages()]
        try:
            made = commit_messages(table, messages, user=context.commit_user, env=context.env)
            break
        except CommitConflict as e:
            stale = stale_buckets(
                table, {k: r.before for k, r in results.items()}, plan.vector_files, results
            )
            logger.info("table=%s stale buckets=%d: %s", table.name, len(stale), e)
            if not stale or attempt == COMMIT_ATTEMPTS:
                delete_results(table, results.values())
                raise
            for key in stale:
                delete_results(table, [results.pop(key)])
                conflicts.append(_label(plan, key))
    return Committed(
        snapshots=tuple(s.id for s in made),
        changes=tuple(
            _change(table, plan, (key[0], part.bucket), part)
            for key, r in results.items()
            for part in (r, *r.moved)
        ),
        conflicts=tuple(conflicts),
        failed_units=tuple(failed),
    )


def _told_apart(
    table: FileStoreTable, plan: CompactPlan, batch: BatchResult
) -> tuple[list[FailedUnit], list[str]]:
    """Failures proper, and those that are conflicts: the files to read were gone already."""
    if not batch.failed:
        return [], []
    keys = {key for key, _ in batch.failed}
    planned: dict[BucketKey, list[DataFileMeta]] = defaultdict(list)
    for unit in plan.units:
        looked_up = (f for run in unit.above for f in run.files)
        planned[unit.partition, unit.bucket] += (
            *unit.rewritten_files,
            *unit.moved_files,
            *looked_up,
        )
    stale = set(stale_buckets(table, {key: planned[key] for key in keys}, plan.vector_files, {}))
    failed = [f for key, f in batch.failed if key not in stale]
    return failed, [_label(plan, key) for key in sorted(stale)]


def stale_buckets(
    table: FileStoreTable,
    read: Mapping[BucketKey, Sequence[DataFileMeta]],
    vectors: Mapping[BucketKey, Sequence[IndexFileMeta]],
    results: Mapping[BucketKey, CompactResult],
) -> list[BucketKey]:
    """The buckets of which a file that was read is no longer live, or has another vector now.

    `vectors` are the index files that were planned with, `results` what was made of the buckets,
    as far as there is something.
    """
    latest = table.snapshots.latest()
    if latest is None:
        return list(read)
    live: dict[BucketKey, set[tuple[str, int]]] = defaultdict(set)
    for entry in scan_files(table, latest, partitions={partition for partition, _ in read}):
        live[entry.partition, entry.bucket].add((entry.file.file_name, entry.file.level))
    live_vectors = vector_files(table, latest)
    unaware = table.bucket_mode is BucketMode.UNAWARE
    return [
        key
        for key, files in read.items()
        if any((f.file_name, f.level) not in live[key] for f in files)
        or _other_vectors(
            {f.file_name for f in files},
            vectors.get(key, ()),
            live_vectors.get(key, ()),
            results.get(key),
            unaware=unaware,
        )
        or (key in results and _superseded_gone(results[key], {name for name, _ in live[key]}))
    ]


def _other_vectors(
    read: Collection[str],
    planned: Sequence[IndexFileMeta],
    live: Sequence[IndexFileMeta],
    result: CompactResult | None,
    *,
    unaware: bool,
) -> bool:
    """Whether vectors of files that were read, or index files that are replaced, changed."""

    def speaks_of_read(file: IndexFileMeta) -> bool:
        return any(r.data_file in read for r in file.dv_ranges or ())

    needed = {f.file_name for f in planned if speaks_of_read(f)}
    if result is not None:
        needed |= {f.file_name for f in result.deleted_index_files}
    if not needed <= {f.file_name for f in live}:
        return True
    known = {f.file_name for f in planned}
    added = [f for f in live if f.file_name not in known]
    if result is not None and result.new_index_files and not unaware:
        return bool(added)  # the index file of a bucket is one
    return any(map(speaks_of_read, added))


def _superseded_gone(result: CompactResult, live: Collection[str]) -> bool:
    return any(s.data_file not in live for s in result.superseded)


def _change(
    table: FileStoreTable, plan: CompactPlan, key: BucketKey, result: CompactResult
) -> BucketChange:
    """The bucket as it was planned, and with what this result replaces."""
    gone = {(f.file_name, f.level) for f in result.before}
    before = plan.files.get(key, ())  # postponed rows may make the bucket
    left = [f for f in before if (f.file_name, f.level) not in gone]
    return BucketChange(
        partition=plan.names.get(key[0], ""),
        bucket=key[1],
        before=size_of(table, before),
        after=size_of(table, [*left, *result.after]),
    )


def _label(plan: CompactPlan, key: BucketKey) -> str:
    partition = plan.names.get(key[0], "")
    return f"{partition + ' ' if partition else ''}bucket {key[1]}"
