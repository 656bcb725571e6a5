"""How many processors the jobs of the demo use."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.engines.gate import usable_cores

_MOST: Final = 4


def demo_cores() -> int:
    """The processors of this process, but only a few of a large machine."""
    return min(_MOST, usable_cores())
