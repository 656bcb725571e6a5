"""Calls `maintenance` from a task: list tables, plan them, run them in this process.

`maintenance` and `paimon_core` are imported by the functions, so that parsing a DAG costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from paimon_airflow.tasks.from_reports import from_error, from_report
from paimon_airflow.tasks.job_request import JobRequest
from paimon_airflow.tasks.results import TableResult

if TYPE_CHECKING:
    from paimon_maintenance.job.engine_choice import EngineChoice
    from paimon_maintenance.job.plan import Plan
    from paimon_maintenance.run.runner import RunServices

PLANNING_THREADS = 8
"""Planning waits for storage most of the time."""
_SHOWN_LINES = 12
"""Lines of a plan that a dry run keeps for each table; the whole plan is in the task's log."""

_LONGEST_REASON = 160
"""Maximum length of the reason for nothing to do; `caretaker plan` prints all of it."""

Where = Literal["nowhere", "in_process", "spark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One table's plan: where it runs and why, the bytes to read there, or the result it has.

    `rule` is the part of `engine` that does not depend on the plan.
    """

    table: str
    where: Where
    bytes: int = 0
    engine: str = ""
    rule: str = ""
    result: TableResult | None = None
    lines: tuple[str, ...] = ()


def list_tables(request: JobRequest) -> list[str]:
    """The tables that match the request's patterns, sorted; InvalidArgument if none does.

    A policy's schedule may match none: its rules may be older than the tables.
    """
    from paimon_maintenance.rules.tables import is_pattern, select_tables  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.storage.catalogs import catalog_of  # noqa: PLC0415 - as above

    found: set[str] = set()
    for pattern in request.patterns:
        tables = select_tables(
            lambda: catalog_of(request.warehouse, request.storage),
            pattern,
            including=request.including,
            excluding=request.excluding,
            where=request.warehouse,
            may_be_none=request.schedule is not None,
        )
        by_name = not is_pattern(pattern)
        found.update(table for table in tables if request.includes(table, by_name=by_name))
    return sorted(found)


def plan_tables(request: JobRequest, tables: Sequence[str]) -> Iterator[Planned]:
    """The plan of each table, in the order of `tables`; a failure is a result of its table."""
    services = request.services()
    with ThreadPoolExecutor(PLANNING_THREADS, thread_name_prefix="plan") as pool:
        yield from pool.map(lambda table: _plan(request, table, services), tables)


def _plan(request: JobRequest, table: str, services: RunServices) -> Planned:
    from paimon_maintenance.run.runner import plan_table  # noqa: PLC0415 - only when a task runs

    try:
        asked = request.for_table(table)
        plan = plan_table(asked, services)
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
    choice = asked.engine.choose(plan.effect)
    return Planned(
        table=table,
        where="spark" if needs_spark(plan, choice) else "in_process",
        bytes=plan.effect.rewritten_bytes,
        engine=choice.text,
        rule=asked.engine.text,
        lines=lines,
    )


def _failed_plan(request: JobRequest, table: str, error: Exception) -> TableResult:
    from paimon_maintenance.job.exit_codes import OnRefused  # noqa: PLC0415 - only when a task runs

    try:
        on_refused = request.of_table(table).job(request.job).on_refused
    except Exception:  # noqa: BLE001 - without a readable policy nothing is skipped
        on_refused = OnRefused.FAIL
    return from_error(table, error, on_refused=on_refused)


def needs_spark(plan: Plan, choice: EngineChoice) -> bool:
    """Whether Spark rewrites the data of the plan; changes of metadata alone need no cluster."""
    return choice.engine == "spark" and plan.effect.rewritten_files > 0


def _planned(table: str, lines: tuple[str, ...]) -> TableResult:
    return TableResult(
        table=table,
        outcome="planned",
        summary=lines[0] if lines else "",
        lines=lines[1:_SHOWN_LINES],
    )


def run_in_process(request: JobRequest, tables: Sequence[str]) -> Iterator[TableResult]:
    """The result of each table as soon as its run in this process ends; several run at once."""
    from paimon_maintenance.engines.gate import Gate, usable_cores  # noqa: PLC0415 - only when a task runs
    from paimon_maintenance.engines.process import prepare_process  # noqa: PLC0415

    prepare_process()  # before the next imports load Arrow
    from paimon_maintenance.engines.lifeline import ends_with_parent  # noqa: PLC0415
    from paimon_maintenance.engines.local import LocalEngine  # noqa: PLC0415
    from paimon_maintenance.run.many import run_tables  # noqa: PLC0415

    services = replace(
        request.services(),
        engine=LocalEngine(gate=Gate(usable_cores())),
        check_supervised=ends_with_parent(),
    )
    for _, report in run_tables([request.for_table(table) for table in tables], services):
        yield result_of(request, report.to_json())


def result_of(request: JobRequest, report: Mapping[str, object]) -> TableResult:
    """The result from the report of a table's run, with the policy's rule for refusals."""
    table = request.of_table(str(report["table"]))
    return from_report(report, on_refused=table.job(request.job).on_refused)
