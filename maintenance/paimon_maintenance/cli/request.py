"""What `plan` and `run` ask of each table, and what its outcome means for the exit code."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from paimon_core.errors import UnsupportedFeature
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.parser import JOB_ARGUMENT_PREFIX
from paimon_maintenance.cli.policy import policy_of
from paimon_maintenance.cli.target import storage_of, tables_of, warehouse_of, zone_of
from paimon_maintenance.job.exit_codes import ExitCode, refusal_fails
from paimon_maintenance.job.job import Job
from paimon_maintenance.policy.model import GuardPolicy, TablePolicy
from paimon_maintenance.policy.resolve import resolve
from paimon_maintenance.rules.tables import is_pattern

if TYPE_CHECKING:
    from paimon_core.environment import Environment
    from paimon_maintenance.run.request import RunRequest


def typed_arguments(job: Job, args: argparse.Namespace) -> dict[str, object]:
    """The job's raw arguments that were typed; InvalidArgument if one is wrong."""
    for argument in job.arguments:
        # To jobs on branches, --branch alone is the procedure's argument, not where to work.
        key = JOB_ARGUMENT_PREFIX + argument.name
        if "branch" in argument.aliases and getattr(args, key) is None:
            setattr(args, key, args.branch)
            args.branch = None
    raw = {
        key.removeprefix(JOB_ARGUMENT_PREFIX): value
        for key, value in vars(args).items()
        if key.startswith(JOB_ARGUMENT_PREFIX) and value is not None
    }
    job.read_arguments(raw)
    return raw


def requests_of(
    job: Job, args: argparse.Namespace, output: Output, **how: Any
) -> Iterator[RunRequest]:
    """A request for each table that is meant, in order; `how` are its fields on how to run.

    What was typed comes before the policy (`paimon_maintenance.policy.resolve`).  Of many tables, those for which
    the policy switches the job off are left out.
    """
    typed = typed_arguments(job, args)
    limits = GuardPolicy(max_rewrite=getattr(args, "max_rewrite", None))
    policy = policy_of(args)
    many = is_pattern(args.table)
    warehouse, storage = warehouse_of(args), storage_of(args)
    for name in tables_of(args):
        table = TablePolicy(table=name) if policy is None else policy.for_table(name)
        if many and not table.job(job.name).enabled:
            output.note(f"{name}: the policy switches {job.name} off")
            continue
        yield resolve(job, table, typed=typed, limits=limits).request(
            warehouse=warehouse, table=name, branch=args.branch, storage=storage, **how
        )


def environment_of(args: argparse.Namespace) -> Environment:
    """The machine's clocks in the zone of --timezone; InvalidArgument for an unknown zone."""
    from paimon_core.environment import system_environment  # noqa: PLC0415 - fast start

    zone = zone_of(args)
    return system_environment(None if zone is None else zone.key)


def ended(request: RunRequest, error: BaseException | None, code: ExitCode) -> ExitCode | None:
    """What the table adds to the exit code of a command over many; None: nothing.

    A refused table adds nothing where the policy skips refusals, or once the history knows it.
    """
    if isinstance(error, UnsupportedFeature) and not refusal_fails(
        request.on_refused, known=error.known
    ):
        return None
    return code
