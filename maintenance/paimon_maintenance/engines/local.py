"""The engine in this process: for tests, small tables, and work on metadata alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Self

from paimon_core.io.store_retries import ContextPool
from paimon_maintenance.engines.gate import Gate
from paimon_maintenance.job.engine import UnitResult, WorkUnit, run_unit


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs units in this process, on `threads` threads.

    `gate` limits what all tables of this process work on at the same time.
    """

    threads: int = 1
    gate: Gate | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The engine's name in reports."""
        return "local"

    @property
    def is_parallel(self) -> bool:
        """Whether there is more than one thread."""
        return self.threads > 1

    def slots(self) -> int:
        """The number of threads."""
        return self.threads

    def with_parallelism(self, parallelism: int | None) -> Self:
        """The engine with this many threads; None: with as many as before."""
        return self if parallelism is None else replace(self, threads=parallelism)

    def run_units(
        self,
        units: Sequence[WorkUnit],
        run: Callable[[bytes], bytes],
        *,
        on_done: Callable[[UnitResult], None] | None = None,
        on_share: Callable[[float], None] | None = None,  # noqa: ARG002 - results come one by one
    ) -> list[UnitResult]:
        """One result a unit, in the units' order (see `Engine`)."""
        results = []
        if self.threads <= 1 or len(units) <= 1:
            for index, unit in enumerate(units):
                result = self._run_unit(index, unit, run)
                results.append(result)
                if on_done is not None:
                    on_done(result)
            return results
        with ContextPool(self.threads, thread_name_prefix="unit") as pool:
            # Largest first, so that no thread is left alone with a big one at the end.
            order = sorted(range(len(units)), key=lambda i: -units[i].expected_bytes)
            futures = [pool.submit(self._run_unit, i, units[i], run) for i in order]
            try:
                for future in as_completed(futures):
                    result = future.result()
                    results.append(result)
                    if on_done is not None:
                        on_done(result)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return sorted(results, key=lambda r: r.index)

    def _run_unit(self, index: int, unit: WorkUnit, run: Callable[[bytes], bytes]) -> UnitResult:
        with nullcontext() if self.gate is None else self.gate.hold(unit.expected_bytes):
            return run_unit(index, unit.payload, run)

    def close(self) -> None:
        """Nothing was started."""
