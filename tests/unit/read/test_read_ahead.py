"""Order, bounds and failures of reading ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from paimon_core.read import read_ahead
from paimon_core.read.read_ahead import Source, in_background, one_after_the_other, side_by_side


def store(parallelism: int) -> Any:
    return SimpleNamespace(parallelism=parallelism)


def batch(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": [number]})


class Sources:
    """Sources that take note of when they are read."""

    def __init__(self, sizes: list[int], *, broken: int | None = None, wait: float = 0.0) -> None:
        self.begun: list[int] = []
        self.lock = threading.Lock()
        self.broken = broken
        self.wait = wait
        self.sources = [Source(size, lambda i=i: self.read(i)) for i, size in enumerate(sizes)]

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        with self.lock:
            self.begun.append(number)
        if number == self.broken:
            raise OSError("broken")
        time.sleep(self.wait)
        yield batch(2 * number)
        yield batch(2 * number + 1)

    def wait_for(self, count: int) -> None:
        """Wait until this many are being read."""
        deadline = time.monotonic() + 60
        while len(self.begun) < count and time.monotonic() < deadline:
            time.sleep(0.01)


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [b.column("n")[0].as_py() for b in batches]


@pytest.mark.parametrize("parallelism", [1, 4])
def test_order_is_kept(parallelism: int) -> None:
    sizes = [1, read_ahead.SMALL_BYTES + 1, 5, 5, read_ahead.SMALL_BYTES + 1, 7]
    sources = Sources(sizes).sources
    assert numbers(one_after_the_other(store(parallelism), sources)) == list(range(12))
    beside = side_by_side(store(parallelism), Sources(sizes).sources)
    assert [numbers(b) for b in beside] == [[2 * i, 2 * i + 1] for i in range(6)]


def test_small_files_are_read_before_their_turn() -> None:
    given = Sources([1] * 6)
    batches = one_after_the_other(store(8), given.sources)
    next(batches)
    given.wait_for(6)
    assert sorted(given.begun) == list(range(6))
    assert numbers(batches) == list(range(1, 12))


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 20)
    given = Sources([10] * 6)
    batches = one_after_the_other(store(8), given.sources)
    next(batches)
    given.wait_for(2)
    time.sleep(0.05)
    assert sorted(given.begun) == [0, 1]
    batches.close()  # type: ignore[attr-defined] # a generator
    # Too much for reading at once: each in its turn.
    beside = Sources([10] * 6)
    side_by_side(store(8), beside.sources)
    assert beside.begun == []


def test_local_files_are_not_read_ahead() -> None:
    given = Sources([1] * 3)
    next(one_after_the_other(store(1), given.sources))
    assert given.begun == [0]


def test_a_failure_comes_in_its_turn() -> None:
    given = Sources([1] * 5, broken=2)
    batches = one_after_the_other(store(4), given.sources)
    assert [next(batches).column("n")[0].as_py() for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(OSError, match="broken"):
        next(batches)
    with pytest.raises(OSError, match="broken"):
        side_by_side(store(4), Sources([1] * 5, broken=2).sources)


def test_closing_waits_for_the_batch_that_is_decoded() -> None:
    begun, going_on = threading.Event(), threading.Event()
    closed: list[bool] = []

    def slow() -> Iterator[pa.RecordBatch]:
        try:
            yield pa.record_batch([pa.array([0])], names=["n"])
            begun.set()
            going_on.wait(10)
            yield pa.record_batch([pa.array([1])], names=["n"])
        finally:
            closed.append(going_on.is_set())

    with ThreadPoolExecutor(1) as pool:
        batches = in_background(slow(), pool)
        assert numbers([next(batches)]) == [0]
        begun.wait(10)
        threading.Timer(0.05, going_on.set).start()
        batches.close()
        assert closed == [True]
        assert numbers(in_background(slow(), pool)) == [0, 1]
