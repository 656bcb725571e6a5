"""`caretaker policy check FILE` and `caretaker policy show TABLE`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.output import Output
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.text import counted
from paimon_maintenance.jobs.maintain.step_names import ON_DEMAND, USUAL
from paimon_maintenance.policy.load import POLICY_VARIABLE, load_policy

if TYPE_CHECKING:
    from paimon_maintenance.policy.model import Policy, TablePolicy


def policy_of(args: argparse.Namespace) -> Policy | None:
    """The policy from --policy or the environment; None without one."""
    file = args.policy or os.environ.get(POLICY_VARIABLE)
    return load_policy(file) if file else None


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Check a policy file, or show the policy of one table."""
    if args.policy_command == "check":
        policy = load_policy(args.file)
        output.result(_summary(policy), _check_lines(policy))
        return ExitCode.SUCCESS
    policy = policy_of(args)  # type: ignore[assignment]  # checked on the next line
    if policy is None:
        raise InvalidArgument(
            "no policy given", next_step=f"add --policy FILE, or set {POLICY_VARIABLE}"
        )
    table = policy.for_table(args.table)
    own = _options_of_table(args, table)
    output.result(
        {**table.to_json(), "set_by_the_table": None if own is None else dict(own)},
        _table_lines(policy, table, own),
    )
    return ExitCode.SUCCESS


def _summary(policy: Policy) -> dict[str, object]:
    return {
        "file": policy.file,
        "rules": [
            {"name": r.name, "line": r.line, "tables": list(r.tables), "jobs": sorted(r.jobs)}
            for r in policy.rules
        ],
        "schedules": [
            {"job": s.job, "schedule": s.schedule, "tables": list(s.tables)}
            for s in policy.schedules()
        ],
    }


def _check_lines(policy: Policy) -> Iterator[str]:
    yield f"{policy.file}: {counted(len(policy.rules), 'rules')}, no errors"
    for rule in policy.rules:
        jobs = ", ".join(sorted(rule.jobs)) or "no job"
        yield f"  {rule.name} (line {rule.line}): {', '.join(rule.tables)}: {jobs}"
    for scheduled in policy.schedules():
        yield f"  {scheduled.schedule:15} {scheduled.job}"


def _options_of_table(args: argparse.Namespace, policy: TablePolicy) -> Mapping[str, str] | None:
    """The options of the policy that the table itself sets; None without a warehouse."""
    from paimon_maintenance.cli.options import WAREHOUSE_VARIABLE  # noqa: PLC0415 - fast start

    if not args.warehouse and not args.catalog and not os.environ.get(WAREHOUSE_VARIABLE):
        return None
    from paimon_core.options import lacking  # noqa: PLC0415 - only here
    from paimon_maintenance.cli.target import open_named  # noqa: PLC0415 - pyarrow

    options = open_named(args).options
    missing = lacking(options, policy.options)
    return {key: options.get(key, "?") for key in policy.options if key not in missing}


def _table_lines(
    policy: Policy, table: TablePolicy, own: Mapping[str, str] | None
) -> Iterator[str]:
    rules = ", ".join(table.rules) or "no rule matches"
    yield f"{table.table}: {policy.file}: {rules}"
    for key, value in table.options.items():
        said = "" if own is None or key not in own else f" (overridden by the table: {own[key]})"
        yield f"  option {key} = {value}{said}"
    for job in table.jobs.values():
        if not job.enabled:
            yield f"  {job.job}: off"
            continue
        step = job.job in ("compact", *USUAL, *ON_DEMAND)
        when = job.schedule or ("manual, or as a step of maintain" if step else "manual")
        arguments = ", ".join(f"{k}={_typed(v)}" for k, v in job.arguments.items())
        limits = {**job.guards.to_json(), **job.engine.to_json()}
        guards = ", ".join(f"{k}={v}" for k, v in limits.items())
        refused = "" if job.on_refused is None else f"on_refused={job.on_refused}"
        notes = (arguments, guards, refused)
        yield f"  {job.job}: {when}" + "".join(f"; {t}" for t in notes if t)


def _typed(value: object) -> str:
    """The argument's value as typed on the command line: lists are joined by commas."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
