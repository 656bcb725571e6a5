"""A Spark stream whose driver is killed goes on from its checkpoint: every row once."""

from __future__ import annotations

from pathlib import Path

import pytest
from stream_kills import run

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.long
def test_a_kill(tmp_path: Path) -> None:
    """`stream_kills.py --kills 20` kills more often."""
    said = run(tmp_path, kills=1, commits=6, seed=7)
    assert len(said) == 2
