from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from paimon_maintenance.engines.combine import MOST_BYTES, Combiner, ManyRuns
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine import UnitResult, WorkUnit

PATIENCE = 20.0


def units(*payloads: bytes, size: int = 10) -> list[WorkUnit]:
    return [WorkUnit(payload=p, expected_bytes=size, label=p.decode()) for p in payloads]


def label(name: str, payload: bytes) -> bytes:
    if payload == b"bad":
        raise ValueError(name)
    return f"{name} {payload.decode()}".encode()


class Jobs:
    """Runs combined units here, and counts the jobs and the tables in each."""

    def __init__(self) -> None:
        self.tables: list[int] = []

    def __call__(self, work: Sequence[WorkUnit], run, tables: int) -> list[UnitResult]:
        self.tables.append(tables)
        return LocalEngine().run_units(work, run)


def at_once(combiner: Combiner, jobs, calls: dict[str, list[WorkUnit]]):
    """The results of each call, made in a thread of its own, all at the same time."""
    ready = threading.Barrier(len(calls), timeout=PATIENCE)

    def call(name: str):
        ready.wait()
        return combiner.run(calls[name], partial(label, name), jobs)

    with ThreadPoolExecutor(len(calls)) as pool:
        return dict(zip(calls, pool.map(call, calls, timeout=PATIENCE), strict=True))


def test_small_work_of_several_threads_is_one_job():
    jobs = Jobs()
    calls = {"a": units(b"1", b"2"), "b": units(b"3"), "c": units(b"4", b"bad", b"5")}
    results = at_once(Combiner(), jobs, calls)
    assert jobs.tables == [3]
    assert {name: [r.payload for r in found or ()] for name, found in results.items()} == {
        "a": [b"a 1", b"a 2"],
        "b": [b"b 3"],
        "c": [b"c 4", None, b"c 5"],
    }
    assert all(
        [r.index for r in found or ()] == [*range(len(found or ()))] for found in results.values()
    )
    assert isinstance((results["c"] or [])[1].error, ValueError)


def test_alone_or_with_much_work_a_caller_makes_its_own_job():
    jobs, combiner = Jobs(), Combiner()
    assert combiner.run(units(b"1"), partial(label, "a"), jobs) is None
    much = units(b"1", b"2", size=MOST_BYTES)
    found = at_once(combiner, jobs, {"a": much, "b": units(b"1"), "c": units(b"2")})
    assert found["a"] is None
    assert jobs.tables == [2]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_job_leaves_each_caller_to_itself(error):
    def fail(*_):
        raise error

    ended: dict[str, object] = {}
    ready = threading.Barrier(3, timeout=PATIENCE)
    combiner = Combiner()

    def call(name: str) -> None:
        ready.wait()
        try:
            ended[name] = combiner.run(units(b"1"), partial(label, name), fail)
        except KeyboardInterrupt:
            ended[name] = "interrupted"

    threads = [threading.Thread(target=call, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    alone = [end for end in ended.values() if end is None]
    assert len(alone) == (3 if error is RuntimeError else 2)
    assert len(ended) == 3


def test_the_functions_of_all_tables_travel():
    many = pickle.loads(pickle.dumps(ManyRuns((partial(label, "a"), partial(label, "b")))))
    assert many((1).to_bytes(4) + b"x") == b"b x"
