"""Does what a plan to sort says, and commits it as a compaction.

A partition is the work of one task, unless it is larger than `range_bytes` and the engine can bring
rows together: then it is sampled, cut into ranges of codes, and each range is the work of one task::

    sample (a group of files a task) -> cuts -> split (a group of files a task) -> join (a range a task)
"""

from __future__ import annotations

import base64
import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from paimon_core.clustering.rewrite import (
    SortUnit,
    code_width,
    join_range,
    range_cuts,
    sample_codes,
    sort_files,
    split_rows,
)
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import Changes, compact_changes
from paimon_core.commit.request import CommitRequest
from paimon_core.compaction.due import delete_results
from paimon_core.compaction.unit import CompactResult, merged
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, CorruptTable, MaintenanceError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, FileKind
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_maintenance.engines.engine import Engine, ShuffleEngine, UnitResult, WorkUnit
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.pinned import index_changed
from paimon_maintenance.job.report import BucketChange, FailedUnit, Size
from paimon_maintenance.jobs.sort_compact.bought import bought
from paimon_maintenance.jobs.sort_compact.dynamic import Sorted, commit_dynamic, execute_dynamic
from paimon_maintenance.jobs.sort_compact.pile import Pile
from paimon_maintenance.jobs.sort_compact.plan import SortPlan

logger = logging.getLogger(__name__)

COMMIT_ATTEMPTS: Final = 3
GROUP_BYTES: Final = 256 * 1024**2
"""Files that one task samples or splits."""

Batch = tuple[Pile, ...]


@dataclass(slots=True)
class BatchResult:
    """The new files of each partition, and what failed."""

    sorted: list[tuple[Pile, CompactResult]] = field(default_factory=list)
    moved: list[Sorted] = field(default_factory=list)
    failed: list[FailedUnit] = field(default_factory=list)


def batches(plan: SortPlan) -> Iterator[Batch]:
    """The partitions in parts of about `batch_bytes`, each committed by itself."""
    part: list[Pile] = []
    size = 0
    for pile in plan.piles:
        if part and size + pile.bytes > plan.batch_bytes:
            yield tuple(part)
            part, size = [], 0
        part.append(pile)
        size += pile.bytes
    if part:
        yield tuple(part)


# --- on executors -------------------------------------------------------------------------------


def run_whole(table: FileStoreTable, env: Environment, payload: bytes) -> bytes:
    """The result of sorting a whole partition."""
    unit = SortUnit.from_bytes(payload)
    result = sort_files(table, unit, new_uuid=env.new_uuid, creation_time=env.local_millis)
    return result.to_bytes()


def run_sample(table: FileStoreTable, most: int, payload: bytes) -> bytes:
    """Codes of a group of files."""
    return sample_codes(table, SortUnit.from_bytes(payload), most=most)


@dataclass(frozen=True, slots=True)
class Split:
    """Chunks of a group of files; the payload names it, its cuts and its partition's first range."""

    table: FileStoreTable
    width: int

    def __call__(self, payload: bytes) -> Iterator[tuple[int, bytes]]:
        """(number of the range over all partitions, chunk)."""
        obj = json.loads(payload)
        unit = SortUnit.from_bytes(base64.b64decode(obj["unit"]))
        cuts = [base64.b64decode(c) for c in obj["cuts"]]
        for number, chunk in split_rows(self.table, unit, cuts, self.width):
            yield obj["first"] + number, chunk


@dataclass(frozen=True, slots=True)
class Join:
    """The result of a range; `units` are those of the partitions, without their files."""

    table: FileStoreTable
    env: Environment
    units: Mapping[int, bytes]
    expected_bytes: int

    def __call__(self, number: int, chunks: Iterator[bytes]) -> bytes:
        """The new files of the range of this number."""
        result = join_range(
            self.table,
            SortUnit.from_bytes(self.units[number]),
            chunks,
            expected_bytes=self.expected_bytes,
            new_uuid=self.env.new_uuid,
            creation_time=self.env.local_millis,
        )
        return result.to_bytes()


# --- on the driver ------------------------------------------------------------------------------


def execute(
    table: FileStoreTable, plan: SortPlan, batch: Batch, context: RunContext
) -> BatchResult:
    """The new files of the batch's partitions; one of which something failed has none."""
    if plan.sole is not None:
        plan.sole.check(table, table.snapshots.latest())
        moved, failed = execute_dynamic(table, plan, batch, context)
        return BatchResult(moved=moved, failed=failed)
    engine = context.engine
    large: list[Pile] = []
    if isinstance(engine, ShuffleEngine):
        large = [p for p in batch if p.bytes > plan.range_bytes]
    whole = [p for p in batch if p not in large]
    context.progress.expect(len(batch), sum(p.bytes for p in batch))
    gathered = BatchResult()
    found: dict[bytes, list[CompactResult]] = defaultdict(list)
    finished: list[bytes] = []
    try:
        _run_whole(table, plan, whole, context, found, gathered, finished)
        if large and isinstance(engine, ShuffleEngine):
            _run_ranges(table, plan, large, engine, context, found, gathered, finished)
    except BaseException:
        delete_results(table, map(CompactResult.from_bytes, finished))
        raise
    broken = {f.label for f in gathered.failed}
    for pile in batch:
        results = found[pile.row]
        if pile.label in broken:
            delete_results(table, results)
            continue
        unit = plan.unit(pile)
        result = merged(
            [
                CompactResult(
                    partition=pile.row,
                    bucket=unit.source.bucket,
                    total_buckets=unit.source.total_buckets,
                    before=pile.files,
                ),
                *results,
            ]
        )
        if pile.output_level:
            upgraded = tuple(f.upgraded(pile.output_level) for f in result.after)
            result = replace(result, after=upgraded)
        wrong = _wrong_rows(table, pile, result)
        if wrong is None:
            gathered.sorted.append((pile, result))
        else:
            delete_results(table, [result])
            gathered.failed.append(FailedUnit(label=pile.label, error=wrong))
    return gathered


def _run_whole(
    table: FileStoreTable,
    plan: SortPlan,
    piles: Sequence[Pile],
    context: RunContext,
    found: dict[bytes, list[CompactResult]],
    gathered: BatchResult,
    finished: list[bytes],
) -> None:
    def on_done(result: UnitResult) -> None:
        if result.payload is not None:
            finished.append(result.payload)
        context.progress.advance(1, piles[result.index].bytes)

    units = [
        WorkUnit(payload=plan.unit(p).to_bytes(), expected_bytes=p.bytes, label=p.label)
        for p in piles
    ]
    if not units:
        return
    run = partial(run_whole, table, context.env)
    for pile, result in zip(
        piles, context.engine.run_units(units, run, on_done=on_done), strict=True
    ):
        if result.payload is None:
            gathered.failed.append(_failed(pile, result))
        else:
            # The pile itself says what goes.
            found[pile.row].append(replace(CompactResult.from_bytes(result.payload), before=()))


def _run_ranges(
    table: FileStoreTable,
    plan: SortPlan,
    piles: Sequence[Pile],
    engine: ShuffleEngine,
    context: RunContext,
    found: dict[bytes, list[CompactResult]],
    gathered: BatchResult,
    finished: list[bytes],
) -> None:
    width = code_width(table, plan.clustering)
    groups = [(pile, unit) for pile in piles for unit in _groups(plan, pile)]
    cuts = _cuts(table, plan, piles, groups, engine, width)
    first: dict[bytes, int] = {}
    owners: list[Pile] = []
    for pile in piles:
        first[pile.row] = len(owners)
        owners += [pile] * (len(cuts[pile.row]) + 1)
    units = [
        WorkUnit(
            payload=json.dumps(
                {
                    "unit": base64.b64encode(unit.to_bytes()).decode("ascii"),
                    "cuts": [base64.b64encode(c).decode("ascii") for c in cuts[pile.row]],
                    "first": first[pile.row],
                }
            ).encode(),
            expected_bytes=unit.read_bytes,
            label=pile.label,
        )
        for pile, unit in groups
    ]
    bare = {pile.row: _without_files(plan.unit(pile)).to_bytes() for pile in piles}
    join = Join(
        table=table,
        env=context.env,
        units={number: bare[pile.row] for number, pile in enumerate(owners)},
        expected_bytes=4 * plan.range_bytes,
    )
    results = engine.run_shuffle(units, Split(table, width), join, ranges=len(owners))
    for result in results:
        pile = owners[result.index]
        if result.payload is None:
            gathered.failed.append(_failed(pile, result))
        else:
            finished.append(result.payload)
            found[pile.row].append(CompactResult.from_bytes(result.payload))
    for pile in piles:
        context.progress.advance(1, pile.bytes)


def _groups(plan: SortPlan, pile: Pile) -> Iterator[SortUnit]:
    """The partition's files in groups of about GROUP_BYTES."""
    unit = plan.unit(pile)
    part: list[DataFileMeta] = []
    size = 0
    for file in pile.files:
        if part and size + file.file_size > GROUP_BYTES:
            yield replace(unit, source=replace(unit.source, append_files=tuple(part)))
            part, size = [], 0
        part.append(file)
        size += file.file_size
    yield replace(unit, source=replace(unit.source, append_files=tuple(part)))


def _without_files(unit: SortUnit) -> SortUnit:
    return replace(unit, source=replace(unit.source, append_files=()))


def _cuts(
    table: FileStoreTable,
    plan: SortPlan,
    piles: Sequence[Pile],
    groups: Sequence[tuple[Pile, SortUnit]],
    engine: Engine,
    width: int,
) -> dict[bytes, list[bytes]]:
    """For each partition the codes between its ranges, from a sample of its rows.

    With sort-compaction.range-strategy `size`, groups count by their bytes, else by their rows.
    """
    ranges = {p.row: -(-p.bytes // plan.range_bytes) for p in piles}
    units = [
        WorkUnit(payload=unit.to_bytes(), expected_bytes=unit.read_bytes, label=pile.label)
        for pile, unit in groups
    ]
    most = plan.sample * max(ranges.values())
    results = engine.run_units(units, partial(run_sample, table, most))
    weights = [u.read_bytes if plan.by_size else u.source.rewritten_rows for _, u in groups]
    heaviest: dict[bytes, int] = defaultdict(int)
    for (pile, _), weight in zip(groups, weights, strict=True):
        heaviest[pile.row] = max(heaviest[pile.row], weight, 1)
    samples: dict[bytes, list[bytes]] = defaultdict(list)
    for (pile, _), weight, result in zip(groups, weights, results, strict=True):
        if result.payload is None:
            raise result.error or MaintenanceError(f"a sample of {pile.label} came back empty")
        samples[pile.row].append(_share(result.payload, width, weight / heaviest[pile.row]))
    return {p.row: range_cuts(samples[p.row], width, ranges[p.row]) for p in piles}


def _share(codes: bytes, width: int, share: float) -> bytes:
    """This share (0 to 1) of the codes, evenly taken."""
    count = len(codes) // width
    wanted = round(count * share)
    places = (i * count // wanted for i in range(wanted)) if wanted else ()
    return b"".join(codes[p * width : (p + 1) * width] for p in places)


def _failed(pile: Pile, result: UnitResult) -> FailedUnit:
    error = result.error or MaintenanceError(f"{pile.label} came back without a result")
    return FailedUnit(label=pile.label, error=error)


def _wrong_rows(table: FileStoreTable, pile: Pile, result: CompactResult) -> CorruptTable | None:
    """An error if rows were added or lost; those that deletion vectors hide may go."""
    written = sum(f.row_count for f in result.after)
    if written == pile.rows or (pile.index and written < pile.rows):
        return None
    return CorruptTable(
        f"sorting {pile.label} of table {table.name} went wrong: {pile.rows:,} rows were read, "
        f"{written:,} written; nothing of it was committed",
        table=table.name,
        next_step="run `caretaker verify` on the table, and report this as a defect",
    )


# --- committing ---------------------------------------------------------------------------------


def commit(
    table: FileStoreTable, plan: SortPlan, batch: BatchResult, context: RunContext
) -> Committed:
    """One COMPACT snapshot for all partitions that still fit; the others are given up.

    Files are deleted only after a conflict, when they certainly are not part of the table.
    """
    if plan.sole is not None:
        return commit_dynamic(table, plan, batch.moved, batch.failed, context)
    left = {pile.row: (pile, result) for pile, result in batch.sorted}
    conflicts: list[str] = []
    made: Snapshot | None = None
    for attempt in range(1, COMMIT_ATTEMPTS + 1):
        if not left:
            break
        try:
            made = _commit(table, list(left.values()), context)
            break
        except CommitConflict as e:
            stale = _stale(table, [pile for pile, _ in left.values()])
            logger.info("table=%s stale partitions=%d: %s", table.name, len(stale), e)
            if not stale or attempt == COMMIT_ATTEMPTS or len(stale) == len(left):
                delete_results(table, [result for _, result in left.values()])
                raise
            for row in stale:
                pile, result = left.pop(row)
                delete_results(table, [result])
                conflicts.append(pile.label)
    committed = list(left.values()) if made is not None else []
    return Committed(
        snapshots=() if made is None else (made.id,),
        conflicts=tuple(conflicts),
        failed_units=tuple(batch.failed),
        changes=tuple(
            BucketChange(
                partition=pile.name,
                bucket=result.bucket,
                before=_size(result.before),
                after=_size(result.after),
            )
            for pile, result in committed
        ),
        details=bought(
            *(table, plan.clustering.columns),
            before=[result.before for _, result in committed],
            after=[result.after for _, result in committed],
        ),
    )


def _commit(
    table: FileStoreTable, piles: Sequence[tuple[Pile, CompactResult]], context: RunContext
) -> Snapshot:
    replaced = compact_changes([result.to_message() for _, result in piles])
    dropped = [replace(e, kind=FileKind.DELETE) for pile, _ in piles for e in pile.index]
    changes = Changes(replaced.files, (), tuple(dropped))

    def provide(latest: Snapshot | None) -> Changes:
        for pile, _ in piles:
            if index_changed(table, latest, pile.row, pile.index):
                raise CommitConflict(
                    f"rows of {pile.label} of table {table.name} were deleted while it was sorted",
                    table=table.name,
                    snapshot=None if latest is None else latest.id,
                )
        return changes

    request = CommitRequest(user=context.commit_user, kind=CommitKind.COMPACT)
    return commit_changes(table, provide, request, env=context.env)


def _stale(table: FileStoreTable, piles: Sequence[Pile]) -> list[bytes]:
    """The partitions of which a file, or what is deleted in one, is no longer as it was read."""
    latest = table.snapshots.latest()
    if latest is None:
        return [p.row for p in piles]
    live = {e.identity for e in scan_files(table, latest, partitions={p.row for p in piles})}
    return [
        p.row
        for p in piles
        if any(e.identity not in live for e in p.entries)
        or index_changed(table, latest, p.row, p.index)
    ]


def _size(files: Sequence[DataFileMeta]) -> Size:
    return Size(
        files=len(files),
        bytes=sum(f.file_size for f in files),
        rows=sum(f.row_count for f in files),
    )
