"""The steps of `rescale`, bound together for the runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from maintenance.job import Committed, Steps
from maintenance.jobs.rescale.execute import (
    Batch,
    BatchResult,
    batches,
    commit,
    execute,
    recheck,
)
from maintenance.jobs.rescale.plan import RescalePlan, RescaleState, inspect, plan
from paimon_core.file_store_table import FileStoreTable


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
