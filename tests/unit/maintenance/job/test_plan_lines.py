"""What plans say to people."""

from __future__ import annotations

import pytest

from paimon_maintenance.job.plan import Retained
from paimon_maintenance.job.text import counted


@pytest.mark.parametrize(
    ("kept", "line"),
    [
        (Retained(what="snapshots", why="w", count=1), "keep snapshots (1): w"),
        (
            Retained(what="snapshots", why="w", count=1204, bytes=2048),
            "keep snapshots (1,204, 2.0 KB): w",
        ),
        (Retained(what="tag 't'", why="w"), "keep tag 't': w"),
        (Retained(what="partition dt=1", why="w", bytes=10), "keep partition dt=1 (10 B): w"),
        (Retained(what="buckets", why="w", count=0), "keep buckets: w"),
    ],
)
def test_what_is_kept_is_counted_where_that_tells_something(kept: Retained, line: str) -> None:
    assert kept.line() == line


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [(1, "files", "1 file"), (2, "files", "2 files"), (1, "branches", "1 branch"), (0, "s", "0 s")],
)
def test_numbers_agree_with_their_nouns(number: int, noun: str, told: str) -> None:
    assert counted(number, noun) == told
