"""The work that a job hands to an engine, and what every engine does with it.

The payload of a unit is bytes.  A function from bytes to bytes, which can be pickled, processes it.
The same jobs run in this process (`paimon_maintenance.engines.local`) and on Spark
(`paimon_maintenance.engines.spark.engine`), and cannot tell the difference.  The result of a unit
that fails is its error; the other units continue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

from paimon_core.io.store_retries import counted_retries

logger = logging.getLogger(__name__)

_TASK_CPUS: ContextVar[int] = ContextVar("processors of the task", default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkUnit:
    """One unit of work: payload, expected bytes to read, and a label."""

    payload: bytes
    expected_bytes: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """The result of the unit at `index`: a payload or an error, and the duration in seconds.

    `retries` are the retries of store requests (`StoreRetries.to_json`).
    """

    index: int
    payload: bytes | None = None
    error: Exception | None = None
    seconds: float = 0.0
    retries: Mapping[str, float] = field(default_factory=dict)


class Engine(Protocol):
    """Runs units in any order, possibly in other processes and more than once."""

    @property
    def name(self) -> str:
        """The name in reports: "local" or "spark"."""

    @property
    def is_parallel(self) -> bool:
        """Whether units run in parallel, so that splitting large ones helps."""

    def slots(self) -> int:
        """The number of units that run at the same time; starts the engine if necessary."""

    def with_parallelism(self, parallelism: int | None) -> Self:
        """The same engine, limited to this number of units at once.

        None: the engine's own limit.
        """

    def run_units(
        self,
        units: Sequence[WorkUnit],
        run: Callable[[bytes], bytes],
        *,
        on_done: Callable[[UnitResult], None] | None = None,
        on_share: Callable[[float], None] | None = None,
    ) -> list[UnitResult]:
        """Run all units; one result per unit, in the order of the units.

        Errors of `run` are results.  A raised error is a failure of the engine; the outcome of the
        units is then unknown.  The engine calls `on_done` with each result.  An engine that returns
        all results at the end calls `on_share` with the finished share (0 to 1).  Any thread may
        call both.
        """

    def close(self) -> None:
        """Release all resources.  Any thread can call it, at any time and more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkApplication:
    """An application of Spark: its id, and the address of its UI if it has one."""

    id: str
    ui: str | None = None


@runtime_checkable
class ApplicationEngine(Protocol):
    """An engine that runs units in an application of Spark."""

    @property
    def application(self) -> SparkApplication | None:
        """The newest application of the engine; None before it has started, or if it is unknown."""


@runtime_checkable
class ShuffleEngine(Engine, Protocol):
    """An engine that can also shuffle data between units."""

    def run_shuffle(
        self,
        units: Sequence[WorkUnit],
        split: Callable[[bytes], Iterator[tuple[int, bytes]]],
        join: Callable[[int, Iterator[bytes]], bytes],
        *,
        ranges: int,
    ) -> list[UnitResult]:
        """One result per non-empty range (0 to `ranges` - 1), with the range number as `index`.

        `split` yields the chunks of a unit, each with its range number.  `join` gets all chunks of
        one range in any order.  Errors of `join` are results; errors of `split` or of the engine
        are raised.
        """


def task_cpus() -> int:
    """The number of processors that the engine gave to the unit that runs here."""
    return _TASK_CPUS.get()


def run_unit(
    index: int, payload: bytes, run: Callable[[bytes], bytes], *, cpus: int = 1
) -> UnitResult:
    """Run one unit on `cpus` processors.

    The result has the payload that `run` returned or the error that it raised.
    """
    _TASK_CPUS.set(cpus)
    started = time.perf_counter()
    result, error = None, None
    with counted_retries() as retries:
        try:
            result = run(payload)
        except Exception as e:
            logger.debug("unit %d failed", index, exc_info=True)
            error = e
    return UnitResult(
        index=index,
        payload=result,
        error=error,
        seconds=time.perf_counter() - started,
        retries=retries.to_json(),
    )
