"""The steps of `rescale`, bound together for the runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_maintenance.job.job import Committed, Steps
from paimon_maintenance.jobs.rescale.execute import (
    Batch,
    BatchResult,
    batches,
    commit,
    execute,
    recheck,
)
from paimon_maintenance.jobs.rescale.plan import RescalePlan, RescaleState, inspect, plan


def verify(
    _table: FileStoreTable, _plan: RescalePlan, _committed: Sequence[Committed]
) -> list[Mapping[str, object]]:
    """Nothing of its own: row counts are checked before the commit, files by the runner."""
    return []


STEPS: Final[Steps[RescaleState, RescalePlan, Batch, BatchResult]] = Steps(
    inspect=inspect,
    plan=plan,
    recheck=recheck,
    batches=batches,
    execute=execute,
    commit=commit,
    verify=verify,
)
