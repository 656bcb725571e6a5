"""What earlier runs say about a table: the orphans of the last search, when it was sorted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.errors import PaimonError
from paimon_maintenance.health.measurement import Orphans
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.store import SqlHistory

_JOB: Final = "remove_orphan_files"
_SORT: Final = "sort_compact"
_LOOKED_AT: Final = 20


def last_orphans(history: SqlHistory | None, *, table: str, warehouse: str) -> Orphans | None:
    """The orphans that the last plan found and no later run removed.

    None if there was no search.
    """
    for entry in _newest(history, table=table, warehouse=warehouse, job=_JOB):
        if entry.status in ("planned", "dry_run"):
            return _of_effect(entry)
        if entry.status in ("success", "nothing_to_do"):
            return Orphans(files=0, bytes=0, at_millis=entry.at_millis)
    return None


def last_sort(
    history: SqlHistory | None, *, table: str, warehouse: str, branch: str = "main"
) -> int | None:
    """When the table was last sorted, in milliseconds since the epoch; None if it never was."""
    entries = _newest(history, table=table, warehouse=warehouse, job=_SORT, status="success")
    own = (e.at_millis for e in entries if e.event == "run" and (e.branch or "main") == branch)
    return next(own, None)


def _newest(
    history: SqlHistory | None, *, table: str, warehouse: str, job: str, status: str | None = None
) -> list[Entry]:
    """A few entries, newest first; none if the history does not answer, which is no error here."""
    if history is None:
        return []
    try:
        return history.newest(
            table=table, warehouse=warehouse, job=job, status=status, limit=_LOOKED_AT
        )
    except PaimonError:
        return []


def _of_effect(entry: Entry) -> Orphans:
    effect = entry.details.get("effect")
    found = effect if isinstance(effect, Mapping) else {}
    files, size = found.get("deleted_files"), found.get("deleted_bytes")
    return Orphans(
        files=files if isinstance(files, int) else 0,
        bytes=size if isinstance(size, int) else 0,
        at_millis=entry.at_millis,
    )
