from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from paimon_maintenance.engines.gate import Gate
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine import WorkUnit

PATIENCE = 10.0


def most_at_once(gate: Gate, sizes: list[int]) -> tuple[int, int]:
    """The most units and the most bytes that the gate lets in together."""
    lock, inside, most = threading.Lock(), [0, 0], [0, 0]

    def work(payload: bytes) -> bytes:
        size = int(payload)
        with lock:
            inside[0] += 1
            inside[1] += size
            most[0], most[1] = max(most[0], inside[0]), max(most[1], inside[1])
        threading.Event().wait(0.005)
        with lock:
            inside[0] -= 1
            inside[1] -= size
        return payload

    units = [WorkUnit(payload=str(s).encode(), expected_bytes=s, label="u") for s in sizes]
    # As several tables do: an engine each, one gate.
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(LocalEngine(8, gate).run_units, units, work) for _ in range(2)]
        for run in runs:
            assert [int(r.payload or b"") for r in run.result(PATIENCE)] == sizes
    return most[0], most[1]


def test_units_of_all_tables_share_the_limits():
    units, size = most_at_once(Gate(3, 10), [1] * 20)
    assert units == 3
    units, size = most_at_once(Gate(50, 10), [4, 3, 2, 1] * 5)
    assert 5 < size <= 10


def test_a_unit_beyond_the_limit_runs_alone():
    assert most_at_once(Gate(8, 10), [50, 50, 50]) == (1, 50)


def test_small_units_do_not_pass_a_large_one_that_waits():
    gate = Gate(8, 10)
    entered: list[int] = []
    pause = threading.Event()

    def enter(size: int) -> None:
        with gate.hold(size):
            entered.append(size)

    with gate.hold(5):
        threads = [threading.Thread(target=enter, args=(size,)) for size in (9, 1)]
        for number, thread in enumerate(threads):
            thread.start()
            while len(gate._queue) <= number:
                pause.wait(0.001)
        pause.wait(0.05)
        assert entered == []  # the unit of size 1 would fit beside that of size 5
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(entered) == [1, 9]


def test_an_error_inside_gives_the_place_back():
    gate = Gate(1, 1)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt), gate.hold(1):
            raise KeyboardInterrupt
    with gate.hold(1):
        pass
