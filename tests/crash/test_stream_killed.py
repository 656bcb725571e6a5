"""A Spark stream whose driver is killed goes on from its checkpoint: every row once."""

from __future__ import annotations

from pathlib import Path

import pytest
from stream_kills import run

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]


def test_two_kills(tmp_path: Path) -> None:
    said = run(tmp_path, kills=2, commits=8, seed=7)
    assert len(said) == 3
