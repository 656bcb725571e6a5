"""The report on a period, and the history's own retention."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from command_line import caretaker

from paimon_core.errors import InvalidArgument
from paimon_maintenance.history.entry import Actor, Entry, entries_of_report
from paimon_maintenance.history.migrate import VERSION_TABLE
from paimon_maintenance.history.need_store import NeedStore, StoredDecision, StoredScore
from paimon_maintenance.history.report import markdown, report_of
from paimon_maintenance.history.retention import prune, retention_millis
from paimon_maintenance.history.store import SqlHistory

DAY = 86_400_000
NOW = 1_780_000_000_000
RUN = Entry(
    at_millis=NOW - DAY,
    event="run",
    job="compact",
    table="db.t",
    warehouse="/lake",
    status="success",
    run_id="r1",
    seconds=90.0,
    snapshots=(4,),
    files_before=10,
    files_after=1,
    bytes_before=2 * 1024**3,
    bytes_after=1024**3,
)
FAILED = replace(
    RUN,
    run_id="r2",
    status="failed",
    snapshots=(),
    seconds=10.0,
    error_type="OSError",
    error="no space",
    next_step="make room",
)
EXPIRY = replace(
    RUN,
    run_id="r3",
    job="maintain",
    table="db.u",
    details={"deleted_bytes": 7 * 1024**2, "deleted_files": 3},
    bytes_freed=7 * 1024**2,
    snapshots=(),
)
DECISION = StoredDecision(
    at_millis=NOW - DAY,
    round_id="x",
    table="db.t",
    job="compact",
    action="run",
    reason="why",
    predicted_seconds=80.0,
    status="success",
    seconds=100.0,
)


@pytest.fixture
def store(url) -> NeedStore:
    store = NeedStore(SqlHistory(url), "/lake")
    steps = replace(EXPIRY, job="expire_snapshots", part_of="maintain")
    other = replace(RUN, warehouse="/other", run_id="r9")
    old = replace(RUN, at_millis=NOW - 8 * DAY, run_id="r0")
    store.history.add([old, RUN, FAILED, EXPIRY, steps, other])
    open_one = replace(DECISION, status=None, seconds=None)
    dry_run = replace(open_one, status="dry_run")
    first = replace(DECISION, round_id="first", predicted_seconds=900.0, past_runs=0)
    store.add([first, DECISION, replace(open_one, action="later"), dry_run])
    return store


def test_a_period_is_summed_up(store):
    found = report_of(store, since=NOW - 7 * DAY, until=NOW)
    assert (found.total.runs, found.total.failed, found.total.seconds) == (3, 1, 190.0)
    assert (found.total.files, found.total.rewritten_bytes) == (9, 2 * 1024**3)
    assert found.total.deleted_bytes == 7 * 1024**2
    assert list(found.jobs) == ["compact", "expire_snapshots", "maintain"]
    assert list(found.tables) == ["db.t", "db.u"]
    assert found.predictions is not None
    assert (found.predictions.runs, round(found.predictions.median, 3)) == (1, 0.2)
    assert found.decisions == {"dry run": 1, "later": 1, "run": 2}
    text = "\n".join(markdown(found))
    assert "3 runs, 1 failed, 3 min." in text
    assert "| compact | 2 | 1 | 100.0 s | 2.0 GB | 9 | 0 B |" in text
    assert "db.t compact: OSError: no space -> make room" in text
    assert json.loads(json.dumps(found.to_json()))["total"]["runs"] == 3


def test_what_steps_free_counts_for_the_job_that_is_made_of_them():
    step = {"job": "expire_snapshots", "status": "success", "details": {"deleted_bytes": 5}}
    tags = {
        "job": "expire_tags",
        "details": {"finished": {"deleted_bytes": 2}},
        "status": "success",
    }
    idle = {"job": "expire_partitions", "status": "nothing_to_do"}
    report = {
        "job": "maintain",
        "table": "db.t",
        "warehouse": "/lake",
        "run_id": "r",
        "status": "success",
        "parts": [step, tags, idle],
        "application": {"id": "local-1", "ui": "http://spark:4040"},
    }
    entries = entries_of_report(report, at_millis=NOW, actor=Actor(origin="cli", name="ann"))
    assert [(e.job, e.bytes_freed) for e in entries] == [
        ("maintain", 7),
        ("expire_snapshots", 5),
        ("expire_tags", 2),
        ("expire_partitions", None),
    ]
    assert (entries[0].application_id, entries[0].application_url) == (
        "local-1",
        "http://spark:4040",
    )


def test_earlier_histories_learn_what_was_freed(url):
    step = replace(EXPIRY, job="expire_snapshots", part_of="maintain", bytes_freed=None)
    whole = replace(EXPIRY, details={}, bytes_freed=None)
    history = SqlHistory(url)
    history.add([step, whole, RUN])
    engine = history.engine()
    with engine.begin() as connection:  # as version 6 was
        connection.execute(sa.text("DROP TABLE caretaker_approvals"))
        for name in ("caretaker_history_by_time",):
            connection.execute(sa.text(f"DROP INDEX {name}"))
        for name in ("bytes_freed", "application_id", "application_url"):
            connection.execute(sa.text(f"ALTER TABLE caretaker_history DROP COLUMN {name}"))
        connection.execute(sa.text("ALTER TABLE caretaker_decisions DROP COLUMN past_runs"))
        connection.execute(
            sa.text("CREATE INDEX caretaker_history_by_time ON caretaker_history (event)")
        )
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '6'"))
    found = SqlHistory(url).newest()  # a reader migrates, too
    assert {e.job: e.bytes_freed for e in found} == {
        "compact": None,
        "maintain": 7 * 1024**2,
        "expire_snapshots": 7 * 1024**2,
    }


def test_the_command_writes_every_form(store, url, monkeypatch, tmp_path):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    words = ("report", "--since", "3650d", "-w", "/lake")
    files = ("--markdown", tmp_path / "r.md", "--parquet", tmp_path / "r.parquet")
    shown = caretaker(*words, *files)
    assert shown.code == 0, shown.err
    assert (tmp_path / "r.md").read_text().strip() == shown.out.strip()
    assert f"5 entries written to {tmp_path}" in shown.err
    table = pq.read_table(tmp_path / "r.parquet")
    assert table.column("run_id").to_pylist() == ["r0", "r1", "r2", "r3", "r3"]
    assert table.column("snapshots").to_pylist()[0] == [4]
    assert json.loads(table.column("details").to_pylist()[3])["deleted_files"] == 3
    assert caretaker(*words, "--json").json["total"]["runs"] == 4
    assert caretaker("report", "--since", "7d", "-w", "/nothing").code == 3


def test_what_is_older_than_the_retention_goes(store):
    score = StoredScore(
        at_millis=NOW - 9 * DAY,
        score=1,
        amplification=1,
        files=1,
        bytes=1,
        held_bytes=1,
        reason=None,
    )
    store.put({}, {"db.t": score})
    old = NOW - 9 * DAY
    start = replace(RUN, event="start", status="started", at_millis=old, run_id="open")
    done = replace(start, run_id="r0")
    store.history.add([start, done])
    assert prune(store.history, before=NOW - 7 * DAY) == {
        "caretaker_history": 2,
        "caretaker_scores": 1,
        "caretaker_decisions": 0,
        "caretaker_rounds": 0,
        "caretaker_totals": 0,
        "caretaker_alerts": 0,
        "caretaker_approvals": 0,
    }
    # The outcome of a run without an end is still to be found.
    assert [e.run_id for e in store.history.open_runs(table="db.t", warehouse="/lake")] == ["open"]


@pytest.mark.parametrize("words", [("run", "compact", "db.t", "--engine", "local"), ("alerts",)])
def test_commands_that_write_the_history_keep_its_retention(lake, url, monkeypatch, words):
    """Lakes that no scheduler maintains have one, too."""
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    monkeypatch.setenv("CARETAKER_HISTORY_RETENTION", "30 d")
    lake.primary_key()
    lake.fill(2)
    history = SqlHistory(url)
    now = time.time_ns() // 1_000_000
    ages = {"gone": 31, "kept": 29}
    history.add([replace(RUN, at_millis=now - d * DAY, run_id=i) for i, d in ages.items()])
    assert caretaker(*words, "-w", str(lake.warehouse)).code in (0, 3)
    left = {e.run_id for e in history.newest(limit=None)}
    assert left >= {"kept"}
    assert not left & {"gone"}


def test_a_retention_that_cannot_be_read_stops_no_job(lake, url, monkeypatch, caplog):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    monkeypatch.setenv("CARETAKER_HISTORY_RETENTION", "soon")
    lake.primary_key()
    lake.fill(1)
    run = ("run", "compact", "db.t", "-w", str(lake.warehouse), "--engine", "local")
    assert caretaker(*run).code in (0, 3)
    assert "CARETAKER_HISTORY_RETENTION" in caplog.text


def test_the_retention_is_at_least_a_week():
    assert retention_millis({}) == 365 * DAY
    assert retention_millis({"CARETAKER_HISTORY_RETENTION": "30 d"}) == 30 * DAY
    for wrong in ("6 d", "soon"):
        with pytest.raises(InvalidArgument, match="CARETAKER_HISTORY_RETENTION"):
            retention_millis({"CARETAKER_HISTORY_RETENTION": wrong})
