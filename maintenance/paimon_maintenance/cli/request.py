"""The run requests of `plan` and `run`, and the exit code over several tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from paimon_core.errors import UnsupportedFeature
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.parsers.jobs import JOB_ARGUMENT_PREFIX
from paimon_maintenance.cli.policy import facts_of, policy_of
from paimon_maintenance.cli.target import (
    check_known_options,
    storage_of,
    tables_of,
    warehouse_of,
)
from paimon_maintenance.job.common_arguments import OPTIONS
from paimon_maintenance.job.exit_codes import ExitCode, refusal_fails
from paimon_maintenance.job.job import Job
from paimon_maintenance.policy.approval import approval_wanted
from paimon_maintenance.policy.engine_of_config import engine_from, engine_of_config
from paimon_maintenance.policy.model import GuardPolicy, TablePolicy
from paimon_maintenance.policy.resolve import resolve
from paimon_maintenance.rules.tables import is_pattern

if TYPE_CHECKING:
    from paimon_maintenance.run.request import RunRequest


def typed_arguments(job: Job, args: argparse.Namespace) -> dict[str, object]:
    """The raw job arguments from the command line; InvalidArgument for an invalid one."""
    for argument in job.arguments:
        # For jobs on branches, --branch is the argument of the procedure,
        # not the branch to work on.
        key = JOB_ARGUMENT_PREFIX + argument.name
        if "branch" in argument.aliases and getattr(args, key) is None:
            setattr(args, key, args.branch)
            args.branch = None
    raw = {
        key.removeprefix(JOB_ARGUMENT_PREFIX): value
        for key, value in vars(args).items()
        if key.startswith(JOB_ARGUMENT_PREFIX) and value is not None
    }
    values = job.read_arguments(raw)
    check_known_options(cast("Mapping[str, str]", values.get(OPTIONS.name) or {}))
    return raw


def requests_of(
    job: Job, args: argparse.Namespace, output: Output, **how: Any
) -> Iterator[RunRequest]:
    """Yield a request for each selected table, in order; `how` are further fields of `RunRequest`.

    Typed arguments override the policy (`paimon_maintenance.policy.resolve`).  With a pattern,
    tables for which the policy disables the job are skipped, and runs skip tables that opted out.
    """
    typed = typed_arguments(job, args)
    limits = GuardPolicy(max_rewrite=getattr(args, "max_rewrite", None))
    engine = engine_from(
        getattr(args, "engine", None), getattr(args, "spark_threshold", None), "the command line"
    )
    default_engine = engine_of_config()
    policy = policy_of(args)
    many = is_pattern(args.table)
    warehouse, storage = warehouse_of(args), storage_of(args)
    for name in tables_of(args):
        table = (
            TablePolicy(table=name)
            if policy is None
            else policy.for_table(name, facts_of(args, name))
        )
        if many and not table.job(job.name).enabled:
            output.note(f"{name}: skipped, the policy disables {job.name}")
            continue
        found = resolve(
            job,
            table,
            typed=typed,
            limits=limits,
            engine=engine,
            default_engine=default_engine,
        )
        overrides = bool(how.get("force")) or found.raises_guards
        approval = approval_wanted(table.needs, job.name, force=overrides)
        yield found.request(
            warehouse=warehouse,
            table=name,
            branch=args.branch,
            storage=storage,
            approval=None if approval is None else str(approval),
            named=not many,
            **how,
        )


def ended(request: RunRequest, error: BaseException | None, code: ExitCode) -> ExitCode | None:
    """The exit code that the table contributes to a command over several tables, or None.

    A refused table contributes none if the policy skips refusals or the history already has it.
    """
    if isinstance(error, UnsupportedFeature) and not refusal_fails(
        request.on_refused, known=error.known
    ):
        return None
    return code
