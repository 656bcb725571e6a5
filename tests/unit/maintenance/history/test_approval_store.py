"""Approvals end, belong to one place, and hold for one run; in SQLite and in PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa

from paimon_core.errors import InvalidArgument
from paimon_maintenance.history.approval_store import (
    VALID_MILLIS,
    ApprovalState,
    ApprovalStore,
    Asked,
)
from paimon_maintenance.history.entry import Actor
from paimon_maintenance.history.store import SqlHistory

ASKED = Asked(
    table="db.t", job="rollback", arguments={"snapshot": 2}, force=False, reason="rollback"
)
ANN = Actor(origin="cli", name="ann")


def test_approvals_end_belong_to_a_place_and_to_one_run(url):
    history = SqlHistory(url)
    store, other = ApprovalStore(history, "/lake"), ApprovalStore(history, "/other")
    number = store.ask(ASKED, ANN, 1)
    store.answer(number, ApprovalState.APPROVED, "bob", 2)
    assert not other.use(ASKED, "r1", 3)
    assert not store.use(replace(ASKED, force=True), "r1", 3)
    assert not store.use(ASKED, "r1", 3 + VALID_MILLIS)
    assert store.use(ASKED, "r1", 3)
    assert store.use(ASKED, "r1", 4)  # a retry of the same run
    assert not store.use(ASKED, "r2", 4)


def test_of_several_runs_at_once_one_uses_an_approval(url):
    store = ApprovalStore(SqlHistory(url), "/lake")
    for _ in range(3):
        store.answer(store.ask(ASKED, ANN, 1), ApprovalState.APPROVED, "bob", 2)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: store.use(ASKED, f"r{n}", 3), range(8)))
    assert sum(found) == 3


def test_an_answer_never_overwrites_one_that_came_first(url):
    """A second approval must not make an approval that a run has used good for another run."""
    history = SqlHistory(url)
    store = ApprovalStore(history, "/lake")
    number = store.ask(ASKED, ANN, 1)
    with ThreadPoolExecutor(1) as pool:
        with history.engine().begin() as first:
            first.execute(
                sa.text("UPDATE caretaker_approvals SET state = 'used', answered_by = 'bob'")
            )
            second = pool.submit(store.answer, number, ApprovalState.APPROVED, "eve", 2)
            with pytest.raises(TimeoutError):
                second.result(0.5)  # it waits for the first one's lock
        with pytest.raises(InvalidArgument, match="it is used by bob"):
            second.result(30)
    assert not store.use(ASKED, "r2", 3)
