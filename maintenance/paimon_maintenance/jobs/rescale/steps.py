"""The steps of `rescale`."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.job import Steps
from paimon_maintenance.job.rewrite_job import rewrite_steps
from paimon_maintenance.jobs.rescale.execute import (
    RescaleBatch,
    RescaledBatch,
    batches,
    commit,
    execute,
    recheck,
)
from paimon_maintenance.jobs.rescale.plan import RescalePlan, RescaleState, inspect, plan

STEPS: Final[Steps[RescaleState, RescalePlan, RescaleBatch, RescaledBatch]] = rewrite_steps(
    inspect=inspect, plan=plan, recheck=recheck, batches=batches, execute=execute, commit=commit
)
