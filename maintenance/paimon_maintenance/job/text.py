"""Numbers and sizes as text, the same in plans, reports, the command line and Airflow."""

from __future__ import annotations

_UNIT = 1024
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def human_bytes(size: float) -> str:
    """A size in bytes as text in a suitable unit: "1.5 GB", "312 B"."""
    unit = 0
    while abs(size) >= _UNIT and unit < len(_UNITS) - 1:
        size /= _UNIT
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def counted(number: int, plural: str) -> str:
    """The number with its noun: "1 file", "1,204 files", "1 branch"; `plural` ends with "s"."""
    if number == 1:
        plural = plural.removesuffix("es" if plural.endswith("ches") else "s")
    return f"{number:,} {plural}"
