"""Alerts open once, remind, and end with an all-clear; in SQLite and in PostgreSQL."""

from __future__ import annotations

import threading

import pytest

from paimon_maintenance.history.alert_store import (
    CLEAR_MILLIS,
    REMIND_MILLIS,
    AlertStore,
    Word,
    to_send,
)
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.schedule.alerts import Alert, AlertKind

HOUR = 3_600_000
FAILED = Alert(
    table="db.t",
    kind=AlertKind.FAILED_TWICE,
    subject="db.t: compact failed 2 times in a row",
    text="OSError: 'no' <b>",
    next_step="again",
    owner="me",
    targets=("a", "b"),
)


@pytest.fixture
def store(url) -> AlertStore:
    return AlertStore(SqlHistory(url), "/lake")


def send(store: AlertStore, now: int, *, only: str | None = None) -> list[tuple[str, str, Word]]:
    """What is sent now; with `only`, the other targets do not answer."""
    sent = []
    for alert, words in to_send(store.take(now), now, default="ops"):
        reached = {t: w for t, w in words.items() if only in (None, t)}
        sent += [(alert.table, t, w) for t, w in reached.items()]
        store.record_sent(alert, reached, now)
    return sent


def test_nobody_is_told_twice_and_all_get_the_all_clear(store):
    store.update([FAILED], 0)
    store.update([FAILED], 10)
    assert send(store, 10) == [("db.t", "a", Word.OPEN), ("db.t", "b", Word.OPEN)]
    assert send(store, 20) == []
    assert [w for _, _, w in send(store, REMIND_MILLIS + 10)] == [Word.STILL_OPEN] * 2
    assert send(store, REMIND_MILLIS + 20) == []
    end = REMIND_MILLIS + HOUR
    store.update([], end)
    # What returns soon was never over.
    assert send(store, end) == []
    store.update([FAILED], end + 1)
    assert send(store, end + 2) == []
    assert len(store.alerts()) == 1
    store.update([], end + 3)
    over = end + 3 + CLEAR_MILLIS
    assert [w for _, _, w in send(store, over)] == [Word.ALL_CLEAR] * 2
    assert send(store, over + 1) == []
    assert store.alerts() == []
    (ended,) = store.alerts(resolved_since=end)
    assert (ended.opened_millis, ended.resolved_millis) == (0, end + 3)
    # The next time it is another alert.
    store.update([FAILED], over + HOUR)
    assert [w for _, _, w in send(store, over + HOUR)] == [Word.OPEN] * 2


def test_a_target_that_does_not_answer_is_told_later(store):
    store.update([FAILED], 0)
    assert send(store, 0, only="a") == [("db.t", "a", Word.OPEN)]
    assert send(store, 1) == [("db.t", "b", Word.OPEN)]


def test_alerts_without_a_target_go_to_the_default_one(store):
    store.update([Alert(table="db.t", kind="x", subject="s", text="t", next_step="n")], 0)
    assert send(store, 0) == [("db.t", "ops", Word.OPEN)]
    other = AlertStore(store.history, "/other")
    other.update([], 5)
    assert len(store.alerts()) == 1


def test_two_senders_do_not_send_the_same(store):
    store.update([FAILED], 0)
    found: list[int] = []
    barrier = threading.Barrier(4)

    def take() -> None:
        own = AlertStore(SqlHistory(store.history.url), "/lake")
        barrier.wait()
        own.update([FAILED], 1)
        found.append(len(own.take(1)))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 0, 0, 1]
    # A sender that died gives them up after five minutes.
    assert store.take(2) == []
    assert len(store.take(5 * 60_000 + 2)) == 1
