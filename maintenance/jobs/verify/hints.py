"""Hints, gaps and consumers of one branch: what readers go by besides the snapshots themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from maintenance.jobs.verify.findings import Finding, Problem, Repair, Severity
from paimon_core.errors import CorruptTable, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import join

LATEST = "LATEST"
EARLIEST = "EARLIEST"


def check_hints(table: FileStoreTable, ids: Sequence[int]) -> Iterator[Finding]:
    """Findings about LATEST, EARLIEST and missing numbers; `ids` are the snapshots there are."""
    if ids:
        for name, right in ((LATEST, max(ids)), (EARLIEST, min(ids))):
            yield from _check_hint(table, name, right)
    for left, right in pairwise(sorted(ids)):
        if right != left + 1:
            yield Finding(
                problem=Problem.SNAPSHOT_GAP,
                severity=Severity.WARNING,
                message=f"snapshots {left + 1} to {right - 1} are missing between their neighbours",
                reference=f"snapshot {right}",
                branch=table.branch,
                snapshot=right,
            )


def _check_hint(table: FileStoreTable, name: str, right: int) -> Iterator[Finding]:
    path = join(table.paths.snapshot_dir, name)
    try:
        text = table.io.read_bytes(path).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return  # readers list the folder instead
    if text == str(right):
        return
    # Readers find LATEST wrong by looking for the next number, but an EARLIEST that exists is
    # believed: snapshots before it are never read nor expired.
    yield Finding(
        problem=Problem.WRONG_HINT,
        severity=Severity.WARNING,
        message=f"hint {name} says {text!r}, the {name.lower()} snapshot is {right}",
        reference=f"snapshot {right}",
        branch=table.branch,
        snapshot=right,
        file=path,
        repair=Repair.REWRITE_HINT,
    )


def check_consumers(table: FileStoreTable, ids: Sequence[int]) -> Iterator[Finding]:
    """Findings about consumers that stand outside the snapshots (and changelogs) there are."""
    if not ids:
        return
    changelogs = table.changelogs.ids()
    earliest, latest = min([*ids, *changelogs]), max(ids)
    for consumer_id in table.consumers.ids():
        try:
            consumer = table.consumers.get(consumer_id)
        except NotFound:
            continue
        except CorruptTable as e:
            yield Finding(
                problem=Problem.UNREADABLE,
                severity=Severity.ERROR,
                message=f"{e.message}; no snapshot expires while nobody can tell what it wants: "
                f"reset_consumer gives it a position, or deletes it",
                branch=table.branch,
                reference=f"consumer {consumer_id}",
                file=e.file,
            )
            continue
        if consumer.next_snapshot < earliest:
            yield Finding(
                problem=Problem.STALE_CONSUMER,
                severity=Severity.WARNING,
                message=f"consumer {consumer.id} waits for snapshot {consumer.next_snapshot}, "
                f"which expired; the earliest is {earliest}",
                branch=table.branch,
                reference=f"consumer {consumer.id}",
                snapshot=consumer.next_snapshot,
                repair=Repair.RESET_CONSUMER,
            )
        elif consumer.next_snapshot > latest + 1:
            yield Finding(
                problem=Problem.CONSUMER_AHEAD,
                severity=Severity.WARNING,
                message=f"consumer {consumer.id} waits for snapshot {consumer.next_snapshot}, but "
                f"the latest is {latest}: it will miss what is committed until then",
                branch=table.branch,
                reference=f"consumer {consumer.id}",
                snapshot=consumer.next_snapshot,
                repair=Repair.RESET_CONSUMER,
            )
