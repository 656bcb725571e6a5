"""`caretaker files TABLE`: lists the live data files of a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import open_named, timestamp_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.text import counted, human_bytes


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the live files; the list is empty if the table has no snapshot."""
    from paimon_core.table.describe import describe_files  # noqa: PLC0415 - fast start
    from paimon_core.table.source.time_travel import travel  # noqa: PLC0415 - fast start

    at = timestamp_of(args)
    table, snapshot = travel(
        open_named(args), snapshot=args.snapshot, tag=args.tag, timestamp_millis=at
    )
    described = describe_files(table, snapshot)
    output.result({"table": table.name, "snapshot": None, **described}, _lines(described))
    return ExitCode.SUCCESS


def _lines(described: Mapping[str, Any]) -> Iterator[str]:
    files = described["files"]
    size, rows = sum(f["size"] for f in files), sum(f["rows"] for f in files)
    yield (
        f"snapshot {described.get('snapshot', '(none)')}: {counted(len(files), 'files')}, "
        f"{human_bytes(size)}, {counted(rows, 'records')}"
    )
    for f in files:
        partition = "/".join(f"{k}={v}" for k, v in f["partition"].items())
        place = f"{partition + ' ' if partition else ''}bucket {f['bucket']} level {f['level']}"
        yield f"  {place}  {human_bytes(f['size']):>9}  {f['rows']:>12,} records  {f['file']}"
    for f in described["index_files"]:
        yield f"  index {f['type']} bucket {f['bucket']}  {human_bytes(f['size']):>9}  {f['file']}"
