"""Does what a rescale plan says: the option first, then partition by partition.

::

    safety tag -> option -> [ rewrite on the engine -> one OVERWRITE snapshot a partition ] ...

A commit replaces exactly the files that the plan read, and is refused if anything else came into
the partition, or if the option is another one.  Until the first partition is committed, whatever
goes wrong puts the option back; afterwards the same run goes on where this one stopped, and
`--restore` goes back.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from paimon_core.environment import Environment
from paimon_core.errors import (
    CommitConflict,
    CommitRemoved,
    CommitStateUnknown,
    PaimonError,
    StalePlan,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    ManifestEntry,
)
from paimon_core.manifest.entries.columns import columns_of, no_columns
from paimon_core.manifest.merge_columns import changed_partitions
from paimon_core.options import BUCKET
from paimon_core.rescale.rewrite import rescale
from paimon_core.rescale.unit import RescaleResult, RescaleUnit, is_cut, rescale_units, sliced
from paimon_core.scan.columns import scan_columns
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.exact_commit import commit_exact, index_names
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.report import BucketChange, FailedUnit
from paimon_maintenance.job.rewrite_job import (
    OneByOne,
    batches_of,
    bucket_changes,
    commit_one_by_one,
    delete_rescaled,
    deleting_on_failure,
    error_of,
    even_slice_bytes,
    key_samples,
    run_units,
    wrong_rows,
)
from paimon_maintenance.jobs.rescale.layout import (
    MOST_FILES,
    PartitionLayout,
    bucketed,
    codes_of,
    entries_of,
    files_of,
)
from paimon_maintenance.jobs.rescale.option import set_buckets
from paimon_maintenance.jobs.rescale.plan import RescalePlan
from paimon_maintenance.rules.partition_files import PartitionFiles
from paimon_maintenance.rules.safety_tag import make_safety_tag

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RescaleBatch:
    """Partitions that are rewritten together; `number` 0 begins the rescale."""

    number: int
    partitions: tuple[PartitionLayout, ...]


Rescaled = tuple[PartitionFiles, list[RescaleResult]]
Refused = list[tuple[Rescaled, CommitConflict | CommitRemoved | StalePlan]]


@dataclass(slots=True)
class RescaledBatch:
    """The new files of each partition; `table` is the handle under the schema they belong to.

    `refused` are partitions that a commit had changed before they were read.
    """

    table: FileStoreTable
    number: int
    rewritten: list[Rescaled] = field(default_factory=list)
    refused: Refused = field(default_factory=list)


def recheck(table: FileStoreTable, plan: RescalePlan) -> RescalePlan:
    """The plan; StalePlan if one of its partitions, or the option, has changed."""
    now = _buckets_now(table)
    if now != plan.buckets_before:
        raise StalePlan(
            f"the option bucket of table {table.name} is {now}; it was {plan.buckets_before} when "
            f"the plan was made",
            table=table.name,
        )
    latest = table.snapshots.latest()
    if latest is None or plan.pin is None or plan.pin.matches(latest):
        return plan
    live = bucketed(scan_columns(table, latest, partitions=plan.files.partitions))
    changed = changed_partitions(plan.files, live)
    for code, planned in zip(codes_of(plan.files, plan.partitions), plan.partitions, strict=True):
        if int(code) in changed:
            raise StalePlan(
                f"{planned.label} of table {table.name} was changed by a commit since the plan "
                f"was made from snapshot {plan.pin.id}",
                table=table.name,
                snapshot=latest.id,
                next_step="stop the writers of the partition, then run again",
            )
    return plan


def batches(plan: RescalePlan) -> Iterator[RescaleBatch]:
    """The partitions in parts of about `batch_bytes` and not too many files.

    An empty part if only the option changes.
    """
    parts = (
        part
        for large in batches_of(plan.partitions, lambda p: p.bytes, most=plan.batch_bytes)
        for part in batches_of(large, lambda p: p.files, most=MOST_FILES)
    )
    number = -1
    for number, part in enumerate(parts):
        yield RescaleBatch(number, part)
    if number < 0:
        yield RescaleBatch(0, ())


# --- executing ----------------------------------------------------------------------------------


def run_unit(table: FileStoreTable, env: Environment, payload: bytes) -> bytes:
    """The bytes of the result of one unit; runs on executors."""
    unit = RescaleUnit.from_bytes(payload)
    result = rescale(table, unit, env=env)
    return result.to_bytes()


def execute(
    table: FileStoreTable, plan: RescalePlan, batch: RescaleBatch, context: RunContext
) -> RescaledBatch:
    """The new files of the batch's partitions; the first batch also tags and sets the option."""
    try:
        if batch.number == 0:
            begin(table, plan, context.env)
    except StalePlan:
        raise  # another run set the option, so this one must not put it back
    except BaseException as e:
        put_back(table, plan, context.env, after=e)
        raise
    try:
        current = table.refreshed()
        _check_option(current, plan)
        return _rewritten(current, plan, batch, context)
    except BaseException as e:
        if batch.number == 0:
            put_back(table, plan, context.env, after=e)
        raise


def begin(table: FileStoreTable, plan: RescalePlan, env: Environment) -> None:
    """Tag, then set the option: new writers with the old number are refused from now on."""
    if plan.safety is not None:
        make_safety_tag(table, plan.safety)
    if plan.sets_option:
        set_buckets(table, before=plan.buckets_before, after=plan.buckets, env=env)


def put_back(
    table: FileStoreTable, plan: RescalePlan, env: Environment, *, after: BaseException
) -> None:
    """Set the option to what it was before this run, which rewrote nothing; never raises.

    It stays if another run has rewritten partitions for the new number.  Partitions that are new
    since the plan do not count: they are readable by their own number, and the others must be
    writable again.  `after` is the error that ended the run; its next step says so if the option
    stays.
    """
    if not plan.sets_option:
        return
    try:
        if _buckets_now(table) != plan.buckets:
            return
        latest = table.snapshots.latest()
        files = no_columns(()) if latest is None else scan_columns(table, latest)
        held = np.unique(files.partition[files.total_buckets == plan.buckets]).tolist()
        if not any(files.partitions.rows[code] in plan.unscaled for code in held):
            set_buckets(table, before=plan.buckets, after=plan.buckets_before, env=env)
            return
        why = f"another run has rewritten partitions for {plan.buckets} buckets"
    except Exception as e:  # noqa: BLE001 - the error that brought us here is the one to report
        why = f"it could not be put back: {e}"
    _option_stays(table, plan, why, after=after)


def _option_stays(
    table: FileStoreTable, plan: RescalePlan, why: str, *, after: BaseException
) -> None:
    """Have the next step of the error that ended the run say that the option is the new one."""
    logger.warning("table=%s the option bucket stays %d: %s", table.name, plan.buckets, why)
    next_step = (
        f"the option bucket of the table is {plan.buckets} now ({why}); writers are refused in "
        f"partitions with another number: run rescale again, or rescale --restore"
    )
    if isinstance(after, CommitStateUnknown):
        after.next_step = f"{after.next_step}; {next_step}"
    elif isinstance(after, PaimonError):
        after.next_step = next_step
    else:
        after.add_note(next_step)


def _sliced(
    table: FileStoreTable,
    units: Sequence[tuple[PartitionFiles, RescaleUnit]],
    slice_bytes: int | None,
    context: RunContext,
) -> list[tuple[PartitionFiles, RescaleUnit]]:
    """The units; larger ones than `slice_bytes` are cut."""
    if slice_bytes is None:
        return list(units)
    cut = [unit for _, unit in units if is_cut(table, unit, slice_bytes)]
    samples = key_samples(table, [unit.sources for unit in cut], context)
    if cut:  # after the samples, when executors have registered
        sizes = [unit.read_bytes for unit in cut]
        slice_bytes = even_slice_bytes(sizes, slice_bytes, context.engine.slots())
    return [
        (partition, part)
        for partition, unit in units
        for part in sliced(table, unit, slice_bytes=slice_bytes, samples=samples)
    ]


@dataclass(slots=True)
class _Read:
    """The partitions of a batch as they are in `snapshot`, and those that are not as planned."""

    snapshot: int | None
    partitions: list[PartitionFiles] = field(default_factory=list)
    refused: Refused = field(default_factory=list)


def _read(table: FileStoreTable, plan: RescalePlan, partitions: Sequence[PartitionLayout]) -> _Read:
    """Read the files of the partitions from the newest snapshot, which does not expire."""
    latest = table.snapshots.latest()
    read = _Read(None if latest is None else latest.id)
    if not partitions:
        return read
    found = [] if latest is None else entries_of(table, latest, plan.files, partitions)
    now = columns_of((e for p in found for e in p.entries), plan.files.partitions, ())
    changed = changed_partitions(files_of(plan.files, partitions), now)
    by_row = {p.row: p for p in found}
    for code, planned in zip(codes_of(plan.files, partitions), partitions, strict=True):
        partition = by_row.get(planned.row)
        if (
            partition is None
            or int(code) in changed
            or index_names(partition.index) != index_names(planned.index)
        ):
            gone = PartitionFiles(row=planned.row, name=planned.name, entries=())
            error = CommitConflict(
                f"{planned.label} of table {table.name} was changed by a commit since the plan was made",
                table=table.name,
                snapshot=read.snapshot,
            )
            read.refused.append(((gone, []), error))
        else:
            read.partitions.append(partition)
    return read


def _units(plan: RescalePlan, read: _Read, partition: PartitionFiles) -> list[RescaleUnit]:
    """The work of one partition, not cut further yet."""
    vectors = any(e.index_file.index_type == DELETION_VECTORS_INDEX for e in partition.index)
    return rescale_units(
        partition.entries, plan.buckets, snapshot=read.snapshot if vectors else None
    )


def _rewritten(
    table: FileStoreTable, plan: RescalePlan, batch: RescaleBatch, context: RunContext
) -> RescaledBatch:
    read = _read(table, plan, batch.partitions)
    units = _sliced(
        table,
        [
            (partition, unit)
            for partition in read.partitions
            for unit in _units(plan, read, partition)
        ],
        plan.slice_bytes if context.engine.is_parallel else None,
        context,
    )
    work = [
        WorkUnit(payload=u.to_bytes(), expected_bytes=_share(u), label=_label(p, u))
        for p, u in units
    ]
    context.progress.expect(len(work), sum(w.expected_bytes for w in work))

    def delete(payloads: list[bytes]) -> None:
        delete_rescaled(table, map(RescaleResult.from_bytes, payloads))

    by_partition: dict[bytes, list[RescaleResult]] = defaultdict(list)
    with deleting_on_failure(delete) as finished:
        results = run_units(
            work,
            partial(run_unit, table, context.env),
            engine=context.engine,
            progress=context.progress,
            finished=finished,
        )
        for (partition, _), result, item in zip(units, results, work, strict=True):
            if result.payload is None:
                raise error_of(result, item.label)
            by_partition[partition.row].append(RescaleResult.from_bytes(result.payload))
        for partition in read.partitions:
            wrong = wrong_rows(
                *(table, partition.label),
                doing="rescaling",
                read=partition.rows,
                written=sum(r.rows for r in by_partition[partition.row]),
                may_shrink=table.has_primary_key or bool(partition.index),
            )
            if wrong is not None:
                raise wrong
    rewritten = [(p, by_partition[p.row]) for p in read.partitions]
    return RescaledBatch(table, batch.number, rewritten, read.refused)


def _share(unit: RescaleUnit) -> int:
    return max(1, unit.read_bytes)


def _label(partition: PartitionFiles, unit: RescaleUnit) -> str:
    old = ",".join(str(s.bucket) for s in unit.sources)
    return f"{partition.label} bucket {old}"


# --- committing ---------------------------------------------------------------------------------


def commit(
    table: FileStoreTable, plan: RescalePlan, batch: RescaledBatch, context: RunContext
) -> Committed:
    """One OVERWRITE snapshot a partition; a partition that has changed stays as it is.

    CommitConflict if that leaves no partition rewritten; the option is then put back.
    """
    outcome: OneByOne[Rescaled] = OneByOne(refused=list(batch.refused))

    def delete(items: Iterable[Rescaled]) -> None:
        delete_rescaled(batch.table, [result for _, results in items for result in results])

    try:
        commit_one_by_one(
            batch.rewritten,
            outcome,
            user=context.commit_user,
            commit=lambda item, user: _commit_one(batch.table, plan, item, user, context.env),
            delete=delete,
        )
        if outcome.refused and not outcome.committed and batch.number == 0:
            raise outcome.refused[0][1]
    except BaseException as e:
        unknown = isinstance(e, CommitStateUnknown) and not isinstance(e, CommitRemoved)
        if not outcome.committed and batch.number == 0:
            if not unknown:
                put_back(table, plan, context.env, after=e)
            elif plan.sets_option:
                _option_stays(table, plan, "the rows may have been rewritten for it", after=e)
        raise
    return Committed(
        snapshots=tuple(s.id for _, s in outcome.committed),
        conflicts=tuple(p.label for (p, _), e in outcome.refused if not isinstance(e, StalePlan)),
        changes=tuple(
            change
            for (partition, results), _ in outcome.committed
            for change in _changes(batch.table, partition, results)
        ),
        failed_units=tuple(
            FailedUnit(label=partition.label, error=e)
            for (partition, _), e in outcome.refused
            if isinstance(e, StalePlan)
        ),
        details=_details(plan),
    )


def _commit_one(
    table: FileStoreTable, plan: RescalePlan, item: Rescaled, user: str, env: Environment
) -> Snapshot:
    partition, results = item
    _check_option(table.refreshed(), plan)
    added = [
        ManifestEntry(FileKind.ADD, b.partition, b.bucket, b.total_buckets, f)
        for r in results
        for b in r.buckets
        for f in b.after
    ]
    return commit_exact(
        table, partition.label, partition.entries, partition.index, added, user=user, env=env
    )


def _details(plan: RescalePlan) -> dict[str, object]:
    details: dict[str, object] = {"buckets_before": plan.buckets_before, "buckets": plan.buckets}
    if plan.safety is not None:
        details["safety_tag"] = plan.safety.name
    return details


def _changes(
    table: FileStoreTable, partition: PartitionFiles, results: Sequence[RescaleResult]
) -> Iterator[BucketChange]:
    before: dict[int, list[DataFileMeta]] = defaultdict(list)
    after: dict[int, list[DataFileMeta]] = defaultdict(list)
    for entry in partition.entries:
        before[entry.bucket].append(entry.file)
    for result in results:
        for bucket in result.buckets:
            after[bucket.bucket] += bucket.after
    yield from bucket_changes(table, partition.name, before, after)


def _buckets_now(table: FileStoreTable) -> int:
    return table.refreshed().options.value(BUCKET)


def _check_option(table: FileStoreTable, plan: RescalePlan) -> None:
    now = table.options.value(BUCKET)
    if now != plan.option:
        raise StalePlan(
            f"another run set the option bucket of table {table.name} to {now} while it was rescaled "
            f"to {plan.buckets}",
            table=table.name,
        )
