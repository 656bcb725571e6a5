"""DataFrames that a session keeps: each is made once, up to a number and to bytes."""

from __future__ import annotations

from typing import Any

from paimon_spark.sql.kept_frames import KEPT_BYTES, KEPT_FRAMES, KeptFrames


class Frames:
    """Counts what is made; a "frame" is its own number."""

    def __init__(self) -> None:
        self.kept = KeptFrames()
        self.made = 0

    def get(self, key: object, size: int = 1) -> Any:
        return self.kept.frame(key, lambda: self._make(size))

    def _make(self, size: int) -> Any:
        self.made += 1
        return self.made, size


def test_a_frame_is_made_once() -> None:
    frames = Frames()
    assert [frames.get("a"), frames.get("b"), frames.get("a")] == [1, 2, 1]


def test_the_frames_used_last_stay() -> None:
    frames = Frames()
    for i in range(KEPT_FRAMES):
        frames.get(i)
    frames.get(0)
    frames.get("one more")
    assert frames.get(0) == 1
    assert frames.get(1) == KEPT_FRAMES + 2
    assert frames.kept.size == KEPT_FRAMES


def test_their_bytes_are_bounded() -> None:
    frames = Frames()
    frames.get("half", KEPT_BYTES // 2)
    frames.get("larger half", KEPT_BYTES // 2 + 1)
    assert frames.kept.size == KEPT_BYTES // 2 + 1
    assert frames.get("half", KEPT_BYTES // 2) == 3
    assert frames.get("too large", KEPT_BYTES + 1) == 4
    assert frames.get("too large", KEPT_BYTES + 1) == 5
    assert frames.get("half") == 3
