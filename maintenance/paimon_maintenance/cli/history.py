"""`caretaker history [TABLE]`: prints recorded plans, starts, runs and skips."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import warehouse_of
from paimon_maintenance.job.changes import text_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.report import detail_texts
from paimon_maintenance.job.text import counted, human_bytes

if TYPE_CHECKING:
    from paimon_maintenance.history.entry import Entry


_SHOWN_ELSEWHERE: Final = frozenset(
    {
        "why",
        "seconds",
        "engine_why",
        "effect",
        "feature",
        "changes",
        "process",
        "commit_user",
        "started_at_millis",
    }
)
_LONGEST: Final = 120
"""Maximum length of the details of a run; `--json` prints all of them."""


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the newest entries, newest first.

    InvalidArgument if the history is disabled, or for an unknown job.
    """
    from paimon_maintenance.history.lost_runs import LostOutcome  # noqa: PLC0415 - fast start
    from paimon_maintenance.history.store import needed_history  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.registry import job_named  # noqa: PLC0415 - fast start

    entries = needed_history("caretaker history", args.url).newest(
        table=args.table,
        warehouse=warehouse_of(args) if args.warehouse or args.catalog else None,
        job=None if args.job is None else args.job.replace("-", "_"),
        status=["failed", *map(str, LostOutcome)]
        if args.failed
        else ["refused"]
        if args.refused
        else None,
        run_id=args.run_id,
        limit=args.limit,
    )
    if args.job is not None and not entries:
        job_named(args.job)  # a misspelled job has no entries
    shown = {"entries": [e.to_json() for e in entries]}
    output.result(shown, _lines(entries))
    return ExitCode.SUCCESS


def _lines(entries: list[Entry]) -> Iterator[str]:
    if not entries:
        yield "no matching entries"
    for entry in entries:
        yield _line(entry)
        if entry.error:
            yield f"    {entry.error_type}: {entry.error}"
            if entry.next_step:
                yield f"    -> {entry.next_step}"
        changes = entry.details.get("changes")
        if isinstance(changes, Mapping):
            yield f"    changed before the failure: {text_of(changes)}"


def _line(entry: Entry) -> str:
    at = datetime.fromtimestamp(entry.at_millis / 1000, UTC).astimezone()
    what = entry.job if entry.part_of is None else f"{entry.part_of}/{entry.job}"
    parts = [f"{at:%Y-%m-%d %H:%M:%S}", entry.event, what, entry.table, entry.status]
    if entry.snapshots:
        parts.append("snapshot " + ", ".join(map(str, entry.snapshots)))
    if entry.files_before is not None and entry.files_after is not None:
        parts.append(f"{entry.files_before:,} -> {counted(entry.files_after, 'files')}")
    if entry.bytes_before is not None and entry.bytes_after is not None:
        parts.append(f"{human_bytes(entry.bytes_before)} -> {human_bytes(entry.bytes_after)}")
    why = entry.details.get("why")
    if why:
        parts.append(str(why))
    done = {k: v for k, v in entry.details.items() if k not in _SHOWN_ELSEWHERE}
    if text := ", ".join(detail_texts(done)):
        parts.append(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
    engine_why = entry.details.get("engine_why")
    if engine_why:
        parts.append(f"{entry.engine}: {engine_why}")
    if entry.seconds is not None:
        parts.append(f"{entry.seconds:.1f} s")
    parts.append(f"by {entry.origin} {entry.actor}")
    return "  ".join(parts)
