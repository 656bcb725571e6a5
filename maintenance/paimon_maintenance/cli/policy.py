"""`caretaker policy`: check, show, explain, schema."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import storage_of, warehouse_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.text import counted, exact_duration, exact_size
from paimon_maintenance.jobs.maintain.step_names import ON_DEMAND, USUAL
from paimon_maintenance.policy.needs import TableFacts, TableNeeds
from paimon_maintenance.storage.variables import (
    POLICY_VARIABLE,
    WAREHOUSE_VARIABLE,
)

if TYPE_CHECKING:
    from paimon_maintenance.policy.model import Policy, TablePolicy


def policy_of(args: argparse.Namespace) -> Policy | None:
    """The policy from --policy or the environment; None without one."""
    file = args.policy or os.environ.get(POLICY_VARIABLE)
    return _loaded(file) if file else None


def _loaded(file: str) -> Policy:
    from paimon_maintenance.policy.load import load_policy  # noqa: PLC0415 - YAML

    return load_policy(file)


def facts_of(args: argparse.Namespace, table: str) -> Callable[[], TableFacts]:
    """Reads what rules can match besides the name: the options and the comment of the table."""

    def read() -> TableFacts:
        from paimon_maintenance.storage.catalogs import open_table_of  # noqa: PLC0415 - pyarrow

        opened = open_table_of(
            warehouse_of(args), table, branch=args.branch, file_io_options=storage_of(args)
        )
        return TableFacts(dict(opened.schema.options), opened.schema.comment)

    return read


def _has_warehouse(args: argparse.Namespace) -> bool:
    return bool(args.warehouse or args.catalog or os.environ.get(WAREHOUSE_VARIABLE))


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Check a policy file, show the policy of one table, or explain decisions about it."""
    if args.policy_command == "check":
        policy = _loaded(args.file)
        output.result(_summary(policy), _check_lines(policy))
        return ExitCode.SUCCESS
    if args.policy_command == "schema":
        from paimon_maintenance.policy.json_schema import schema  # noqa: PLC0415 - only here

        output.result(schema(), [json.dumps(schema(), indent=2)])
        return ExitCode.SUCCESS
    if args.policy_command == "explain":
        return _explain(args, output)
    return _show(args, output)


def _show(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print what the policy says about a table; InvalidArgument without a policy."""
    policy = policy_of(args)
    if policy is None:
        raise InvalidArgument(
            "no policy given", next_step=f"add --policy FILE, or set {POLICY_VARIABLE}"
        )
    table = policy.for_table(
        args.table, facts_of(args, args.table) if _has_warehouse(args) else None
    )
    own = _options_of_table(args, table)
    output.result(
        {**table.to_json(), "set_by_the_table": None if own is None else dict(own)},
        _table_lines(policy, table, own),
    )
    return ExitCode.SUCCESS


def _explain(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the newest decisions about a table; NOTHING_TO_DO if there are none."""
    from paimon_maintenance.history.need_store import NeedStore  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.history.store import needed_history  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.schedule.explain import lines_of  # noqa: PLC0415 - only here

    history = needed_history("caretaker policy explain")
    store = NeedStore(history, warehouse_of(args), args.branch or "main")
    found = store.decisions(args.table, args.limit)
    shown = [{f: getattr(d, f) for f in d.__slots__} for d in found]
    output.result(
        {"table": args.table, "decisions": shown},
        lines_of(found) if found else ["no decision about this table is recorded"],
    )
    return ExitCode.SUCCESS if found else ExitCode.NOTHING_TO_DO


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
    if not _has_warehouse(args):
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
    usual = _needs_as_written(TableNeeds())
    for key, value in _needs_as_written(table.needs).items():
        if value != usual[key]:
            yield f"  {key}: {value}"
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


def _needs_as_written(needs: TableNeeds) -> dict[str, str]:
    """What the table needs, by the keys of a policy; empty for what is not limited."""
    lag = {
        "age": exact_duration(needs.consumer_millis),
        "snapshots": needs.consumer_snapshots,
        "bytes": None if needs.consumer_bytes is None else exact_size(needs.consumer_bytes),
    }
    return {
        "scheduled": str(needs.scheduled).lower(),
        "owner": needs.owner or "",
        "alerts": ", ".join(needs.alerts),
        "windows": ", ".join(window.text for window in needs.windows),
        "freshness": ""
        if needs.freshness_millis is None
        else exact_duration(needs.freshness_millis),
        "consumer_lag": ", ".join(f"{k} {v}" for k, v in lag.items() if v is not None),
        "rescale": str(needs.rescale),
        "max_red": exact_duration(needs.max_red_millis),
        "priority": f"{needs.priority:g}",
        "on_commit": str(needs.on_commit),
        "approval": ", ".join(needs.approval),
        "health": ", ".join(
            f"{name} ({', '.join(f'{k} {v:g}' for k, v in values.items())})"
            for name, values in needs.criteria.items()
        ),
    }


def _typed(value: object) -> str:
    """The argument's value as typed on the command line: lists are joined by commas."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
