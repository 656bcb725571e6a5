"""Checks hints, gaps and consumers of one branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from paimon_core.errors import CorruptTable, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import join
from paimon_core.io.read_retry import read_whole
from paimon_core.names import file_number
from paimon_core.snapshot.line import gaps_in
from paimon_core.snapshot.numbered_files import EARLIEST, LATEST
from paimon_maintenance.verify.findings import Finding, Problem, Repair, Severity
from paimon_maintenance.verify.references import RefKind

_LONGEST: Final = 100
"""Maximum number of bytes to read from a hint: a number has at most 19 digits."""

Wrong = tuple[Severity, str, Repair | None]
"""Severity and problem of a hint, and the repair if it is safe."""


def check_hints(table: FileStoreTable, ids: Sequence[int]) -> Iterator[Finding]:
    """Findings about LATEST, EARLIEST and missing ids; `ids` are the existing snapshots."""
    yield from _wrong_hints(table, RefKind.SNAPSHOT, ids)
    yield from _wrong_hints(table, RefKind.CHANGELOG, table.changelogs.ids())
    # A listing during deletions may show a gap that never existed.
    for gap in gaps_in(table.snapshots.ids()) if gaps_in(ids) else ():
        yield Finding(
            problem=Problem.SNAPSHOT_GAP,
            severity=Severity.ERROR,
            message=f"snapshots {gap.before + 1} to {gap.after - 1} are missing: {gap.after} was "
            f"committed on top of a snapshot that was rolled back; the next commits use the "
            f"missing ids and are lost when they reach {gap.after}",
            reference=f"snapshot {gap.after}",
            branch=table.branch,
            snapshot=gap.after,
            repair=Repair.CLOSE_GAP,
        )


def _wrong_hints(table: FileStoreTable, kind: RefKind, ids: Sequence[int]) -> Iterator[Finding]:
    for name, check in ((LATEST, _wrong_latest), (EARLIEST, _wrong_earliest)):
        text = _hint(table, kind, name)
        if text is None or check(kind, text, ids) is None:
            continue
        # Files and hints do not change atomically: read both again before comparing them.
        store = table.snapshots if kind is RefKind.SNAPSHOT else table.changelogs
        ids, text = store.ids(), _hint(table, kind, name)
        wrong = None if text is None else check(kind, text, ids)
        if wrong is None:
            continue
        severity, message, repair = wrong
        newest = max(ids, default=None)
        yield Finding(
            problem=Problem.WRONG_HINT,
            severity=severity,
            message=message,
            reference=None if newest is None else f"{kind} {newest}",
            branch=table.branch,
            snapshot=newest,
            file=_path(table, kind, name),
            repair=repair,
        )


def _path(table: FileStoreTable, kind: RefKind, name: str) -> str:
    paths = table.paths
    return join(paths.snapshot_dir if kind is RefKind.SNAPSHOT else paths.changelog_dir, name)


def _hint(table: FileStoreTable, kind: RefKind, name: str) -> str | None:
    """The start of the hint text; None without a hint, in which case readers list the folder."""
    try:
        content = read_whole(table.io, _path(table, kind, name), table=table.name)
    except FileNotFoundError:
        return None
    except CorruptTable as e:
        return f"({e.message.partition(' should be a file but is ')[2]})"
    return content[:_LONGEST].decode("utf-8", "replace").strip()


def _wrong_latest(kind: RefKind, text: str, ids: Sequence[int]) -> Wrong | None:
    """What is wrong with LATEST (Java: `HintFileUtils.findLatest`).

    Java trusts LATEST unless the next id exists.  It does not check that the file of LATEST exists,
    so a hint beyond the newest snapshot makes the table unreadable.
    """
    newest = max(ids, default=None)
    if newest is not None and text == str(newest):
        return None
    message = f"hint LATEST says {text!r}, " + (
        f"there is no {kind}" if newest is None else f"the latest {kind} is {newest}"
    )
    number = file_number(text) or 0
    if number == 0 or number + 1 in ids:
        # Readers detect this and list the folder.
        return None if newest is None else (Severity.WARNING, message, Repair.REWRITE_HINT)
    if number in ids:
        # A gap hides the newer snapshots.  A hint cannot decide which side of the gap is correct.
        message += f": readers stop at {number}, since {number + 1} is missing"
        return Severity.WARNING, message, None
    if kind is RefKind.SNAPSHOT:
        message += ": Java readers and writers fail"
        return Severity.ERROR, message, Repair.REWRITE_HINT
    return Severity.WARNING, message, Repair.REWRITE_HINT


def _wrong_earliest(kind: RefKind, text: str, ids: Sequence[int]) -> Wrong | None:
    """What is wrong with EARLIEST (Java: `HintFileUtils.findEarliest`).

    Java trusts it if its file exists: older snapshots are then never read and never expire.
    """
    oldest = min(ids, default=None)
    if oldest is None or text == str(oldest):
        return None
    message = f"hint EARLIEST says {text!r}, the earliest {kind} is {oldest}"
    return Severity.WARNING, message, Repair.REWRITE_HINT


def check_consumers(table: FileStoreTable, ids: Sequence[int]) -> Iterator[Finding]:
    """Findings about consumers outside the range of existing snapshots and changelogs."""
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
                message=f"{e.message}; no snapshot expires while its position is unknown: "
                f"use reset_consumer to set its position or to delete it",
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
                f"which has expired; the earliest is {earliest}",
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
                f"the latest is {latest}: it will skip all commits until then",
                branch=table.branch,
                reference=f"consumer {consumer.id}",
                snapshot=consumer.next_snapshot,
                repair=Repair.RESET_CONSUMER,
            )
