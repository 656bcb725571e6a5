"""Which conditions of runs and tables are alerts, and which end them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_maintenance.health.measurement import (
    ConsumerLag,
    Holder,
    Measurement,
    PartitionMeasurement,
)
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.need_store import StoredScore
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.policy.needs import TableNeeds
from paimon_maintenance.schedule.alerts import AlertKind, TableFindings, alerts_of
from paimon_maintenance.schedule.state import TableState

NOW = 1_800_000_000_000
HOUR = 3_600_000
RUN = Entry(
    at_millis=NOW,
    event="run",
    job="compact",
    table="db.t",
    warehouse="/lake",
    status="success",
    run_id="r",
)
FAILED = replace(RUN, status="failed", error_type="OSError", error="no", next_step="again")
PARTITION = PartitionMeasurement(
    name="",
    values={},
    files=3,
    bytes=10**9,
    rows=10**6,
    ideal_files=1,
    buckets=1,
    point_runs=3,
    full_runs=3.0,
)
TABLE = Measurement(table="db.t", at_millis=NOW, snapshot=3, partitions=(PARTITION,))


def kinds(*entries: Entry, needs: TableNeeds | None = None, **known: object) -> list[str]:
    tables = {}
    if known:
        tables["db.t"] = TableFindings(**{"measurement": TABLE, "state": TableState(), **known})
    needed = {} if needs is None else {"db.t": needs}
    return [str(a.kind) for a in alerts_of(needed, tables, entries, NOW)]


def test_failures_in_a_row():
    assert kinds(FAILED) == []
    assert kinds(FAILED, FAILED) == [AlertKind.FAILED_TWICE]
    assert kinds(RUN, FAILED, FAILED) == []
    assert kinds(FAILED, RUN, FAILED) == []
    # Plans in between say nothing, and another job is another matter.
    assert kinds(FAILED, replace(RUN, event="plan"), FAILED) == [AlertKind.FAILED_TWICE]
    assert kinds(FAILED, replace(FAILED, job="maintain")) == []
    (alert,) = alerts_of({}, {}, [FAILED, FAILED], NOW)
    assert alert.subject == "db.t: compact failed 2 times in a row"
    assert (alert.text, alert.next_step) == ("OSError: no", "again")


def test_guards_and_unknown_outcomes():
    guard = replace(FAILED, event="plan", error_type="GuardTripped", error="too much")
    assert kinds(guard) == [AlertKind.GUARD_TRIPPED]
    assert kinds(RUN, guard) == []
    unknown = replace(RUN, status="unknown_outcome")
    assert kinds(unknown) == [AlertKind.UNKNOWN_OUTCOME]
    assert kinds(replace(FAILED, error_type="CommitStateUnknown")) == [AlertKind.UNKNOWN_OUTCOME]
    assert kinds(RUN, unknown) == []


def test_goals_of_the_policy():
    waiting = replace(PARTITION, oldest_level_0=NOW - HOUR)
    late = replace(TABLE, partitions=(waiting,))
    assert kinds(measurement=late) == []
    goal = TableNeeds(freshness_millis=10 * 60_000, owner="me", alerts=("a",))
    assert kinds(measurement=late, needs=goal) == [AlertKind.FRESHNESS_MISSED]
    (alert,) = alerts_of(
        {"db.t": goal}, {"db.t": TableFindings(measurement=late, state=TableState())}, [], NOW
    )
    assert (alert.owner, alert.targets) == ("me", ("a",))
    assert kinds(measurement=late, needs=replace(goal, scheduled=False)) == []
    behind = ConsumerLag(id="c", snapshots=9, since=NOW - 25 * HOUR, bytes=1, last_seen=NOW)
    assert kinds(measurement=replace(TABLE, consumers=(behind,))) == [AlertKind.CONSUMER_BEHIND]
    assert kinds(state=TableState(red_since=NOW - 25 * HOUR)) == [AlertKind.RED_TOO_LONG]
    assert kinds(state=TableState(red_since=NOW - 23 * HOUR)) == []


def test_an_expiry_that_is_blocked():
    holder = Holder(kind="consumer", name="reader", snapshots=30, bytes=1)
    blocked = replace(TABLE, blocked_snapshots=30, holders=(holder,))
    assert kinds(measurement=blocked) == [AlertKind.EXPIRY_BLOCKED]
    assert kinds(measurement=replace(blocked, blocked_snapshots=3)) == []
    large = replace(blocked, blocked_snapshots=3, blocked_bytes=10**9)
    assert kinds(measurement=large) == [AlertKind.EXPIRY_BLOCKED]
    assert kinds(measurement=replace(TABLE, stuck={"dt=x": "no date"})) == [
        AlertKind.EXPIRY_BLOCKED
    ]


def test_a_table_that_gets_worse_although_jobs_succeed():
    def scores(*values: int) -> list[StoredScore]:
        return [
            StoredScore(
                at_millis=NOW - i * HOUR,
                score=v,
                amplification=1,
                files=1,
                bytes=1,
                held_bytes=0,
                reason="many runs",
            )
            for i, v in enumerate(values)
        ]

    falling = scores(40, 45, 42, 70, 90)
    assert kinds(RUN, RUN, RUN, scores=falling) == [AlertKind.GETTING_WORSE]
    assert kinds(RUN, RUN, scores=falling) == [], "it is hardly maintained"
    assert kinds(RUN, RUN, RUN, scores=scores(40, 95, 42, 90)) == [], "it recovers each time"
    assert kinds(RUN, RUN, RUN, scores=scores(90, 80, 70)) == []


def test_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    lake = Lake(tmp_path / "lake")
    lake.primary_key("db.t")
    lake.fill(2)
    words = ("alerts", "-w", lake.warehouse)
    assert caretaker(*words).code == 3
    assert caretaker("schedule", "db.*", "-w", lake.warehouse, "--dry-run").code == 0
    import time

    now = int(time.time() * 1000)
    here = replace(FAILED, at_millis=now, warehouse=str(lake.warehouse))
    SqlHistory(f"sqlite:///{tmp_path}/history.db").add([here, here])
    shown = caretaker(*words)
    assert shown.code == 0
    assert "failed_twice  db.t: compact failed 2 times in a row" in shown.out
    assert "-> again" in shown.out
    (alert,) = caretaker(*words, "--json").json["alerts"]
    assert alert["kind"] == "failed_twice"
    SqlHistory(f"sqlite:///{tmp_path}/history.db").add(
        [replace(RUN, at_millis=now + 1, warehouse=str(lake.warehouse))]
    )
    assert caretaker(*words).code == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x: { notifier: sms }", "neither one of email, webhook"),
        ("x: { arguments: {} }", "`notifier` is missing"),
        ("x: { notifier: webhook, arguments: { token: t } }", "use a connection of Airflow"),
        ("x: { notifier: webhook, url: u }", "unknown key 'url'"),
    ],
)
def test_wrong_targets_are_refused(text, why):
    from paimon_core.errors import InvalidArgument
    from paimon_maintenance.policy.load import read_policy

    with pytest.raises(InvalidArgument, match=why):
        read_policy(f"version: 1\nalert_targets: {{ {text} }}\nrules: []\n", "p.yaml")
