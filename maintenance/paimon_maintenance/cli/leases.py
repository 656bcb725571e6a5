"""`caretaker leases TABLE`: lists the jobs that currently hold a lease on a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paimon_core.types.datetimes import wall_clock_text
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import look_at_tables
from paimon_maintenance.job.exit_codes import ExitCode, combined, exit_code_of

if TYPE_CHECKING:
    from paimon_maintenance.storage.lease import FoundLease


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the leases of each table; NOTHING_TO_DO if no table has a lease."""
    from paimon_maintenance.storage.lease import leases_of  # noqa: PLC0415 - fast start

    shown: list[dict[str, object]] = []
    lines: list[str] = []
    codes: list[ExitCode] = []
    for name, leases in look_at_tables(args, output, leases_of):
        if isinstance(leases, Exception):
            codes.append(exit_code_of(leases))
            continue
        shown += [_json(name, found) for found in leases]
        lines += [_line(name, found) for found in leases]
        codes.append(ExitCode.SUCCESS if leases else ExitCode.NOTHING_TO_DO)
    code = combined(codes)
    output.result({"exit_code": int(code), "leases": shown}, lines or ["no table is leased"])
    return code


def _json(table: str, found: FoundLease) -> dict[str, object]:
    holder = found.holder
    return {
        "table": table,
        "file": found.stat.path,
        "renewed_millis": found.stat.modified_millis,
        "stale": found.stale,
        "job": None if holder is None else holder.job,
        "run_id": None if holder is None else holder.run_id,
        "host": None if holder is None else holder.host,
        "pid": None if holder is None else holder.pid,
        "since_millis": None if holder is None else holder.since_millis,
    }


def _line(table: str, found: FoundLease) -> str:
    who = "an unreadable lease file" if found.holder is None else found.holder.label
    renewed = wall_clock_text(found.stat.modified_millis)
    end = "; its process has ended, so the next job takes it over" if found.stale else ""
    return f"{table}: {who}, renewed at {renewed} UTC{end}"
