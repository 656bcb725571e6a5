"""Plans and runs the steps of `maintain` one after another.

All steps are planned from one state of the table; a dry run shows these plans.  Each step runs in
the common run loop, and plans again if an earlier step changed the table.  All steps share the
cache of decoded manifests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from paimon_core.ddl.alter import check_dynamic_options
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import CLUSTERING_INCREMENTAL
from paimon_maintenance.job.arguments import shown_arguments
from paimon_maintenance.job.changes import Changes
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.job import Committed, Job, NoProgress, Progress, RunContext, Steps
from paimon_maintenance.job.metadata_job import latest_pin
from paimon_maintenance.job.plan import Plan
from paimon_maintenance.job.report import FailedUnit
from paimon_maintenance.jobs.maintain.step_plans import (
    MaintainPlan,
    StepPlan,
    StepStatus,
    chosen_steps,
    why_not_due,
)
from paimon_maintenance.run.loop import Outcome, run_job

_CHANGES_NO_FILE: Final = frozenset({"trigger_tag_automatic_creation", "compact"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of one step; `outcome` is None if it did not run."""

    step: StepPlan
    status: StepStatus
    outcome: Outcome | None = None
    why: str = ""
    seconds: float = 0.0
    changes: Changes | None = None

    @property
    def committed(self) -> tuple[Committed, ...]:
        return () if self.outcome is None else self.outcome.committed

    @property
    def error(self) -> Exception | None:
        return None if self.outcome is None else self.outcome.failure()

    @property
    def snapshots(self) -> tuple[int, ...]:
        return () if self.outcome is None else self.outcome.snapshots

    def to_json(self) -> dict[str, object]:
        """The step as JSON for the report."""
        details: dict[str, object] = {}
        for committed in self.committed:
            details.update(committed.details)
        plan = self.step.plan if self.outcome is None else self.outcome.plan
        kept = [] if plan is None else [k.to_json() for k in plan.kept]
        return {
            "job": self.step.job.name,
            "status": str(self.status),
            "arguments": shown_arguments(self.step.arguments),
            "why": self.why or None,
            "snapshots": list(self.snapshots),
            "seconds": round(self.seconds, 3),
            "details": details,
            "kept": kept,
            "changes": None if self.changes is None else self.changes.to_json(),
            "error": None if self.error is None else error_json(self.error),
        }


class _WithinStep(NoProgress):
    """The progress of a step: passes on units and bytes, but not its phases."""

    def __init__(self, run: Progress) -> None:
        self._run = run

    def expect(self, units: int, size: int) -> None:
        """Pass the call on."""
        self._run.expect(units, size)

    def advance(self, units: int, size: int) -> None:
        """Pass the call on."""
        self._run.advance(units, size)


def steps_of(jobs: Mapping[str, Job]) -> Steps[None, MaintainPlan, StepPlan, StepResult]:
    """The steps of a `maintain` job that runs these jobs."""
    return Steps(
        inspect=_inspect,
        plan=partial(_plan, jobs),
        recheck=_recheck,
        batches=_batches,
        execute=_execute,
        commit=_commit,
        verify=_verify,
    )


def _inspect(_: FileStoreTable, __: Mapping[str, object], ___: RunContext) -> None:
    return None


def _plan(
    jobs: Mapping[str, Job],
    table: FileStoreTable,
    _: None,
    arguments: Mapping[str, object],
    context: RunContext,
) -> MaintainPlan:
    clustered = table.bucket_mode is BucketMode.UNAWARE and table.options.value(
        CLUSTERING_INCREMENTAL
    )
    steps = chosen_steps(jobs, arguments, clustered=clustered)
    planned = tuple(_planned(table, job, own, context) for job, own in steps)
    return MaintainPlan(table=table.name, pin=latest_pin(table), steps=planned, arguments=arguments)


def _planned(
    table: FileStoreTable, job: Job, arguments: Mapping[str, object], context: RunContext
) -> StepPlan:
    step = StepPlan(job=job, arguments=arguments, status=StepStatus.DUE)
    try:
        own = _for_job(table, job, arguments)
        why = why_not_due(own, job, arguments)
    except Exception as e:  # noqa: BLE001 - the plans of the other steps are still shown
        return replace(step, status=StepStatus.of(e), error=e)
    if why:
        return replace(step, status=StepStatus.NOT_DUE, why=why)
    outcome = _run_job(own, step, context, dry_run=True)
    plan = outcome.plan
    if plan is None:
        return replace(step, status=StepStatus(outcome.status), error=outcome.failure())
    guards = context.guards
    return replace(
        step,
        status=StepStatus.NOTHING_TO_DO if plan.is_empty else StepStatus.DUE,
        plan=plan,
        guard="" if guards is None or context.force else "; ".join(guards.reasons(plan)),
    )


def _run_job(
    table: FileStoreTable,
    step: StepPlan,
    context: RunContext,
    *,
    plan: Plan | None = None,
    dry_run: bool = False,
) -> Outcome:
    return run_job(
        table.name,
        partial(_for_job, table, step.job, step.arguments),
        step.job,
        step.arguments,
        replace(context, progress=_WithinStep(context.progress)),
        plan=plan,
        dry_run=dry_run,
    )


def _for_job(table: FileStoreTable, job: Job, arguments: Mapping[str, object]) -> FileStoreTable:
    """The current table with the options of the step and the cached manifests."""
    options = arguments.get("options")
    own = {str(k): str(v) for k, v in options.items()} if isinstance(options, Mapping) else {}
    if own:
        check_dynamic_options(table.schemas.get(table.schema.id), own)
    dynamic = {**table.dynamic_options, **job.table_options, **own}
    return replace(table, dynamic_options=dynamic).refreshed()


def _recheck(_: FileStoreTable, plan: MaintainPlan) -> MaintainPlan:
    return plan  # each step rechecks its own plan


def _batches(plan: MaintainPlan) -> Iterator[StepPlan]:
    yield from plan.steps


def _execute(
    table: FileStoreTable, plan: MaintainPlan, step: StepPlan, context: RunContext
) -> StepResult:
    """Run one step; the result contains its error."""
    progress = plan.progress
    deletes = step.job.name not in _CHANGES_NO_FILE
    why_not = progress.why_not(step.job.name, deletes=deletes)
    result = StepResult(step=step, status=StepStatus.SKIPPED, why=why_not)
    if step.status is StepStatus.NOT_DUE:
        result = StepResult(step=step, status=StepStatus.NOT_DUE, why=step.why)
    elif not why_not:
        result = _run_step(table, step, context, reuse=not progress.changed)
    progress.note(step.job.name, result.status, result.error)
    return result


def _run_step(
    table: FileStoreTable, step: StepPlan, context: RunContext, *, reuse: bool
) -> StepResult:
    """Run the step with its plan if `reuse` is set, else with a new plan."""
    started = time.perf_counter()
    before = None if context.ledger is None else context.ledger.changes()
    outcome = _run_job(table, step, context, plan=step.plan if reuse else None)
    error = outcome.failure()
    well = StepStatus.SUCCESS if outcome.committed else StepStatus.NOTHING_TO_DO
    changes = None
    if context.ledger is not None and before is not None:
        changes = context.ledger.changes().since(before)
    return StepResult(
        step=step,
        status=well if error is None else StepStatus.of(error),
        outcome=outcome,
        seconds=time.perf_counter() - started,
        changes=changes,
    )


def _commit(_: FileStoreTable, __: MaintainPlan, result: StepResult, ___: RunContext) -> Committed:
    """The result of the step as one part of the report."""
    failed = [f for c in result.committed for f in c.failed_units]
    if result.error is not None and not failed:
        failed = [FailedUnit(label=result.step.job.name, error=result.error)]
    return Committed(
        snapshots=result.snapshots,
        changes=tuple(change for c in result.committed for change in c.changes),
        failed_units=tuple(failed),
        parts=(result.to_json(),),
        findings=() if result.outcome is None else result.outcome.findings,
    )


def _verify(
    _: FileStoreTable, __: MaintainPlan, committed: Sequence[Committed]
) -> list[Mapping[str, object]]:
    return [finding for c in committed for finding in c.findings]
