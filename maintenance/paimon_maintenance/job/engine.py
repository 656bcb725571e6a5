"""The work that a job hands to an engine, and what every engine does with it.

A unit is bytes; what is done to it is a function from bytes to bytes that can be pickled.  The same
jobs run in this process (`paimon_maintenance.engines.local`) and on Spark
(`paimon_maintenance.engines.spark`), and cannot tell the difference.  A unit that fails yields its
error as its result; the other units go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkUnit:
    """One piece of work: what to do, how many bytes it will read, and a name for people."""

    payload: bytes
    expected_bytes: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """What became of the unit at `index`: either a payload or an error, and the seconds it took."""

    index: int
    payload: bytes | None = None
    error: Exception | None = None
    seconds: float = 0.0


class Engine(Protocol):
    """Runs units, in any order, possibly elsewhere and more than once."""

    @property
    def name(self) -> str:
        """What reports call it: "local" or "spark"."""

    @property
    def is_parallel(self) -> bool:
        """Whether several units run at once, so that cutting large ones helps."""

    def run_units(
        self,
        units: Sequence[WorkUnit],
        run: Callable[[bytes], bytes],
        *,
        on_done: Callable[[UnitResult], None] | None = None,
        on_share: Callable[[float], None] | None = None,
    ) -> list[UnitResult]:
        """One result a unit, in the units' order.

        Errors of `run` are results.  What is raised is the failure of the engine itself; then
        nothing is known of any unit.  `on_done` is told each result; an engine whose results come
        all at the end tells `on_share` meanwhile which share of the work is done (0 to 1).  Both
        are called from any thread.
        """

    def close(self) -> None:
        """Give back what the engine started; it can be called at any time, and twice."""


@runtime_checkable
class ShuffleEngine(Engine, Protocol):
    """An engine that can also bring together what units on different executors found."""

    def run_shuffle(
        self,
        units: Sequence[WorkUnit],
        split: Callable[[bytes], Iterator[tuple[int, bytes]]],
        join: Callable[[int, Iterator[bytes]], bytes],
        *,
        ranges: int,
    ) -> list[UnitResult]:
        """One result a range (numbers below `ranges`) that got any chunk, at `index` its number.

        `split` gives chunks of a unit, each with the number of its range; `join` gets all chunks of
        one range, in any order.  Errors of `join` are results; an error of `split`, or of the
        engine, is raised.
        """


def run_unit(index: int, payload: bytes, run: Callable[[bytes], bytes]) -> UnitResult:
    """The result of one unit: the payload that `run` returned, or the error that it raised."""
    started = time.perf_counter()
    try:
        result = run(payload)
    except Exception as e:
        logger.debug("unit %d failed", index, exc_info=True)
        return UnitResult(index=index, error=e, seconds=time.perf_counter() - started)
    return UnitResult(index=index, payload=result, seconds=time.perf_counter() - started)
