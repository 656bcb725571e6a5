"""A round leaves a line for each table that pages list, and the totals."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from command_line import caretaker
from lakes import ENV

from paimon_core.commit.committer import commit
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.history.lake_view import LakeQuery, lake_page, lake_row, totals_since
from paimon_maintenance.history.need_store import NeedStore
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.history.table_view import table_view
from paimon_maintenance.policy.model import Policy
from paimon_maintenance.run.runner import RunServices
from paimon_maintenance.schedule.round import run_round
from paimon_maintenance.schedule.scope import Scope


@pytest.fixture
def history(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/history.db"
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    return SqlHistory(url)


@pytest.fixture
def small(lake):
    lake.primary_key("db.t", caretaker_owner="me")
    lake.fill(7)
    lake.log("db.broken")
    lake.fill(2, name="db.broken")
    for file in (lake.warehouse / "db.db" / "broken" / "manifest").iterdir():
        file.write_bytes(b"no manifest")
    return lake


def go(lake, history, *names, hours=0, **how):
    env = replace(ENV, now_millis=lambda: ENV.now_millis() + hours * 3_600_000)
    services = RunServices(env=env, history=history)
    store = NeedStore(history, str(lake.warehouse))
    scope = Scope(warehouse=str(lake.warehouse), tables=names)
    return run_round(scope, Policy(file=""), services, store, **how)


def rows(lake, history):
    page = lake_page(history, LakeQuery(warehouse=str(lake.warehouse)))
    return {row.table: row for row in page.rows}


def test_a_table_of_impossible_sizes_does_not_stop_the_others(lake, history):
    for name in ("db.forged", "db.t"):
        lake.primary_key(name)
        lake.fill(6, name=name)
    forged = lake.table("db.forged")
    writer = RowWriter(forged, env=ENV)
    writer.write(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    messages = [
        replace(m, new_files=tuple(replace(f, file_size=2**62) for f in m.new_files))
        for m in writer.prepare_commit()
    ]
    commit(forged, messages, user=ENV.new_uuid(), env=ENV)
    go(lake, history, "db.forged", "db.t")
    found = rows(lake, history)
    assert "claim sizes that no table has" in str(found["db.forged"].error)
    assert (found["db.t"].color, found["db.t"].files) == ("green", 1)


def test_a_dry_run_shows_the_problem_and_the_next_round_solves_it(small, history):
    go(small, history, "db.broken", "db.t", dry_run=True)
    before = rows(small, history)
    assert before["db.t"].color in {"red", "yellow"}
    assert (before["db.t"].next_job, before["db.t"].next_action) == ("compact", "run")
    assert (before["db.t"].owner, before["db.t"].files, before["db.t"].runs) == ("me", 7, 7)
    assert before["db.broken"].score is None
    assert "manifest" in str(before["db.broken"].error)
    go(small, history, "db.broken", "db.t")
    after = rows(small, history)["db.t"]
    assert (after.color, after.files, after.next_action) == ("green", 1, "look")
    assert (after.last_job, after.score) == ("compact", 100)
    points = totals_since(history, warehouse=str(small.warehouse), branch="main", since_millis=0)
    assert [(p.tables, p.green) for p in points] == [(2, 0), (2, 1)]
    found = table_view(history, warehouse=str(small.warehouse), table="db.t")
    assert found is not None
    assert [s.score for s in found.scores] == [100, before["db.t"].score]
    assert found.decisions[0].score_after == 100


def test_a_dropped_table_disappears(small, history):
    go(small, history, "db.t", dry_run=True)
    shutil.rmtree(small.warehouse / "db.db" / "t")
    go(small, history, hours=1)
    assert set(rows(small, history)) == {"db.t"}  # it may be out of the pattern of this round
    go(small, history, hours=13)
    assert rows(small, history) == {}
    assert NeedStore(history, str(small.warehouse)).tables() == {}


def test_a_dropped_table_disappears_even_if_it_could_never_be_measured(small, history):
    go(small, history, "db.broken", dry_run=True)
    assert rows(small, history)["db.broken"].error
    go(small, history, hours=13)
    assert set(rows(small, history)) == {"db.broken"}, "it is there, and nobody looked at it"
    shutil.rmtree(small.warehouse / "db.db" / "broken")
    go(small, history, hours=13)
    assert rows(small, history) == {}


def test_a_table_that_cannot_be_measured_any_more_keeps_its_owner(small, history):
    go(small, history, "db.t", dry_run=True)
    small.change_options("db.t", "snapshot.time-retained", "one day")
    go(small, history, "db.t", hours=7, dry_run=True)
    row = rows(small, history)["db.t"]
    assert "snapshot.time-retained" in str(row.error)
    assert (row.owner, row.score) == ("me", None)


def test_health_saves_the_same_line(small, history):
    done = caretaker("health", "db.t", "-w", str(small.warehouse), "--save", "--json")
    row = lake_row(history, warehouse=str(small.warehouse), table="db.t", branch="main")
    assert row is not None
    assert row.score == done.json["score"]
    assert row.owner == "me"
    assert (
        len(totals_since(history, warehouse=str(small.warehouse), branch="main", since_millis=0))
        == 1
    )


def test_health_saves_why_a_table_has_no_score(small, history):
    caretaker("health", "*.*", "-w", str(small.warehouse), "--save")
    found = rows(small, history)
    assert (found["db.t"].error, found["db.broken"].score) == (None, None)
    assert found["db.broken"].error


def test_health_keeps_the_owner_of_a_table_that_cannot_be_opened_any_more(small, history):
    words = ("health", "*.*", "-w", str(small.warehouse), "--save")
    caretaker(*words)
    schema = small.warehouse / "db.db" / "t" / "schema" / "schema-0"
    schema.write_text("{")
    caretaker(*words)
    row = rows(small, history)["db.t"]
    assert row.error
    assert row.owner == "me"


def test_health_forgets_dropped_tables_that_the_pattern_selects(small, history):
    small.primary_key("other.kept")
    words = ("-w", str(small.warehouse), "--save")
    caretaker("health", "*.*", *words)
    assert set(rows(small, history)) == {"db.t", "db.broken", "other.kept"}
    shutil.rmtree(small.warehouse / "db.db" / "broken")
    shutil.rmtree(small.warehouse / "other.db" / "kept")
    caretaker("health", "db.*", *words)
    assert set(rows(small, history)) == {"db.t", "other.kept"}
    caretaker("health", "*.*", *words)
    assert set(rows(small, history)) == {"db.t"}
