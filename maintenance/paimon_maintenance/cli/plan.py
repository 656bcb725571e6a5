"""`caretaker plan JOB TABLE`: prints the plan of a job."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from paimon_maintenance.cli.output import Output, error_line
from paimon_maintenance.cli.request import ended, requests_of
from paimon_maintenance.cli.target import environment_of
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of
from paimon_maintenance.job.job import Job
from paimon_maintenance.job.opt_out import OptedOut
from paimon_maintenance.job.plan import Plan
from paimon_maintenance.registry import job_named
from paimon_maintenance.rules.tables import is_pattern


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the plan of each table; NOTHING_TO_DO if all plans are empty."""
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415 - fast start
    from paimon_maintenance.run.runner import RunServices, plan_table  # noqa: PLC0415 - fast start

    job = job_named(args.job)
    many = is_pattern(args.table)
    services = RunServices(env=environment_of(args), history=open_history())
    plans: list[tuple[str, Plan | Exception]] = []
    codes: list[ExitCode | None] = []
    for request in requests_of(job, args, output):
        table = request.table
        try:
            plan = plan_table(request, services)
        except OptedOut as e:
            plans.append((table, e))
            output.note(f"{table}: skipped, {e.message}")
        except Exception as e:
            if not many:
                raise
            plans.append((table, e))
            codes.append(ended(request, e, exit_code_of(e)))
            output.note(f"{table}: {error_line(e)}")
        else:
            plans.append((table, plan))
            code = _code(plan)
            codes.append(ended(request, plan.failure, code) if many else code)
    code = combined(c for c in codes if c is not None)
    shown = [_shown(job, table, plan) for table, plan in plans]
    output.result(
        {"job": job.name, "exit_code": int(code), "plans": shown} if many else shown[0],
        (line for _, plan in plans if not isinstance(plan, Exception) for line in plan.lines()),
    )
    return code


def _code(plan: Plan) -> ExitCode:
    # A plan of several steps exists even if one of its steps cannot be planned.
    if plan.failure is not None:
        return exit_code_of(plan.failure)
    return ExitCode.NOTHING_TO_DO if plan.is_empty else ExitCode.SUCCESS


def _shown(job: Job, table: str, plan: Plan | Exception) -> Mapping[str, object]:
    if isinstance(plan, OptedOut):
        return {"job": job.name, "table": table, "status": "skipped", "why": plan.message}
    if isinstance(plan, Exception):
        return {"job": job.name, "table": table, "error": error_json(plan)}
    return plan.to_json()
