"""Rounds on real tables: what changed is measured, what is chosen runs once, all of it is recorded."""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import time
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from lakes import ENV, Lake
from postgres import emptied

from paimon_core.refs.tags import Tag
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.history.lake_view import lake_row
from paimon_maintenance.history.need_store import NeedStore
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.job.engine import Engine
from paimon_maintenance.job.text import human_bytes
from paimon_maintenance.policy.load import read_policy
from paimon_maintenance.policy.model import Policy
from paimon_maintenance.policy.needs import Budget
from paimon_maintenance.run.runner import RunServices
from paimon_maintenance.schedule import claim
from paimon_maintenance.schedule import round as round_module
from paimon_maintenance.schedule.candidates import keeps_layout
from paimon_maintenance.schedule.round import run_round
from paimon_maintenance.schedule.scope import Scope
from paimon_maintenance.schedule.state import TableState

pytestmark = pytest.mark.one_database

NAMES = ("db.log", "db.off", "db.t")


@pytest.fixture(scope="module")
def sick_lake(tmp_path_factory) -> Path:
    lake = Lake(tmp_path_factory.mktemp("sick") / "lake")
    lake.primary_key("db.t", partitioned=True)
    lake.fill(7)
    lake.log("db.log")
    lake.fill(8, name="db.log")
    lake.primary_key("db.off", **{"caretaker.maintenance": "off"})
    lake.fill(6, name="db.off")
    return lake.warehouse


@pytest.fixture
def lake(sick_lake, tmp_path):
    shutil.copytree(sick_lake, tmp_path / "lake")
    return Lake(tmp_path / "lake")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path, monkeypatch):
    """An empty history: all that rounds do, they do in SQLite and in PostgreSQL."""
    url = f"sqlite:///{tmp_path}/history.db"
    if request.param == "postgres":
        url = emptied(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    return url


class Rounds:
    """Rounds over one lake, hours apart."""

    def __init__(self, lake: Lake, url: str, policy: Policy | None = None) -> None:
        self.history = SqlHistory(url)
        self.store = NeedStore(self.history, str(lake.warehouse))
        self.scope = Scope(warehouse=str(lake.warehouse), tables=NAMES)
        self.policy = policy or Policy(file="")

    def go(
        self, *, hours: float = 0, engine: Engine | None = None, spark: Engine | None = None, **how
    ):
        env = replace(
            ENV,
            now_millis=lambda: ENV.now_millis() + int(hours * 3_600_000),
            local_millis=lambda: ENV.local_millis() + int(hours * 3_600_000),
        )
        services = RunServices(env=env, history=self.history, spark=spark)
        if engine is not None:
            services = replace(services, engine=engine)
        return run_round(self.scope, self.policy, services, self.store, **how)


def test_a_round_heals_the_lake_and_records_why(lake, url):
    rounds = Rounds(lake, url)
    first = rounds.go()
    assert first.measured == 3
    done = {r.decision.table: r for r in first.results}
    assert done.keys() == {"db.t", "db.log"}
    assert {str(r.report.status) for r in first.results} == {"success"}
    (decision,) = [d for d in rounds.store.decisions("db.t") if d.action == "run"]
    # Prediction and result are side by side, and the run is one of the history.
    assert decision.status == "success"
    assert decision.result["excess_gain"] == pytest.approx(decision.predicted["excess_gain"])
    assert decision.result["score_after"] == 100 > decision.result["score_before"]
    (run,) = rounds.history.newest(run_id=decision.run_id)
    assert (run.job, run.table, run.status) == ("compact", "db.t", "success")
    (off,) = rounds.store.decisions("db.off")
    assert (off.action, off.job) == ("no", None)
    assert "caretaker.maintenance" in off.reason
    scores = rounds.store.scores("db.t")
    assert [s.score for s in scores] == [100, decision.result["score_before"]]


def test_what_was_predicted_stands_beside_what_happened(lake, url):
    text = 'version: 1\nrules: [{ tables: "*.*", freshness: 10 min }]\n'
    rounds = Rounds(lake, url, read_policy(text, "p.yaml"))
    rounds.go(hours=3)
    (one,) = [d for d in rounds.store.decisions("db.t") if d.action == "run"]
    assert one.predicted["level_0_hours"] > 2.9
    assert one.result["level_0_hours"] == pytest.approx(one.predicted["level_0_hours"], abs=0.01)
    assert one.result["files_fewer"] == one.predicted["files_fewer"] == 12
    assert one.result["bytes"] == one.predicted["bytes"] > 0
    shown = caretaker("policy", "explain", "db.t", "-w", lake.warehouse).out
    size = human_bytes(int(one.predicted["bytes"]))
    assert (
        f"files fewer 12 -> 12, rewritten {size} -> {size}, level 0 younger by 3 h -> 3 h" in shown
    )
    assert "runs or files fewer in a read 6.0 -> 6.0" in shown


def test_new_rows_come_into_the_global_index(lake, url):
    evolves = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    lake.create("db.log2", primary_key=False, options={"bucket": "-1", **evolves})
    lake.append({"k": [1, 2, 3], "v": ["a", "b", "c"]}, "db.log2")
    words = ("create_global_index", "db.log2", "-w", lake.warehouse, "--index-column")
    for column in ("k", "v"):
        assert caretaker("run", *words, column).code == 0
    lake.append({"k": [4], "v": ["d"]}, "db.log2")
    rounds = Rounds(lake, url)
    rounds.scope = replace(rounds.scope, tables=("db.log2",))
    for _ in range(2):  # a round does one of the columns
        (done,) = rounds.go().results
        assert (done.decision.job, str(done.report.status)) == ("create_global_index", "success")
    assert not rounds.go().results
    found = rounds.store.decisions("db.log2")
    (one, other) = (d for d in found if d.action == "run")
    assert {d.predicted["indexed_share"] for d in (one, other)} == {0.25}
    assert one.result["indexed_share"] == pytest.approx(0.25)
    assert one.result["score_after"] == 100
    shown = caretaker("policy", "explain", "db.log2", "-w", lake.warehouse).out
    assert "rows indexed 25.0% -> 25.0%" in shown


def test_a_table_that_somebody_sorted_is_not_rewritten_in_full(lake, url):
    rounds = Rounds(lake, url)
    words = ("run", "sort_compact", "db.log", "-w", lake.warehouse, "--engine", "local")
    assert rounds.go(dry_run=True)
    assert not keeps_layout_of(rounds, "db.log")
    ran = caretaker(*words, "--order-by", "k")
    assert ran.code == 0, ran.err
    rounds.go(dry_run=True)
    assert keeps_layout_of(rounds, "db.log")
    assert not keeps_layout_of(rounds, "db.t")


def keeps_layout_of(rounds: Rounds, name: str) -> bool:
    stored = rounds.store.tables()[name]
    measured = Measurement.from_json(stored.measurement)
    assert measured is not None
    return keeps_layout(measured, TableState.from_json(stored.state))


def test_only_tables_with_new_snapshots_are_measured(lake, url):
    rounds = Rounds(lake, url)
    rounds.go(dry_run=True)
    again = rounds.go(dry_run=True)
    assert (again.measured, [d.reason for d in again.decisions] != []) == (0, True)
    lake.fill(1)
    assert rounds.go(hours=0.1, dry_run=True).measured == 1
    # Tags, consumers and ages change without a snapshot.
    assert rounds.go(hours=7, dry_run=True).measured == 3


def test_a_table_that_somebody_worked_on_is_measured_again(lake, url):
    """A deleted tag or orphan file makes no snapshot, and the page must not show it for hours."""
    lake.table("db.off").tags.create(
        Tag(name="forgotten", snapshot=lake.table("db.off").latest_or_not_found())
    )
    rounds = Rounds(lake, url)
    rounds.go(dry_run=True)
    words = ("delete_tag", "db.off", "-w", lake.warehouse, "--tag", "forgotten")
    assert caretaker("plan", *words).code == 0
    assert rounds.go(dry_run=True).measured == 0
    ran = caretaker("run", *words)
    assert ran.code == 0, ran.err
    assert rounds.go(dry_run=True).measured == 1
    assert rounds.go(dry_run=True).measured == 0


def test_a_stored_measurement_of_another_version_is_made_again(lake, url, monkeypatch):
    rounds = Rounds(lake, url)
    rounds.go(dry_run=True)
    monkeypatch.setattr("paimon_maintenance.health.measurement.JSON_VERSION", 99)
    assert Measurement.from_json(rounds.store.tables()["db.t"].measurement) is None
    assert rounds.go(dry_run=True).measured == 3


def test_a_table_that_opts_out_after_it_was_measured_is_skipped(lake, url, monkeypatch):
    """A quiet table is looked at rarely, and the rounds between decide by its stored measurement."""
    rounds = Rounds(lake, url)
    decide = round_module.decide

    def opt_out(*args, **how):
        lake.change_options("db.t", "caretaker.maintenance", "off")
        return decide(*args, **how)

    monkeypatch.setattr(round_module, "decide", opt_out)
    statuses = {r.decision.table: str(r.report.status) for r in rounds.go().results}
    assert statuses == {"db.t": "skipped", "db.log": "success"}
    assert lake.table().snapshots.latest_id() == 7
    (decision,) = [d for d in rounds.store.decisions("db.t") if d.action == "run"]
    assert decision.status == "skipped"
    assert "caretaker.maintenance is 'off'" in decision.result["why"]
    state = TableState.from_json(rounds.store.tables()["db.t"].state)
    assert state.ran_at == {}, "no job ran on it"
    monkeypatch.setattr(round_module, "decide", decide)
    (later,) = [d for d in rounds.go().decisions if d.table == "db.t"]
    assert (later.action, later.job) == ("no", None)


def test_a_dry_run_changes_nothing(lake, url):
    before = {n: lake.table(n).snapshots.latest_id() for n in NAMES}
    found = Rounds(lake, url).go(dry_run=True)
    assert not found.results
    assert {n: lake.table(n).snapshots.latest_id() for n in NAMES} == before
    assert [d.status for d in Rounds(lake, url).store.decisions("db.log")] == ["dry_run"]


def test_the_round_stops_at_its_budget(lake, url):
    found = Rounds(lake, url).go(budget=Budget(seconds=None, tables=1))
    assert len(found.results) == 1
    assert any("the budget of 1 tables is spent" in d.reason for d in found.decisions)


def test_the_budget_limits_the_runs_on_spark(lake, url):
    """As the policy says where a table's work is done; the others run in any case."""
    text = 'version: 1\nrules: [{ tables: "*.*" }, { tables: db.t, spark_threshold: 0 }]\n'
    rounds = Rounds(lake, url, read_policy(text, "p.yaml"))
    budget = Budget(seconds=None, applications=1)
    on_spark = {
        d.table: d.on_spark
        for d in rounds.go(budget=budget, dry_run=True, spark=LocalEngine()).decisions
        if d.action == "run"
    }
    assert on_spark == {"db.t": True, "db.log": False}


def test_failures_back_off_and_do_not_stop_the_others(lake, url):
    for file in (lake.warehouse / "db.db" / "log").rglob("data-*"):
        file.write_bytes(b"broken")
    rounds = Rounds(lake, url)
    found = rounds.go()
    statuses = {r.decision.table: str(r.report.status) for r in found.results}
    assert statuses == {"db.log": "failed", "db.t": "success"}
    again = rounds.go()
    assert not again.results
    assert any("failed once" in d.reason for d in again.decisions)
    assert rounds.go(hours=0.6).results


def test_a_table_that_cannot_be_read_is_reported(lake, url):
    for file in (lake.warehouse / "db.db" / "t" / "manifest").iterdir():
        file.unlink()
    found = Rounds(lake, url).go()
    assert found.failed.keys() == {"db.t"}
    assert [r.decision.table for r in found.results] == ["db.log"]
    (decision,) = Rounds(lake, url).store.decisions("db.t")
    assert "cannot be measured" in decision.reason


def test_an_option_that_cannot_be_read_is_named_wherever_people_look(lake, url):
    """Measuring needs the option, so the table has no score; jobs on it would end with the same error."""
    lake.change_options("db.t", "snapshot.time-retained", "one day")
    place = ("-w", lake.warehouse)
    ran = caretaker("schedule", "db.*", *place, "--dry-run")
    assert ran.code == 2
    assert "; 2 measured, 1 cannot be measured\n" in ran.out
    what = "table option 'snapshot.time-retained' has the unreadable value 'one day': "
    (line,) = ran.err.splitlines()
    assert line.startswith(f"db.t: error: {what}not a duration")
    assert "-> correct the option, with ALTER TABLE ... SET" in line
    assert f"no: cannot be measured: {what}" in caretaker("policy", "explain", "db.t", *place).out
    report = caretaker("report", *place)
    assert f"## Tables that cannot be measured\n\n- db.t: {what}" in report.out
    unmeasured = caretaker("report", *place, "--json").json["unmeasured"]
    assert unmeasured.keys() == {"db.t"}
    row = lake_row(SqlHistory(url), warehouse=str(lake.warehouse), table="db.t", branch="main")
    assert row is not None
    assert (row.score, row.error) == (None, unmeasured["db.t"])
    # Rounds repeat it, and the history holds it once.
    rounds = Rounds(lake, url)
    rounds.go(dry_run=True)
    assert len(rounds.store.decisions("db.t")) == 1
    schema = lake.warehouse / "db.db" / "t" / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"snapshot.time-retained" : "one day",', ""))
    rounds.go(dry_run=True)
    assert "cannot be measured" not in caretaker("report", *place).out


def test_the_policy_decides(lake, url, tmp_path):
    policy = read_policy(
        """
version: 1
budget: { seconds: 100 }
rules:
  - tables: "*.*"
    jobs: { compact: off }
  - tables: "*.*"
    match: { options: { bucket: "-1" } }
    jobs: { compact: on }
""",
        "p.yaml",
    )
    found = Rounds(lake, url, policy).go()
    assert [r.decision.table for r in found.results] == ["db.log"]
    # The stored measurement has the options that rules match, so the next round decides alike.
    again = Rounds(lake, url, policy).go(dry_run=True)
    assert again.measured == 0
    assert not any(
        "switches compact off" in d.reason for d in again.decisions if d.table == "db.log"
    )
    assert any("switches compact off" in d.reason for d in found.decisions if d.table == "db.t")


def _two_rounds(warehouse: str, url: str, barrier, queue) -> None:
    rounds = Rounds(Lake(Path(warehouse)), url)
    barrier.wait()
    results = [r for _ in range(2) for r in rounds.go().results]
    queue.put([(r.decision.table, str(r.report.status)) for r in results])


@pytest.mark.sampled
def test_two_schedulers_do_no_job_twice(lake, url):
    Rounds(lake, url).store.tables()  # migrate first: that is another test's subject
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(2), context.Queue()
    workers = [
        context.Process(target=_two_rounds, args=(str(lake.warehouse), url, barrier, queue))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    done = [one for _ in workers for one in queue.get(timeout=120)]
    for worker in workers:
        worker.join()
    assert sorted(t for t, status in done if status == "success") == ["db.log", "db.t"]
    compacted = [s for s in lake.table().snapshots.all() if s.commit_kind == "COMPACT"]
    assert len(compacted) == 1


class _Stuck(LocalEngine):
    """Says that a job has begun its work, and never ends it."""

    begun: Event

    def run_units(self, units: Any, run: Any, **rest: Any) -> Any:
        type(self).begun.set()
        time.sleep(600)
        return super().run_units(units, run, **rest)


def _stuck_round(warehouse: str, url: str, begun: Event) -> None:
    _Stuck.begun = begun
    Rounds(Lake(Path(warehouse)), url).go(engine=_Stuck())


@pytest.mark.sampled
def test_a_round_that_was_killed_is_continued_by_another_scheduler(lake, url):
    """Two schedulers at once, one of which is killed in the middle of a job; then rounds until all is well."""
    first = Rounds(lake, url)
    first.store.tables()  # migrate first: that is another test's subject
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    killed = context.Process(target=_stuck_round, args=(str(lake.warehouse), url, begun))
    killed.start()
    assert begun.wait(60)
    (table,) = first.store.claimed(ENV.now_millis())
    (start,) = first.history.open_runs(table=table, warehouse=str(lake.warehouse))
    beside = first.go()
    (other,) = {"db.t", "db.log"} - {table}
    assert [(r.decision.table, str(r.report.status)) for r in beside.results] == [
        (other, "success")
    ]
    assert {d.reason for d in beside.decisions if d.table == table} == {
        "another scheduler works on the table"
    }
    killed.kill()
    killed.join()
    # Its claim runs out by itself.
    second = Rounds(lake, url).go(hours=claim.CLAIM_MILLIS / 3_600_000 + 0.001)
    assert [(r.decision.table, str(r.report.status)) for r in second.results] == [
        (table, "success")
    ]
    assert first.history.open_runs(table=table, warehouse=str(lake.warehouse)) == []
    ends = first.history.newest(run_id=start.run_id)
    assert [e.status for e in ends] == ["not_committed"]
    assert Rounds(lake, url).go(hours=0.1).results == ()
    for name in ("db.t", "db.log"):
        kinds = [s.commit_kind for s in lake.table(name).snapshots.all()]
        assert kinds.count("COMPACT") == 1, name
        decisions = [d for d in first.store.decisions(name) if d.action == "run"]
        # Those of the round that was killed stay without an end.
        assert [d.status for d in decisions if d.status is not None] == ["success"]
    assert first.store.last_round()[1] is not None, "the price of a second is known"
    assert {s.score for s in (first.store.scores(n)[0] for n in ("db.t", "db.log"))} == {100}


def test_claims(lake, url):
    store = Rounds(lake, url).store
    assert store.claim("db.t", "a", now=0, until=10)
    assert not store.claim("db.t", "b", now=10, until=20)
    assert store.claim("db.t", "a", now=5, until=30)
    assert store.claimed(20) == {"db.t"}
    store.release("db.t", "b", now=6)
    assert store.claimed(20) == {"db.t"}
    # A scheduler that died holds its claim until it runs out.
    assert store.claim("db.t", "b", now=31, until=40)
    assert not store.renew("db.t", "a", until=99)
    store.release("db.t", "b", now=35)
    assert store.claimed(35) == frozenset()
    # Who measured the table before the other one was done must measure it again.
    assert not store.claim("db.t", "c", now=36, until=50, since=33)
    assert store.claim("db.t", "c", now=36, until=50, since=35)


def test_a_claim_is_renewed_while_it_is_held_and_released_in_the_end(lake, url, monkeypatch):
    monkeypatch.setattr(claim, "_RENEW_SECONDS", 0.01)
    store = Rounds(lake, url).store
    clock = itertools.count(1_000, 1_000)
    env = replace(ENV, now_millis=lambda: next(clock))
    with claim.claimed(store, "db.t", "a", env) as held:
        assert held
        while not store.claimed(claim.CLAIM_MILLIS + 5_000):
            pass
        with claim.claimed(store, "db.t", "b", env) as other:
            assert not other
    assert not store.claimed(claim.CLAIM_MILLIS)


def test_a_scheduler_that_looked_before_another_one_finished_does_not_run(lake, url, monkeypatch):
    """Both decide on the same jobs; the second one gets the claim only when the first is done."""
    first, second = Rounds(lake, url), Rounds(lake, url)
    clock = itertools.count(ENV.now_millis(), 10)
    ticking = replace(ENV, now_millis=lambda: next(clock))
    services = RunServices(env=ticking, history=second.history)
    decide = round_module.decide

    def decide_late(*args, **how):
        found = decide(*args, **how)
        monkeypatch.setattr(round_module, "decide", decide)
        other = RunServices(env=ticking, history=first.history)
        ran = run_round(first.scope, first.policy, other, first.store)
        assert {r.decision.table for r in ran.results} == {"db.t", "db.log"}
        return found

    monkeypatch.setattr(round_module, "decide", decide_late)
    found = run_round(second.scope, second.policy, services, second.store)
    assert not found.results
    whys = [d.result["why"] for d in second.store.decisions("db.t") if d.status == "skipped"]
    assert whys == ["another scheduler works on it, or did so after this round looked at it"]


def test_the_command_line(lake, url, tmp_path):
    words = ("schedule", "db.*", "-w", lake.warehouse)
    dry_run = caretaker(*words, "--dry-run", "--json")
    assert dry_run.code == 0, "something is worth running"
    dry = dry_run.json
    assert {(d["table"], d["action"]) for d in dry["decisions"]} >= {
        ("db.t", "run"),
        ("db.off", "no"),
    }
    metrics = tmp_path / "metrics"
    ran = caretaker(*words, "--metrics-file", metrics)
    assert ran.code == 0, ran.err
    assert "run     db.t compact" in ran.out
    assert 'paimon_maintenance_health_score{table="db.t"} 100' in metrics.read_text()
    assert caretaker(*words).code == 3
    explained = caretaker("policy", "explain", "db.t", "-w", lake.warehouse)
    assert "no: the table needs nothing" in explained.out
    assert " s, by no past run of the job, benefit " in explained.out
    assert "prediction off by" in explained.out
    assert "-> 100" in explained.out
    assert caretaker("policy", "explain", "db.nothing", "-w", lake.warehouse).code == 3


def test_predictions_without_past_runs_are_no_measure_of_the_model(lake, url, tmp_path):
    words = ("schedule", "db.t", "-w", lake.warehouse, "--metrics-file", tmp_path / "metrics")
    error = "paimon_maintenance_prediction_error_ratio{"
    assert caretaker(*words).code == 0
    assert error not in (tmp_path / "metrics").read_text()
    lake.fill(7)
    assert caretaker(*words).code == 0
    assert error in (tmp_path / "metrics").read_text()
    store = NeedStore(SqlHistory(url), str(lake.warehouse))
    past = [d.past_runs for d in store.decisions("db.t") if d.job == "compact"]
    assert past == [1, 0]
    assert "Predicted seconds of 1 run:" in caretaker("report", "-w", lake.warehouse).out


def test_the_scheduler_needs_the_history(lake):
    ran = caretaker("schedule", "db.*", "-w", lake.warehouse)
    assert ran.code == 2
    assert "needs the history" in ran.err
