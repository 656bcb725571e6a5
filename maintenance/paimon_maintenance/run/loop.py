"""The loop that every job runs in.

    inspect -> plan -> guards -> lease -> re-check -> execute -> commit -> verify
       ^                                                        |
       +------ a concurrent commit won, or more is due now -----+

`run_job` drives one job on one table and returns an `Outcome`.  `paimon_maintenance.run.runner`
adds history, metrics and the report; `maintain` calls `run_job` for each of its steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from paimon_core.commit.same_table import check_same_table, created_again, explained
from paimon_core.errors import CommitConflict, CommitRemoved, CorruptTable, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.references import reference_names
from paimon_core.retention.store_clock import check_clock, check_not_set, clock_lead
from paimon_core.retry import backoff_millis
from paimon_core.snapshot.expiry_beside import ExpiryBeside
from paimon_core.snapshot.line import unbroken_ids
from paimon_maintenance.job.commit_user import commit_user
from paimon_maintenance.job.engine import Engine
from paimon_maintenance.job.exit_codes import is_refusal
from paimon_maintenance.job.job import Committed, Job, RunContext, Steps, unfenced
from paimon_maintenance.job.plan import Plan
from paimon_maintenance.job.report import Status
from paimon_maintenance.job.text import counted
from paimon_maintenance.storage.lease import Holder, Lease, hold_lease, is_held

logger = logging.getLogger(__name__)

MAX_ROUNDS: Final = 5
"""How many plans one run executes at most, if more work is due after each (`Plan.goes_on`)."""
_MIN_WAIT_MILLIS: Final = 200
_MAX_WAIT_MILLIS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended on one table, and everything it did up to then.

    `first_plan` is the plan that the run started from, `plan` the last one; both are None if no
    plan could be made.  `findings` come from the job's own verification.  `seconds` maps phases to
    seconds, summed over attempts and batches.  `error` is set if the job failed, and for a dry run
    whose plan has a `failure`.
    """

    status: Status
    first_plan: Plan | None = None
    plan: Plan | None = None
    committed: tuple[Committed, ...] = ()
    findings: tuple[Mapping[str, object], ...] = ()
    attempts: int = 1
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: BaseException | None = None

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The snapshots that the job committed, oldest first."""
        return _snapshots(self.committed)

    def failure(self) -> Exception | None:
        """The error as a value; an error that must end the process is raised again."""
        if self.error is None or isinstance(self.error, Exception):
            return self.error
        raise self.error


def _no_start(_: Plan) -> None:
    """Record nothing."""


def _same_engine(_: Plan) -> None:
    """Keep the engine of the context."""


def _no_check(_: FileStoreTable, __: frozenset[int]) -> None:
    """Check nothing."""


def run_job(
    table: str,
    open_table: Callable[[], FileStoreTable],
    job: Job,
    arguments: Mapping[str, object],
    context: RunContext,
    *,
    plan: Plan | None = None,
    dry_run: bool = False,
    before_changes: Callable[[Plan], None] = _no_start,
    choose_engine: Callable[[Plan], Engine | None] = _same_engine,
    check_commits: Callable[[FileStoreTable, frozenset[int]], None] = _no_check,
    opened: FileStoreTable | None = None,
) -> Outcome:
    """Run the job until nothing is left to do or it fails; with `dry_run`, stop after the plan.

    `table` is the name for logs; `open_table` returns the table under its newest schema and is
    called before each plan.  `plan`: one made earlier, to start from.  `before_changes` is called
    once, with the plan that is about to make the first change.  `choose_engine` returns the engine
    for each plan that is executed; None: that of the context.  `check_commits` is called at the end
    with the ids of the snapshots that were committed, and raises if they are damaged.  `opened` is
    the table as the caller has seen it (default: as this run first sees it).

    Raises nothing: every error, also KeyboardInterrupt, is in the outcome.  Use `Outcome.failure`.
    """
    loop = _Loop(table, open_table, job, arguments, context, plan, choose_engine, opened)
    error: BaseException | None = None
    try:
        status = loop.run(
            dry_run=dry_run, before_changes=before_changes, check_commits=check_commits
        )
        if status is Status.DRY_RUN and loop.plan is not None:
            error = loop.plan.failure
    except BaseException as e:  # noqa: BLE001 - what was done so far must be reported
        error = loop.explained(e)
        status = Status.of(error)
    return Outcome(
        status=status,
        first_plan=loop.first_plan,
        plan=loop.plan,
        committed=tuple(loop.committed),
        findings=tuple(loop.findings),
        attempts=loop.attempts,
        seconds=dict(loop.seconds),
        error=error,
    )


class _Loop:
    """A run in progress, and what it has recorded for its outcome so far."""

    def __init__(
        self,
        table: str,
        open_table: Callable[[], FileStoreTable],
        job: Job,
        arguments: Mapping[str, object],
        context: RunContext,
        given: Plan | None,
        choose_engine: Callable[[Plan], Engine | None],
        opened: FileStoreTable | None,
    ) -> None:
        self.table = table
        self._open = open_table
        self.job = job
        self.arguments = arguments
        self.context = context
        self.given = given
        self.choose_engine = choose_engine
        self.fence: Callable[[], None] = unfenced
        self.is_dry_run = False
        self.references: frozenset[object] = frozenset()
        """What held files when the last plan was made; empty if that does not matter."""
        self.clock_lead = clock_lead(context.env)
        """The machine's clock before the first plan: if it is set later,
        ages in plans are wrong."""
        self.first_plan: Plan | None = None
        self.plan: Plan | None = None
        self.opened = opened
        """The table as the caller or the run first saw it."""
        self.attempts = 1
        self.committed: list[Committed] = []
        self.findings: list[Mapping[str, object]] = []
        self.seconds: dict[str, float] = {}

    def run(
        self,
        *,
        dry_run: bool,
        before_changes: Callable[[Plan], None],
        check_commits: Callable[[FileStoreTable, frozenset[int]], None],
    ) -> Status:
        """Run the whole loop and return the status; errors of the steps are raised."""
        steps: Steps[Any, Any, Any, Any] = self.job.load()
        self.is_dry_run = dry_run
        rounds = 1
        has_started = False
        while True:
            # A dry run changes nothing, so it takes no lease either.
            table, plan = self.next_plan(steps) if dry_run else self.plan_in_turn(steps)
            status = self.ends_with(plan, dry_run=dry_run)
            if status is not None:
                break
            with self.lease(table) as waited:
                if waited or self.has_lost_references(table):
                    table, plan = self.next_plan(steps)  # another job changed the table
                    status = self.ends_with(plan, dry_run=dry_run)
                    if status is not None:
                        break
                if not has_started:
                    has_started = True
                    before_changes(plan)
                conflict = self.execute(steps, table, plan)
            if conflict is None:
                if not plan.goes_on:
                    status = Status.SUCCESS
                    break
                if rounds >= MAX_ROUNDS:
                    self.say("still more work is due after %s plans; the next run does it", rounds)
                    status = Status.SUCCESS
                    break
                rounds += 1
                continue
            if not self.job.replans or self.attempts >= self.context.max_attempts:
                raise conflict
            self.say("a concurrent commit won (%s); making a new plan", conflict)
            self.wait()
            self.attempts += 1
        if status is not Status.DRY_RUN:
            self.verify(steps, table, plan, check_commits)
        return status

    def plan_in_turn(self, steps: Steps[Any, Any, Any, Any]) -> tuple[FileStoreTable, Plan]:
        """Like `next_plan`.

        If the table is corrupt, waits for the job with the lease and tries again.  That job may be
        restoring snapshots to close a gap, or renaming a branch, whose files object stores move one
        by one.  As long as writers let snapshots expire while they are read, there are more tries.
        """
        turn: AbstractContextManager[object] = nullcontext()
        expiry = ExpiryBeside()
        while True:
            try:
                with turn:
                    return self.next_plan(steps)
            except CorruptTable:
                table = self.open_table()
                if not expiry.may_explain(table.snapshots):
                    raise
                turn = self.hold_lease(table) if is_held(table) else nullcontext()

    def next_plan(self, steps: Steps[Any, Any, Any, Any]) -> tuple[FileStoreTable, Plan]:
        """The current table, and a plan for it.

        The first plan is the given one, if there is one.
        """
        plan, self.given = self.given, None
        if plan is not None:
            table = self.open_table()
        else:
            context = self.fresh_context()
            with self.phase("inspect"):
                table = self.open_table()
                if self.job.exclusive and self.job.retry_safe and not self.is_dry_run:
                    self.references = reference_names(table)
                if self.job.needs_line:
                    unbroken_ids(table.snapshots)
                state = steps.inspect(table, self.arguments, context)
            with self.phase("plan"):
                plan = steps.plan(table, state, self.arguments, context)
        self.first_plan = self.first_plan or plan
        self.plan = plan
        return table, plan

    def open_table(self) -> FileStoreTable:
        """The table under its newest schema.

        TableGone if it is not the one that the run began with.
        """
        table = self._open()
        if self.opened is None:
            self.opened = table
        elif table.root != self.opened.root:
            raise created_again(table.name)
        else:
            check_same_table(self.opened)
        return table

    def explained(self, error: BaseException) -> BaseException:
        """The error, or TableGone if the table is gone, or another one has its name."""
        if self.opened is None:
            return error
        return explained(error, self.opened, self._open, self.job.name)

    def has_lost_references(self, table: FileStoreTable) -> bool:
        """Whether history was removed since the plan was made, and a new plan does no harm.

        Files that this job and the removed references held are now its garbage alone: by the old
        plan, each of two jobs would leave them to the other.  A new plan of a rollback could remove
        commits that the old one did not know.
        """
        return bool(self.references) and not self.references <= reference_names(table)

    def ends_with(self, plan: Plan, *, dry_run: bool) -> Status | None:
        """How the run ends with this plan, None if the plan must be executed.

        GuardTripped if the plan does too much.
        """
        if plan.is_empty:
            return Status.SUCCESS if _snapshots(self.committed) else Status.NOTHING_TO_DO
        if dry_run:
            return Status.DRY_RUN
        if self.context.guards is not None:
            self.context.guards.check(plan, force=self.context.force)
        return None

    @contextmanager
    def lease(self, table: FileStoreTable) -> Iterator[bool]:
        """Hold the lease if the job needs one; whether another job held it before."""
        if not self.job.exclusive:
            with self.fenced(partial(check_same_table, table)):
                yield False
            return
        with self.hold_lease(table) as (lease, waited), self.fenced(lease.check):
            yield waited

    @contextmanager
    def fenced(self, fence: Callable[[], None]) -> Iterator[None]:
        """Give the steps this fence; a lease does not survive its table either."""
        self.fence = fence
        try:
            yield
        finally:
            self.fence = unfenced

    def hold_lease(self, table: FileStoreTable) -> AbstractContextManager[tuple[Lease, bool]]:
        """See `lease.hold_lease`."""
        return hold_lease(
            table,
            job=self.job.name,
            run_id=self.context.run_id,
            env=self.context.env,
            wait_millis=self.context.lease_wait_millis,
            waiting=self.waits_for,
        )

    def waits_for(self, holder: Holder | None) -> None:
        """Say who holds the lease."""
        who = "another job" if holder is None else holder.label
        logger.warning("table=%s waiting for %s", self.table, who, extra={"table": self.table})

    def execute(
        self, steps: Steps[Any, Any, Any, Any], table: FileStoreTable, plan: Plan
    ) -> CommitConflict | CommitRemoved | StalePlan | None:
        """Do what the plan says; the conflict that makes a new plan necessary, if there was one."""
        plan.once.take(plan.table)
        with self.phase("recheck"):
            check_same_table(table)
            if self.job.by_age:
                check_not_set(table, self.context.env, self.clock_lead)
                if not self.committed:
                    check_clock(table, self.context.env)
            if pin_is_gone(table, plan):
                return StalePlan(
                    f"snapshot {plan.pin.id if plan.pin else None} was replaced after the "
                    f"plan was made: the table was rolled back",
                    table=table.name,
                )
            plan = steps.recheck(table, plan)
        self.context = replace(self.context, engine=self.choose_engine(plan) or self.context.engine)
        left_out: list[str] = []
        for number, batch in enumerate(steps.batches(plan)):
            context = self.fresh_context()
            if number:
                self.fence()
            with self.phase("execute"):
                result = steps.execute(table, plan, batch, context)
            context.check_supervised()
            try:
                with self.phase("commit"):
                    committed = steps.commit(table, plan, result, context)
            except (CommitConflict, CommitRemoved) as e:
                return e
            self.committed.append(committed)
            left_out += committed.conflicts
            for failed in committed.failed_units:
                self.say("unit %s failed: %s", failed.label, failed.error)
        failed_units = [f for c in self.committed for f in c.failed_units]
        if failed_units:
            # A failure goes before a refusal, which alone would not fail the run.
            raise min(failed_units, key=lambda f: is_refusal(f.error)).error
        if left_out:
            return CommitConflict(
                f"a concurrent commit replaced files of {counted(len(left_out), 'buckets')} that this run "
                f"rewrote ({left_out[0]}{', ...' if len(left_out) > 1 else ''})",
                table=table.name,
            )
        return None

    def verify(
        self,
        steps: Steps[Any, Any, Any, Any],
        table: FileStoreTable,
        plan: Plan,
        check_commits: Callable[[FileStoreTable, frozenset[int]], None],
    ) -> None:
        """Look whether what the commits refer to is there."""
        snapshots = frozenset(_snapshots(self.committed))
        if snapshots:
            with self.phase("verify"):
                self.findings = steps.verify(table, plan, self.committed)
                check_commits(table, snapshots)

    def fresh_context(self) -> RunContext:
        """What the steps of one attempt, or of one batch, are given."""
        context = self.context
        user = commit_user(self.job.name, context.run_id, context.env.new_uuid())
        return replace(context, commit_user=user, fence=self.fence, first_plan=self.first_plan)

    def wait(self) -> None:
        """Let the others finish, a little longer after each attempt."""
        env = self.context.env
        env.sleep_millis(
            backoff_millis(
                self.attempts - 1,
                least=_MIN_WAIT_MILLIS,
                most=_MAX_WAIT_MILLIS,
                jitter=env.jitter(),
            )
        )

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside, summed over attempts and batches."""
        self.context.progress.phase(name)
        self.say("phase %s", name, phase=name)
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def say(self, text: str, *values: object, **fields: object) -> None:
        """One event of this run in the log; `fields` are more of `run.logs.FIELDS`."""
        if logger.isEnabledFor(logging.INFO):
            place = {"table": self.table, "job": self.job.name, "run_id": self.context.run_id}
            prefix = " ".join(f"{name}={value}" for name, value in place.items())
            logger.info("%s %s", prefix, text % values, extra={**place, **fields})


def pin_is_gone(table: FileStoreTable, plan: Plan) -> bool:
    """Whether another snapshot took the number of the plan's; that it expired does no harm."""
    if plan.pin is None:
        return False
    snapshot = table.snapshots.get_or_none(plan.pin.id)
    return snapshot is not None and not plan.pin.matches(snapshot)


def _snapshots(committed: list[Committed] | tuple[Committed, ...]) -> tuple[int, ...]:
    return tuple(s for c in committed for s in c.snapshots)
