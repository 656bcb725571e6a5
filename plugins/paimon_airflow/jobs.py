"""The way from a task into `maintenance`: what the form says, plans, runs in this process.

`maintenance` and `paimon_core` are imported by the functions, so that parsing a DAG costs nothing.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

from paimon_airflow.batches import parse_size
from paimon_airflow.results import TableResult, from_error, from_report, lost

if TYPE_CHECKING:
    from maintenance.plan import Plan
    from maintenance.policy.model import GuardPolicy, Policy, TablePolicy
    from maintenance.runner import RunRequest, Surroundings

logger = logging.getLogger(__name__)

COMMON_PARAMS = frozenset(
    {
        "warehouse",
        "tables",
        "including",
        "excluding",
        "branch",
        "dry_run",
        "force",
        "max_rewrite",
        "batch_size",
    }
)
"""Params of every DAG's form, or of some, beside the job's own arguments."""
PLANNING_THREADS = 8
"""Planning waits for storage most of the time."""
_SHOWN_LINES = 12
"""Lines of a plan that a dry run keeps for each table; the whole plan is in the task's log."""

_LONGEST_REASON = 160
"""Characters of why there is nothing to do; `caretaker plan` tells all of it."""

Where = Literal["nowhere", "in_process", "spark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the form asks for, on the storage of the settings.

    `arguments` are raw, under the job's own names.  `timezone` is what partitions' idle times and
    the like are measured in; None: the process's own.  What the policy says of a table holds where
    nothing is given here; with `schedule`, only tables take part for which it names that schedule.
    """

    job: str
    warehouse: str
    patterns: tuple[str, ...]
    including: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()
    branch: str | None = None
    arguments: Mapping[str, object]
    dry_run: bool = False
    force: bool = False
    max_rewrite: str | None = None
    batch_bytes: int
    storage: Mapping[str, str] = field(default_factory=dict)
    timezone: str | None = None
    policy: Policy | None = None
    schedule: str | None = None

    def of_table(self, table: str) -> TablePolicy:
        """What the policy says of the table; nothing without a policy."""
        from maintenance.policy.model import TablePolicy  # noqa: PLC0415 - only when a task runs

        return TablePolicy(table=table) if self.policy is None else self.policy.for_table(table)

    def includes(self, table: str, *, by_name: bool) -> bool:
        """Whether the policy lets the job run on the table; who is named by hand always may."""
        if self.policy is None:
            return True
        if self.schedule is not None:
            return self.policy.runs_on(table, self.job, self.schedule)
        return by_name or self.of_table(table).job(self.job).enabled

    def given(self, table: str) -> TableRun:
        """What one run on the table is given: the form's word, else the policy's."""
        policy = self.of_table(table)
        guards = policy.job(self.job).guards
        if self.max_rewrite:
            guards = replace(guards, max_rewrite=self.max_rewrite)
        return TableRun(
            arguments={**policy.arguments_of(self.job), **self.arguments},
            default_options=policy.options,
            guards=guards,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """What differs from table to table within one request."""

    arguments: Mapping[str, object]
    default_options: Mapping[str, str]
    guards: GuardPolicy

    def to_json(self) -> dict[str, object]:
        """The parts that say something, as a batch's runs have them."""
        parts = {
            "arguments": dict(self.arguments),
            "default_options": dict(self.default_options),
            "guards": self.guards.to_json(),
        }
        return {name: value for name, value in parts.items() if value not in (None, {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One table's plan: where it has to run, the bytes to read there, or the result it has."""

    table: str
    where: Where
    bytes: int = 0
    result: TableResult | None = None
    lines: tuple[str, ...] = ()


def request_from(
    job: str,
    params: Mapping[str, object],
    *,
    storage: Mapping[str, str],
    timezone: str | None,
    policy: str | None = None,
    schedule: str | None = None,
) -> Request:
    """The request that the DAG run's params make; InvalidArgument if they make none.

    The form's schema was checked before; what only the job knows is checked here, and that there is
    nothing else: Airflow passes on whatever `conf` of the REST API holds, so a misspelt `dry_run`
    would be a run.
    """
    from maintenance.policy.load import load_policy  # noqa: PLC0415 - only when a task runs
    from maintenance.registry import job_named  # noqa: PLC0415
    from maintenance.storage_options import options_of_environment  # noqa: PLC0415
    from paimon_core.errors import InvalidArgument

    definition = job_named(job)
    names = {
        # *Branch* of the form is where the tables are, also where a job calls its own one so.
        argument.name: (argument.name, *(a for a in argument.aliases if a not in COMMON_PARAMS))
        for argument in definition.arguments
    }
    arguments = {
        argument: params[name]
        for argument, own in names.items()
        # Another name of it comes from `conf`, and so before what the form fills in by itself.
        for name in own
        if params.get(name) is not None
    }
    accepted = {name for own in names.values() for name in own} | COMMON_PARAMS
    unknown = sorted(params.keys() - accepted)
    if unknown:
        raise InvalidArgument(
            f"{job} has no param {', '.join(map(repr, unknown))}",
            next_step=f"correct the run's conf; there are: {', '.join(sorted(accepted))}",
        )
    definition.read_arguments(arguments)
    warehouse = params.get("warehouse")
    if not warehouse:
        raise InvalidArgument(
            "no warehouse is given",
            next_step="fill in *Warehouse*, or set CARETAKER_WAREHOUSE or caretaker.toml",
        )
    try:
        # The form of a job that never needs Spark asks for neither.
        batch_bytes = parse_size(str(params.get("batch_size") or "0"))
        limit = params.get("max_rewrite")
        max_rewrite = f"{parse_size(str(limit))} b" if limit else None
    except ValueError as e:
        raise InvalidArgument(str(e)) from e
    return Request(
        job=job,
        warehouse=str(warehouse),
        patterns=_texts(params, "tables"),
        including=_texts(params, "including"),
        excluding=_texts(params, "excluding"),
        branch=cast("str | None", params.get("branch")) or None,
        arguments=arguments,
        dry_run=bool(params.get("dry_run")),
        force=bool(params.get("force")),
        max_rewrite=max_rewrite,
        batch_bytes=batch_bytes,
        storage={**options_of_environment(), **storage},
        timezone=timezone,
        policy=None if policy is None else load_policy(policy),
        schedule=schedule,
    )


def _texts(params: Mapping[str, object], name: str) -> tuple[str, ...]:
    return tuple(cast("Sequence[str] | None", params.get(name)) or ())


def list_tables(request: Request) -> list[str]:
    """The tables that the request's patterns mean, sorted; InvalidArgument if there are none.

    On a policy's schedule there may be none: its rules may be older than the tables.
    """
    from maintenance.tables import is_pattern, select_tables  # noqa: PLC0415 - when a task runs

    found: set[str] = set()
    for pattern in request.patterns:
        tables = select_tables(
            request.warehouse,
            pattern,
            including=request.including,
            excluding=request.excluding,
            file_io_options=request.storage,
            may_be_none=request.schedule is not None,
        )
        by_name = not is_pattern(pattern)
        found.update(table for table in tables if request.includes(table, by_name=by_name))
    return sorted(found)


def plan_tables(request: Request, tables: Sequence[str]) -> Iterator[Planned]:
    """The plan of each table, in the order of `tables`; a failure is a result of its table."""
    with ThreadPoolExecutor(PLANNING_THREADS, thread_name_prefix="plan") as pool:
        yield from pool.map(lambda table: _plan(request, table), tables)


def _plan(request: Request, table: str) -> Planned:
    from maintenance.runner import plan_table  # noqa: PLC0415 - only when a task runs

    try:
        asked = _run_request(request, table)
        plan = plan_table(asked, _surroundings(request))
        asked.guards.check(plan, force=request.force or request.dry_run)
    except Exception as e:  # noqa: BLE001 - the other tables go on
        return Planned(table=table, where="nowhere", result=from_error(table, e))
    if plan.is_empty:
        why = plan.kept[0].line()[:_LONGEST_REASON] if plan.kept else ""
        nothing = TableResult(table=table, outcome="nothing", summary=why)
        return Planned(table=table, where="nowhere", result=nothing)
    lines = tuple(plan.lines())
    if request.dry_run:
        return Planned(table=table, where="nowhere", result=_planned(table, lines), lines=lines)
    return Planned(
        table=table,
        where="spark" if needs_spark(plan) else "in_process",
        bytes=plan.effect.rewritten_bytes,
        lines=lines,
    )


def needs_spark(plan: Plan) -> bool:
    """Whether data is read and written again; all else is metadata, which needs no cluster."""
    return plan.effect.rewritten_files > 0


def _planned(table: str, lines: tuple[str, ...]) -> TableResult:
    return TableResult(
        table=table,
        outcome="planned",
        summary=lines[0] if lines else "",
        lines=lines[1:_SHOWN_LINES],
    )


def run_in_process(request: Request, tables: Sequence[str]) -> Iterator[TableResult]:
    """What became of each table, run one after the other without Spark."""
    from maintenance.lifeline import ends_with_parent  # noqa: PLC0415 - only when a task runs
    from maintenance.runner import run_table  # noqa: PLC0415

    around = replace(_surroundings(request), check_supervised=ends_with_parent())
    for table in tables:
        yield from_report(run_table(_run_request(request, table), around).to_json())


def _run_request(request: Request, table: str) -> RunRequest:
    from maintenance.policy.limits import guards_of  # noqa: PLC0415 - only when a task runs
    from maintenance.registry import job_named  # noqa: PLC0415
    from maintenance.runner import RunRequest  # noqa: PLC0415

    job = job_named(request.job)
    given = request.given(table)
    return RunRequest(
        job=job,
        warehouse=request.warehouse,
        table=table,
        arguments=job.read_arguments(given.arguments),
        default_options=given.default_options,
        branch=request.branch,
        file_io_options=request.storage,
        dry_run=request.dry_run,
        force=request.force,
        guards=guards_of(given.guards),
    )


def _surroundings(request: Request) -> Surroundings:
    from maintenance.environment import system_environment  # noqa: PLC0415 - when a task runs
    from maintenance.history.store import open_history  # noqa: PLC0415
    from maintenance.runner import Surroundings  # noqa: PLC0415

    return Surroundings(env=system_environment(request.timezone), history=open_history())


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun:
    """A run that an application was asked to make; `snapshot_before` is the newest before it."""

    table: str
    run_id: str
    snapshot_before: int | None


def start_runs(
    request: Request, tables: Sequence[str], *, cluster_name: str | None
) -> list[StartedRun]:
    """The runs of the next application, each with its start in this worker's history.

    Runs of earlier tries that were lost get their end there first.  `cluster_name`: given where the
    driver runs on the cluster and may outlive this task; it is the same for each try, which may
    find the application of an earlier one, and so are the runs' ids.
    """
    with ThreadPoolExecutor(PLANNING_THREADS, thread_name_prefix="start") as pool:
        return list(pool.map(lambda table: _start(request, table, cluster_name), tables))


def _start(request: Request, table: str, cluster_name: str | None) -> StartedRun:
    from maintenance.history.entry import Actor, entry_of_start  # noqa: PLC0415 - when a task runs
    from maintenance.history.lost_runs import settle_lost_runs  # noqa: PLC0415

    around = _surroundings(request)
    history, env, actor = around.history, around.env, Actor.here()
    run_id = (
        env.new_uuid()
        if cluster_name is None
        else str(uuid.uuid5(uuid.NAMESPACE_URL, f"{cluster_name}/{table}"))
    )
    before = None
    try:
        opened = _run_request(request, table).open()
        before = opened.snapshots.latest_id()
        if history is not None:
            settle_lost_runs(
                history,
                opened,
                warehouse=request.warehouse,
                branch=request.branch,
                at_millis=env.now_millis(),
                actor=actor,
            )
    except Exception as e:  # noqa: BLE001 - the run itself will say what is wrong with the table
        logger.debug("table=%s cannot be opened before its run: %s", table, e)
    if history is not None:
        entry = entry_of_start(
            job=request.job,
            table=table,
            warehouse=request.warehouse,
            branch=request.branch,
            arguments=dict(request.given(table).arguments),
            run_id=run_id,
            snapshot_before=before,
            at_millis=env.now_millis(),
            actor=actor,
            on_cluster=cluster_name is not None,
        )
        history.record([entry])
    return StartedRun(table=table, run_id=run_id, snapshot_before=before)


def batch_json(request: Request, runs: Sequence[StartedRun]) -> str:
    """The batch for the Spark application that makes these runs.  It may hold secrets."""
    batch = {
        "job": request.job,
        "warehouse": request.warehouse,
        "storage": dict(request.storage),
        "result_storage": dict(request.storage),
        "branch": request.branch,
        "timezone": request.timezone,
        "force": request.force,
        "runs": [
            {"table": run.table, "run_id": run.run_id, **request.given(run.table).to_json()}
            for run in runs
        ],
    }
    return json.dumps({k: v for k, v in batch.items() if v not in (None, {}, False)})


def lost_run(request: Request, run: StartedRun, reason: str, *, ended: bool) -> TableResult:
    """The result of a run without a report, by what the table tells; for the history too.

    `ended`: whether its driver is known to have ended, so that it can commit nothing more.
    """
    from maintenance.history.lost_runs import (  # noqa: PLC0415 - only when a driver was lost
        LostOutcome,
        LostRun,
        entry_of_lost_run,
        find_lost_run,
    )

    why, _, todo = reason.partition(" -> ")
    try:
        opened = _run_request(request, run.table).open()
        before = run.snapshot_before
        found = find_lost_run(opened, run.run_id, snapshot_before=before, ended=ended)
    except Exception as e:  # noqa: BLE001 - what became of it stays unknown
        found = LostRun(outcome=LostOutcome.UNKNOWN, why=str(e))
    around = _surroundings(request)
    if around.history is not None:
        starts = around.history.open_runs(table=run.table, warehouse=request.warehouse)
        now = around.env.now_millis()
        ends = [
            entry_of_lost_run(start, found, at_millis=now, why=why)
            for start in starts
            if start.run_id == run.run_id
        ]
        around.history.record(ends[:1])
    return lost(
        run.table,
        f"{why}; {found.line()} -> {todo or found.next_step}",
        snapshot=found.snapshots[-1] if found.snapshots else None,
    )


def read_reports(
    request: Request, folder: str, tables: Sequence[str]
) -> dict[str, Mapping[str, object]]:
    """The reports that the Spark application left in this folder, by table; for the history too."""
    from paimon_core.io.open import open_file_io

    io, root = open_file_io(folder, request.storage or None)
    reports = {}
    for table in tables:
        file = f"{root}/{table}.json"
        if io.exists(file):
            reports[table] = json.loads(io.read_bytes(file))
    _remember(reports.values())
    return reports


def _remember(reports: Iterable[Mapping[str, object]]) -> None:
    """Put the reports of an application into this worker's history: a cluster has none."""
    from maintenance.environment import system_environment  # noqa: PLC0415 - when a task runs
    from maintenance.history.entry import Actor, entries_of_report  # noqa: PLC0415
    from maintenance.history.store import open_history  # noqa: PLC0415

    history = open_history()
    if history is None:
        return
    now, actor = system_environment().now_millis(), Actor.here()
    for report in reports:
        history.record(entries_of_report(report, at_millis=now, actor=actor))
