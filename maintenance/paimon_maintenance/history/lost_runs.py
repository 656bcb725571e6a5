"""Finds the outcome of lost runs: those with a start but no end, because their process was killed.

The commit user of a run contains its id (`paimon_maintenance.job.commit_user`).  So the snapshots
of the table show whether the run committed, unless they have expired.  The next plan or run on the
table checks this, and writes the end entry of the lost run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.process_identity import has_ended
from paimon_maintenance.history.entry import Actor, Entry, History
from paimon_maintenance.job.commit_user import is_of_run
from paimon_maintenance.job.exit_codes import ExitCode

logger = logging.getLogger(__name__)

LONGEST_RUN_MILLIS: Final = 24 * 3600 * 1000
"""Age at which a start from another machine without an end counts as lost."""
RUN_LOST: Final = "RunLost"
_AIRFLOW: Final = "airflow"


class LostOutcome(StrEnum):
    """The outcome of a lost run; also the status of its end entry."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not_committed"
    UNKNOWN = "unknown_outcome"


_NEXT_STEPS: Final = {
    LostOutcome.COMMITTED: "its commits are complete; run the job again for the remaining work",
    LostOutcome.NOT_COMMITTED: "run the job again; remove_orphan_files removes the files that it wrote",
    LostOutcome.UNKNOWN: "check the table (`caretaker inspect`, `caretaker verify`), then run "
    "the job again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """The outcome of a run without a report; `snapshots` are its commits."""

    outcome: LostOutcome
    snapshots: tuple[int, ...] = ()
    why: str = ""

    def line(self) -> str:
        """The outcome as text."""
        if self.outcome is LostOutcome.COMMITTED:
            numbers = ", ".join(map(str, self.snapshots))
            return f"it had committed {'snapshots' if len(self.snapshots) > 1 else 'snapshot'} {numbers}"
        if self.outcome is LostOutcome.NOT_COMMITTED:
            return "it had not committed a snapshot"
        return f"it is unknown whether it had committed: {self.why}"

    @property
    def next_step(self) -> str:
        """The next step for the operator."""
        return _NEXT_STEPS[self.outcome]


def find_lost_run(
    table: FileStoreTable, run_id: str, *, snapshot_before: int | None, ended: bool = True
) -> LostRun:
    """Find the outcome of the run in the snapshots of its branch.

    `snapshot_before` is the newest snapshot at the start, None for a table without snapshots.
    `ended`: whether the run certainly makes no more commits; otherwise the outcome of a run without
    snapshots is unknown.
    """
    try:
        snapshots = table.snapshots.all()
    except (PaimonError, OSError) as e:
        return LostRun(outcome=LostOutcome.UNKNOWN, why=f"its snapshots cannot be read: {e}")
    own = tuple(s.id for s in snapshots if is_of_run(s.commit_user, run_id))
    if own:
        return LostRun(outcome=LostOutcome.COMMITTED, snapshots=own)
    before = snapshot_before or 0
    first = snapshots[0].id if snapshots else 1
    last = snapshots[-1].id if snapshots else 0
    if first > before + 1:
        why = (
            f"snapshots {before + 1} to {first - 1} were committed after its start and have expired"
        )
        return LostRun(outcome=LostOutcome.UNKNOWN, why=why)
    if last < before:
        why = f"the table was rolled back from snapshot {before} or later to {last}"
        return LostRun(outcome=LostOutcome.UNKNOWN, why=why)
    if not ended:
        return LostRun(outcome=LostOutcome.UNKNOWN, why="its driver may still be running")
    return LostRun(outcome=LostOutcome.NOT_COMMITTED)


def entry_of_lost_run(start: Entry, found: LostRun, *, at_millis: int, why: str = "") -> Entry:
    """The end entry of the run with this start; `why` is the reason of the loss, if known."""
    reason = why or "its process ended without a report"
    details = {k: v for k, v in start.details.items() if k != "process"}
    return replace(
        start,
        at_millis=at_millis,
        event="run",
        status=str(found.outcome),
        exit_code=int(
            ExitCode.UNKNOWN_OUTCOME if found.outcome is LostOutcome.UNKNOWN else ExitCode.FAILURE
        ),
        snapshots=found.snapshots,
        details={**details, "started_at_millis": start.at_millis},
        error_type=RUN_LOST,
        error=f"{reason}; {found.line()}",
        next_step=found.next_step,
    )


def close_lost_runs(
    history: History,
    table: FileStoreTable,
    *,
    warehouse: str,
    branch: str | None,
    at_millis: int,
    actor: Actor,
) -> list[Entry]:
    """Write and return the end entries of lost runs on this table and branch.

    Skips runs whose process is alive, or may be alive on another machine.
    """
    ends = []
    for start in history.open_runs(table=table.name, warehouse=warehouse):
        if _branch(start.branch) != _branch(branch) or not _is_lost(start, actor, at_millis):
            continue
        found = find_lost_run(table, start.run_id, snapshot_before=start.snapshot_before)
        ends.append(entry_of_lost_run(start, found, at_millis=at_millis))
        logger.warning(
            "table=%s job=%s run_id=%s lost run: %s",
            *(start.table, start.job, start.run_id, found.line()),
        )
    if ends:
        history.record(ends)
    return ends


def _is_lost(start: Entry, actor: Actor, now_millis: int) -> bool:
    process = start.details.get("process")
    if isinstance(process, Mapping):
        gone = has_ended(
            host=str(process.get("host")),
            pid=int(str(process.get("pid"))),
            identity=str(process.get("identity") or ""),
        )
        if gone is not None:
            return gone
        if start.origin == actor.origin == _AIRFLOW and _dag(start.actor) == _dag(actor.name):
            return True  # a DAG has one run at a time, and this is a later one or a later try
    return now_millis - start.at_millis > LONGEST_RUN_MILLIS


def _dag(actor: str) -> str:
    return actor.split(" ", 1)[0]


def _branch(name: str | None) -> str:
    return name or "main"
