"""What `plan` and `run` ask of each table: what was typed, on top of what the policy says."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from maintenance.cli.output import Output
from maintenance.cli.parser import JOB_ARGUMENT_PREFIX
from maintenance.cli.policy import policy_of
from maintenance.cli.target import storage_of, tables_of, warehouse_of
from maintenance.job import Job
from maintenance.policy.limits import guards_of
from maintenance.policy.model import GuardPolicy, TablePolicy
from maintenance.tables import is_pattern

if TYPE_CHECKING:
    from maintenance.runner import RunRequest


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


def requests_of(job: Job, args: argparse.Namespace, output: Output) -> Iterator[RunRequest]:
    """A request for each table that is meant, in order.

    The policy's word counts where nothing was typed.  Of many tables, those for which the policy
    switches the job off are left out.
    """
    from maintenance.runner import RunRequest  # noqa: PLC0415 - fast start

    typed = typed_arguments(job, args)
    policy = policy_of(args)
    many = is_pattern(args.table)
    warehouse, storage = warehouse_of(args), storage_of(args)
    for name in tables_of(args):
        table = TablePolicy(table=name) if policy is None else policy.for_table(name)
        own = table.job(job.name)
        if many and not own.enabled:
            output.note(f"{name}: the policy switches {job.name} off")
            continue
        yield RunRequest(
            job=job,
            warehouse=warehouse,
            table=name,
            arguments=job.read_arguments({**table.arguments_of(job.name), **typed}),
            branch=args.branch,
            file_io_options=storage,
            default_options=table.options,
            guards=guards_of(
                own.guards.under(GuardPolicy(max_rewrite=getattr(args, "max_rewrite", None)))
            ),
        )
