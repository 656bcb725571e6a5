from __future__ import annotations

import threading

import pytest

from paimon_core.errors import CorruptTable
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine import WorkUnit


def units(*payloads: bytes) -> list[WorkUnit]:
    return [WorkUnit(payload=p, expected_bytes=len(p), label=p.decode()) for p in payloads]


def shout(payload: bytes) -> bytes:
    if payload == b"bad":
        raise CorruptTable("broken", table="db.t")
    return payload.upper()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failing_unit_does_not_lose_the_others(threads):
    done = []
    results = LocalEngine(threads).run_units(
        units(b"a", b"bad", b"ccc"), shout, on_done=done.append
    )
    assert [r.index for r in results] == [0, 1, 2]
    assert [r.payload for r in results] == [b"A", None, b"CCC"]
    assert isinstance(results[1].error, CorruptTable)
    assert len(done) == 3


def test_threads_run_side_by_side():
    meeting = threading.Barrier(2, timeout=120)

    def meet(payload: bytes) -> bytes:
        meeting.wait()
        return payload

    results = LocalEngine(2).run_units(units(b"a", b"b"), meet)
    assert [r.error for r in results] == [None, None]


def test_ctrl_c_is_no_result():
    def interrupted(_: bytes) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalEngine().run_units(units(b"a"), interrupted)
