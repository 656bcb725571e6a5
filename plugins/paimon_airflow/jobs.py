"""The way from a task into `maintenance`: what the form says, plans, runs in this process.

`maintenance` and `paimon_core` are imported by the functions, so that parsing a DAG costs nothing.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

from paimon_airflow.batches import parse_size
from paimon_airflow.results import TableResult, from_error, from_report, lost

if TYPE_CHECKING:
    from paimon_maintenance.history.store import SqlHistory
    from paimon_maintenance.job.plan import Plan
    from paimon_maintenance.policy.model import Policy, TablePolicy
    from paimon_maintenance.policy.resolve import Resolved
    from paimon_maintenance.run.runner import RunRequest, RunServices

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

    `arguments` are what was typed, raw, under the job's own names; `defaults` those of the DAG.
    Whose word counts for a table: see `paimon_maintenance.policy.resolve`.  `timezone` is what partitions' idle
    times and the like are measured in; None: the process's own.  With `schedule`, only tables take
    part for which the policy names that schedule.
    """

    job: str
    warehouse: str
    patterns: tuple[str, ...]
    including: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()
    branch: str | None = None
    arguments: Mapping[str, object]
    defaults: Mapping[str, object] = field(default_factory=dict)
    dry_run: bool = False
    force: bool = False
    max_rewrite: str | None = None
    default_max_rewrite: str | None = None
    batch_bytes: int
    storage: Mapping[str, str] = field(default_factory=dict)
    timezone: str | None = None
    policy: Policy | None = None
    schedule: str | None = None

    def of_table(self, table: str) -> TablePolicy:
        """What the policy says of the table; nothing without a policy."""
        from paimon_maintenance.policy.model import TablePolicy  # noqa: PLC0415 - only when a task runs

        return TablePolicy(table=table) if self.policy is None else self.policy.for_table(table)

    def includes(self, table: str, *, by_name: bool) -> bool:
        """Whether the policy lets the job run on the table; who is named by hand always may."""
        if self.policy is None:
            return True
        if self.schedule is not None:
            return self.policy.runs_on(table, self.job, self.schedule)
        return by_name or self.of_table(table).job(self.job).enabled

    def resolved(self, table: str) -> Resolved:
        """What one run on the table is given."""
        from paimon_maintenance.policy.model import GuardPolicy  # noqa: PLC0415 - only when a task runs
        from paimon_maintenance.policy.resolve import resolve  # noqa: PLC0415
        from paimon_maintenance.registry import job_named  # noqa: PLC0415

        return resolve(
            job_named(self.job),
            self.of_table(table),
            typed=self.arguments,
            defaults=self.defaults,
            limits=GuardPolicy(max_rewrite=self.max_rewrite),
            default_limits=GuardPolicy(max_rewrite=self.default_max_rewrite),
        )


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
    defaults: Mapping[str, object] | None = None,
) -> Request:
    """The request that the DAG run's params make; InvalidArgument if they make none.

    A param that holds nothing was not typed: the form's arguments are empty until somebody fills
    them in.  `defaults` are those of the DAG.

    The form's schema was checked before; what only the job knows is checked here, and that there is
    nothing else: Airflow passes on whatever `conf` of the REST API holds, so a misspelt `dry_run`
    would be a run.
    """
    from paimon_core.errors import InvalidArgument
    from paimon_maintenance.policy.load import load_policy  # noqa: PLC0415 - only when a task runs
    from paimon_maintenance.policy.resolve import is_given  # noqa: PLC0415
    from paimon_maintenance.registry import job_named  # noqa: PLC0415
    from paimon_maintenance.storage.options import options_of_environment  # noqa: PLC0415

    definition = job_named(job)
    names = {
        # *Branch* of the form is where the tables are, also where a job calls its own one so.
        argument.name: (argument.name, *(a for a in argument.aliases if a not in COMMON_PARAMS))
        for argument in definition.arguments
    }
    arguments = {
        argument: params[name]
        for argument, spellings in names.items()
        for name in spellings
        if is_given(params.get(name))
    }
    accepted = {name for known in names.values() for name in known} | COMMON_PARAMS
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
        max_rewrite = _limit(params.get("max_rewrite"))
        own = dict(defaults or {})
        default_max_rewrite = _limit(own.pop("max_rewrite", None))
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
        defaults=own,
        dry_run=bool(params.get("dry_run")),
        force=bool(params.get("force")),
        max_rewrite=max_rewrite,
        default_max_rewrite=default_max_rewrite,
        batch_bytes=batch_bytes,
        storage={**options_of_environment(), **storage},
        timezone=timezone,
        policy=None if policy is None else load_policy(policy),
        schedule=schedule,
    )


def _limit(text: object) -> str | None:
    """The size in the core's spelling, which knows no fractions."""
    return f"{parse_size(str(text))} b" if text else None


def _texts(params: Mapping[str, object], name: str) -> tuple[str, ...]:
    return tuple(cast("Sequence[str] | None", params.get(name)) or ())


def list_tables(request: Request) -> list[str]:
    """The tables that the request's patterns mean, sorted; InvalidArgument if there are none.

    On a policy's schedule there may be none: its rules may be older than the tables.
    """
    from paimon_maintenance.rules.tables import is_pattern, select_tables  # noqa: PLC0415 - when a task runs

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
    from paimon_maintenance.run.runner import plan_table  # noqa: PLC0415 - only when a task runs

    try:
        asked = _run_request(request, table)
        plan = plan_table(asked, _services(request))
        asked.guards.check(plan, force=request.force or request.dry_run)
    except Exception as e:  # noqa: BLE001 - the other tables go on
        return Planned(table=table, where="nowhere", result=_failed_plan(request, table, e))
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


def _failed_plan(request: Request, table: str, error: Exception) -> TableResult:
    from paimon_maintenance.job.exit_codes import OnRefused  # noqa: PLC0415 - only when a task runs

    try:
        on_refused = request.of_table(table).job(request.job).on_refused
    except Exception:  # noqa: BLE001 - a policy that cannot be asked skips nothing
        on_refused = OnRefused.FAIL
    return from_error(table, error, on_refused=on_refused)


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
    from paimon_maintenance.engines.lifeline import ends_with_parent  # noqa: PLC0415 - only when a task runs
    from paimon_maintenance.run.runner import run_table  # noqa: PLC0415

    services = replace(_services(request), check_supervised=ends_with_parent())
    for table in tables:
        yield result_of(request, run_table(_run_request(request, table), services).to_json())


def result_of(request: Request, report: Mapping[str, object]) -> TableResult:
    """The result that the report of a table's run makes, as the policy counts refusals."""
    table = request.of_table(str(report["table"]))
    return from_report(report, on_refused=table.job(request.job).on_refused)


def _run_request(request: Request, table: str) -> RunRequest:
    return request.resolved(table).request(
        warehouse=request.warehouse,
        table=table,
        branch=request.branch,
        storage=request.storage,
        dry_run=request.dry_run,
        force=request.force,
    )


def _services(request: Request) -> RunServices:
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415
    from paimon_maintenance.run.environment import system_environment  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.run.runner import RunServices  # noqa: PLC0415

    return RunServices(env=system_environment(request.timezone), history=open_history())


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
    from paimon_maintenance.history.entry import Actor, entry_of_start  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.history.lost_runs import close_lost_runs  # noqa: PLC0415

    services = _services(request)
    history, env, actor = services.history, services.env, Actor.here()
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
            close_lost_runs(
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
            arguments=dict(request.resolved(table).raw),
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
            {
                "table": run.table,
                "run_id": run.run_id,
                **_run_on_spark(request.resolved(run.table)),
            }
            for run in runs
        ],
    }
    return json.dumps({k: v for k, v in batch.items() if v not in (None, {}, False)})


def lost_run(request: Request, run: StartedRun, reason: str, *, ended: bool) -> TableResult:
    """The result of a run without a report, by what the table tells; for the history too.

    `ended`: whether its driver is known to have ended, so that it can commit nothing more.
    """
    from paimon_maintenance.history.lost_runs import (  # noqa: PLC0415 - only when a driver was lost
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
    services = _services(request)
    if services.history is not None:
        starts = services.history.open_runs(table=run.table, warehouse=request.warehouse)
        now = services.env.now_millis()
        ends = [
            entry_of_lost_run(start, found, at_millis=now, why=why)
            for start in starts
            if start.run_id == run.run_id
        ]
        services.history.record(ends[:1])
    return lost(
        run.table,
        f"{why}; {found.line()} -> {todo or found.next_step}",
        snapshot=found.snapshots[-1] if found.snapshots else None,
    )


def _run_on_spark(given: Resolved) -> dict[str, object]:
    """What is special about one table's run, as the Spark application takes it."""
    parts = {
        "arguments": dict(given.raw),
        "default_options": dict(given.default_options),
        "guards": given.limits.to_json(),
    }
    return {name: value for name, value in parts.items() if value not in (None, {})}


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
    return _remembered(reports)


def _remembered(
    reports: dict[str, Mapping[str, object]],
) -> dict[str, Mapping[str, object]]:
    """Put the reports of an application into this worker's history: a cluster has none.

    What comes back says of refusals whether the history knew them.
    """
    from paimon_maintenance.history.entry import Actor, entries_of_report  # noqa: PLC0415
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415
    from paimon_maintenance.run.environment import system_environment  # noqa: PLC0415 - when a task runs

    history = open_history()
    if history is None:
        return reports
    now, actor = system_environment().now_millis(), Actor.here()
    looked_up = {table: _looked_up(history, report) for table, report in reports.items()}
    for report in looked_up.values():
        history.record(entries_of_report(report, at_millis=now, actor=actor))
    return looked_up


def _looked_up(history: SqlHistory, report: Mapping[str, object]) -> Mapping[str, object]:
    from paimon_core.errors import UnsupportedFeature
    from paimon_maintenance.history.entry import Actor  # noqa: PLC0415 - when a task runs

    error = report.get("error")
    if report.get("status") != "refused" or not isinstance(error, Mapping):
        return report
    known = history.knows_refusal(
        UnsupportedFeature(str(error.get("feature")), str(error.get("message"))),
        table=str(report["table"]),
        warehouse=str(report["warehouse"]),
        actor=Actor.here(),
    )
    return {**report, "error": {**error, "known": known}}
