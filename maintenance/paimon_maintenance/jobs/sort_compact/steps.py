"""The steps of `sort_compact`, bound together for the runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_maintenance.job.job import Committed, Steps
from paimon_maintenance.jobs.sort_compact.execute import (
    Batch,
    BatchResult,
    batches,
    commit,
    execute,
)
from paimon_maintenance.jobs.sort_compact.plan import SortPlan, SortState, inspect, plan


def recheck(_table: FileStoreTable, found: SortPlan) -> SortPlan:
    """The plan as it is: the commit itself checks every file, so nothing is done twice here."""
    return found


def verify(
    _table: FileStoreTable, _plan: SortPlan, _committed: Sequence[Committed]
) -> list[Mapping[str, object]]:
    """Nothing of its own: row counts are checked before the commit, files by the runner."""
    return []


STEPS: Final[Steps[SortState, SortPlan, Batch, BatchResult]] = Steps(
    inspect=inspect,
    plan=plan,
    recheck=recheck,
    batches=batches,
    execute=execute,
    commit=commit,
    verify=verify,
)
