"""Drives every job: inspect, plan, guards, re-check, execute, commit, verify, report.

No job can forget a dry run, a guard, a metric or a report, because no job has any of them: they
are here.  `plan_table` stops after the plan; `run_table` goes all the way and always returns a
report, whatever happened.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from maintenance.arguments import shown_arguments
from maintenance.commit_user import commit_user
from maintenance.engine import Engine, LocalEngine
from maintenance.environment import system_environment
from maintenance.exit_codes import OnRefused, is_refusal
from maintenance.guards import Guards
from maintenance.history.entry import (
    Actor,
    History,
    entries_of_report,
    entry_of_failed_plan,
    entry_of_plan,
    entry_of_start,
)
from maintenance.history.lost_runs import settle_lost_runs
from maintenance.job import (
    Committed,
    Job,
    Progress,
    Quiet,
    RunContext,
    Steps,
    unfenced,
    unsupervised,
)
from maintenance.jobs.verify.check import Scope, check_table
from maintenance.jobs.verify.findings import Finding, Severity
from maintenance.lease import Holder, Lease, hold_lease, is_held
from maintenance.ledger import Changes, Ledger
from maintenance.metrics import Metrics
from maintenance.plan import Plan, counted
from maintenance.report import BucketChange, FailedUnit, Report, Size, Status, total
from maintenance.store_clock import check_clock
from paimon_core.environment import Environment
from paimon_core.errors import (
    CommitConflict,
    CorruptTable,
    InvalidArgument,
    PaimonError,
    StalePlan,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import lacking
from paimon_core.retry import backoff_millis
from paimon_core.schema.changes import check_dynamic_options
from paimon_core.snapshot.line import unbroken_ids
from paimon_core.table.open import open_table

logger = logging.getLogger(__name__)

DEFAULT_MAX_ATTEMPTS = 5
DEFAULT_LEASE_WAIT_MILLIS = 300_000
_LEAST_WAIT_MILLIS = 200
_MOST_WAIT_MILLIS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One job on one table.

    `arguments` are typed values (`Job.read_arguments`).  `default_options` are table options that
    hold where the table sets none.  `file_io_options` configure the store.
    `max_attempts` bounds the plans made when concurrent commits win, `lease_wait_millis` how long
    the run waits for another job that removes history or files of the table.  `on_refused` is the
    policy's word on what a refused table means for a run over many.  `run_id`: given by whoever
    wrote the run's start into the history; None: a fresh one.
    """

    job: Job
    warehouse: str
    table: str
    arguments: Mapping[str, object]
    branch: str | None = None
    file_io_options: Mapping[str, str] | None = None
    default_options: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    force: bool = False
    verify: bool = True
    guards: Guards = field(default_factory=Guards)
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    lease_wait_millis: int = DEFAULT_LEASE_WAIT_MILLIS
    on_refused: OnRefused | None = None
    run_id: str | None = None

    def open(self, ledger: Ledger | None = None) -> FileStoreTable:
        """The table under its newest schema, with the run's own options on top.

        What is changed through it is noted in the ledger, if one is given.
        """
        options = self.arguments.get("options")
        dynamic = (
            {str(k): str(v) for k, v in options.items()} if isinstance(options, Mapping) else {}
        )
        opened = open_table(
            self.warehouse,
            self.table,
            branch=self.branch,
            dynamic_options={**self.job.table_options, **dynamic},
            file_io_options=self.file_io_options,
            watch=None if ledger is None else partial(ledger.watch, branch=self.branch),
        )
        supplied = lacking(opened.options, self.default_options)
        if dynamic or supplied:
            check_dynamic_options(opened.schemas.get(opened.schema.id), {**supplied, **dynamic})
        if not supplied:
            return opened
        return replace(opened, dynamic_options={**supplied, **opened.dynamic_options}).refreshed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What runs of one process share: where units run, clocks and ids, who watches, counters.

    Every plan, start, run and skip goes to `history`; None: nobody remembers.  `check_supervised`
    is called before each commit (see `RunContext`).
    """

    engine: Engine = field(default_factory=LocalEngine)
    env: Environment = field(default_factory=system_environment)
    progress: Progress = field(default_factory=Quiet)
    metrics: Metrics = field(default_factory=Metrics)
    history: History | None = None
    check_supervised: Callable[[], None] = unsupervised


def plan_table(request: RunRequest, around: Surroundings | None = None) -> Plan:
    """The plan that a run would start from; nothing is changed and no engine is started."""
    around = around or Surroundings()
    run = _Run(request, around)
    try:
        _, plan = run.make_plan()
    except Exception as e:
        if isinstance(e, PaimonError) and not isinstance(e, InvalidArgument):
            e.table = e.table or request.table
        run.look_up(e)
        _remember_plan(run, e)
        raise
    _remember_plan(run, plan)
    return plan


def run_table(request: RunRequest, around: Surroundings | None = None) -> Report:
    """The report of the whole run.  Errors are in it; only the end of the process is raised."""
    around = around or Surroundings()
    run = _Run(request, around)
    try:
        run.go()
    except Exception as e:  # noqa: BLE001 - every failure becomes a report
        run.fail(e)
    except BaseException as e:
        run.fail(e)
        _remembered(run.report(), around)
        raise
    report = _remembered(run.report(), around)
    around.metrics.record(report, now_millis=around.env.now_millis())
    logger.info(
        "table=%s job=%s run_id=%s snapshot=%s status=%s",
        report.table,
        report.job,
        report.run_id,
        ",".join(map(str, report.snapshots)) or "-",
        report.status,
    )
    return report


def _remembered(report: Report, around: Surroundings) -> Report:
    """The report, with a warning if it could not be put into the history."""
    if around.history is None:
        return report
    entries = entries_of_report(
        report.to_json(), at_millis=around.env.now_millis(), actor=Actor.here()
    )
    warning = around.history.record(entries)
    return report if warning is None else replace(report, warnings=(*report.warnings, warning))


def _remember_plan(run: _Run, found: Plan | Exception) -> None:
    """Put a plan, or why there is none, into the history; what goes wrong there is logged."""
    request, around = run.request, run.around
    if around.history is None:
        return
    common: dict[str, Any] = {
        "job": request.job.name,
        "warehouse": request.warehouse,
        "branch": request.branch,
        "arguments": shown_arguments(request.arguments),
        "run_id": run.run_id,
        "at_millis": around.env.now_millis(),
        "actor": Actor.here(),
    }
    if isinstance(found, Exception):
        entry = entry_of_failed_plan(found, table=request.table, **common)
    else:
        entry = entry_of_plan(found, seconds=sum(run.seconds.values()), **common)
    around.history.record([entry])


class _Run:
    """One run in progress: what it has gathered for its report so far."""

    def __init__(self, request: RunRequest, around: Surroundings) -> None:
        self.request = request
        self.around = around
        self.steps: Steps[Any, Any, Any, Any] = request.job.load()
        self.run_id = request.run_id or around.env.new_uuid()
        self.has_started = False
        self.status = Status.FAILED
        self.plan: Plan | None = None
        self.error: BaseException | None = None
        self.attempts = 1
        self.fence: Callable[[], None] = unfenced
        self.seconds: dict[str, float] = {}
        self.committed: list[Committed] = []
        self.ledger = Ledger()
        self.findings: list[Finding] = []
        self.job_findings: list[Mapping[str, object]] = []

    def go(self) -> None:
        """Do all of it; raises what went wrong."""
        request = self.request
        while True:
            table, plan = self.plan_in_turn()
            if self.ends_with(plan):
                break
            with self.lease(table) as waited:
                if waited:
                    table, plan = self.make_plan()  # the other job changed the table
                    if self.ends_with(plan):
                        break
                self.remember_start(plan)
                conflict = self.execute(table, plan)
            if conflict is None:
                if getattr(plan, "goes_on", False):
                    continue  # what was committed makes further work due
                self.status = Status.SUCCESS
                break
            if not request.job.replans or self.attempts >= request.max_attempts:
                raise conflict
            self.say("a concurrent commit won (%s); planning anew", conflict)
            self.wait(self.attempts)
            self.attempts += 1
        if self.status is not Status.DRY_RUN:
            self.verify(table, plan)

    def ends_with(self, plan: Plan) -> bool:
        """Whether the run is over with this plan; GuardTripped if it does too much."""
        if plan.is_empty:
            done = any(c.snapshots for c in self.committed)
            self.status = Status.SUCCESS if done else Status.NOTHING_TO_DO
            return True
        if self.request.dry_run:
            self.status = Status.DRY_RUN
            # A plan made of several may show some though others could not be made.
            self.error = getattr(plan, "failure", None)
            self.look_up(self.error)
            return True
        if self.attempts == 1:
            self.request.guards.check(plan, force=self.request.force)
        return False

    @contextmanager
    def lease(self, table: FileStoreTable) -> Iterator[bool]:
        """Hold the lease of a job that needs one; whether another job held it before."""
        if not self.request.job.exclusive:
            yield False
            return
        with self.hold_lease(table) as (lease, waited):
            self.fence = lease.check
            try:
                yield waited
            finally:
                self.fence = unfenced

    def hold_lease(self, table: FileStoreTable) -> AbstractContextManager[tuple[Lease, bool]]:
        """See `lease.hold_lease`."""
        return hold_lease(
            table,
            job=self.request.job.name,
            run_id=self.run_id,
            env=self.around.env,
            wait_millis=self.request.lease_wait_millis,
            waiting=self.waits_for,
        )

    def waits_for(self, holder: Holder | None) -> None:
        """Say who holds the lease."""
        who = "another job" if holder is None else holder.label
        logger.warning("table=%s waiting for %s", self.request.table, who)

    def plan_in_turn(self) -> tuple[FileStoreTable, Plan]:
        """As `make_plan`, once more after the job that holds the lease if the table is corrupt.

        That job may be about to close a gap by putting back what it removed, or to rename a branch,
        whose files move one by one on object stores.
        """
        try:
            return self.make_plan()
        except CorruptTable:
            table = self.request.open(self.ledger)
            with self.hold_lease(table) if is_held(table) else nullcontext():
                return self.make_plan()

    def make_plan(self) -> tuple[FileStoreTable, Plan]:
        """The table as it is now, and what to do about it."""
        context = self.context()
        with self.phase("inspect"):
            table = self.request.open(self.ledger)
            if self.plan is None:
                self.settle_lost_runs(table)
            if self.request.job.needs_line:
                unbroken_ids(table.snapshots)
            state = self.steps.inspect(table, self.request.arguments, context)
        with self.phase("plan"):
            plan = self.steps.plan(table, state, self.request.arguments, context)
        self.plan = self.plan or plan
        return table, plan

    def settle_lost_runs(self, table: FileStoreTable) -> None:
        """Write into the history what became of earlier runs that could not say so themselves."""
        if self.around.history is not None:
            settle_lost_runs(
                self.around.history,
                table,
                warehouse=self.request.warehouse,
                branch=self.request.branch,
                at_millis=self.around.env.now_millis(),
                actor=Actor.here(),
            )

    def remember_start(self, plan: Plan) -> None:
        """Write into the history, before the first change, that this run may make changes."""
        if self.around.history is None or self.has_started:
            return
        self.has_started = True
        entry = entry_of_start(
            job=self.request.job.name,
            table=self.request.table,
            warehouse=self.request.warehouse,
            branch=self.request.branch,
            arguments=shown_arguments(self.request.arguments),
            run_id=self.run_id,
            snapshot_before=None if plan.pin is None else plan.pin.id,
            at_millis=self.around.env.now_millis(),
            actor=Actor.here(),
        )
        self.around.history.record([entry])

    def execute(self, table: FileStoreTable, plan: Plan) -> CommitConflict | StalePlan | None:
        """Do what the plan says; the conflict that makes a new plan necessary, if there was one."""
        plan.once.take(plan.table)
        with self.phase("recheck"):
            if self.request.job.by_age and not self.committed:
                check_clock(table, self.around.env)
            if _pin_is_gone(table, plan):
                return StalePlan(
                    f"snapshot {plan.pin.id if plan.pin else None} is another one than when the "
                    f"plan was made: the table was rolled back",
                    table=table.name,
                )
            plan = self.steps.recheck(table, plan)
        left_out: list[str] = []
        for batch in self.steps.batches(plan):
            context = self.context()
            with self.phase("execute"):
                result = self.steps.execute(table, plan, batch, context)
            self.around.check_supervised()
            try:
                with self.phase("commit"):
                    committed = self.steps.commit(table, plan, result, context)
            except CommitConflict as e:
                return e
            self.committed.append(committed)
            left_out += committed.conflicts
            for failed in committed.failed_units:
                self.say("unit %s failed: %s", failed.label, failed.error)
        failed_units = [f for c in self.committed for f in c.failed_units]
        if failed_units:
            # What failed comes before what was refused, which is no failure by itself.
            raise min(failed_units, key=lambda f: is_refusal(f.error)).error
        if left_out:
            return CommitConflict(
                f"a concurrent commit replaced files of {counted(len(left_out), 'buckets')} that this run "
                f"rewrote ({left_out[0]}{', ...' if len(left_out) > 1 else ''})",
                table=table.name,
            )
        return None

    def verify(self, table: FileStoreTable, plan: Plan) -> None:
        """Look whether what the commits refer to is there; CorruptTable if it is not."""
        if not any(c.snapshots for c in self.committed):
            return
        with self.phase("verify"):
            self.job_findings = self.steps.verify(table, plan, self.committed)
            if self.request.verify:
                touched = frozenset(s for c in self.committed for s in c.snapshots)
                self.findings = check_table(table, Scope.of_snapshots(touched)).findings
        errors = [f for f in self.findings if f.severity is Severity.ERROR]
        if errors:
            raise CorruptTable(
                f"verification after the commit found {len(errors)} errors, first: "
                f"{errors[0].message}",
                table=table.name,
                snapshot=errors[0].snapshot,
                file=errors[0].file,
                next_step="what was committed is there; run `caretaker verify` on the table: it "
                "names the snapshots that miss it, and what repairs it",
            )

    def context(self) -> RunContext:
        """What the steps of one attempt, or of one batch, are given."""
        return RunContext(
            run_id=self.run_id,
            commit_user=commit_user(self.request.job.name, self.run_id, self.around.env.new_uuid()),
            env=self.around.env,
            engine=self.around.engine,
            local=LocalEngine(),
            progress=self.around.progress,
            guards=self.request.guards,
            force=self.request.force,
            check_supervised=self.around.check_supervised,
            ledger=self.ledger,
            lease_wait_millis=self.request.lease_wait_millis,
            fence=self.fence,
        )

    def wait(self, attempt: int) -> None:
        """Let the others finish, a little longer each time."""
        env = self.around.env
        env.sleep_millis(
            backoff_millis(
                attempt - 1, least=_LEAST_WAIT_MILLIS, most=_MOST_WAIT_MILLIS, jitter=env.jitter()
            )
        )

    def fail(self, error: BaseException) -> None:
        """Keep the error for the report, with the table's name in it."""
        if isinstance(error, PaimonError):
            error.table = error.table or self.request.table
            self.look_up(error)
        else:
            # The report says what failed; the trace is for those who asked for a log.
            logger.info("unexpected failure", exc_info=error)
        self.error = error
        self.status = Status.of(error)

    def look_up(self, error: BaseException | None) -> None:
        """Note on a refusal whether the history knows it already."""
        if isinstance(error, UnsupportedFeature) and self.around.history is not None:
            request = self.request
            error.known = self.around.history.knows_refusal(
                error, table=request.table, warehouse=request.warehouse, actor=Actor.here()
            )

    def changes(self) -> Changes:
        """What the run changed, with the commits whose reply was lost but that were found again."""
        seen = self.ledger.changes()
        told = (s for c in self.committed for s in c.snapshots)
        snapshots = tuple(dict.fromkeys((*told, *seen.snapshots)))
        found = {f"snapshot {number}" for number in snapshots}
        unsure = tuple(name for name in seen.unsure if name not in found)
        return replace(seen, snapshots=snapshots, unsure=unsure)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside, summed over attempts and batches."""
        self.around.progress.phase(name)
        self.say("phase %s", name)
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def say(self, text: str, *values: object) -> None:
        """One event of this run in the log."""
        if logger.isEnabledFor(logging.INFO):
            place = (self.request.table, self.request.job.name, self.run_id)
            logger.info("table=%s job=%s run_id=%s %s", *place, text % values)

    def report(self) -> Report:
        """Everything so far, as a report."""
        changes = _merged([change for c in self.committed for change in c.changes])
        details: dict[str, object] = {}
        for committed in self.committed:
            details = _joined(details, committed.details)
        failed: list[FailedUnit] = [f for c in self.committed for f in c.failed_units]
        done = self.changes()
        told = tuple(s for c in self.committed for s in c.snapshots)
        return Report(
            job=self.request.job.name,
            table=self.request.table,
            warehouse=self.request.warehouse,
            branch=self.request.branch,
            run_id=self.run_id,
            status=self.status,
            engine=self.around.engine.name if "execute" in self.seconds else None,
            arguments=shown_arguments(self.request.arguments),
            plan=self.plan.to_json() if self.plan and self.status is Status.DRY_RUN else None,
            plan_lines=tuple(self.plan.lines())
            if self.plan and self.status in (Status.DRY_RUN, Status.NOTHING_TO_DO)
            else (),
            pin=self.plan.pin if self.plan else None,
            # Of a run that failed, also what a job committed before it raised.
            snapshots=told if self.error is None else done.snapshots,
            attempts=self.attempts,
            before=total([c.before for c in changes]),
            after=total([c.after for c in changes]),
            buckets=tuple(changes),
            failed_units=tuple(failed),
            seconds=dict(self.seconds),
            findings=(*(f.to_json() for f in self.findings), *self.job_findings),
            details=details,
            parts=tuple(p for c in self.committed for p in c.parts),
            changes=done,
            error=self.error,
        )


def _joined(so_far: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Details of several batches: what is counted within one is added, else the later word holds."""
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


def _pin_is_gone(table: FileStoreTable, plan: Plan) -> bool:
    """Whether another snapshot took the number of the plan's; that it expired does no harm."""
    if plan.pin is None:
        return False
    snapshot = table.snapshots.get_or_none(plan.pin.id)
    return snapshot is not None and not plan.pin.matches(snapshot)


def _merged(changes: Sequence[BucketChange]) -> list[BucketChange]:
    """One change a bucket: a bucket that was committed twice went from its first to its last."""
    by_bucket: dict[tuple[str, int], BucketChange] = {}
    for change in changes:
        key = (change.partition, change.bucket)
        first = by_bucket.get(key)
        before: Size = change.before if first is None else first.before
        by_bucket[key] = BucketChange(
            partition=change.partition, bucket=change.bucket, before=before, after=change.after
        )
    return list(by_bucket.values())
