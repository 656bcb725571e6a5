"""`caretaker schedule [PATTERN]`: one round of the scheduler."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paimon_maintenance.cli.output import Output, error_line
from paimon_maintenance.cli.policy import policy_of
from paimon_maintenance.cli.run import spark_of, write_metrics
from paimon_maintenance.cli.target import environment_of, storage_of, tables_of, warehouse_of
from paimon_maintenance.engines.gate import Gate, usable_cores
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.health.score import colors
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of, is_refusal
from paimon_maintenance.job.text import counted
from paimon_maintenance.policy.engine_of_config import engine_of_config
from paimon_maintenance.policy.model import EnginePolicy, Policy

if TYPE_CHECKING:
    from paimon_maintenance.schedule.round import Result, Round

_MOST_LEFT: Final = 20


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Run one round; NOTHING_TO_DO if no job is worth running."""
    from paimon_maintenance.history.need_store import NeedStore  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.history.store import needed_history  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.run.metrics import Metrics  # noqa: PLC0415 - fast start
    from paimon_maintenance.run.runner import RunServices  # noqa: PLC0415 - fast start
    from paimon_maintenance.schedule.round import run_round  # noqa: PLC0415 - fast start
    from paimon_maintenance.schedule.scope import Scope  # noqa: PLC0415 - fast start

    policy = policy_of(args) or Policy(file="")
    history = needed_history("the scheduler")
    budget = policy.budget
    if args.budget_seconds is not None:
        budget = replace(budget, seconds=float(args.budget_seconds))
    scope = Scope(
        warehouse=warehouse_of(args),
        tables=tuple(tables_of(args)),
        branch=args.branch,
        storage=storage_of(args),
        engine=EnginePolicy(engine=args.engine),
        default_engine=engine_of_config(),
    )
    store = NeedStore(history, scope.warehouse, scope.branch or "main")
    metrics = Metrics()
    spark = spark_of(args)
    services = RunServices(
        engine=LocalEngine(gate=Gate(usable_cores())),
        spark=spark,
        env=environment_of(args),
        metrics=metrics,
        history=history,
    )
    try:
        found = run_round(
            scope,
            policy,
            services,
            store,
            budget=budget,
            dry_run=args.dry_run,
            on_result=lambda result: None if output.json else output.note(_result_line(result)),
        )
    finally:
        spark.close()
        if args.metrics_file:
            write_metrics(metrics, args.metrics_file, output, scope.warehouse)
    for name, error in found.failed.items():
        output.note(f"{name}: {error_line(error)}")
    code = _code(found)
    output.result(_shown(found, code), _lines(found))
    return code


def _code(found: Round) -> ExitCode:
    # A table that this version does not support is listed, and fails no round.
    codes = [exit_code_of(e) for e in found.failed.values() if not is_refusal(e)]
    codes += [r.report.exit_code for r in found.results]
    if not codes:
        # A dry run has decisions and no results.
        runs = any(d.action == "run" for d in found.decisions)
        return ExitCode.SUCCESS if runs else ExitCode.NOTHING_TO_DO
    return combined(codes)


def _shown(found: Round, code: ExitCode) -> dict[str, object]:
    return {
        "round": found.id,
        "exit_code": int(code),
        "looked_at": found.looked,
        "measured": found.measured,
        "decisions": [
            {
                "table": d.table,
                "job": d.job,
                "action": str(d.action),
                "reason": d.reason,
                "rank": round(d.rank, 6),
                "predicted_seconds": round(d.seconds, 2),
                "arguments": {} if d.candidate is None else dict(d.candidate.arguments),
            }
            for d in found.decisions
        ],
        "results": [
            {
                "table": r.decision.table,
                "job": r.decision.job,
                "run_id": r.report.run_id,
                "status": str(r.report.status),
                "seconds": round(r.seconds, 2),
                "prediction_error": round(r.error, 3),
            }
            for r in found.results
        ],
    }


def _lines(found: Round) -> Iterator[str]:
    counts = colors(found.health.values())
    failed = f", {len(found.failed)} cannot be measured" if found.failed else ""
    yield (
        f"{counted(len(found.health), 'tables')}: {counts['green']} green, {counts['yellow']} yellow, "
        f"{counts['red']} red; {found.measured} measured{failed}"
    )
    left = 0
    for decision in found.decisions:
        if decision.action == "no":
            continue
        if decision.action == "later":
            left += 1
            if left > _MOST_LEFT:
                continue
        took = f" ({decision.seconds:.1f} s)" if decision.action == "run" else ""
        yield f"  {decision.action:7} {decision.table} {decision.job}{took}: {decision.reason}"
    if left > _MOST_LEFT:
        yield f"  and {counted(left - _MOST_LEFT, 'more jobs')} later"


def _result_line(result: Result) -> str:
    report = result.report
    line = f"{result.decision.table} {result.decision.job}: {report.status}, {result.seconds:.1f} s"
    if report.why:
        return f"{line}, {report.why}"
    return line if report.error is None else f"{line}, {error_line(report.error)}"
