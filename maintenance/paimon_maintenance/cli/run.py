"""`caretaker run JOB TABLE`: plans, executes, commits, verifies and reports."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_core.errors import PaimonError
from paimon_maintenance.cli.approvals import approved
from paimon_maintenance.cli.options import MASTER_VARIABLE
from paimon_maintenance.cli.output import Output, error_line
from paimon_maintenance.cli.progress import progress_for
from paimon_maintenance.cli.request import ended, requests_of
from paimon_maintenance.cli.target import environment_of, warehouse_of
from paimon_maintenance.engines.gate import Gate, usable_cores
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.exit_codes import ExitCode, combined
from paimon_maintenance.job.job import DEFAULT_MAX_ATTEMPTS
from paimon_maintenance.job.opt_out import OptedOut
from paimon_maintenance.registry import job_named
from paimon_maintenance.rules.tables import is_pattern

if TYPE_CHECKING:
    from paimon_maintenance.engines.spark.engine import SparkEngine
    from paimon_maintenance.job.report import Report
    from paimon_maintenance.run.metrics import Metrics
    from paimon_maintenance.run.request import RunRequest
    from paimon_maintenance.run.runner import RunServices


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Run the job on each table; a failure on one table does not stop the others."""
    from paimon_maintenance.history.retention import keep_retention  # noqa: PLC0415 - fast start
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415 - fast start
    from paimon_maintenance.run.many import run_tables  # noqa: PLC0415 - fast start
    from paimon_maintenance.run.metrics import Metrics  # noqa: PLC0415 - fast start
    from paimon_maintenance.run.runner import RunServices  # noqa: PLC0415 - fast start

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
    spark = spark_of(args)
    history = open_history()
    services = RunServices(
        engine=LocalEngine(gate=Gate(usable_cores())),
        spark=spark,
        env=environment_of(args),
        metrics=metrics,
        history=history,
    )
    reports: dict[str, Report] = {}
    codes: list[ExitCode | None] = []
    ready: list[RunRequest] = []
    for request in requests:
        try:
            ready.append(approved(request, services))
        except OptedOut:
            ready.append(request)  # its run is skipped, and reported
        except PaimonError as e:
            report = _not_started(request, e, services)
            reports[report.table] = report
            codes.append(ended(request, e, report.exit_code))
            if many:
                _show(report, output, many=True)
    try:
        # The lines of finished tables show the progress of a run over many.
        with progress_for(args.table, wanted=not many) as progress:
            for request, report in run_tables(ready, replace(services, progress=progress)):
                reports[report.table] = report
                codes.append(ended(request, report.error, report.exit_code))
                if many:
                    _show(report, output, many=True)
    finally:
        spark.close()
        if args.metrics_file:
            write_metrics(metrics, args.metrics_file, output, warehouse_of(args))
    keep_retention(history, services.env.now_millis())
    in_order = [reports[request.table] for request in requests]
    code = combined(c for c in codes if c is not None) if many else in_order[0].exit_code
    if not many:
        _show(in_order[0], output, many=False)
        output.result(in_order[0].to_json(), _report_lines(in_order[0]))
    elif output.json:
        parts = [r.to_json() for r in in_order]
        output.result({"job": job.name, "exit_code": int(code), "reports": parts}, ())
    return code


def _not_started(request: RunRequest, error: PaimonError, services: RunServices) -> Report:
    from paimon_maintenance.job.report import Report, Status  # noqa: PLC0415 - fast start

    error.table = error.table or request.table
    return Report(
        job=request.job.name,
        table=request.table,
        warehouse=request.warehouse,
        branch=request.branch,
        run_id=services.env.new_uuid(),
        status=Status.of(error),
        error=error,
    )


def _show(report: Report, output: Output, *, many: bool) -> None:
    """Print the warnings and the error of a run, and of one among many the report as well."""
    for warning in report.warnings:
        output.note(f"warning: {warning}")
    if report.error is not None:
        line = error_line(report.error, report.done_before)
        output.note((f"{report.table}: " if many else "") + line)
    if many and not output.json:
        output.result({}, _report_lines(report))


def write_metrics(metrics: Metrics, path: str, output: Output, warehouse: str) -> None:
    """Write the metrics and the gauges of the lake to a file; a failure is only a warning."""
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.run.lake_metrics import put_lake  # noqa: PLC0415 - as above

    history = open_history()
    try:
        if history is not None:
            put_lake(metrics, history, warehouse)
    except PaimonError as e:
        output.note(f"warning: cannot write the metrics of the lake: {e}")
    try:
        metrics.write(path)
    except OSError as e:  # the job is done: report it anyway
        output.note(f"warning: cannot write metrics to {path}: {e.strerror or e}")


def _report_lines(report: Report) -> list[str]:
    shown = () if report.plan is None else report.plan_lines  # a dry run
    return [*report.lines(), *shown]


def spark_of(args: argparse.Namespace) -> SparkEngine:
    """Spark, which starts when a plan needs it."""
    from paimon_maintenance.engines.combine import Combiner  # noqa: PLC0415 - fast start
    from paimon_maintenance.engines.spark.engine import SparkEngine  # noqa: PLC0415 - fast start

    return SparkEngine(
        master=args.master or os.environ.get(MASTER_VARIABLE),
        verbose=args.verbose > 0,
        combiner=Combiner() if is_pattern(args.table) else None,
    )
