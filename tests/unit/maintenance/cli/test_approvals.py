"""Runs that wait for a person: asked, approved for one run, rejected, and what Airflow answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_maintenance.history.approval_store import (
    ApprovalState,
    ApprovalStore,
    Asked,
    record_answer,
)
from paimon_maintenance.history.entry import Actor
from paimon_maintenance.history.store import SqlHistory

ASKED = Asked(
    table="db.t", job="rollback", arguments={"snapshot": 2}, force=False, reason="rollback"
)
RUN = Actor(origin="airflow", name="caretaker_rollback manual__1")


@pytest.fixture
def place(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The warehouse and a policy that wants approvals; the table has four snapshots."""
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    lake.primary_key("db.t")
    lake.fill(4)
    file = tmp_path / "policy.yaml"
    file.write_text(
        "version: 1\nrules:\n"
        "  - { tables: '*.*', approval: [rollback, force], guards: { max_deleted_snapshots: 1 } }\n"
    )
    return ("-w", str(lake.warehouse), "--policy", str(file))


def test_a_rollback_waits_for_an_approval_and_uses_it_once(lake, place):
    words = ("run", "rollback", "db.t", *place, "--snapshot", "3")
    refused = caretaker(*words)
    assert refused.code == 9
    assert "request 1 waits for it [table db.t" in refused.err
    assert f"caretaker approvals approve 1 -w {lake.warehouse}" in refused.err
    assert lake.table().snapshots.latest_id() == 4
    # A dry run changes nothing, asking again asks no second time, other arguments are another request.
    assert caretaker(*words, "--dry-run").code == 0
    assert "request 1 waits" in caretaker(*words).err
    assert "request 2 waits" in caretaker(*words[:-1], "2").err

    where = place[:2]
    listed = caretaker("approvals", "list", *where)
    assert listed.code == 0
    assert "1  waiting  rollback of db.t" in listed.out
    assert "snapshot 4" in listed.out  # the plan
    assert caretaker("approvals", "approve", "1", *where).code == 0
    assert caretaker("approvals", "reject", "2", *where).code == 0
    again = caretaker("approvals", "approve", "2", *where)
    assert again.code == 2
    assert "does not wait: it is rejected" in again.err
    assert caretaker("approvals", "approve", "7", *where).code == 2
    assert caretaker("approvals", "list", *where).code == 3

    assert "request 3 waits" in caretaker(*words[:-1], "2").err  # rejected, so it is asked again
    done = caretaker(*words, "--json")
    assert done.code == 0, done.err
    assert lake.table().snapshots.latest_id() == 3
    states = {
        a["id"]: (a["state"], a["run_id"])
        for a in caretaker("approvals", "list", "--all", "--json", *where).json["approvals"]
    }
    assert states[1] == ("used", done.json["run_id"])
    lake.append({"k": [1], "v": ["x"]})
    assert "request 4 waits" in caretaker(*words).err


def test_a_call_in_sql_waits_for_an_approval(lake, place):
    call = ("sql", *place, "-e", "CALL sys.rollback(table => 'db.t', version => '3')")
    refused = caretaker(*call)
    assert refused.code == 1
    assert "the policy requires an approval of rollback (approval: rollback)" in refused.err
    assert f"caretaker approvals approve 1 -w {lake.warehouse}" in refused.err
    assert lake.table().snapshots.latest_id() == 4
    assert "request 1 waits" in caretaker(*call).err
    assert caretaker("approvals", "approve", "1", *place[:2]).code == 0
    done = caretaker(*call)
    assert done.code == 0, done.err
    assert lake.table().snapshots.latest_id() == 3
    # Without the policy, nothing waits.
    other = ("sql", *place[:2], "-e", "CALL sys.rollback(table => 'db.t', version => '2')")
    assert caretaker(*other).code == 0


def test_guards_of_the_policy_hold_in_sql(lake, place):
    call = (
        "sql",
        *place,
        "-e",
        "CALL sys.expire_snapshots(table => 'db.t', retain_max => 1, retain_min => 1)",
    )
    refused = caretaker(*call)
    assert refused.code == 1
    assert "max_deleted_snapshots" in refused.err
    assert lake.table().snapshots.earliest_id() == 1


def test_overriding_a_guard_waits_where_the_policy_wants_it(lake, place):
    words = ("run", "expire_snapshots", "db.t", *place, "--retain-max", "1", "--retain-min", "1")
    assert caretaker(*words).code == 6
    forced = caretaker(*words, "--force")
    assert forced.code == 9
    assert "requires an approval of expire_snapshots (approval: force)" in forced.err
    assert caretaker("approvals", "approve", "1", *place[:2]).code == 0
    assert caretaker(*words).code == 6  # without --force it is another request
    assert caretaker(*words, "--force").code == 0
    assert lake.table().snapshots.earliest_id() == 4


def test_raising_a_limit_of_the_policy_waits_like_overriding_it(lake, place):
    file = Path(place[3])
    file.write_text(
        "version: 1\nrules: [{ tables: '*.*', approval: force, guards: { max_rewrite: 1 kb } }]\n"
    )
    words = ("run", "compact", "db.t", *place)
    assert caretaker(*words).code == 6
    assert caretaker(*words, "--max-rewrite", "1 b").code == 6
    raised = caretaker(*words, "--max-rewrite", "1 gb")
    assert (raised.code, "(approval: force)" in raised.err) == (9, True)
    assert caretaker("approvals", "approve", "1", *place[:2]).code == 0
    assert caretaker(*words).code == 6
    assert caretaker(*words, "--max-rewrite", "1 gb").code == 0


def test_a_command_in_a_task_of_airflow_is_answered_on_the_command_line(place, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__1")
    assert caretaker("run", "rollback", "db.t", *place, "--snapshot", "3").code == 9
    assert caretaker("approvals", "approve", "1", *place[:2]).code == 0
    assert caretaker("run", "rollback", "db.t", *place, "--snapshot", "3").code == 0


def test_without_a_history_nothing_can_be_approved(place, lake, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", "none")
    refused = caretaker("run", "rollback", "db.t", *place, "--snapshot", "3")
    assert refused.code == 9
    assert "history that holds approvals is disabled" in refused.err
    assert lake.table().snapshots.latest_id() == 4


def test_a_request_of_airflow_is_answered_there(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/history.db"
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    history = SqlHistory(url)
    store = ApprovalStore(history, "/lake")
    number = store.ask(ASKED, RUN, 1)
    assert store.ask(ASKED, RUN, 2) == number
    assert store.ask(ASKED, replace(RUN, name="caretaker_rollback manual__2"), 2) != number
    refused = caretaker("approvals", "approve", str(number), "-w", "/lake")
    assert refused.code == 2
    assert "under Required Actions" in refused.err
    record_answer(history, RUN, ["db.t"], "ann", 3, approved=True)
    found = {a.id: a for a in store.all(only_waiting=False)}
    assert (found[number].state, found[number].answered_by) == (ApprovalState.USED, "ann")
    assert not store.use(ASKED, "cli", 4)  # it holds for that run only
    assert [a.id for a in store.all()] != [number]


@pytest.mark.parametrize("spelling", ["/", "/.", "//"])
def test_an_approval_holds_for_every_spelling_of_the_warehouse(lake, place, spelling):
    words = ("run", "rollback", "db.t", "--snapshot", "3", "--policy", place[3])
    other = f"{lake.warehouse}{spelling}"
    assert caretaker(*words, "-w", lake.warehouse).code == 9
    assert caretaker("approvals", "approve", "1", "-w", other).code == 0
    assert caretaker(*words, "-w", other).code == 0


def test_numbers_that_no_database_holds_are_refused(place):
    huge = str(10**30)
    for words in (
        ("approvals", "approve", huge, *place[:2]),
        ("history", "--limit", huge),
        ("policy", "explain", "db.t", *place[:2], "--limit", huge),
    ):
        found = caretaker(*words)
        assert (found.code, f"'{huge}' is too large" in found.err) == (2, True), found.err
    # There is nothing before 1970.
    assert caretaker("report", "--since", "99999999999 d", *place[:2]).code == 3
