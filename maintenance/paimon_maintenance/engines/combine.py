"""Joins the work of several small tables, which run in threads, into one Spark job.

A Spark job costs some tenths of a second, even for little work.  The first thread that brings small
work waits a moment for others, and runs a job for all of them; the others wait for their results.
If that job fails, each thread runs its own work alone, so that one table cannot harm another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_maintenance.engines.packing import SMALLEST_TASK_BYTES
from paimon_maintenance.job.engine import UnitResult, WorkUnit

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 4 * SMALLEST_TASK_BYTES
"""Work with more bytes than this gets a job of its own."""
_WINDOW_SECONDS: Final = 0.1
_NUMBER_BYTES: Final = 4

Run = Callable[[bytes], bytes]
RunAll = Callable[[Sequence[WorkUnit], Run, int], list[UnitResult]]
"""Runs units in one job, in at least this many tasks if there are as many units."""


@dataclass(slots=True)
class _Call:
    """The work of one thread, and where its results go; None: run it alone."""

    units: Sequence[WorkUnit]
    run: Run
    results: Future[list[UnitResult] | None] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class ManyRuns:
    """Runs each payload with the function whose number stands before it."""

    runs: tuple[Run, ...]

    def __call__(self, payload: bytes) -> bytes:
        """The result of the function."""
        number = int.from_bytes(payload[:_NUMBER_BYTES])
        return self.runs[number](payload[_NUMBER_BYTES:])


class Combiner:
    """Joins calls of several threads; one for each session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Call] = []

    def run(self, units: Sequence[WorkUnit], run: Run, run_all: RunAll) -> list[UnitResult] | None:
        """The results of the units in their order, or None if the caller must run them alone."""
        if sum(unit.expected_bytes for unit in units) > MOST_BYTES:
            return None
        call = _Call(units, run)
        with self._lock:
            self._waiting.append(call)
            is_first = len(self._waiting) == 1
        if is_first:
            try:
                time.sleep(_WINDOW_SECONDS)
            finally:
                with self._lock:
                    calls, self._waiting = self._waiting, []
                _run_together(calls, run_all)
        return call.results.result()


def _run_together(calls: Sequence[_Call], run_all: RunAll) -> None:
    """Run all calls in one job, and give each of them its results."""
    if len(calls) == 1:
        calls[0].results.set_result(None)
        return
    units = [
        replace(unit, payload=number.to_bytes(_NUMBER_BYTES) + unit.payload)
        for number, call in enumerate(calls)
        for unit in call.units
    ]
    results: list[UnitResult] = []
    try:
        results = run_all(units, ManyRuns(tuple(call.run for call in calls)), len(calls))
    except Exception as e:  # noqa: BLE001 - each caller sees by itself whether Spark is lost
        logger.warning("a Spark job for %d tables failed; each runs alone: %s", len(calls), e)
    finally:  # no thread may wait forever
        start = 0
        for call in calls:
            own = results[start : start + len(call.units)]
            start += len(call.units)
            call.results.set_result(
                [replace(r, index=index) for index, r in enumerate(own)] if results else None
            )
