"""Plans and runs the steps of `maintain` one after another.

All steps are planned from one state of the table, which is what a dry run shows.  When a step's
turn comes and a step before it changed something, it is planned anew.  Decoded manifests are
shared by all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from maintenance.arguments import shown_arguments
from maintenance.commit_user import commit_user
from maintenance.exit_codes import is_refusal
from maintenance.job import Committed, Job, RunContext, Steps
from maintenance.jobs.maintain.parts import (
    MaintainPlan,
    Part,
    PartStatus,
    chosen_steps,
    why_not_due,
)
from maintenance.lease import hold_lease
from maintenance.ledger import Changes
from maintenance.metadata_job import latest_pin
from maintenance.plan import Plan, counted
from maintenance.report import FailedUnit, error_json
from paimon_core.errors import CommitConflict, LeaseHeld, StalePlan
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import CLUSTERING_INCREMENTAL
from paimon_core.schema.changes import check_dynamic_options

_ATTEMPTS: Final = 5
"""How many plans one step makes at most because others commit, and because its own commits make
more due."""
_CHANGES_NO_FILE: Final = frozenset({"trigger_tag_automatic_creation", "compact"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one step did."""

    part: Part
    status: PartStatus
    committed: tuple[Committed, ...] = ()
    findings: tuple[Mapping[str, object], ...] = ()
    why: str = ""
    error: Exception | None = None
    seconds: float = 0.0
    attempts: int = 1
    plan: Plan | None = None
    changes: Changes | None = None

    @property
    def snapshots(self) -> tuple[int, ...]:
        return tuple(s for c in self.committed for s in c.snapshots)

    def to_json(self) -> dict[str, object]:
        """The step as the report prints it."""
        details: dict[str, object] = {}
        for committed in self.committed:
            details.update(committed.details)
        kept = [] if self.plan is None else [k.to_json() for k in self.plan.kept]
        return {
            "job": self.part.job.name,
            "status": str(self.status),
            "arguments": shown_arguments(self.part.arguments),
            "why": self.why or None,
            "snapshots": list(self.snapshots),
            "seconds": round(self.seconds, 3),
            "details": details,
            "kept": kept,
            "changes": None if self.changes is None else self.changes.to_json(),
            "error": None if self.error is None else error_json(self.error),
        }


def steps_of(jobs: Mapping[str, Job]) -> Steps[Any, Any, Any, Any]:
    """The steps of `maintain` made of these jobs."""
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
    parts = tuple(_planned(table, job, own, context) for job, own in steps)
    return MaintainPlan(table=table.name, pin=latest_pin(table), parts=parts, arguments=arguments)


def _planned(
    table: FileStoreTable, job: Job, arguments: Mapping[str, object], context: RunContext
) -> Part:
    part = Part(job=job, arguments=arguments, status=PartStatus.DUE)
    try:
        own = _for_job(table, job, arguments)
        why = why_not_due(own, job, arguments)
        if why:
            return replace(part, status=PartStatus.NOT_DUE, why=why)
        plan = _plan_step(own, part, context)
    except Exception as e:  # noqa: BLE001 - the other steps' plans are shown all the same
        return replace(part, status=PartStatus.of(e), error=e)
    guards = context.guards
    return replace(
        part,
        status=PartStatus.NOTHING_TO_DO if plan.is_empty else PartStatus.DUE,
        plan=plan,
        guard="" if guards is None or context.force else "; ".join(guards.reasons(plan)),
    )


def _plan_step(table: FileStoreTable, part: Part, context: RunContext) -> Plan:
    steps = part.job.load()
    state = steps.inspect(table, part.arguments, context)
    plan: Plan = steps.plan(table, state, part.arguments, context)
    return plan


def _for_job(table: FileStoreTable, job: Job, arguments: Mapping[str, object]) -> FileStoreTable:
    """The table as it is now, with the step's own options; decoded manifests stay."""
    options = arguments.get("options")
    own = {str(k): str(v) for k, v in options.items()} if isinstance(options, Mapping) else {}
    if own:
        check_dynamic_options(table.schemas.get(table.schema.id), own)
    dynamic = {**table.dynamic_options, **job.table_options, **own}
    return replace(table, dynamic_options=dynamic).refreshed()


def _recheck(_: FileStoreTable, plan: MaintainPlan) -> MaintainPlan:
    return plan  # each step looks again when its turn comes


def _batches(plan: MaintainPlan) -> Iterator[Part]:
    yield from plan.parts


def _execute(table: FileStoreTable, plan: MaintainPlan, part: Part, context: RunContext) -> Outcome:
    """Run one step to its end; its error is part of the outcome."""
    progress = plan.progress
    deletes = part.job.name not in _CHANGES_NO_FILE
    why_not = progress.why_not(part.job.name, deletes=deletes)
    outcome = Outcome(part=part, status=PartStatus.SKIPPED, why=why_not, plan=part.plan)
    if part.status is PartStatus.NOT_DUE:
        outcome = Outcome(part=part, status=PartStatus.NOT_DUE, why=part.why)
    elif not why_not:
        started = time.perf_counter()
        before = None if context.ledger is None else context.ledger.changes()
        outcome = _run_leased(table, part, context, reuse=not progress.changed)
        outcome = replace(outcome, seconds=time.perf_counter() - started)
        if context.ledger is not None and before is not None:
            outcome = replace(outcome, changes=context.ledger.changes().since(before))
    progress.note(part.job.name, outcome.status, outcome.error)
    return outcome


def _run_leased(table: FileStoreTable, part: Part, context: RunContext, *, reuse: bool) -> Outcome:
    """Run the step, with the lease on the table if its job needs one and there is something to do."""
    idle = reuse and part.plan is not None and part.plan.is_empty
    if idle or not part.job.exclusive:
        return _run_step(table, part, context, reuse=reuse)
    try:
        with hold_lease(
            table,
            job=part.job.name,
            run_id=context.run_id,
            env=context.env,
            wait_millis=context.lease_wait_millis,
        ) as (lease, waited):
            fenced = replace(context, fence=lease.check)
            return _run_step(table, part, fenced, reuse=reuse and not waited)
    except LeaseHeld as e:
        return Outcome(part=part, status=PartStatus.FAILED, error=e, plan=part.plan)


def _run_step(table: FileStoreTable, part: Part, context: RunContext, *, reuse: bool) -> Outcome:
    committed: list[Committed] = []
    findings: list[Mapping[str, object]] = []
    plan = part.plan if reuse else None
    attempt = rounds = 1
    try:
        while True:
            own = _for_job(table, part.job, part.arguments)
            if plan is None:
                plan = _plan_step(own, part, context)
            if plan.is_empty:
                break
            if context.guards is not None:
                context.guards.check(plan, force=context.force)
            done, conflict = _attempt(own, part, plan, context)
            committed += done
            if conflict is None:
                if any(c.snapshots for c in done):
                    findings += part.job.load().verify(own, plan, done)
                if getattr(plan, "goes_on", False) and rounds < _ATTEMPTS and _progressed(done):
                    rounds += 1
                    plan = None  # what was committed makes further work due
                    continue
                break
            if not part.job.replans or attempt >= _ATTEMPTS:
                raise conflict
            attempt += 1
            plan = None
    except Exception as e:  # noqa: BLE001 - the other steps go on
        return Outcome(
            part=part, status=PartStatus.of(e), committed=tuple(committed), error=e, plan=plan
        )
    errors = [f.error for c in committed for f in c.failed_units]
    error = min(errors, key=is_refusal, default=None)
    well = PartStatus.SUCCESS if committed else PartStatus.NOTHING_TO_DO
    return Outcome(
        part=part,
        status=well if error is None else PartStatus.of(error),
        error=error if isinstance(error, Exception) else None,
        committed=tuple(committed),
        findings=tuple(findings),
        attempts=attempt,
        plan=plan,
    )


def _progressed(done: Sequence[Committed]) -> bool:
    """Whether all of it went through; what failed would fail again and again."""
    return any(c.snapshots for c in done) and not any(c.failed_units for c in done)


def _attempt(
    table: FileStoreTable, part: Part, plan: Plan, context: RunContext
) -> tuple[list[Committed], CommitConflict | StalePlan | None]:
    """What was committed, and the conflict that makes a new plan necessary."""
    steps = part.job.load()
    plan.once.take(plan.table)
    plan = steps.recheck(table, plan)
    done: list[Committed] = []
    for batch in steps.batches(plan):
        user = commit_user(part.job.name, context.run_id, context.env.new_uuid())
        fresh = replace(context, commit_user=user)
        result = steps.execute(table, plan, batch, fresh)
        context.check_supervised()
        try:
            done.append(steps.commit(table, plan, result, fresh))
        except (CommitConflict, StalePlan) as e:
            return done, e
    left_out = [name for c in done for name in c.conflicts]
    if left_out:
        text = f"a concurrent commit replaced files of {counted(len(left_out), 'buckets')} ({left_out[0]})"
        return done, CommitConflict(text, table=table.name)
    return done, None


def _commit(_: FileStoreTable, __: MaintainPlan, outcome: Outcome, ___: RunContext) -> Committed:
    """The step's outcome as one part of the report."""
    failed = [f for c in outcome.committed for f in c.failed_units]
    if outcome.error is not None and not failed:
        failed = [FailedUnit(label=outcome.part.job.name, error=outcome.error)]
    return Committed(
        snapshots=outcome.snapshots,
        changes=tuple(change for c in outcome.committed for change in c.changes),
        failed_units=tuple(failed),
        parts=(outcome.to_json(),),
        findings=outcome.findings,
    )


def _verify(
    _: FileStoreTable, __: MaintainPlan, committed: Sequence[Committed]
) -> list[Mapping[str, object]]:
    return [finding for c in committed for finding in c.findings]
