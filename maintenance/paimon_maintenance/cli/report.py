"""`caretaker report --since 7d`: what maintenance did, as text, Markdown, JSON or Parquet."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from paimon_core.options import parse_duration_millis
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import warehouse_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.text import counted

if TYPE_CHECKING:
    from paimon_maintenance.history.entry import Entry


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the report on the period; NOTHING_TO_DO if nothing ran in it."""
    from paimon_core.environment import system_environment  # noqa: PLC0415 - fast start
    from paimon_maintenance.history.need_store import NeedStore  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.history.report import (  # noqa: PLC0415 - SQLAlchemy
        entries_since,
        markdown,
        report_of,
    )
    from paimon_maintenance.history.store import needed_history  # noqa: PLC0415 - SQLAlchemy

    history = needed_history("caretaker report")
    now = system_environment().now_millis()
    since = max(0, now - parse_duration_millis(args.since))
    store = NeedStore(history, warehouse_of(args), args.branch or "main")
    found = report_of(store, since=since, until=now)
    lines = list(markdown(found))
    if args.markdown:
        Path(args.markdown).write_text("\n".join([*lines, ""]), encoding="utf-8")
    if args.parquet:
        entries = entries_since(store, since)
        _write_parquet(entries, args.parquet)
        output.note(f"{counted(len(entries), 'entries')} written to {args.parquet}")
    output.result(found.to_json(), lines)
    return ExitCode.SUCCESS if found.total.runs else ExitCode.NOTHING_TO_DO


def _write_parquet(entries: list[Entry], path: str) -> None:
    """Write the entries of the history, oldest first; arguments and details as JSON texts."""
    import pyarrow as pa  # noqa: PLC0415 - only here
    import pyarrow.parquet as pq  # noqa: PLC0415 - only here

    whole, text, real = pa.int64(), pa.string(), pa.float64()
    names = {
        **dict.fromkeys(("event", "job", "part_of", "table", "branch", "warehouse"), text),
        **dict.fromkeys(("status", "run_id", "origin", "actor", "engine"), text),
        **dict.fromkeys(("exit_code", "snapshot_before", "attempts"), whole),
        "snapshots": pa.list_(whole),
        "seconds": real,
        **{
            f"{what}_{when}": whole
            for what in ("files", "bytes", "rows")
            for when in ("before", "after")
        },
        **dict.fromkeys(("arguments", "details", "error_type", "error", "next_step"), text),
    }
    schema = pa.schema([("at", pa.timestamp("ms", tz="UTC")), *names.items()])
    rows = []
    for entry in reversed(entries):
        row = entry.to_json()
        row["at"] = row.pop("at_millis")
        for name in ("arguments", "details"):
            row[name] = json.dumps(row[name], ensure_ascii=False, default=str)
        rows.append(row)
    columns = {f.name: pa.array([r[f.name] for r in rows], f.type) for f in schema}
    pq.write_table(pa.table(columns, schema=schema), path)
