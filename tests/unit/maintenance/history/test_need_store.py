"""What the scheduler stores comes back from SQLite and from PostgreSQL."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
import sqlalchemy as sa

from paimon_core.errors import MaintenanceError
from paimon_maintenance.history.migrate import migrate
from paimon_maintenance.history.need_store import (
    NeedStore,
    StoredDecision,
    StoredScore,
    StoredTable,
)
from paimon_maintenance.history.position_store import PositionStore
from paimon_maintenance.history.status import StatusStore, TableStatus
from paimon_maintenance.history.store import SqlHistory

DECISION = StoredDecision(
    at_millis=5,
    round_id="r1",
    table="db.t",
    job="compact",
    action="run",
    reason="a 'reason' with \"quotes\" and ü",
    rank=1.5,
    benefit=2.0,
    predicted_seconds=3.0,
    work={"job": "compact"},
    predicted={"bytes": 7.0},
    run_id="x",
)
SCORE = StoredScore(
    at_millis=5, score=70, amplification=2.5, files=3, bytes=2**40, held_bytes=1, reason=None
)


def at_once(works: list[Callable[[], None]]) -> list[BaseException | None]:
    """The error of each of them, started at the same time in threads of their own."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        barrier.wait(30)
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [f.exception() for f in [pool.submit(run, work) for work in works]]


def test_rounds_of_several_schedulers_store_the_same_tables_at_once(url):
    """Each has measured all tables, in an order of its own, and none may fail because of another."""
    names = [f"db.t{number}" for number in range(40)]
    history = SqlHistory(url)
    NeedStore(history, "/lake").tables()  # migrate first: that is another test's subject

    def scheduler(number: int) -> None:
        own = SqlHistory(url)
        store, status = NeedStore(own, "/lake"), StatusStore(own, "/lake")
        positions = PositionStore(own, "/lake")
        for repeat in range(5):
            order = random.Random(100 * number + repeat).sample(names, len(names))
            stored = StoredTable(at_millis=number, measurement={"by": number}, state={})
            store.put(dict.fromkeys(order, stored), {})
            status.put([TableStatus(table=n, at_millis=number, health={}) for n in order])
            for name in order[:5]:
                positions.advance(name, number, now=number)

    assert at_once([partial(scheduler, number) for number in range(4)]) == [None] * 4
    found = NeedStore(history, "/lake").tables()
    assert found.keys() == set(names)
    assert len({stored.at_millis for stored in found.values()}) == 1, "the last one wrote all"
    with history.reading() as connection:
        rows = connection.execute(sa.text("SELECT table_name FROM caretaker_table_status"))
        assert sorted(name for (name,) in rows) == sorted(names)


def test_everything_comes_back(url):
    store = NeedStore(SqlHistory(url), "/lake")
    other = NeedStore(SqlHistory(url), "/other")
    table = StoredTable(at_millis=5, measurement={"a": [1]}, state={"growth": 0.5})
    store.put({"db.t": table}, {"db.t": SCORE})
    newer = replace(table, at_millis=6)
    store.put({"db.t": newer}, {"db.t": replace(SCORE, at_millis=6)})
    assert store.tables() == {"db.t": newer}
    assert [s.at_millis for s in store.scores("db.t")] == [6, 5]
    assert store.scores("db.t")[1] == SCORE
    store.add([DECISION, replace(DECISION, action="later", job="maintain", run_id=None)])
    store.add([])
    store.finish(
        round_id="r1",
        table="db.t",
        job="compact",
        status="success",
        seconds=4.0,
        engine="local",
        result={"score_after": 100},
    )
    done = replace(
        DECISION, status="success", seconds=4.0, engine="local", result={"score_after": 100}
    )
    assert store.decisions("db.t")[1] == done
    assert store.finished() == [done]
    assert (other.tables(), other.decisions("db.t"), other.finished()) == ({}, [], [])
    assert store.claim("db.t", "a", now=0, until=9)
    assert not store.claim("db.t", "b", now=1, until=9)
    assert other.claim("db.t", "b", now=1, until=9)


def test_a_claim_of_a_clock_that_was_wrong_holds_nothing(url):
    store = NeedStore(SqlHistory(url), "/lake")
    day = 86_400_000
    assert store.claim("db.t", "a", now=day, until=day + 30_000)
    store.release("db.t", "a", now=day)
    # The clock is right again, a day earlier.
    assert store.claimed(1000) == frozenset()
    assert store.claim("db.t", "b", now=1000, until=31_000, since=900)
    # Clocks that differ by a minute do not take a claim from each other.
    assert not store.claim("db.t", "c", now=0, until=30_000)
    assert store.claimed(0) == {"db.t"}


def test_a_history_of_version_2_is_migrated(url):
    history = SqlHistory(url)
    engine = sa.create_engine(url)
    if engine.dialect.name == "sqlite":
        from pathlib import Path

        Path(engine.url.database).parent.mkdir(parents=True)
    with engine.begin() as connection:
        assert migrate(connection, to=2) == 2
    engine.dispose()
    assert NeedStore(history, "/lake").tables() == {}


def test_a_database_that_does_not_answer(tmp_path):
    (tmp_path / "file").write_text("")
    store = NeedStore(SqlHistory(f"sqlite:///{tmp_path}/file/h.db"), "/lake")
    with pytest.raises(MaintenanceError, match="scheduler cannot use the history"):
        store.tables()
