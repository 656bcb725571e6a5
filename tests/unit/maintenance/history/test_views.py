"""What pages read from the history, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from paimon_maintenance.history.complete_days import KeptSums
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.lake_view import (
    NO_OWNER,
    LakeQuery,
    lake_page,
    lake_row,
    places,
    totals_since,
)
from paimon_maintenance.history.need_store import NeedStore, StoredDecision, StoredScore
from paimon_maintenance.history.retention import prune
from paimon_maintenance.history.status import StatusStore, TableStatus
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.history.table_view import table_view
from paimon_maintenance.history.work_view import WorkView, work_view

ODD = "db.\"><img src=x onerror='alert(1)'>%_\\../x"
DAY = 86_400_000


def status(table: str, **changes: object) -> TableStatus:
    values: dict[str, object] = {
        "at_millis": 5,
        "score": 90,
        "color": "green",
        "bytes": 100,
        "files": 2,
        "health": {"reasons": [], "partitions": []},
    }
    return TableStatus(table=table, **{**values, **changes})


def run(table: str, at: int, **changes: object) -> Entry:
    values: dict[str, object] = {
        "event": "run",
        "job": "compact",
        "warehouse": "/lake",
        "status": "success",
        "run_id": f"{table}-{at}",
        "seconds": 2.0,
        "files_before": 10,
        "files_after": 1,
        "bytes_before": 1000,
        "bytes_after": 600,
    }
    return Entry(table=table, at_millis=at, **{**values, **changes})


@pytest.fixture
def history(url):
    found = SqlHistory(url)
    store = StatusStore(found, "/lake")
    store.put(
        [
            status("db.a", score=20, color="red", criterion="small_files", reason="9 files"),
            status("db.b", owner="Sales", bytes=300, amplification=3.0, held_bytes=7),
            status("db.c", score=60, color="yellow", criterion="manifests", owner="risk"),
            status(ODD, score=None, color=None, error="cannot be read"),
        ]
    )
    StatusStore(found, "/lake", "dev").put([status("db.a")])
    StatusStore(found, "/other").put([status("db.z", at_millis=9)])
    return found


def names(history: SqlHistory, **query: object) -> list[str]:
    page = lake_page(history, LakeQuery(warehouse="/lake", **query))
    assert page.matches >= len(page.rows)
    return [row.table for row in page.rows]


def test_the_list_is_sorted_filtered_and_searched(history):
    assert names(history) == ["db.a", "db.c", "db.b", ODD]
    # What is unknown comes last in both directions.
    assert names(history, descending=True) == ["db.b", "db.c", "db.a", ODD]
    assert names(history, sort="bytes", descending=True)[0] == "db.b"
    assert names(history, color="red") == ["db.a"]
    assert names(history, color="unknown") == [ODD]
    assert names(history, owner="Sales") == ["db.b"]
    assert names(history, owner=NO_OWNER) == ["db.a", ODD]
    assert names(history, criterion="manifests") == ["db.c"]
    assert names(history, search="SALES b") == ["db.b"]
    assert names(history, search="9 FILES") == ["db.a"]
    # Wildcards of LIKE mean themselves.
    assert names(history, search="%_\\") == [ODD]
    assert names(history, search="a_") == []
    assert names(history, limit=2, offset=1) == ["db.c", "db.b"]


def test_the_totals_cover_all_tables_whatever_the_filter(history):
    page = lake_page(history, LakeQuery(warehouse="/lake", color="red", limit=1))
    assert page.matches == 1
    assert (page.totals.tables, page.totals.red, page.totals.yellow, page.totals.green) == (
        4,
        1,
        1,
        1,
    )
    assert page.totals.bytes == 600
    assert page.totals.amplification == pytest.approx((300 * 3 + 300) / 600)
    assert page.owners == {NO_OWNER: 2, "Sales": 1, "risk": 1}
    assert page.criteria == {"manifests": 1, "small_files": 1}
    assert [(p.warehouse, p.branch, p.tables) for p in places(history)] == [
        ("/other", "main", 1),
        ("/lake", "dev", 1),
        ("/lake", "main", 4),
    ]


def test_impossible_sizes_do_not_stop_the_totals(history):
    store = StatusStore(history, "/huge")
    store.put([status(f"db.t{n}", bytes=2**62, files=2**62, held_bytes=2**62) for n in range(5)])
    store.add_totals(1)
    page = lake_page(history, LakeQuery(warehouse="/huge"))
    assert page.totals.bytes == 2**63 - 1
    (stored,) = totals_since(history, warehouse="/huge", branch="main", since_millis=0)
    assert (stored.bytes, stored.tables) == (2**63 - 1, 5)


def test_totals_over_time_are_thinned_out_and_keep_the_newest(history):
    store = StatusStore(history, "/lake")
    for at in range(1, 1001):
        if at in (1, 1000):
            store.add_totals(at)
    assert [
        t.at_millis for t in totals_since(history, warehouse="/lake", branch="main", since_millis=0)
    ] == [1, 1000]
    assert totals_since(history, warehouse="/lake", branch="dev", since_millis=0) == []
    newest = totals_since(history, warehouse="/lake", branch="main", since_millis=1000)[0]
    assert (newest.tables, newest.red, newest.held_bytes) == (4, 1, 7)


def test_the_last_maintenance_is_that_of_the_same_warehouse(history):
    history.add(
        [
            run("db.a", 10),
            run("db.a", 11, event="skip"),
            run("db.a", 12, status="failed"),
            run("db.a", 13, warehouse="/other"),
            run("db.a", 14, branch="dev"),
            run("db.b", 14, job="expire_snapshots", part_of="maintain"),
        ]
    )
    page = lake_page(history, LakeQuery(warehouse="/lake", sort="last", descending=True))
    assert [(r.table, r.last_at, r.last_job) for r in page.rows[:3]] == [
        ("db.b", 14, "maintain"),
        ("db.a", 10, "compact"),
        (ODD, None, None),
    ]


def test_the_last_maintenance_is_that_of_the_same_branch(history):
    StatusStore(history, "/lake", "dev").put([status("db.a")])
    history.add([run("db.a", 10), run("db.a", 11, branch="dev"), run("db.a", 12, branch="b")])
    for branch, at in (("main", 10), ("dev", 11)):
        row = lake_row(history, warehouse="/lake", table="db.a", branch=branch)
        assert row is not None
        assert row.last_at == at


def test_a_status_is_replaced_and_forgotten(history):
    store = StatusStore(history, "/lake")
    store.put([status("db.a", score=99, next_job="compact", next_action="later")])
    row = lake_row(history, warehouse="/lake", table="db.a", branch="main")
    assert row is not None
    assert (row.score, row.next_job) == (99, "compact")
    store.forget(["db.a", ODD])
    store.forget([])
    store.put([])
    assert names(history) == ["db.c", "db.b"]
    assert lake_row(history, warehouse="/lake", table="db.a", branch="dev") is not None


def test_one_table_with_scores_decisions_and_runs(history):
    needs = NeedStore(history, "/lake")
    for at in (1, 2):
        score = StoredScore(
            at_millis=at, score=at, amplification=1.0, files=1, bytes=1, held_bytes=0, reason=None
        )
        needs.put({}, {"db.a": score, "db.b": score})
    needs.add(
        [
            StoredDecision(
                at_millis=3,
                round_id="r",
                table="db.a",
                job="compact",
                action="run",
                reason="9 files",
                predicted_seconds=1.5,
            )
        ]
    )
    result = {"score_before": 20, "score_after": 95}
    needs.finish(
        round_id="r",
        table="db.a",
        job="compact",
        status="success",
        seconds=2.0,
        engine="local",
        result=result,
    )
    history.add([run("db.a", 4), run("db.a", 5, branch="dev"), run("db.a", 6, warehouse="/other")])
    found = table_view(history, warehouse="/lake", table="db.a")
    assert found is not None
    assert [s.at_millis for s in found.scores] == [2, 1]
    assert (found.decisions[0].seconds, found.decisions[0].score_after) == (2.0, 95)
    assert [r.at_millis for r in found.runs] == [4]
    assert found.health == {"reasons": [], "partitions": []}
    assert table_view(history, warehouse="/lake", table="no.table") is None


def test_work_is_added_up_by_job_table_and_day(history):
    history.add(
        [
            run("db.a", DAY),
            run("db.a", DAY + 1),
            run(
                "db.b",
                2 * DAY,
                job="maintain",
                files_before=None,
                files_after=None,
                bytes_before=None,
                bytes_after=None,
            ),
            run("db.b", 2 * DAY, job="expire_snapshots", part_of="maintain"),
            run("db.b", 2 * DAY, event="plan"),
            run("db.a", 9 * DAY),
            run("db.a", 2 * DAY, warehouse="/other"),
        ]
    )
    found = work_view(history, warehouse="/lake", since_millis=0, until_millis=9 * DAY)
    assert (found.total.runs, found.total.seconds, found.total.files_fewer) == (3, 6.0, 18)
    assert found.total.bytes_rewritten == 3200
    assert [(w.name, w.runs) for w in found.by_job] == [("compact", 2), ("maintain", 1)]
    assert [(w.name, w.bytes_fewer) for w in found.by_table] == [("db.a", 800), ("db.b", 0)]
    assert [(d.at_millis, d.runs) for d in found.by_day] == [(DAY, 2), (2 * DAY, 1)]
    everywhere = work_view(history, warehouse=None, since_millis=0, until_millis=10 * DAY)
    assert everywhere.total.runs == 5
    # The same name in two warehouses is two tables, and each line leads to its own.
    assert [(w.warehouse, w.name, w.runs) for w in everywhere.by_table] == [
        ("/lake", "db.a", 3),
        ("/other", "db.a", 1),
        ("/lake", "db.b", 1),
    ]
    assert everywhere.tables_changed == 3
    nothing = work_view(history, warehouse="/none", since_millis=0, until_millis=1)
    assert (nothing.total.runs, nothing.by_job, nothing.median_error) == (0, (), None)


def test_complete_days_are_summed_up_once_and_again_after_a_change(history):
    def of(job: str, day: int, at: int, **changes: object) -> Entry:
        return run("db.a", day * DAY + at, job=job, bytes_freed=100, **changes)

    history.add([of("compact", day, at) for day in range(5) for at in (1, DAY // 2)])
    history.add([of("expire_snapshots", 4, 7, status="failed"), run("db.b", 2 * DAY)])
    kept = KeptSums()
    asked = {"warehouse": "/lake", "since_millis": DAY // 4, "until_millis": 6 * DAY}
    today = 4 * DAY + DAY // 2

    def both() -> WorkView:
        found = work_view(history, **asked, now_millis=today, kept=kept)
        assert found == work_view(history, **asked)
        return found

    first = both()
    assert (first.total.runs, first.total.bytes_freed) == (11, 1000)
    assert both() == first
    history.add([of("compact", 4, DAY // 2 + 1)])  # today
    assert both().total.runs == 12
    history.add([of("compact", 2, 3)])  # late
    assert both().total.runs == 13
    prune(history, before=2 * DAY)
    assert both().total.runs == 10


def test_failures_are_grouped_and_open_ones_come_first(history):
    failed = {
        "status": "failed",
        "error_type": "GuardTripped",
        "error": "too much",
        "next_step": "read the plan",
    }
    history.add(
        [
            run("db.a", 10, **failed),
            run("db.a", 20, **failed),
            run("db.b", 30, **failed),
            run("db.b", 40),
            run("db.c", 50, status="unknown_outcome"),
            run("db.a", 60, job="maintain"),
        ]
    )
    found = work_view(history, warehouse=None, since_millis=0, until_millis=100).failures
    assert [(f.newest.table, f.times, f.first_millis, f.solved_at) for f in found] == [
        ("db.c", 1, 50, None),
        ("db.a", 2, 10, None),
        ("db.b", 1, 30, 40),
    ]
    assert found[1].newest.next_step == "read the plan"


def test_a_success_on_main_solves_no_failure_of_a_branch(history):
    failed = {"status": "failed", "error_type": "GuardTripped"}
    history.add(
        [
            run("db.a", 10, **failed, branch="dev"),
            run("db.a", 20, **failed),
            run("db.a", 30),
            run("db.b", 40, **failed, branch="dev"),
            run("db.b", 50, branch="dev"),
        ]
    )
    found = work_view(history, warehouse=None, since_millis=0, until_millis=100).failures
    assert [(f.newest.table, f.newest.branch, f.times, f.solved_at) for f in found] == [
        ("db.a", "dev", 1, None),
        ("db.b", "dev", 1, 50),
        ("db.a", "main", 1, 30),
    ]


def test_predictions_are_held_against_what_happened(history):
    needs = NeedStore(history, "/lake")
    runs = ((1.0, 1.0, None), (1.0, 2.0, 1), (4.0, 1.0, 2), (9.0, 1.0, 0))
    for number, (predicted, took, past_runs) in enumerate(runs):
        needs.add(
            [
                StoredDecision(
                    at_millis=number,
                    round_id=f"r{number}",
                    table="db.a",
                    job="compact",
                    action="run",
                    reason="",
                    predicted_seconds=predicted,
                    past_runs=past_runs,
                )
            ]
        )
        needs.finish(
            round_id=f"r{number}",
            table="db.a",
            job="compact",
            status="success",
            seconds=took,
            engine=None,
            result={},
        )
    found = work_view(history, warehouse="/lake", since_millis=0, until_millis=9)
    assert [(p.at_millis, p.past_runs) for p in found.predictions] == [
        (3, 0),
        (2, 2),
        (1, 1),
        (0, None),
    ]
    assert {(p.warehouse, p.table, p.branch) for p in found.predictions} == {
        ("/lake", "db.a", "main")
    }
    # The run without past runs is shown, and its error does not count.
    assert found.median_error == pytest.approx(0.5)
    assert found.p90_error == pytest.approx(2.5)
