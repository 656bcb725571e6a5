"""The steps of `sort_compact`."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.job import Steps
from paimon_maintenance.job.rewrite_job import rewrite_steps
from paimon_maintenance.jobs.sort_compact.execute import (
    SortBatch,
    SortResult,
    batches,
    commit,
    execute,
)
from paimon_maintenance.jobs.sort_compact.plan import SortPlan, SortState, inspect, plan

STEPS: Final[Steps[SortState, SortPlan, SortBatch, SortResult]] = rewrite_steps(
    inspect=inspect, plan=plan, batches=batches, execute=execute, commit=commit
)
