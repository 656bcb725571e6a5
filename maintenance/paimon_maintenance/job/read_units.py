"""Runs the units of a job that reads a table and rewrites nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paimon_maintenance.job.engine import UnitResult, WorkUnit
from paimon_maintenance.job.job import RunContext


def read_units(
    units: Sequence[WorkUnit], run: Callable[[bytes], bytes], context: RunContext, *, small: int
) -> list[UnitResult]:
    """Run the units and show their progress; the process of the job does up to `small` bytes."""
    size = sum(unit.expected_bytes for unit in units)
    context.progress.expect(len(units), size)
    engine = context.local if size <= small else context.engine
    return engine.run_units(
        units, run, on_done=lambda r: context.progress.advance(1, units[r.index].expected_bytes)
    )
