"""Does what a compaction plan says: rewrites on the engine, commits on the driver.

Units whose work is metadata alone never leave this process.  What is committed replaces exactly
the files that were read.  Results that a concurrent commit has made stale are dropped with
their files, and the run makes a new plan for their buckets; the others are committed.
"""

from __future__ import annotations

import logging
import pickle
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from paimon_core.commit.committer import commit as commit_messages
from paimon_core.commit.row_group_conflict import torn_rows, update_of_lost_ids
from paimon_core.compaction.due import delete_results
from paimon_core.compaction.evolution import distinct_rows, rows_left
from paimon_core.compaction.level_indexes import (
    LevelBuild,
    build_level_index,
    level_index_files,
    missing_level_indexes,
)
from paimon_core.compaction.postpone import replay
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.slices import is_cut, slice_unit
from paimon_core.compaction.unit import CompactResult, CompactUnit, merged
from paimon_core.compaction.vectors import ranges_by_file, with_index_files
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, PaimonError
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.index.primary_key import level_indexes
from paimon_core.io.file_io import delete_abandoned, map_parallel
from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_maintenance.job.engine import UnitResult, WorkUnit, task_cpus
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.report import BucketChange, FailedUnit
from paimon_maintenance.job.rewrite_job import (
    batches_of,
    commit_fitting,
    deleting_on_failure,
    even_slice_bytes,
    failed_unit,
    key_samples,
    run_units,
    size_of,
    wrong_rows,
)
from paimon_maintenance.jobs.compact.plan import BucketKey, CompactPlan

logger = logging.getLogger(__name__)

CompactBatch = tuple[CompactUnit, ...]


@dataclass(slots=True)
class CompactedBatch:
    """The outcome of a batch: the results of whole buckets, and the failures."""

    results: dict[BucketKey, CompactResult] = field(default_factory=dict)
    failed: list[tuple[BucketKey, FailedUnit]] = field(default_factory=list)


def batches(plan: CompactPlan) -> Iterator[CompactBatch]:
    """The plan's units in parts that are committed one by one; a bucket is never divided."""
    if plan.commit_bytes is None:
        yield plan.units
        return
    by_bucket: dict[BucketKey, list[CompactUnit]] = defaultdict(list)
    for unit in plan.units:
        by_bucket[unit.partition, unit.bucket].append(unit)

    def size(units: Sequence[CompactUnit]) -> int:
        # Slices of a bucket all name the same files.
        return sum({f.file_name: f.file_size for u in units for f in u.rewritten_files}.values())

    for buckets in batches_of(by_bucket.values(), size, most=plan.commit_bytes):
        yield tuple(unit for units in buckets for unit in units)


# --- executing ----------------------------------------------------------------------------------


def run_unit(table: FileStoreTable, env: Environment, threads: int | None, payload: bytes) -> bytes:
    """The bytes of the result of one unit; runs on executors.

    `threads` None: as many as the task has processors.
    """
    unit = CompactUnit.from_bytes(payload)
    if unit.replay is not None:
        return replay(table, unit, env=env).to_bytes()
    result = rewrite(
        table,
        unit,
        env=env,
        threads=threads or task_cpus(),
    )
    return result.to_bytes()


def execute(
    table: FileStoreTable, plan: CompactPlan, batch: CompactBatch, context: RunContext
) -> CompactedBatch:
    """The results of the batch's units.

    A bucket with a failed unit has no result: the files of its other units are deleted.
    """
    light = [u for u in batch if u.is_metadata_only]
    heavy = _sliced(table, plan, [u for u in batch if not u.is_metadata_only], context)
    done: list[tuple[CompactUnit, UnitResult]] = []
    context.progress.expect(len(batch), sum(expected_bytes(heavy)))
    given = plan.arguments.get("threads")
    threads = given if isinstance(given, int) else None

    def delete(payloads: list[bytes]) -> None:
        delete_results(table, map(CompactResult.from_bytes, payloads))

    with deleting_on_failure(delete) as finished:
        for units, engine in ((light, context.local), (heavy, context.engine)):
            work = [
                WorkUnit(payload=u.to_bytes(), expected_bytes=size, label=plan.label(u))
                for u, size in zip(units, expected_bytes(units), strict=True)
            ]
            results = run_units(
                work,
                partial(run_unit, table, context.env, threads),
                engine=engine,
                progress=context.progress,
                finished=finished,
            )
            done += zip(units, results, strict=True)
        gathered = _gathered(table, plan, done)
        _write_index_files(table, plan, gathered, context)
    return gathered


def _sliced(
    table: FileStoreTable, plan: CompactPlan, units: Sequence[CompactUnit], context: RunContext
) -> list[CompactUnit]:
    """The units; huge ones are cut by key range if the engine runs several units at once."""
    size = plan.slice_bytes
    if size is None or not context.engine.is_parallel:
        return list(units)
    cut = [u for u in units if is_cut(u, size)]
    samples = key_samples(table, [[u] for u in cut], context)
    if cut:  # after the samples, when executors have registered
        size = even_slice_bytes([u.rewritten_bytes for u in cut], size, context.engine.slots())
    found = []
    for unit in units:
        slices = slice_unit(table, unit, slice_bytes=size, samples=samples)
        found += slices
        if len(slices) > 1:
            logger.info("table=%s %s cut into %d slices", table.name, plan.label(unit), len(slices))
    return found


def expected_bytes(units: Sequence[CompactUnit]) -> list[int]:
    """The bytes that each unit really reads: slices of a bucket share its files."""
    slices = Counter((u.partition, u.bucket) for u in units if u.key_range is not None)
    return [
        u.read_bytes // (slices[u.partition, u.bucket] if u.key_range is not None else 1)
        for u in units
    ]


def _gathered(
    table: FileStoreTable, plan: CompactPlan, done: Iterable[tuple[CompactUnit, UnitResult]]
) -> CompactedBatch:
    """Results by bucket, without buckets with a failed unit or a wrong number of rows."""
    gathered = CompactedBatch()
    parts: dict[BucketKey, list[CompactResult]] = defaultdict(list)
    for unit, outcome in done:
        key = (unit.partition, unit.bucket)
        if outcome.payload is not None:
            parts[key].append(CompactResult.from_bytes(outcome.payload))
        else:
            gathered.failed.append((key, failed_unit(outcome, plan.label(unit))))
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
    table: FileStoreTable, plan: CompactPlan, gathered: CompactedBatch, context: RunContext
) -> None:
    """Give each bucket's result the vectors and indexes that hold after it (changes `gathered`).

    A bucket whose index file cannot be written is dropped like one with a failed unit.
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
            failed = FailedUnit(label=_label(plan, key), error=finished)
            _drop(table, gathered, key, [failed])
    if level_indexes(table.schema):
        _build_level_indexes(table, plan, gathered, context)


def _build_level_indexes(
    table: FileStoreTable, plan: CompactPlan, gathered: CompactedBatch, context: RunContext
) -> None:
    """Build the indexes of the changed levels on the engine (changes `gathered`)."""
    known = level_index_files(table)
    builds: list[tuple[BucketKey, LevelBuild]] = []
    for key, result in gathered.results.items():
        gathered.results[key], missing = missing_level_indexes(
            table, result, plan.files[key], known
        )
        builds += ((key, build) for build in missing)
    units = [
        WorkUnit(
            payload=pickle.dumps(build),
            expected_bytes=build.read_bytes // len(table.schema.fields),
            label=f"{_label(plan, key)}: index of {build.index.field.name}, level {build.level}",
        )
        for key, build in builds
    ]
    context.progress.expect(len(units), sum(u.expected_bytes for u in units))

    def delete(payloads: list[bytes]) -> None:
        for payload in payloads:
            (partition, bucket), file = pickle.loads(payload)  # noqa: S301 - our own
            delete_abandoned(table.io, [table.paths.index_file(partition, bucket, file)])

    with deleting_on_failure(delete) as finished:
        results = run_units(
            units,
            partial(_built, table, context.env),
            engine=context.engine,
            progress=context.progress,
            finished=finished,
        )
    failed: dict[BucketKey, list[FailedUnit]] = defaultdict(list)
    for (key, _), unit, outcome in zip(builds, units, results, strict=True):
        if outcome.payload is None:
            failed[key].append(failed_unit(outcome, unit.label))
            continue
        _, file = pickle.loads(outcome.payload)  # noqa: S301 - our own
        result = gathered.results[key]
        new_index_files = (*result.new_index_files, file)
        gathered.results[key] = replace(result, new_index_files=new_index_files)
    for key, failures in failed.items():
        _drop(table, gathered, key, failures)


def _built(table: FileStoreTable, env: Environment, payload: bytes) -> bytes:
    """The bucket and the index file of one level; runs on executors."""
    build: LevelBuild = pickle.loads(payload)  # noqa: S301 - our own
    file = build_level_index(table, build, new_uuid=env.new_uuid)
    return pickle.dumps(((build.partition, build.bucket), file))


def _drop(
    table: FileStoreTable, gathered: CompactedBatch, key: BucketKey, failed: Iterable[FailedUnit]
) -> None:
    """Delete the new files of a bucket, and note why (changes `gathered`)."""
    delete_results(table, [gathered.results.pop(key)])
    gathered.failed += ((key, unit) for unit in failed)


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
    if has_data_evolution(table):
        counts = {name: r.cardinality or 0 for name, r in ranges.items()}
        read = rows_left(result.before, result.after, counts)
        written = distinct_rows(result.after)
    return wrong_rows(
        *(table, _label(plan, key)),
        doing="compacting",
        read=read,
        written=written,
        may_shrink=table.has_primary_key or None in deleted,
    )


# --- committing ---------------------------------------------------------------------------------


def commit(
    table: FileStoreTable, plan: CompactPlan, batch: CompactedBatch, context: RunContext
) -> Committed:
    """One COMPACT snapshot for all results that still fit; the others are left out."""
    failed, conflicts = _failures_and_conflicts(table, plan, batch)
    fitting = commit_fitting(
        table,
        batch.results,
        commit=lambda results: commit_messages(
            table,
            [m for r in results for m in r.to_messages()],
            user=context.commit_user,
            env=context.env,
        ),
        find_stale=lambda left: stale_buckets(
            table, {k: r.before for k, r in left.items()}, plan.vector_files, left
        ),
        delete=partial(delete_results, table),
    )
    return Committed(
        snapshots=tuple(s.id for s in fitting.snapshots),
        changes=tuple(
            _change(table, plan, (key[0], part.bucket), part)
            for key, r in fitting.committed.items()
            for part in (r, *r.moved)
        ),
        conflicts=(*conflicts, *(_label(plan, key) for key in fitting.stale)),
        failed_units=tuple(failed),
    )


def _failures_and_conflicts(
    table: FileStoreTable, plan: CompactPlan, batch: CompactedBatch
) -> tuple[list[FailedUnit], list[str]]:
    """Failures, and the buckets that failed because another commit had replaced their files."""
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
    """The buckets with a file that is no longer live, or whose rows were deleted or updated.

    `read` has the files of each bucket when it was planned, `vectors` the index files at that time,
    and `results` the results of the buckets that have one.
    """
    latest = table.snapshots.latest()
    if latest is None:
        return list(read)
    files_now: dict[BucketKey, list[DataFileMeta]] = defaultdict(list)
    for entry in scan_files(table, latest, partitions={partition for partition, _ in read}):
        files_now[entry.partition, entry.bucket].append(entry.file)
    live = {key: set(map(_state, files_now[key])) for key in read}
    live_vectors = vector_files(table, latest)
    live_indexes = {e.index_file.file_name for e in table.index_entries(latest)}
    unaware = table.bucket_mode is BucketMode.UNAWARE
    return [
        key
        for key, files in read.items()
        if any(_state(f) not in live[key] for f in files)
        or _other_vectors(
            {f.file_name for f in files},
            vectors.get(key, ()),
            live_vectors.get(key, ()),
            results.get(key),
            unaware=unaware,
        )
        or (key in results and not _replaced(results[key]) <= live_indexes)
        or (key in results and _superseded_gone(results[key], {name for name, *_ in live[key]}))
        or (key in results and _tears(table, results[key], files_now[key]))
    ]


def _state(file: DataFileMeta) -> tuple[str, int, int | None]:
    """What must be the same for a file that was read."""
    return file.file_name, file.level, file.first_row_id


def _other_vectors(
    read: Collection[str],
    planned: Sequence[IndexFileMeta],
    live: Sequence[IndexFileMeta],
    result: CompactResult | None,
    *,
    unaware: bool,
) -> bool:
    """Whether vectors of files that were read, or of the bucket if they are replaced, changed."""

    def is_of_read_file(file: IndexFileMeta) -> bool:
        return any(r.data_file in read for r in file.dv_ranges or ())

    needed = {f.file_name for f in planned if is_of_read_file(f)}
    if not needed <= {f.file_name for f in live}:
        return True
    known = {f.file_name for f in planned}
    added = [f for f in live if f.file_name not in known]
    new = () if result is None else result.new_index_files
    if not unaware and any(f.index_type == DELETION_VECTORS_INDEX for f in new):
        return bool(added)  # the index file of a bucket is one
    return any(map(is_of_read_file, added))


def _replaced(result: CompactResult) -> set[str]:
    return {f.file_name for f in result.deleted_index_files}


def _superseded_gone(result: CompactResult, live: Collection[str]) -> bool:
    return any(s.data_file not in live for s in result.superseded)


def _tears(table: FileStoreTable, result: CompactResult, live: Sequence[DataFileMeta]) -> bool:
    """Whether new columns of some rows of the result were committed meanwhile."""
    if not has_data_evolution(table):
        return False
    gone = {f.file_name for f in result.before}
    others = [f for f in live if f.file_name not in gone]
    return (
        torn_rows(table, result.after, others) is not None
        or update_of_lost_ids(result.before, result.after, others) is not None
    )


def _change(
    table: FileStoreTable, plan: CompactPlan, key: BucketKey, result: CompactResult
) -> BucketChange:
    """The bucket as it was planned, and with what this result replaces."""
    gone = {(f.file_name, f.level) for f in result.before}
    before = plan.files.get(key, ())  # postponed rows may make the bucket
    left = [f for f in before if (f.file_name, f.level) not in gone]
    # A file that only moves to another level is not rewritten.
    stays = {f.file_name for f in (*left, *result.after)}
    return BucketChange(
        partition=plan.names.get(key[0], ""),
        bucket=key[1],
        before=size_of(table, before),
        after=size_of(table, [*left, *result.after]),
        untouched=size_of(table, [f for f in before if f.file_name in stays]),
    )


def _label(plan: CompactPlan, key: BucketKey) -> str:
    partition = plan.names.get(key[0], "")
    return f"{partition + ' ' if partition else ''}bucket {key[1]}"
