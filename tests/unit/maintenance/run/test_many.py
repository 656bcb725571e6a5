"""Several tables in one process: the engine of each, side by side, and what an interruption leaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine_choice import EngineRule
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.many import run_tables
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices

PATIENCE = 30.0
NAMES = ("db.a", "db.b", "db.c")


class Hooked(LocalEngine):
    """Calls `hook` before the units of a run."""

    hook: Callable[[], None]
    closed = False

    def run_units(self, units: Any, run: Any, **rest: Any) -> Any:
        type(self).hook()
        return super().run_units(units, run, **rest)

    def close(self) -> None:
        type(self).closed = True


def hooked(name: str, hook: Callable[[], None] = lambda: None) -> Hooked:
    kind = type("Engine", (Hooked,), {"name": name, "hook": staticmethod(hook)})
    engine: Hooked = kind()
    return engine


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    for name in NAMES:
        made.primary_key(name)
        made.fill(3, name=name)
    return made


def requests(lake: Lake, *names: str, **rule: object) -> list[RunRequest]:
    job = job_named("compact")
    return [
        RunRequest(
            job=job,
            warehouse=str(lake.warehouse),
            table=name,
            arguments=job.read_arguments({"strategy": "full"}),
            engine=EngineRule.from_json(rule),
        )
        for name in names
    ]


def newest(lake: Lake) -> dict[str, int | None]:
    return {name: lake.table(name).snapshots.latest_id() for name in NAMES}


def test_tables_run_side_by_side(lake):
    # Each run waits within its work until all have come so far.
    together = threading.Barrier(len(NAMES), timeout=PATIENCE)
    services = RunServices(engine=hooked("local", together.wait))
    done = {q.table: r for q, r in run_tables(requests(lake, *NAMES), services)}
    assert {name: r.error for name, r in done.items()} == dict.fromkeys(NAMES)
    assert newest(lake) == dict.fromkeys(NAMES, 4)


def test_a_finished_table_is_reported_while_others_run(lake):
    reported = threading.Event()
    first = threading.Lock()

    def hook() -> None:
        if not first.acquire(blocking=False):
            assert reported.wait(PATIENCE)

    runs = run_tables(requests(lake, *NAMES), RunServices(engine=hooked("local", hook)))
    _, report = next(runs)
    assert report.error is None
    reported.set()
    assert [r.error for _, r in runs] == [None, None]


def test_runs_on_one_table_keep_their_order(lake):
    asked = requests(lake, "db.a", "db.b", "db.a", "db.a")
    ends: dict[str, list[str]] = {}
    for request, report in run_tables(asked, RunServices()):
        ends.setdefault(request.table, []).append(str(report.status))
    assert ends == {"db.a": ["success", "nothing_to_do", "nothing_to_do"], "db.b": ["success"]}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_after_an_interruption_nothing_is_committed(lake, error):
    going, stopped = threading.Semaphore(0), threading.Event()

    def hook() -> None:
        going.release()
        assert stopped.wait(PATIENCE)

    class Stopping(Hooked):
        def close(self) -> None:
            stopped.set()

    kind = type("Engine", (Stopping,), {"name": "spark", "hook": staticmethod(hook)})
    services = RunServices(spark=kind())
    asked = requests(lake, *NAMES, engine="spark")
    runs = run_tables([*asked, *requests(lake, "db.none")], services)
    _, refused = next(runs)  # the table that is not there
    assert refused.error is not None
    for _ in NAMES:
        assert going.acquire(timeout=PATIENCE)
    with pytest.raises(error):
        runs.throw(error)
    assert newest(lake) == dict.fromkeys(NAMES, 3)
    # What was written is garbage, which `remove_orphan_files` finds.
    assert all(lake.on_disk(name) > lake.referenced(name) for name in NAMES)


def test_each_table_gets_the_engine_of_its_plan(lake):
    size = sum(f.stat().st_size for f in (lake.warehouse / "db.db" / "a").rglob("bucket-0/*"))
    used: list[str] = []
    services = RunServices(
        engine=hooked("local", lambda: used.append("local")),
        spark=hooked("spark", lambda: used.append("spark")),
    )
    asked = [
        *requests(lake, "db.a", spark_threshold=size),
        *requests(lake, "db.b", spark_threshold=size * 2),
        *requests(lake, "db.c", engine="spark"),
    ]
    made = {q.table: r for q, r in run_tables(asked, services, at_once=1)}
    assert used == ["spark", "local", "spark"]
    assert {name: r.engine for name, r in made.items()} == dict(zip(NAMES, used, strict=True))
    assert "not below spark_threshold" in str(made["db.a"].engine_why)
    assert ", below spark_threshold" in str(made["db.b"].engine_why)
    assert made["db.c"].to_json()["engine_why"] == "engine is spark"
    assert "  engine  spark: engine is spark" in list(made["db.c"].lines())


def test_a_process_without_spark_does_the_work_itself_and_says_so(lake):
    ((_, report),) = run_tables(requests(lake, "db.a", spark_threshold=0), RunServices())
    assert (report.engine, report.error) == ("local", None)
    assert str(report.engine_why).endswith("but in a process without Spark")


def test_plans_that_rewrite_nothing_never_start_spark(lake):
    def never() -> None:
        raise AssertionError("Spark was started")

    job = job_named("expire_snapshots")
    request = RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.a",
        arguments=job.read_arguments({"retain_min": 1, "retain_max": 1}),
    )
    ((_, report),) = run_tables([request], RunServices(spark=hooked("spark", never)))
    assert (report.engine, report.engine_why) == ("local", "no data to rewrite")


# --- on the command line ------------------------------------------------------------------------


@pytest.fixture
def fake_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "paimon_maintenance.engines.spark.engine.SparkEngine", lambda **_: hooked("spark")
    )


def engines(lake: Lake, *words: object) -> dict[str, str]:
    ran = caretaker("run", "compact", "db.*", "-w", lake.warehouse, "--dry-run", "--json", *words)
    assert ran.code == 0, ran.err
    ran = caretaker("run", "compact", "db.*", "-w", lake.warehouse, "--json", *words)
    assert ran.code == 0, ran.err
    return {r["table"]: r["engine"] for r in ran.json["reports"]}


@pytest.mark.usefixtures("fake_spark")
def test_typed_then_policy_then_configuration_then_default(lake, tmp_path, monkeypatch):
    monkeypatch.delenv("CARETAKER_POLICY", raising=False)
    full = ("--strategy", "full")
    assert engines(lake, *full) == dict.fromkeys(NAMES, "local")

    def refill() -> None:
        for name in NAMES:
            lake.fill(2, name=name)

    config = tmp_path / "caretaker.toml"
    config.write_text("[caretaker]\nspark_threshold = 0\n")
    monkeypatch.setenv("CARETAKER_CONFIG", str(config))
    refill()
    assert engines(lake, *full) == dict.fromkeys(NAMES, "spark")

    rules = [
        {"tables": "db.a", "engine": "local"},
        {"tables": "db.b", "jobs": {"compact": {"spark_threshold": "1 gb"}}},
    ]
    policy = tmp_path / "policy.yaml"
    policy.write_text(json.dumps({"version": 1, "rules": rules}))
    refill()
    words = (*full, "--policy", policy)
    ruled = {"db.a": "local", "db.b": "local", "db.c": "spark"}
    assert engines(lake, *words) == ruled
    refill()
    # The engine of the policy is not auto, so that a typed threshold does not matter there.
    thresholds = {"db.a": "local", "db.b": "spark", "db.c": "spark"}
    assert engines(lake, *words, "--spark-threshold", "0") == thresholds
    refill()
    assert engines(lake, *words, "--engine", "spark") == dict.fromkeys(NAMES, "spark")
    assert read_rows_of(lake) == dict.fromkeys(NAMES, 10)


def read_rows_of(lake: Lake) -> dict[str, int]:
    return {
        name: len(caretaker("read", name, "-w", lake.warehouse).out.splitlines()) for name in NAMES
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('engine = "flink"', "no engine 'flink'"),
        ('spark_threshold = "much"', "spark_threshold: not a memory size"),
    ],
)
def test_a_wrong_configuration_is_named(lake, tmp_path, monkeypatch, content, message):
    config = tmp_path / "caretaker.toml"
    config.write_text(f"[caretaker]\n{content}\n")
    monkeypatch.setenv("CARETAKER_CONFIG", str(config))
    ran = caretaker("run", "compact", "db.a", "-w", lake.warehouse)
    assert ran.code == 2
    assert message in ran.err
    assert "caretaker.toml: [caretaker]" in ran.err
    monkeypatch.delenv("CARETAKER_CONFIG")
    word, _, value = content.partition(" = ")
    option = "--" + word.replace("_", "-")
    ran = caretaker("run", "compact", "db.a", "-w", lake.warehouse, option, value.strip('"'))
    assert ran.code == 2
    assert value.strip('"') in ran.err


def test_the_history_says_which_engine_and_why(lake, tmp_path, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    assert caretaker("run", "compact", "db.a", "-w", lake.warehouse).code == 0
    ran = caretaker("history", "db.a", "--json")
    (entry,) = (e for e in ran.json["entries"] if e["event"] == "run")
    assert entry["engine"] == "local"
    assert entry["details"]["engine_why"].endswith("below spark_threshold 256 MB")
    assert "local: " in caretaker("history", "db.a").out
