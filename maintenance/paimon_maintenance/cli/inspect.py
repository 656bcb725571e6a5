"""`caretaker inspect TABLE`: prints the health of a table."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import look_at_tables
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of
from paimon_maintenance.job.text import age_text, counted, human_bytes
from paimon_maintenance.rules.tables import is_pattern

_MOST_PARTITIONS = 10
_HOUR_MILLIS = 3_600_000


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the health of each table."""
    from paimon_core.environment import system_environment  # noqa: PLC0415 - fast start
    from paimon_maintenance.health.inspect import inspect_table  # noqa: PLC0415 - fast start

    env = system_environment()
    shown: list[dict[str, object]] = []
    lines: list[str] = []
    codes: list[ExitCode] = []
    for name, health in look_at_tables(args, output, lambda t: inspect_table(t, env).to_json()):
        if isinstance(health, Exception):
            shown.append({"table": name, "error": error_json(health)})
            codes.append(exit_code_of(health))
            continue
        shown.append(health)
        lines += _lines(health, args.warehouse, args.catalog)
        codes.append(ExitCode.SUCCESS)
    code = combined(codes)
    many = is_pattern(args.table)
    output.result({"exit_code": int(code), "tables": shown} if many else shown[0], lines)
    return code


def _lines(h: dict[str, Any], warehouse: str | None, catalog: str | None) -> Iterator[str]:
    # Users copy the commands, so they carry the warehouse unless the environment sets it.
    where = "" if warehouse is None else f" -w {shlex.quote(warehouse)}"
    where += "" if catalog is None else f" --catalog {shlex.quote(catalog)}"
    where += "" if h["branch"] == "main" else f" --branch {shlex.quote(h['branch'])}"
    snapshots, buckets, partitions = h["snapshots"], h["buckets"], h["partitions"]
    branch = "" if h["branch"] == "main" else f" branch {h['branch']}"
    key = f" on {', '.join(h['primary_keys'])}" if h["primary_keys"] else ""
    yield f"{h['table']}{branch}: {h['kind']} table{key}, {h['bucket_mode']} buckets"
    yield (
        f"  data        {counted(h['files'], 'files')}, {human_bytes(h['bytes'])}, "
        f"{counted(h['rows'], 'records')}; {counted(h['small_files'], 'small files')}, {h['level_0_files']:,} at level 0"
    )
    runs = buckets["most_sorted_runs"]
    yield (
        f"  buckets     {buckets['count']:,} with files"
        + ("" if runs is None else f"; at most {counted(runs, 'sorted runs')} in one")
        + f"; at most {counted(buckets['most_files'], 'files')} in one"
    )
    latest = snapshots["latest_time_millis"]
    if latest is None:
        yield "  snapshots   none"
    else:
        yield (
            f"  snapshots   {snapshots['count']:,} ({snapshots['earliest']} to "
            f"{snapshots['latest']}), newest {_moment(latest)}; "
            f"{snapshots['unexpired']:,} beyond retention; "
            f"{human_bytes(h['held_by_old_snapshots']['bytes'])} held by old snapshots"
        )
    yield f"  manifests   {h['manifests']:,} in the newest snapshot"
    for name in ("tags", "consumers"):
        if h[name]:
            yield f"  {name:11} {', '.join(_named(entry) for entry in h[name])}"
    if h["branches"]:
        yield f"  branches    {', '.join(h['branches'])}"
    if h["partition_keys"]:
        yield f"  partitions  {partitions['count']:,}; those with the most files:"
        for p in partitions["list"][:_MOST_PARTITIONS]:
            yield (
                f"    {p['partition']}: {counted(p['files'], 'files')} ({p['small_files']:,} small), "
                f"{human_bytes(p['bytes'])}, {counted(p['rows'], 'records')}"
            )
    for advice in h["advice"]:
        yield f"  {advice['urgency']:11} {advice['text']}"
        if advice["command"]:
            yield f"              -> {advice['command']}{where}"
    if not h["advice"]:
        yield "  healthy: nothing to do"


def _named(entry: dict[str, Any]) -> str:
    if "name" in entry:
        return f"{entry['name']} (snapshot {entry['snapshot']})"
    return (
        f"{entry['id']} (next {entry['next_snapshot']}, {entry['lag_snapshots']} behind, "
        f"retains {human_bytes(entry['held']['bytes'])} from the last {age_text(entry['held_millis'] / _HOUR_MILLIS)}, "
        f"no update for {age_text(entry['silent_millis'] / _HOUR_MILLIS)})"
    )


def _moment(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
