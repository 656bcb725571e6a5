"""Policies at the command line: check, show, and what they change about plans and runs."""

from __future__ import annotations

import json

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.spark_app import run_batch

POLICY = """\
version: 1
rules:
  - name: all
    tables: "*.*"
    options:
      snapshot.num-retained.min: 1
      snapshot.num-retained.max: 2
    guards: { max_rewrite: 1 b }
    jobs:
      expire_snapshots: { arguments: { max_deletes: 1 } }
      maintain: { schedule: "@hourly" }
  - name: quiet
    tables: db.quiet
    jobs: { maintain: off, expire_snapshots: off }
"""
OWN = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "4"}


@pytest.fixture
def policy(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


@pytest.fixture
def lake(tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.primary_key("db.t")
    lake.primary_key("db.own", **OWN)
    lake.primary_key("db.quiet")
    for name in ("db.t", "db.own", "db.quiet"):
        lake.fill(6, name=name)
    return lake


def ids(lake, name):
    return lake.table(name).snapshots.ids()


def test_check(policy):
    ran = caretaker("policy", "check", policy)
    assert ran.code == 0
    assert "2 rules, no errors" in ran.out
    shown = caretaker("policy", "check", policy, "--json").json
    assert shown["schedules"] == [
        {"job": "maintain", "schedule": "@hourly", "tables": ["*.*", "db.quiet"]}
    ]
    policy.write_text(POLICY.replace("max_deletes: 1", "max_deletes: many"))
    wrong = caretaker("policy", "check", policy)
    assert wrong.code == 2
    assert f"{policy}:10: rules[0].jobs.expire_snapshots.arguments.max_deletes" in wrong.err


def test_show(policy, lake):
    shown = caretaker(
        "policy", "show", "db.own", "--policy", policy, "-w", lake.warehouse, "--json"
    ).json
    assert shown["rules"] == ["all"]
    assert shown["set_by_the_table"] == OWN
    text = caretaker("policy", "show", "db.quiet", "--policy", policy).out
    assert "maintain: off" in text
    assert caretaker("policy", "show", "db.t").code == 2


def test_show_says_what_a_table_needs_as_the_policy_says_it(policy):
    policy.write_text(
        "version: 1\nrules:\n  - tables: '*.*'\n    owner: sales\n    freshness: 90 min\n"
        "    consumer_lag: { age: 6 h, bytes: 50 gb }\n    windows: '22:00-06:00'\n"
        "    max_red: 1 d\n    approval: [rollback, force]\n"
        "    health: { manifests: { good: 100, bad: 5000 } }\n"
    )
    _, *lines = caretaker("policy", "show", "db.t", "--policy", policy).out.splitlines()
    assert lines == [
        "  owner: sales",
        "  windows: 22:00-06:00",
        "  freshness: 90 min",
        "  consumer_lag: age 6 h, bytes 50 gb",
        "  approval: rollback, force",
        "  health: manifests (good 100, bad 5000)",
    ]


def test_the_tables_own_options_come_first_and_arguments_reach_the_steps(policy, lake):
    words = ("run", "maintain", "db.*", "-w", lake.warehouse, "--policy", policy)
    ran = caretaker(*words, "--engine", "local", "--json")
    assert ran.code == 0, ran.err
    assert "db.quiet: skipped, the policy disables maintain" in ran.err
    assert [r["table"] for r in ran.json["reports"]] == ["db.own", "db.t"]
    # One at a time, by the policy's max_deletes.
    assert (ids(lake, "db.t"), ids(lake, "db.own")) == ([2, 3, 4, 5, 6], [2, 3, 4, 5, 6])
    # What is typed comes first; at most two stay by the policy, four by the table itself.
    more = ("--step-argument", "expire_snapshots.max_deletes=9")
    caretaker(*words, "--engine", "local", *more)
    assert (ids(lake, "db.t"), ids(lake, "db.own")) == ([5, 6], [3, 4, 5, 6])
    assert len(ids(lake, "db.quiet")) == 6


def test_guards_of_the_policy(policy, lake, monkeypatch):
    monkeypatch.setenv("CARETAKER_POLICY", str(policy))
    words = ("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    stopped = caretaker(*words)
    assert stopped.code == 6
    assert caretaker(*words, "--max-rewrite", "1 gb").code == 0


def test_batches_of_a_spark_application_take_a_policys_words(lake, tmp_path):
    common = {
        "job": "expire_snapshots",
        "warehouse": str(lake.warehouse),
        "arguments": {"retain_min": 1},
    }
    batch = [
        {**common, "table": "db.t", "default_options": {"snapshot.num-retained.max": "3"}},
        {**common, "table": "db.own", "default_options": {"snapshot.num-retained.max": "3"}},
        {**common, "table": "db.bad", "guards": {"max_deleted_share": "half"}},
    ]
    assert run_batch(batch, str(tmp_path / "results")) == 2
    refused = json.loads((tmp_path / "results" / "db.bad.json").read_text())
    assert refused["error"]["type"] == "InvalidArgument"
    assert (ids(lake, "db.t"), ids(lake, "db.own")) == ([4, 5, 6], [3, 4, 5, 6])
    report = json.loads((tmp_path / "results" / "db.t.json").read_text())
    assert report["details"]["expired_snapshots"] == [1, 2, 3]


def test_each_table_gets_the_parallelism_that_is_said_of_it(lake, tmp_path, monkeypatch):
    asked = []

    class Engine:
        name = "spark"
        is_parallel = False

        def with_parallelism(self, parallelism):
            asked.append(parallelism)
            return LocalEngine()

        def close(self):
            """Nothing was started."""

    monkeypatch.setattr("paimon_maintenance.engines.spark.engine.SparkEngine", lambda **_: Engine())
    common = {"job": "compact", "warehouse": str(lake.warehouse)}
    batch = [
        {**common, "table": "db.t", "arguments": {"parallelism": 3}},
        {**common, "table": "db.own"},
    ]
    assert run_batch(batch, str(tmp_path / "results")) == 0
    assert set(asked) == {3, None}
    assert LocalEngine().with_parallelism(3) == LocalEngine(threads=3)
    assert LocalEngine(threads=3).with_parallelism(None) == LocalEngine(threads=3)
