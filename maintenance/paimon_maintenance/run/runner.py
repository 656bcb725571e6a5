"""Runs one job on one table: the run loop with history, metrics and report.

Dry runs, guards, metrics and reports are implemented here and in `paimon_maintenance.run.loop`, not
in the jobs.  `plan_table` stops after the plan; `run_table` runs the job and always returns a
report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from paimon_core.environment import Environment, system_environment
from paimon_core.errors import CorruptTable, InvalidArgument, PaimonError, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.store_retries import StoreRetries, counted_retries
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.history.entry import (
    Actor,
    History,
    entries_of_report,
    entry_of_failed_plan,
    entry_of_plan,
    entry_of_start,
)
from paimon_maintenance.history.lost_runs import close_lost_runs
from paimon_maintenance.job.arguments import shown_arguments
from paimon_maintenance.job.changes import Changes
from paimon_maintenance.job.engine import ApplicationEngine, Engine, SparkApplication
from paimon_maintenance.job.engine_choice import EngineChoice, EngineName
from paimon_maintenance.job.job import (
    NoProgress,
    Progress,
    RunContext,
    unsupervised,
)
from paimon_maintenance.job.lazy_list import plain
from paimon_maintenance.job.opt_out import OptedOut, refuse_opted_out
from paimon_maintenance.job.plan import Plan
from paimon_maintenance.job.report import BucketChange, FailedUnit, Report, Status, total
from paimon_maintenance.run.loop import Outcome, run_job
from paimon_maintenance.run.metrics import STORE_RETRIES, Metrics
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.storage.ledger import Ledger
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Finding, Severity

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunServices:
    """The services that the runs of a process share: engines, environment, progress and metrics.

    `engine` does the work of all runs, except those whose plan is for Spark
    (`paimon_maintenance.job.engine_choice`) where there is a `spark`; it starts when it gets work.
    `history` records every plan, start, run and skip; None disables it.  `check_supervised` runs
    before each commit (see `RunContext`).
    """

    engine: Engine = field(default_factory=LocalEngine)
    spark: Engine | None = None
    env: Environment = field(default_factory=system_environment)
    progress: Progress = field(default_factory=NoProgress)
    metrics: Metrics = field(default_factory=Metrics)
    history: History | None = None
    check_supervised: Callable[[], None] = unsupervised


def plan_table(request: RunRequest, services: RunServices | None = None) -> Plan:
    """The plan of a run.  Changes nothing and starts no engine.

    Raises OptedOut if the table opted out of maintenance and the request does not name it.
    """
    run = _Run(request, services or RunServices())
    outcome = run.go(dry_run=True)
    error = outcome.failure()
    if outcome.plan is None and error is not None:
        if isinstance(error, PaimonError) and not isinstance(error, InvalidArgument):
            error.table = error.table or request.table
        run.look_up(error)
        _record_plan(run, error, outcome)
        raise error
    plan = cast("Plan", outcome.plan)
    _record_plan(run, plan, outcome)
    return plan


def run_table(request: RunRequest, services: RunServices | None = None) -> Report:
    """Run the job and return its report.  The report contains errors; only SystemExit is raised."""
    services = services or RunServices()
    run = _Run(request, services)
    outcome = run.go(dry_run=request.dry_run)
    run.complete(outcome.error)
    report = _recorded(run.report(outcome), services)
    outcome.failure()  # raises what must end the process
    services.metrics.record(report, now_millis=services.env.now_millis())
    logger.info(
        "table=%s job=%s run_id=%s snapshot=%s status=%s",
        report.table,
        report.job,
        report.run_id,
        ",".join(map(str, report.snapshots)) or "-",
        report.status,
        extra={
            "table": report.table,
            "job": report.job,
            "run_id": report.run_id,
            "snapshots": list(report.snapshots),
            "status": str(report.status),
        },
    )
    return report


def _recorded(report: Report, services: RunServices) -> Report:
    """The report, with a warning if the history does not accept it."""
    if services.history is None:
        return report
    entries = entries_of_report(
        report.to_json(), at_millis=services.env.now_millis(), actor=Actor.here()
    )
    warning = services.history.record(entries)
    return report if warning is None else replace(report, warnings=(*report.warnings, warning))


def _record_plan(run: _Run, found: Plan | Exception, outcome: Outcome) -> None:
    """Record a plan, or the error instead of one; failures of the history are logged."""
    request, services = run.request, run.services
    if services.history is None:
        return
    common: dict[str, Any] = {
        "job": request.job.name,
        "warehouse": request.warehouse,
        "branch": request.branch,
        "arguments": shown_arguments(request.arguments),
        "run_id": run.run_id,
        "at_millis": services.env.now_millis(),
        "actor": Actor.here(),
    }
    if isinstance(found, Exception):
        entry = entry_of_failed_plan(found, table=request.table, **common)
    else:
        entry = entry_of_plan(found, seconds=sum(outcome.seconds.values()), **common)
    services.history.record([entry])


class _Run:
    """One run in progress: its table, its ledger and its history entries."""

    def __init__(self, request: RunRequest, services: RunServices) -> None:
        self.request = request
        self.services = services
        self.run_id = request.run_id or services.env.new_uuid()
        self.lost_runs_closed = False
        self.ledger = Ledger()
        self.retries = StoreRetries()
        self.findings: list[Finding] = []
        self.choice: EngineChoice | None = None

    def go(self, *, dry_run: bool) -> Outcome:
        """Run the loop and return the outcome."""
        with counted_retries() as self.retries:
            return run_job(
                self.request.table,
                self.open,
                self.request.job,
                self.request.arguments,
                self.context(),
                dry_run=dry_run,
                before_changes=self.record_start,
                choose_engine=self.choose_engine,
                check_commits=self.check_commits,
                opened=self.request.opened,
            )

    def choose_engine(self, plan: Plan) -> Engine:
        """The engine for the plan; a run that worked on Spark stays there."""
        wanted = self.choice
        if wanted is None or wanted.engine != EngineName.SPARK:
            wanted = self.request.engine.choose(plan.effect)
        engine = self.engine_for(wanted.engine)
        self.choice = wanted.made_on(engine.name)
        return engine

    def engine_for(self, name: str) -> Engine:
        """The engine with this name if this process has it, with the parallelism of the run."""
        services = self.services
        engine = services.spark if name == EngineName.SPARK else None
        parallelism = self.request.arguments.get("parallelism")
        return (engine or services.engine).with_parallelism(
            parallelism if isinstance(parallelism, int) else None
        )

    def open(self) -> FileStoreTable:
        """The current table; the first call closes earlier lost runs in the history.

        Raises OptedOut if the table opted out of maintenance, the request does not name it, and the
        run has changed nothing yet.
        """
        table = self.request.open(self.ledger)
        if not self.lost_runs_closed and self.services.history is not None:
            close_lost_runs(
                self.services.history,
                table,
                warehouse=self.request.warehouse,
                branch=self.request.branch,
                at_millis=self.services.env.now_millis(),
                actor=Actor.here(),
            )
        self.lost_runs_closed = True
        if not self.request.named and self.ledger.changes().is_nothing:
            refuse_opted_out(table.name, table.schema.options)
        return table

    def context(self) -> RunContext:
        """The context for the steps; the loop adds a commit user and a fence."""
        return RunContext(
            run_id=self.run_id,
            commit_user="",
            env=self.services.env,
            # Until there is a plan; `choose_engine` returns the engine of the plan.
            engine=self.engine_for(self.request.engine.engine),
            local=LocalEngine(),
            progress=self.services.progress,
            guards=self.request.guards,
            force=self.request.force,
            max_attempts=self.request.max_attempts,
            check_supervised=self.services.check_supervised,
            ledger=self.ledger,
            lease_wait_millis=self.request.lease_wait_millis,
        )

    def record_start(self, plan: Plan) -> None:
        """Record the start of the run in the history, before its first change."""
        if self.services.history is None:
            return
        entry = entry_of_start(
            job=self.request.job.name,
            table=self.request.table,
            warehouse=self.request.warehouse,
            branch=self.request.branch,
            arguments=shown_arguments(self.request.arguments),
            run_id=self.run_id,
            snapshot_before=None if plan.pin is None else plan.pin.id,
            at_millis=self.services.env.now_millis(),
            actor=Actor.here(),
        )
        self.services.history.record([entry])

    def check_commits(self, table: FileStoreTable, snapshots: frozenset[int]) -> None:
        """CorruptTable if a file that these snapshots refer to is missing."""
        if not self.request.verify:
            return
        self.findings = check_table(table, Scope.of_snapshots(snapshots)).findings
        errors = [f for f in self.findings if f.severity is Severity.ERROR]
        if errors:
            raise CorruptTable(
                f"verification after the commit found {len(errors)} errors, the first is: "
                f"{errors[0].message}",
                table=table.name,
                snapshot=errors[0].snapshot,
                file=errors[0].file,
                next_step="the commit is visible; run `caretaker verify` on the table to see the "
                "affected snapshots and the repair",
            )

    def complete(self, error: BaseException | None) -> None:
        """Add the table name to the error, and whether the history already has the refusal."""
        if isinstance(error, PaimonError):
            error.table = error.table or self.request.table
            self.look_up(error)
        elif error is not None:
            # The report has the error; the stack trace goes to the log.
            logger.info("unexpected error", exc_info=error)

    def look_up(self, error: BaseException) -> None:
        """Record on a refusal whether the history already has it."""
        if isinstance(error, UnsupportedFeature) and self.services.history is not None:
            request = self.request
            error.known = self.services.history.knows_refusal(
                error, table=request.table, warehouse=request.warehouse, actor=Actor.here()
            )

    def changes(self, outcome: Outcome) -> Changes:
        """The changes of the run, including commits found later because their reply was lost."""
        seen = self.ledger.changes()
        snapshots = tuple(dict.fromkeys((*outcome.snapshots, *seen.snapshots)))
        found = {f"snapshot {number}" for number in snapshots}
        unsure = tuple(name for name in seen.unsure if name not in found)
        return replace(seen, snapshots=snapshots, unsure=unsure)

    def application(self) -> SparkApplication | None:
        """The application of Spark in which the run worked; None if it worked elsewhere."""
        if self.choice is None:
            return None
        engine: object = self.engine_for(self.choice.engine)
        return engine.application if isinstance(engine, ApplicationEngine) else None

    def report(self, outcome: Outcome) -> Report:
        """The report of the outcome."""
        status, plan, committed = outcome.status, outcome.first_plan, outcome.committed
        changes = _merged([change for c in committed for change in c.changes])
        details: dict[str, object] = {}
        for part in committed:
            details = _joined(details, part.details)
        if retried := self.retries.to_json():
            details[STORE_RETRIES] = retried
        failed: list[FailedUnit] = [f for c in committed for f in c.failed_units]
        done = self.changes(outcome)
        skipped = outcome.error if isinstance(outcome.error, OptedOut) else None
        return Report(
            job=self.request.job.name,
            table=self.request.table,
            warehouse=self.request.warehouse,
            branch=self.request.branch,
            run_id=self.run_id,
            status=status,
            why="" if skipped is None else skipped.message,
            engine=None if self.choice is None else self.choice.engine,
            engine_why=None if self.choice is None else self.choice.why,
            application=self.application(),
            arguments=shown_arguments(self.request.arguments),
            plan=plain(plan.to_json()) if plan and status is Status.DRY_RUN else None,
            plan_lines=tuple(plan.lines())
            if plan and status in (Status.DRY_RUN, Status.NOTHING_TO_DO)
            else (),
            pin=plan.pin if plan else None,
            # For a failed run, include the commits before the error.
            snapshots=outcome.snapshots if outcome.error is None else done.snapshots,
            attempts=outcome.attempts,
            before=total([c.before for c in changes]),
            after=total([c.after for c in changes]),
            untouched=total([c.untouched for c in changes]),
            buckets=tuple(changes),
            failed_units=tuple(failed),
            seconds=dict(outcome.seconds),
            findings=(*(f.to_json() for f in self.findings), *outcome.findings),
            details=details,
            parts=tuple(p for c in committed for p in c.parts),
            changes=done,
            error=None if skipped is not None else outcome.error,
        )


def _joined(so_far: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """The merged details of several batches: numbers add up, else the later value wins."""
    joined = dict(so_far)
    for name, value in more.items():
        there = so_far.get(name)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        joined[name] = _summed(there, value) if both else value
    return joined


def _summed(one: object, other: object) -> object:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {k: _summed(one.get(k), other.get(k)) for k in dict.fromkeys([*one, *other])}
    if isinstance(one, int | float) and isinstance(other, int | float):
        return round(one + other, 1)
    return one if other is None else other


def _merged(changes: Sequence[BucketChange]) -> list[BucketChange]:
    """One change per bucket: from its first size before to its last size after."""
    by_bucket: dict[tuple[str, int], BucketChange] = {}
    for change in changes:
        key = (change.partition, change.bucket)
        first = by_bucket.get(key)
        if first is not None:
            change = replace(  # noqa: PLW2901
                change,
                before=first.before,
                untouched=min(first.untouched, change.untouched, key=lambda s: s.bytes),
            )
        by_bucket[key] = change
    return list(by_bucket.values())
