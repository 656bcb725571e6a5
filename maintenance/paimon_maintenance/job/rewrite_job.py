"""Jobs that rewrite data files: what compaction, rescaling and sorting have in common.

::

    plan -> batches -> [ units -> engine -> results -> row check -> commit ] for each batch

A job brings its units, what a task does with one, and what a commit replaces.  This module cuts the
work into batches, runs the units, deletes the files of results that are given up, checks the row
counts, and commits what other commits have left as it was read.

New files are deleted only while they are certainly in no snapshot: before the commit, or after a
`CommitConflict`.  After any other error of a commit they stay, and are garbage at worst.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from paimon_core.compaction.due import delete_results
from paimon_core.compaction.evolution import rows_of
from paimon_core.compaction.slices import (
    KeySample,
    Samples,
    default_slice_bytes,
    sample_keys,
    sample_requests,
)
from paimon_core.compaction.unit import CompactUnit
from paimon_core.errors import (
    CommitConflict,
    CommitRemoved,
    CorruptTable,
    MaintenanceError,
    StalePlan,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.rescale.unit import RescaleResult
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.engine import Engine, UnitResult, WorkUnit
from paimon_maintenance.job.job import Committed, Progress, RunContext, Steps
from paimon_maintenance.job.report import BucketChange, FailedUnit, Size

logger = logging.getLogger(__name__)

COMMIT_ATTEMPTS: Final = 3
"""How often the results that still fit are committed when other commits interfere."""

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")
S = TypeVar("S")
P = TypeVar("P", bound=Any)


def rewrite_steps(
    *,
    inspect: Callable[[FileStoreTable, Mapping[str, object], RunContext], S],
    plan: Callable[[FileStoreTable, S, Mapping[str, object], RunContext], P],
    batches: Callable[[P], Iterable[T]],
    execute: Callable[[FileStoreTable, P, T, RunContext], R],
    commit: Callable[[FileStoreTable, P, R, RunContext], Committed],
    recheck: Callable[[FileStoreTable, P], P] | None = None,
) -> Steps[S, P, T, R]:
    """The steps of a job made of these functions.

    Without `recheck` the commit alone finds files that are no longer as they were read.  There is
    nothing to verify afterwards: rows are checked before the commit, files by the run.
    """

    def unchecked(_: FileStoreTable, found: P) -> P:
        return found

    def verify(_: FileStoreTable, __: P, ___: Sequence[Committed]) -> list[Mapping[str, object]]:
        return []

    return Steps(
        inspect=inspect,
        plan=plan,
        recheck=recheck or unchecked,
        batches=batches,
        execute=execute,
        commit=commit,
        verify=verify,
    )


def batches_of(
    items: Iterable[T], size: Callable[[T], int], *, most: int
) -> Iterator[tuple[T, ...]]:
    """The items in parts whose sizes add up to at most `most`.

    A larger item is a part of its own.
    """
    part: list[T] = []
    total = 0
    for item in items:
        if part and total + size(item) > most:
            yield tuple(part)
            part, total = [], 0
        part.append(item)
        total += size(item)
    if part:
        yield tuple(part)


# --- executing ----------------------------------------------------------------------------------


@contextmanager
def deleting_on_failure(delete: Callable[[list[bytes]], None]) -> Iterator[list[bytes]]:
    """A list for the results of finished units; `delete` gets it if the block raises anything.

    The engine failed, or the run was interrupted: no commit will name the files of these results.
    """
    finished: list[bytes] = []
    try:
        yield finished
    except BaseException:
        delete(finished)
        raise


def slice_bytes_of(table: FileStoreTable, arguments: Mapping[str, object]) -> int | None:
    """The size above which work is split between tasks (argument `slice_bytes`); None for never."""
    given = cast("int | None", arguments["slice_bytes"])
    return default_slice_bytes(table) if given is None else given or None


def even_slice_bytes(sizes: Iterable[int], slice_bytes: int, slots: int) -> int:
    """The size of slices of such work: `slice_bytes`, or less so that no slot waits at the end.

    The number of slices is then a multiple of `slots`.  But no slice gets smaller than half of
    `slice_bytes`, since each one costs something of its own.
    """
    sizes = list(sizes)
    count = sum(-(-size // slice_bytes) for size in sizes)
    rounds = max(1, -(-count // slots))
    even = -(-sum(sizes) // (rounds * slots))
    return min(slice_bytes, max(even, -(-slice_bytes // 2)))


def key_samples(
    table: FileStoreTable, groups: Sequence[Sequence[CompactUnit]], context: RunContext
) -> Samples:
    """The samples to cut each of these groups of units at the same keys, read by the engine.

    A file that cannot be read has no sample: its unit is not cut, and reports the error itself.
    """
    requests = [request for units in groups for request in sample_requests(units)]
    work = [
        WorkUnit(
            payload=pickle.dumps(request),
            expected_bytes=request.file.file_size // max(1, len(table.schema.fields)),
            label=f"{table.name}: keys of {request.file.file_name}",
        )
        for request in requests
    ]
    results = context.engine.run_units(work, partial(_sampled, table)) if work else []
    samples: dict[str, KeySample] = {}
    for request, unit, result in zip(requests, work, results, strict=True):
        if result.payload is None:
            logger.warning("table=%s %s", table.name, error_of(result, unit.label))
            continue
        samples[request.file.file_name] = pickle.loads(result.payload)  # noqa: S301 - our own
    return samples


def _sampled(table: FileStoreTable, payload: bytes) -> bytes:
    return pickle.dumps(sample_keys(table, pickle.loads(payload)))  # noqa: S301 - our own


def run_units(
    units: Sequence[WorkUnit],
    run: Callable[[bytes], bytes],
    *,
    engine: Engine,
    progress: Progress,
    finished: list[bytes],
) -> list[UnitResult]:
    """One result a unit, in their order; payloads are added to `finished` as they come."""
    if not units:
        return []
    sizes = [unit.expected_bytes for unit in units]
    reported = 0

    def on_done(result: UnitResult) -> None:
        if result.payload is not None:
            finished.append(result.payload)
        if not reported:
            progress.advance(1, sizes[result.index])

    def on_share(share: float) -> None:
        nonlocal reported
        now = int(share * sum(sizes))
        if now > reported:
            progress.advance(1, now - reported)
            reported = now

    return engine.run_units(units, run, on_done=on_done, on_share=on_share)


def error_of(result: UnitResult, label: str) -> Exception:
    """Why a unit has no payload."""
    return result.error or MaintenanceError(f"{label} came back without a result")


def wrong_rows(
    table: FileStoreTable, label: str, *, doing: str, read: int, written: int, may_shrink: bool
) -> CorruptTable | None:
    """An error if the number of rows cannot be right: no rewrite adds rows.

    With `may_shrink` rows may disappear, since keys are merged or deletion vectors applied.
    """
    if written == read or (may_shrink and written < read):
        return None
    return CorruptTable(
        f"{doing} {label} of table {table.name} failed the row check: {read:,} rows were read, "
        f"{written:,} written; they were not committed",
        table=table.name,
        next_step="run `caretaker verify` on the table; if it finds nothing, report this bug",
    )


def delete_rescaled(table: FileStoreTable, results: Iterable[RescaleResult]) -> None:
    """Delete the new files of these results; what cannot be deleted stays as an orphan."""
    delete_results(table, [bucket for result in results for bucket in result.buckets])


# --- committing ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Fitting(Generic[K, R]):
    """What one commit of many results came to: those in it, and the keys of those left out."""

    snapshots: tuple[Snapshot, ...]
    committed: dict[K, R]
    stale: list[K] = field(default_factory=list)


def commit_fitting(
    table: FileStoreTable,
    results: Mapping[K, R],
    *,
    commit: Callable[[list[R]], Sequence[Snapshot]],
    find_stale: Callable[[Mapping[K, R]], Collection[K]],
    delete: Callable[[Iterable[R]], None],
) -> Fitting[K, R]:
    """Commit all results together, without those whose files another commit has replaced.

    CommitConflict if no result is stale, or too many commits interfere; then nothing is committed
    and the files of all results are deleted.
    """
    left = dict(results)
    stale: list[K] = []
    for attempt in range(1, COMMIT_ATTEMPTS + 1):
        if not left:
            break
        try:
            return Fitting(tuple(commit(list(left.values()))), left, stale)
        except CommitConflict as e:
            found = find_stale(left)
            logger.info("table=%s stale results=%d: %s", table.name, len(found), e)
            if not found or attempt == COMMIT_ATTEMPTS:
                delete(left.values())
                raise
            for key in found:
                delete([left.pop(key)])
                stale.append(key)
    return Fitting((), {}, stale)


@dataclass(slots=True)
class OneByOne(Generic[T]):
    """What commits of one item each came to; filled as they happen."""

    committed: list[tuple[T, Snapshot]] = field(default_factory=list)
    refused: list[tuple[T, CommitConflict | CommitRemoved | StalePlan]] = field(
        default_factory=list
    )


def commit_one_by_one(
    items: Sequence[T],
    outcome: OneByOne[T],
    *,
    user: str,
    commit: Callable[[T, str], Snapshot],
    delete: Callable[[Iterable[T]], None],
) -> None:
    """Commit each item under a user of its own; one that meets another commit is left out.

    Any other error ends it: the files of the items that were not tried are deleted, those of the
    one that was tried stay.
    """
    for number, item in enumerate(items):
        try:
            made = commit(item, f"{user}-{number + 1}")
        except (CommitConflict, StalePlan) as e:
            delete([item])
            outcome.refused.append((item, e))
        except CommitRemoved as e:
            outcome.refused.append((item, e))
        except BaseException:
            delete(items[number + 1 :])
            raise
        else:
            outcome.committed.append((item, made))


# --- reporting ----------------------------------------------------------------------------------


def size_of(table: FileStoreTable, files: Iterable[DataFileMeta]) -> Size:
    """How much the files of one bucket are; sorted runs only where keys are merged."""
    files = tuple(files)
    runs = None
    if table.has_primary_key:
        runs = sum(f.level == 0 for f in files) + len({f.level for f in files} - {0})
    return Size(
        files=len(files),
        bytes=sum(f.file_size for f in files),
        rows=rows_of(table, files),
        sorted_runs=runs,
    )


def bucket_changes(
    table: FileStoreTable,
    partition: str,
    before: Mapping[int, Sequence[DataFileMeta]],
    after: Mapping[int, Sequence[DataFileMeta]],
) -> Iterator[BucketChange]:
    """The buckets of a partition before and after, by number."""
    for number in sorted({*before, *after}):
        yield BucketChange(
            partition=partition,
            bucket=number,
            before=size_of(table, before.get(number, ())),
            after=size_of(table, after.get(number, ())),
        )


def failed_unit(result: UnitResult, label: str) -> FailedUnit:
    """A unit without a payload, as reports name it."""
    return FailedUnit(label=label, error=error_of(result, label))
