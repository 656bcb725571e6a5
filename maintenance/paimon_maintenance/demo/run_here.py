"""Runs a job in this process, like `caretaker run`."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_core.environment import Environment, system_environment
from paimon_maintenance.demo.cores import demo_cores
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.history.entry import History
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table


def run_here(
    job_name: str,
    warehouse: str,
    table: str,
    arguments: Mapping[str, object],
    *,
    history: History | None = None,
    env: Environment | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> None:
    """Run the job and record it in the history, where the page finds it; raises its error."""
    job = job_named(job_name)
    request = RunRequest(
        job=job,
        warehouse=warehouse,
        table=table,
        arguments=job.read_arguments(arguments),
        force=force,
        dry_run=dry_run,
    )
    services = RunServices(
        engine=LocalEngine(threads=demo_cores()),
        env=env or system_environment(),
        history=history,
    )
    report = run_table(request, services)
    if report.error is not None:
        raise report.error
