"""Runs units of work on Spark, whose session starts with the first units (`session`).

Units are packed into tasks of similar size.  `mapInArrow` runs them on the executors, with classic
Spark and Spark Connect, and returns the results as rows.  The payloads of units travel with the
function as long as they are small, otherwise as rows, which costs a shuffle.  An error in a unit is
the result of that unit.  If tasks die without an error (a killed worker), every task runs again in
its own Spark job, so that only the tasks that die again are lost.
"""

from __future__ import annotations

import json
import logging
import pickle
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final, Self
from uuid import uuid4

from paimon_core.errors import PaimonError
from paimon_core.io.store_retries import add_retries
from paimon_maintenance.engines.combine import Combiner
from paimon_maintenance.engines.packing import pack, task_count
from paimon_maintenance.engines.process import prepare_process
from paimon_maintenance.engines.spark.loss import (
    SparkLost,
    UnitLost,
    all_tasks_died,
    next_step_after,
    raise_if_lost,
    reason_of,
)
from paimon_maintenance.engines.spark.session import APP_NAME, SharedSession, own_pool
from paimon_maintenance.job.engine import SparkApplication, UnitResult, WorkUnit, run_unit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

DEFAULT_SLOTS: Final = 8
_RESULT_SCHEMA: Final = "index int, payload binary, error binary, seconds double, retries string"
_WATCH_SECONDS: Final = 0.5
_ARROW_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_CHUNKS_AT_ONCE: Final = 16
_WITH_FUNCTION_BYTES: Final = 1024**2
"""Payloads of a job up to this size travel with its function; Spark broadcasts larger functions."""

OnBatches = Callable[["Iterable[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]
"""The function of a task: gets batches of units (index, payload) and yields batches of results."""


@dataclass(slots=True)
class SparkEngine:
    """Runs units on Spark; the session starts with the first units.

    `master` is a master URL or a Spark Connect URL (sc://...); None uses that of spark-submit or of
    an active session, else local[*].  `parallelism` is the maximum number of tasks.  Without
    `verbose`, the JVM's messages appear only if Spark does not start, or after it has started.
    With `combiner`, small work of several threads shares Spark jobs, unless a run has a
    `parallelism` of its own.  `queries`: the session also runs queries in the JVM, so that its
    optimizing compiler pays.
    """

    master: str | None = None
    parallelism: int | None = None
    conf: dict[str, str] = field(default_factory=dict)
    verbose: bool = False
    combiner: Combiner | None = None
    queries: bool = False
    shared: SharedSession = field(default_factory=SharedSession)

    @property
    def name(self) -> str:
        """The engine's name in reports."""
        return "spark"

    @property
    def is_parallel(self) -> bool:
        """Always true."""
        return True

    @property
    def started(self) -> bool:
        """Whether the session has started."""
        return self.shared.started is not None

    @property
    def application(self) -> SparkApplication | None:
        """The application of the newest session.

        None before the first one, and for Spark Connect.
        """
        return self.shared.application

    def with_parallelism(self, parallelism: int | None) -> Self:
        """The engine with this `parallelism`, on the same session; None: as before."""
        return self if parallelism is None else replace(self, parallelism=parallelism)

    def run_units(
        self,
        units: Sequence[WorkUnit],
        run: Callable[[bytes], bytes],
        *,
        on_done: Callable[[UnitResult], None] | None = None,
        on_share: Callable[[float], None] | None = None,
    ) -> list[UnitResult]:
        """One result per unit, in the order of the units (see `job.engine.Engine`)."""
        if not units:
            return []
        session = self.session()
        results: list[UnitResult] | None = None
        with self._dropped_if_lost(session):
            if self.combiner is not None and self.parallelism is None:
                results = self.combiner.run(units, run, self._run_combined)
            if results is None:
                results = self._run_alone(session, units, run, on_share)
        for result in results:
            add_retries(result.retries)
            if on_done is not None:
                on_done(result)
        return results

    def _run_combined(
        self, units: Sequence[WorkUnit], run: Callable[[bytes], bytes], tables: int
    ) -> list[UnitResult]:
        """Results in one job, whose errors are raised.

        Small units of several tables run in parallel.
        """
        session = self.session()
        slots, tasks = self._tasks(units)
        if len(tasks) < min(slots, tables):
            sizes = [u.expected_bytes for u in units]
            tasks = pack(range(len(units)), min(slots, tables), lambda i: sizes[i])
        logger.info("units=%d tasks=%d tables=%d slots=%d", len(units), len(tasks), tables, slots)
        with own_pool(session):
            return _collect(session, units, tasks, run)

    def _run_alone(
        self,
        session: SparkSession,
        units: Sequence[WorkUnit],
        run: Callable[[bytes], bytes],
        on_share: Callable[[float], None] | None,
    ) -> list[UnitResult]:
        """Results in one job; if it fails, each task runs in a job of its own."""
        slots, tasks = self._tasks(units)
        logger.info("units=%d tasks=%d slots=%d", len(units), len(tasks), slots)
        try:
            with own_pool(session), _watched(session, len(tasks), on_share):
                return _collect(session, units, tasks, run)
        except Exception as e:  # noqa: BLE001 - Spark has many ways to say that tasks died
            raise_if_lost(session, e)
            logger.warning("a Spark job failed; running its tasks one by one: %s", reason_of(e))
            return _one_by_one(session, units, tasks, run, slots)

    def run_shuffle(
        self,
        units: Sequence[WorkUnit],
        split: Callable[[bytes], Iterator[tuple[int, bytes]]],
        join: Callable[[int, Iterator[bytes]], bytes],
        *,
        ranges: int,
    ) -> list[UnitResult]:
        """One result per range (see `paimon_maintenance.job.engine.ShuffleEngine`)."""
        session = self.session()
        with self._dropped_if_lost(session):
            results = self._run_shuffle(session, units, split, join, ranges)
        for result in results:
            add_retries(result.retries)
        return results

    def _run_shuffle(
        self,
        session: SparkSession,
        units: Sequence[WorkUnit],
        split: Callable[[bytes], Iterator[tuple[int, bytes]]],
        join: Callable[[int, Iterator[bytes]], bytes],
        ranges: int,
    ) -> list[UnitResult]:
        slots, tasks = self._tasks(units)
        logger.info("units=%d tasks=%d ranges=%d slots=%d", len(units), len(tasks), ranges, slots)
        try:
            # A chunk has up to a few megabytes, so an Arrow batch holds only a few of them.
            few = self.shared.configured(session, _ARROW_BATCH, str(_CHUNKS_AT_ONCE))
            with own_pool(session), few:
                return _shuffled(session, units, tasks, split, join, ranges)
        except Exception as e:
            logger.debug("the Spark shuffle job failed", exc_info=True)
            raise_if_lost(session, e)
            raise SparkLost(
                f"the Spark shuffle job failed: {reason_of(e)}", next_step=next_step_after(e)
            ) from e

    @contextmanager
    def _dropped_if_lost(self, session: SparkSession) -> Iterator[None]:
        """Forget the session if its JVM has ended, so that the next work starts another one."""
        try:
            yield
        except SparkLost:
            self.shared.drop_if_ended(session)
            raise

    def slots(self) -> int:
        """The number of tasks that run at the same time, as far as executors have registered."""
        if self.parallelism is not None:
            return self.parallelism
        session = self.session()
        with self._dropped_if_lost(session):
            try:
                return _slots(session)
            except Exception as e:
                raise_if_lost(session, e)
                raise

    def session(self) -> SparkSession:
        """The session, started if necessary; SparkUnavailable if it cannot start."""
        return self.shared.start(self.master, self.conf, verbose=self.verbose, queries=self.queries)

    def _tasks(self, units: Sequence[WorkUnit]) -> tuple[int, list[list[int]]]:
        """The number of parallel tasks, and the unit indexes of each task."""
        slots = self.slots()
        sizes = [u.expected_bytes for u in units]
        count = min(self.parallelism or len(units), task_count(sizes, slots=slots))
        return slots, pack(range(len(units)), count, lambda i: sizes[i])

    def close(self) -> None:
        """Stop the session if this engine started it; a lost session counts as stopped."""
        self.shared.close()


def _slots(session: SparkSession) -> int:
    """The number of parallel tasks; an estimate for Spark Connect."""
    try:
        return max(1, session.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and several errors to say so
        text = session.conf.get("spark.default.parallelism", str(DEFAULT_SLOTS))
        return int(text) if text and text.isdigit() else DEFAULT_SLOTS


# --- on the driver ------------------------------------------------------------------------------


def _collect(
    session: SparkSession,
    units: Sequence[WorkUnit],
    tasks: Sequence[Sequence[int]],
    run: Callable[[bytes], bytes],
) -> list[UnitResult]:
    """Run all units of these tasks in one Spark job and return their results."""
    rows = _mapped(session, units, tasks, OnExecutor(run), _RESULT_SCHEMA).toArrow()
    results = _results(rows)
    expected = sum(len(t) for t in tasks)
    if len(results) != expected:
        raise SparkLost(
            f"Spark returned {len(results)} results for {expected} units",
            next_step="check the logs of the executors, then run again",
        )
    return results


def _results(rows: pa.Table) -> list[UnitResult]:
    """The rows of `_RESULT_SCHEMA` as results, sorted by index."""
    results = [
        UnitResult(
            index=row["index"],
            payload=row["payload"],
            error=None if row["error"] is None else _error_from(row["error"]),
            seconds=row["seconds"],
            retries=json.loads(row["retries"]),
        )
        for row in rows.to_pylist()
    ]
    return sorted(results, key=lambda r: r.index)


@contextmanager
def _watched(
    session: SparkSession, tasks: int, on_share: Callable[[float], None] | None
) -> Iterator[None]:
    """Report the share of finished tasks while the block runs; classic Spark only."""
    if on_share is None or not hasattr(session, "_jsparkSession"):
        yield
        return
    context = session.sparkContext
    group = f"{APP_NAME}-{uuid4()}"
    context.setJobGroup(group, f"{tasks} tasks")
    over = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not over.wait(_WATCH_SECONDS):
            try:
                stages = [
                    tracker.getStageInfo(stage)
                    for job in tracker.getJobIdsForGroup(group)
                    if (info := tracker.getJobInfo(job)) is not None
                    for stage in info.stageIds
                ]
            except Exception:  # noqa: BLE001 - Spark is gone, which the job itself reports
                return
            # A stage before ours only distributes the units.
            done = max(
                (s.numCompletedTasks for s in stages if s and s.numTasks == tasks), default=0
            )
            on_share(min(1.0, done / tasks))

    watcher = threading.Thread(target=watch, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _mapped(
    session: SparkSession,
    units: Sequence[WorkUnit],
    tasks: Sequence[Sequence[int]],
    function: OnBatches,
    schema: str,
) -> DataFrame:
    """What the function makes of the rows of `_distributed`, one partition per task.

    Small payloads go with the function: a shuffle would take a Spark job of its own.
    """
    if sum(len(units[index].payload) for task in tasks for index in task) > _WITH_FUNCTION_BYTES:
        return _distributed(session, units, tasks).mapInArrow(function, schema)
    carried = tuple(tuple((index, units[index].payload) for index in task) for task in tasks)
    numbers = session.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(OnCarriedUnits(carried, function), schema)


def _distributed(
    session: SparkSession, units: Sequence[WorkUnit], tasks: Sequence[Sequence[int]]
) -> DataFrame:
    """A DataFrame with one row per unit and one partition per task."""
    import pyarrow as pa  # noqa: PLC0415 - fast start

    rows = [(task, index) for task, indexes in enumerate(tasks) for index in indexes]
    table = pa.table(
        {
            "task": pa.array([task for task, _ in rows], pa.int32()),
            "index": pa.array([index for _, index in rows], pa.int32()),
            "payload": pa.array([units[index].payload for _, index in rows], pa.binary()),
        }
    )
    frame = session.createDataFrame(table)
    if len(tasks) == 1:
        return frame.coalesce(1)
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(len(tasks), "task")
    # Before Spark 4.1: by hash, so that some tasks may share a partition.
    return frame.repartition(len(tasks), "task")


def _shuffled(
    session: SparkSession,
    units: Sequence[WorkUnit],
    tasks: Sequence[Sequence[int]],
    split: Callable[[bytes], Iterator[tuple[int, bytes]]],
    join: Callable[[int, Iterator[bytes]], bytes],
    ranges: int,
) -> list[UnitResult]:
    """Split units into chunks, move the chunks of each range to one task, and join them."""
    chunks = _mapped(session, units, tasks, SplitOnExecutor(split), "range int, chunk binary")
    if hasattr(chunks, "repartitionById"):
        together = chunks.repartitionById(ranges, "range")
    else:
        # Before Spark 4.1: by hash, so that some ranges may share a task, one after the other.
        together = chunks.repartition(ranges, "range").sortWithinPartitions("range")
    rows = together.mapInArrow(JoinOnExecutor(join), _RESULT_SCHEMA).toArrow()
    return _results(rows)


def _one_by_one(
    session: SparkSession,
    units: Sequence[WorkUnit],
    tasks: Sequence[Sequence[int]],
    run: Callable[[bytes], bytes],
    slots: int,
) -> list[UnitResult]:
    """Run each task in its own Spark job; the results of all units, UnitLost for dead tasks."""

    def attempt(task: Sequence[int]) -> list[UnitResult]:
        try:
            return _collect(session, units, [task], run)
        except Exception as e:  # noqa: BLE001 - whatever Spark says, the unit is lost
            raise_if_lost(session, e)
            return [
                UnitResult(
                    index=index,
                    error=UnitLost(f"the Spark task of {units[index].label} died: {reason_of(e)}"),
                )
                for index in task
            ]

    with ThreadPoolExecutor(max(1, min(slots, len(tasks)))) as pool:
        results = [r for part in pool.map(attempt, tasks) for r in part]
    if all(isinstance(r.error, UnitLost) for r in results):
        raise all_tasks_died(results[0].error)
    return sorted(results, key=lambda r: r.index)


# --- on executors -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OnCarriedUnits:
    """The function of a numbered task: runs `function` on its units (index, payload)."""

    tasks: tuple[tuple[tuple[int, bytes], ...], ...]
    function: OnBatches

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the function returns."""
        import pyarrow as pa  # noqa: PLC0415 - the driver starts without it

        units = (
            unit for batch in batches for n in batch.column(0) for unit in self.tasks[n.as_py()]
        )
        yield from self.function(
            pa.record_batch(
                {
                    "index": pa.array([index], pa.int32()),
                    "payload": pa.array([payload], pa.binary()),
                }
            )
            for index, payload in units
        )


@dataclass(frozen=True, slots=True)
class OnExecutor:
    """The function of a task: runs each unit and yields its result."""

    run: Callable[[bytes], bytes]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One batch with one result row per unit."""
        prepare_process()
        for batch in batches:
            indexes = batch.column("index").to_pylist()
            payloads = batch.column("payload")
            for position, index in enumerate(indexes):
                payload = payloads[position].as_py()
                yield _result_batch(run_unit(index, payload, self.run, cpus=_task_cpus()))


def _task_cpus() -> int:
    """`spark.task.cpus`; 1 outside of a task."""
    from pyspark import TaskContext  # noqa: PLC0415 - the driver starts without it

    context = TaskContext.get()
    return 1 if context is None else max(1, context.cpus())


@dataclass(frozen=True, slots=True)
class SplitOnExecutor:
    """The function of a split task: yields the chunks of its units."""

    split: Callable[[bytes], Iterator[tuple[int, bytes]]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One batch with one row per chunk."""
        import pyarrow as pa  # noqa: PLC0415 - the driver starts without it

        prepare_process()
        for batch in batches:
            for payload in batch.column("payload"):
                for number, chunk in self.split(payload.as_py()):
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([number], pa.int32()), pa.array([chunk], pa.binary())],
                        names=["range", "chunk"],
                    )


@dataclass(frozen=True, slots=True)
class JoinOnExecutor:
    """The function of a join task: joins the chunks of its ranges, which arrive range by range."""

    join: Callable[[int, Iterator[bytes]], bytes]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One batch with one result row per range."""
        prepare_process()
        chunks = (
            (number, chunk)
            for batch in batches
            for number, chunk in zip(batch.column("range"), batch.column("chunk"), strict=True)
        )
        for number, group in groupby(chunks, lambda pair: int(pair[0].as_py())):
            yield _result_batch(self._one(number, (chunk.as_py() for _, chunk in group)))

    def _one(self, number: int, chunks: Iterator[bytes]) -> UnitResult:
        return run_unit(number, b"", lambda _: self.join(number, chunks))


def _result_batch(result: UnitResult) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 - the driver starts without it

    error = None if result.error is None else _error_to(result.error)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([result.index], pa.int32()),
            pa.array([result.payload], pa.binary()),
            pa.array([error], pa.binary()),
            pa.array([result.seconds], pa.float64()),
            pa.array([json.dumps(result.retries)], pa.string()),
        ],
        names=["index", "payload", "error", "seconds", "retries"],
    )


def _error_to(error: Exception) -> bytes:
    """The error as bytes; an error that cannot be pickled keeps only its text."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301 - made in the line above
    except Exception:  # noqa: BLE001 - errors of other libraries may fail in any way
        text = "".join(traceback.format_exception_only(error)).strip()
        return pickle.dumps(PaimonError(text))
    return data


def _error_from(data: bytes) -> Exception:
    """The error that an executor sent; executors run our own code."""
    error = pickle.loads(data)  # noqa: S301 - written by `_error_to` on our own executors
    return error if isinstance(error, Exception) else PaimonError(str(error))
