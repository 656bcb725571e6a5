"""Hints, gaps and consumers of one branch: what readers go by besides the snapshots themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from paimon_core.errors import CorruptTable, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import join
from paimon_core.names import file_number
from paimon_core.snapshot.line import gaps_in
from paimon_core.snapshot.numbered_files import EARLIEST, LATEST
from paimon_maintenance.verify.findings import Finding, Problem, Repair, Severity
from paimon_maintenance.verify.references import RefKind

_LONGEST: Final = 100
"""Bytes of a hint that are looked at: a number has at most 19."""

Wrong = tuple[Severity, str, Repair | None]
"""How bad a hint is, what is wrong with it, and the repair if one is certain."""


def check_hints(table: FileStoreTable, ids: Sequence[int]) -> Iterator[Finding]:
    """Findings about LATEST, EARLIEST and missing numbers; `ids` are the snapshots there are."""
    yield from _wrong_hints(table, RefKind.SNAPSHOT, ids)
    yield from _wrong_hints(table, RefKind.CHANGELOG, table.changelogs.ids())
    # A listing beside deletions may show a gap that never was.
    for gap in gaps_in(table.snapshots.ids()) if gaps_in(ids) else ():
        yield Finding(
            problem=Problem.SNAPSHOT_GAP,
            severity=Severity.ERROR,
            message=f"snapshots {gap.before + 1} to {gap.after - 1} are missing: {gap.after} was "
            f"committed on top of a snapshot that was rolled back; the next commits take the "
            f"missing numbers, and are lost when they reach {gap.after}",
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
        # Files and hints change one after the other: both are read again before they are compared.
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
    """The start of the hint's text; None if there is none: then readers list the folder."""
    try:
        content = table.io.read_bytes(_path(table, kind, name))
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        return "(a folder)"
    return content[:_LONGEST].decode("utf-8", "replace").strip()


def _wrong_latest(kind: RefKind, text: str, ids: Sequence[int]) -> Wrong | None:
    """What is wrong with LATEST (Java: `HintFileUtils.findLatest`).

    Java takes LATEST for true unless the next number exists.  It does not look whether the file of
    that number exists, so a hint beyond the newest snapshot makes the table unreadable.
    """
    newest = max(ids, default=None)
    if newest is not None and text == str(newest):
        return None
    message = f"hint LATEST says {text!r}, " + (
        f"there is no {kind}" if newest is None else f"the latest {kind} is {newest}"
    )
    number = file_number(text) or 0
    if number == 0 or number + 1 in ids:
        # Readers notice, and list the folder.
        return None if newest is None else (Severity.WARNING, message, Repair.REWRITE_HINT)
    if number in ids:
        # Only a gap hides the newer ones.  Which side of it is the table, a hint cannot decide.
        message += f": readers stop at {number}, since {number + 1} is missing"
        return Severity.WARNING, message, None
    if kind is RefKind.SNAPSHOT:
        message += ": Java readers and writers fail"
        return Severity.ERROR, message, Repair.REWRITE_HINT
    return Severity.WARNING, message, Repair.REWRITE_HINT


def _wrong_earliest(kind: RefKind, text: str, ids: Sequence[int]) -> Wrong | None:
    """What is wrong with EARLIEST (Java: `HintFileUtils.findEarliest`).

    Java believes it if its file exists: what is older is then never read and never expires.
    """
    oldest = min(ids, default=None)
    if oldest is None or text == str(oldest):
        return None
    message = f"hint EARLIEST says {text!r}, the earliest {kind} is {oldest}"
    return Severity.WARNING, message, Repair.REWRITE_HINT


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
