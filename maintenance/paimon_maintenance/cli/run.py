"""`caretaker run JOB TABLE`: plans, executes, commits, verifies and reports."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from paimon_maintenance.cli.options import MASTER_VARIABLE
from paimon_maintenance.cli.output import Output, error_line
from paimon_maintenance.cli.progress import progress_for
from paimon_maintenance.cli.request import ended, environment_of, requests_of
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine import Engine
from paimon_maintenance.job.exit_codes import ExitCode, combined
from paimon_maintenance.job.job import DEFAULT_MAX_ATTEMPTS, Progress
from paimon_maintenance.registry import job_named
from paimon_maintenance.rules.tables import is_pattern

if TYPE_CHECKING:
    from paimon_maintenance.job.report import Report
    from paimon_maintenance.run.metrics import Metrics


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Run the job on each table; a failure on one table does not stop the others."""
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415 - fast start
    from paimon_maintenance.run.metrics import Metrics  # noqa: PLC0415 - fast start
    from paimon_maintenance.run.runner import RunServices, run_table  # noqa: PLC0415 - fast start

    job = job_named(args.job)
    requests = list(
        requests_of(
            job,
            args,
            output,
            dry_run=args.dry_run,
            force=args.force,
            verify=not args.no_verify,
            max_attempts=args.max_attempts or DEFAULT_MAX_ATTEMPTS,
        )
    )
    many = is_pattern(args.table)
    metrics = Metrics()
    env = environment_of(args)
    engine = engine_of(args)
    history = open_history()
    reports: list[Report] = []
    codes: list[ExitCode | None] = []
    try:
        for request in requests:
            table = request.table
            engine = _at_most(engine, request.arguments.get("parallelism"))
            with progress_for(table) as bars:
                progress: Progress = bars
                report = run_table(
                    request,
                    RunServices(
                        engine=engine, env=env, progress=progress, metrics=metrics, history=history
                    ),
                )
            reports.append(report)
            codes.append(ended(request, report.error, report.exit_code))
            for warning in report.warnings:
                output.note(f"warning: {warning}")
            if report.error is not None:
                line = error_line(report.error, report.done_before)
                output.note((f"{table}: " if many else "") + line)
            if many and not output.json:
                output.result({}, _report_lines(report))
    finally:
        engine.close()
        if args.metrics_file:
            write_metrics(metrics, args.metrics_file, output)
    code = combined(c for c in codes if c is not None) if many else reports[0].exit_code
    if not many:
        output.result(reports[0].to_json(), _report_lines(reports[0]))
    elif output.json:
        shown = [r.to_json() for r in reports]
        output.result({"job": job.name, "exit_code": int(code), "reports": shown}, ())
    return code


def write_metrics(metrics: Metrics, path: str, output: Output) -> None:
    """Write the metrics to a file; a failure is only a warning."""
    try:
        metrics.write(path)
    except OSError as e:  # the job is done: report it anyway
        output.note(f"warning: cannot write metrics to {path}: {e.strerror or e}")


def _report_lines(report: Report) -> list[str]:
    shown = () if report.plan is None else report.plan_lines  # a dry run
    return [*report.lines(), *shown]


def engine_of(args: argparse.Namespace) -> Engine:
    """The engine that --engine and --master mean."""
    if args.engine == "local":
        return LocalEngine()
    from paimon_maintenance.engines.spark import SparkEngine  # noqa: PLC0415 - fast start

    return SparkEngine(
        master=args.master or os.environ.get(MASTER_VARIABLE), verbose=args.verbose > 0
    )


def _at_most(engine: Engine, parallelism: object) -> Engine:
    """The engine with the parallelism that the arguments for this table set."""
    wanted = parallelism if isinstance(parallelism, int) else None
    if isinstance(engine, LocalEngine):
        return LocalEngine(threads=wanted or 1)
    if hasattr(engine, "parallelism"):
        engine.parallelism = wanted
    return engine
