"""The positions of maintenance on commit in SQLite and in PostgreSQL."""

from __future__ import annotations

from paimon_maintenance.history.position_store import Position, PositionStore
from paimon_maintenance.history.store import SqlHistory

MINUTE = 60_000


def test_positions_begin_once_move_and_wait_after_failures(url):
    store = PositionStore(SqlHistory(url), "/lake")
    assert store.all() == {}
    store.begin({"db.t": 3, "db.'ü\"": 2**40}, 10)
    # Another watcher may have begun, and a table that is new to both is not left out.
    store.begin({"db.t": 9, "db.new": 1}, 11)
    assert {name: p.snapshot for name, p in store.all().items()} == {
        "db.t": 3,
        "db.'ü\"": 2**40,
        "db.new": 1,
    }
    store.advance("db.t", 5, 20)
    assert store.get("db.t") == Position(snapshot=5, at_millis=20)
    for number, minutes in ((1, 1), (2, 2), (3, 4)):
        store.failed("db.t", store.get("db.t"), 30)
        assert store.get("db.t") == Position(
            snapshot=5, at_millis=20, failures=number, retry_millis=30 + minutes * MINUTE
        )
    store.advance("db.t", 4, 40)  # after a rollback
    assert store.get("db.t") == Position(snapshot=4, at_millis=40)


def test_warehouses_and_branches_have_positions_of_their_own(url):
    history = SqlHistory(url)
    stores = [
        PositionStore(history, warehouse, branch)
        for warehouse, branch in (("/lake", "main"), ("/lake", "b"), ("/other", "main"))
    ]
    for number, store in enumerate(stores, 1):
        store.begin({"db.t": number}, number)
    assert [s.get("db.t").snapshot for s in stores] == [1, 2, 3]
    assert stores[0].get("db.none") == Position(snapshot=0)
