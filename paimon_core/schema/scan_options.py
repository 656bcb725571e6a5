"""Validates the table options for the start of a scan (Java: `validateStartupMode`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.errors import SchemaError

_MILLIS: Final = "scan.timestamp-millis"
_TIMESTAMP: Final = "scan.timestamp"
_SNAPSHOT: Final = "scan.snapshot-id"
_TAG: Final = "scan.tag-name"
_WATERMARK: Final = "scan.watermark"
_FILE_TIME: Final = "scan.file-creation-time-millis"
_CREATION_TIME: Final = "scan.creation-time-millis"
_VERSION: Final = "scan.version"
_BETWEEN: Final = "incremental-between"
_BETWEEN_TIME: Final = "incremental-between-timestamp"
_AUTO_TAG: Final = "incremental-to-auto-tag"
_INCREMENTAL: Final = (_BETWEEN_TIME, _BETWEEN, _AUTO_TAG)

SCAN_OPTIONS: Final = (
    "scan.mode",
    _MILLIS,
    _TIMESTAMP,
    _SNAPSHOT,
    _TAG,
    _WATERMARK,
    _FILE_TIME,
    _CREATION_TIME,
    _VERSION,
    *_INCREMENTAL,
    "incremental-between-scan-mode",
    "incremental-between-tag-to-snapshot",
)
"""All options that select the rows of a batch read."""

_DEFAULT_MODES: Final = (
    ((_MILLIS, _TIMESTAMP), "from-timestamp"),
    ((_SNAPSHOT, _TAG, _WATERMARK, _VERSION), "from-snapshot"),
    ((_FILE_TIME,), "from-file-creation-time"),
    ((_CREATION_TIME,), "from-creation-timestamp"),
    ((_BETWEEN, _BETWEEN_TIME, _AUTO_TAG), "incremental"),
)
# Mode -> options (exactly one must be set), and the options that must not be set.
_RULES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "from-timestamp": ((_MILLIS, _TIMESTAMP), (_SNAPSHOT, _FILE_TIME, _TAG, *_INCREMENTAL)),
    "from-snapshot": (
        (_SNAPSHOT, _TAG, _WATERMARK),
        (_MILLIS, _TIMESTAMP, _FILE_TIME, *_INCREMENTAL),
    ),
    "incremental": (_INCREMENTAL, (_SNAPSHOT, _MILLIS, _FILE_TIME, _TIMESTAMP, _TAG)),
    "from-snapshot-full": (
        (_SNAPSHOT,),
        (_MILLIS, _TIMESTAMP, _FILE_TIME, _TAG, *_INCREMENTAL),
    ),
    "from-file-creation-time": ((_FILE_TIME,), (_SNAPSHOT, _MILLIS, _TAG, *_INCREMENTAL)),
}
_ELSEWHERE: Final = (_MILLIS, _FILE_TIME, _TIMESTAMP, _SNAPSHOT, _TAG, *_INCREMENTAL)
_OTHER_MODES: Final = frozenset(
    {"latest", "latest-full", "full", "compacted-full", "from-creation-timestamp"}
)


_CORRECT: Final = "correct the scan options and run again"


def scan_mode(options: Mapping[str, str]) -> str:
    """Return `scan.mode`, or the mode implied by other options; "latest-full" by default."""
    mode = options.get("scan.mode", "default").strip().lower()
    if mode == "full":
        return "latest-full"
    if mode != "default":
        return mode
    return next((m for keys, m in _DEFAULT_MODES if any(k in options for k in keys)), "latest-full")


def check_scan_options(options: Mapping[str, str]) -> None:
    """Raise SchemaError for options that conflict with the scan mode."""
    mode = options.get("scan.mode", "default").lower()
    if mode == "default":
        mode = next((m for keys, m in _DEFAULT_MODES if any(k in options for k in keys)), "latest")
    needed, forbidden = _RULES.get(mode, ((), _ELSEWHERE))
    if not needed and mode not in _OTHER_MODES:
        raise SchemaError(f"unknown scan.mode {mode!r}", next_step=_CORRECT)
    if needed and sum(k in options for k in needed) != 1:
        raise SchemaError(
            f"scan.mode={mode} needs exactly one of {', '.join(needed)}", next_step=_CORRECT
        )
    for key in forbidden:
        if key in options:
            raise SchemaError(f"{key} cannot be combined with scan.mode={mode}", next_step=_CORRECT)
