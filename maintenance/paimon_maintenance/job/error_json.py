"""Errors as JSON."""

from __future__ import annotations

from paimon_core.errors import PaimonError, UnsupportedFeature

STORAGE_NEXT_STEP = (
    "check that the storage is reachable and that this user can read and write, then run "
    "again: the next run continues the work"
)
"""The next step after a failed file operation with an unknown cause."""


def error_json(error: BaseException) -> dict[str, object]:
    """An error as JSON for the CLI, reports and Airflow; unknown locations are None."""
    if not isinstance(error, PaimonError):
        storage = error if isinstance(error, OSError) else None
        return {
            "type": type(error).__name__,
            "message": str(error) or type(error).__name__,
            "next_step": STORAGE_NEXT_STEP if storage is not None else None,
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
