"""Numbers, sizes and durations as text, alike in plans, reports, the command line and Airflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_UNIT = 1024
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_SIZES: Final = (("tb", 1024**4), ("gb", 1024**3), ("mb", 1024**2), ("kb", 1024))
_DURATIONS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def human_bytes(size: float) -> str:
    """A size in bytes as text in a suitable unit: "1.5 GB", "312 B"."""
    unit = 0
    while abs(size) >= _UNIT and unit < len(_UNITS) - 1:
        size /= _UNIT
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def counted(number: int, plural: str) -> str:
    """The number with its noun: "1 file", "1,204 files", "1 branch", "1 entry".

    `plural` ends with "s".
    """
    if number == 1 and plural.endswith("ies"):
        plural = f"{plural.removesuffix('ies')}y"
    elif number == 1:
        plural = plural.removesuffix("es" if plural.endswith("ches") else "s")
    return f"{number:,} {plural}"


def path_text(path: str) -> str:
    r"""A local path as text that JSON and databases take: bytes that are no UTF-8 become `\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def age_text(hours: float) -> str:
    """A rough duration in its largest unit: "3 d", "5 h", "12 min"."""
    if hours >= 48:
        return f"{hours / 24:.0f} d"
    return f"{hours:.0f} h" if hours >= 2 else f"{hours * 60:.0f} min"


def exact_size(size: int) -> str:
    """A size as arguments and policies take it: "4 gb"."""
    return _in_units(size, _SIZES, "b")


def exact_duration(millis: int) -> str:
    """A duration as arguments and policies take it: "90 min"."""
    return _in_units(millis, _DURATIONS, "ms")


def _in_units(number: int, units: Sequence[tuple[str, int]], smallest: str) -> str:
    """The number in the largest unit that divides it."""
    for name, factor in units:
        if number and number % factor == 0:
            return f"{number // factor} {name}"
    return f"{number} {smallest}"
