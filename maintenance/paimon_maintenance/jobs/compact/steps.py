"""The steps of `compact`."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.job import Steps
from paimon_maintenance.job.rewrite_job import rewrite_steps
from paimon_maintenance.jobs.compact.execute import (
    CompactBatch,
    CompactedBatch,
    batches,
    commit,
    execute,
)
from paimon_maintenance.jobs.compact.plan import CompactPlan, CompactState, inspect, plan

STEPS: Final[Steps[CompactState, CompactPlan, CompactBatch, CompactedBatch]] = rewrite_steps(
    inspect=inspect, plan=plan, batches=batches, execute=execute, commit=commit
)
