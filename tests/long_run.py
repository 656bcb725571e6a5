"""What CARETAKER_LONG asks of the tests (docs/development.md)."""

from __future__ import annotations

import os
from typing import Final

LONG_CASES: Final = int(os.environ.get("CARETAKER_LONG") or 0)
"""How many more random histories of each kind of table are tried; 0 in a usual run."""
LONG: Final = LONG_CASES > 0
"""Whether everything is tried that a usual run only samples."""


def examples(most: int) -> int:
    """How many examples of a property test are tried: half of `most` in a usual run."""
    if os.environ.get("HYPOTHESIS_PROFILE") == "thorough":
        return most * 20
    return most if LONG else -(-most // 2)
