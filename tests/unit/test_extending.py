"""docs/extending.md is correct: its job is built from its code blocks, and its engine is the tested one."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

import paimon_maintenance.jobs
import paimon_maintenance.registry
from paimon_maintenance.cli.main import main
from paimon_maintenance.cli.parsers.commands import build_parser
from paimon_maintenance.registry import JOBS

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = Path(paimon_maintenance.registry.__file__)
BLOCK = re.compile(r"^`([\w/.]+)`\n\n```(?:python|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = dict(BLOCK.findall((ROOT / "docs" / "extending.md").read_text("utf-8")))
JOB = "advance_consumers"


def patched(source: str, diff: str) -> str:
    """The source with the added lines of the diff, each after or before the line next to it."""
    lines, shown = source.splitlines(), diff.splitlines()
    for number, line in enumerate(shown):
        if not line.startswith("+"):
            continue
        before = shown[number - 1][1:] if number else ""
        after = shown[number + 1][1:]
        place = lines.index(before) + 1 if before else lines.index(after)
        assert lines[place] == after
        lines.insert(place, line[1:])
    return "\n".join(lines)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.primary_key("db.t")
    made.fill(6)
    made.table().consumers.set("far", 1)
    made.table().consumers.set("near", 5)
    return made


@pytest.fixture
def new_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the job's folder and its line in the registry."""
    folder = tmp_path / "jobs" / JOB
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name in ("definition.py", "steps.py"):
        (folder / name).write_text(BLOCKS[f"{JOB}/{name}"])
    monkeypatch.setattr(
        paimon_maintenance.jobs,
        "__path__",
        [*paimon_maintenance.jobs.__path__, str(folder.parent)],
    )
    registry = tmp_path / "registry.py"
    registry.write_text(patched(REGISTRY.read_text("utf-8"), BLOCKS["registry.py"]))
    jobs = runpy.run_path(str(registry))["JOBS"]
    assert set(jobs) == {*JOBS, JOB}
    monkeypatch.setitem(JOBS, JOB, jobs[JOB])
    build_parser.cache_clear()
    yield
    build_parser.cache_clear()
    for module in [
        name for name in sys.modules if name.startswith(f"paimon_maintenance.jobs.{JOB}")
    ]:
        del sys.modules[module]
    vars(paimon_maintenance.jobs).pop(JOB, None)


def positions(lake: Lake) -> dict[str, int]:
    return {c.id: c.next_snapshot for c in lake.table().consumers.all()}


def test_without_its_folder_and_line_the_job_does_not_exist(lake: Lake) -> None:
    ran = caretaker("plan", JOB, "db.t", "-w", lake.warehouse)
    assert ran.code == 2
    assert "unknown job" in ran.err


@pytest.mark.usefixtures("new_job")
def test_a_job_of_one_folder_and_one_line_plans_and_runs(lake: Lake) -> None:
    place = ("db.t", "-w", lake.warehouse, "--max-lag", "3")
    planned = caretaker("plan", JOB, *place, "--json")
    assert planned.code == 0, planned.err
    assert [action["consumer"] for action in planned.json["actions"]] == ["far"]
    assert positions(lake) == {"far": 1, "near": 5}

    dry = caretaker("run", JOB, *place, "--dry-run")
    assert "move consumer 'far' to snapshot 6: it is at snapshot 1" in dry.out
    assert positions(lake) == {"far": 1, "near": 5}

    ran = caretaker("run", JOB, *place, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["details"] == {"moved_consumers": ["far"], "positions_before": {"far": 1}}
    assert positions(lake) == {"far": 6, "near": 5}
    assert caretaker("run", JOB, *place).code == 3  # nothing left to do


@pytest.mark.usefixtures("new_job")
def test_its_help_and_its_arguments_come_from_the_definition(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["run", JOB, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "move consumers that are more than this many snapshots behind the newest" in shown
    wrong = caretaker("plan", JOB, "db.t", "-w", lake.warehouse, "--max-lag", "0")
    assert wrong.code == 2
    assert "0 is less than 1" in wrong.err


@pytest.mark.usefixtures("new_job")
def test_its_recheck_drops_a_consumer_that_has_moved_on(lake: Lake) -> None:
    job = JOBS[JOB]
    steps = job.load()
    table = lake.table()
    plan = steps.plan(table, None, job.read_arguments({"max_lag": 3}), None)
    table.consumers.set("far", 4)
    assert [move.consumer.id for move in plan.work] == ["far"]
    assert steps.recheck(table, plan).work == ()


@pytest.mark.airflow
@pytest.mark.usefixtures("new_job")
def test_its_dag_runs_by_hand_without_spark_and_without_retries() -> None:
    from paimon_dags.job_dags import job_dags
    from paimon_dags.settings import Settings

    dag = {dag.dag_id: dag for dag in job_dags(Settings(warehouse="/lake"))}[f"caretaker_{JOB}"]
    assert dag.schedule is None
    assert set(dag.task_dict) == {"plan", "in_process", "report"}
    assert dag.task_dict["in_process"].retries == 0
    assert dag.params.get_param("dry_run").value is True


def test_the_merge_engine_of_the_page_is_the_one_that_is_tested() -> None:
    name = "tests/made_up_engine.py"
    assert BLOCKS[name] == (ROOT / name).read_text("utf-8")
