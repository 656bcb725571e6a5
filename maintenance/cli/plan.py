"""`caretaker plan JOB TABLE`: what a run would do."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from maintenance.cli.output import Output, error_line
from maintenance.cli.parser import JOB_ARGUMENT_PREFIX
from maintenance.cli.target import storage_of, tables_of, warehouse_of
from maintenance.exit_codes import ExitCode, combined, exit_code_of
from maintenance.job import Job
from maintenance.plan import Plan
from maintenance.registry import job_named
from maintenance.report import error_json
from maintenance.tables import is_pattern


def job_arguments(job: Job, args: argparse.Namespace) -> dict[str, object]:
    """The job's typed arguments out of what was typed."""
    raw = {
        key.removeprefix(JOB_ARGUMENT_PREFIX): value
        for key, value in vars(args).items()
        if key.startswith(JOB_ARGUMENT_PREFIX)
    }
    return job.read_arguments(raw)


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the plan of each table; NOTHING_TO_DO if all are empty."""
    from maintenance.runner import RunRequest, plan_table  # noqa: PLC0415 - fast start

    job = job_named(args.job)
    arguments = job_arguments(job, args)
    many = is_pattern(args.table)
    plans: list[Plan | Exception] = []
    codes: list[ExitCode] = []
    tables = tables_of(args)
    for table in tables:
        request = RunRequest(
            job=job,
            warehouse=warehouse_of(args),
            table=table,
            arguments=arguments,
            branch=args.branch,
            file_io_options=storage_of(args),
        )
        try:
            plan = plan_table(request)
        except Exception as e:
            if not many:
                raise
            plans.append(e)
            codes.append(exit_code_of(e))
            output.note(f"{table}: {error_line(e)}")
        else:
            plans.append(plan)
            codes.append(ExitCode.NOTHING_TO_DO if plan.is_empty else ExitCode.SUCCESS)
    code = combined(codes)
    shown = [_shown(job, table, plan) for table, plan in zip(tables, plans, strict=True)]
    output.result(
        {"job": job.name, "exit_code": int(code), "plans": shown} if many else shown[0],
        (line for plan in plans if not isinstance(plan, Exception) for line in _lines(plan)),
    )
    return code


def _shown(job: Job, table: str, plan: Plan | Exception) -> Mapping[str, object]:
    if isinstance(plan, Exception):
        return {"job": job.name, "table": table, "error": error_json(plan)}
    return plan.to_json()


def _lines(plan: Plan) -> Iterator[str]:
    yield from plan.lines()
