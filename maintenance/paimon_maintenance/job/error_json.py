"""Errors as JSON."""

from __future__ import annotations

import errno
from typing import Final

from paimon_core.errors import PaimonError, UnsupportedFeature

_NEXT_STEP: Final = (
    "check that the storage is reachable and that this user can read and write, then run "
    "again: the next run continues the work"
)
_FULL: Final = (
    "free some space or raise the quota, then run again: the next run continues the work; "
    "jobs that free space need about a megabyte, too"
)
_READ_ONLY: Final = "mount the file system for writing, then run again"
_NEXT_STEPS: Final = {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EROFS: _READ_ONLY}


def storage_next_step(error: OSError) -> str:
    """Return what to do after a file operation failed; notes of the error come first."""
    notes: list[str] = getattr(error, "__notes__", [])
    return "; ".join([*notes, _NEXT_STEPS.get(error.errno or 0, _NEXT_STEP)])


def error_json(error: BaseException) -> dict[str, object]:
    """An error as JSON for the CLI, reports and Airflow; unknown locations are None."""
    if not isinstance(error, PaimonError):
        storage = error if isinstance(error, OSError) else None
        return {
            "type": type(error).__name__,
            "message": str(error) or type(error).__name__,
            "next_step": None if storage is None else storage_next_step(storage),
            "table": None,
            "snapshot": None,
            "file": None if storage is None or storage.filename is None else str(storage.filename),
        }
    found: dict[str, object] = {
        "type": type(error).__name__,
        "message": error.message,
        "next_step": error.next_step or None,
        "table": error.table,
        "snapshot": error.snapshot,
        "file": error.file,
    }
    if isinstance(error, UnsupportedFeature):
        found["feature"] = error.feature
        found["known"] = error.known
    return found
