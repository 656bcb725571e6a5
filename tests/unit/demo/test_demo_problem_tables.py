"""Each table of the demo has the problem that it names; the scheduler and people make all green."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from paimon_maintenance.demo import people
from paimon_maintenance.demo.policy import write_policy
from paimon_maintenance.demo.problem_table import HEALTHY, make_problem_tables
from paimon_maintenance.demo.problems import NOT_SHOWN, problem_tables
from paimon_maintenance.demo.run_here import run_here
from paimon_maintenance.demo.scheduler import Scheduler, rows_of, summary
from paimon_maintenance.health.thresholds import DEFAULTS
from paimon_maintenance.history.lake_view import LakeQuery, lake_page
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.policy.load import load_policy

TABLES = {one.table: one for one in problem_tables()}
OF_PEOPLE = {people.PROPOSED, *(act.table for act in people.acts())}


def test_every_criterion_has_a_table_of_its_own():
    shown = [one.criterion for one in problem_tables() if one.problem != HEALTHY]
    assert sorted(shown) == sorted(DEFAULTS.keys() - NOT_SHOWN)
    assert len(TABLES) == len(problem_tables()) == len(shown) + 2


@dataclass
class Life:
    """What was seen at each stage: the health of all tables."""

    warehouse: str
    url: str
    before: dict
    scheduled: dict
    said: list[str]
    jobs: int
    end: dict
    page: dict


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    folder: Path = tmp_path_factory.mktemp("life")
    warehouse, url = str(folder / "lake"), f"sqlite:///{folder}/history.db"
    make_problem_tables(warehouse, problem_tables())
    history = SqlHistory(url)
    scheduler = Scheduler(warehouse, url, load_policy(write_policy(folder)))
    people.search_for_orphans(warehouse, history)
    before = scheduler.measure()
    said: list[str] = []
    scheduled, jobs = scheduler.run(said.append)
    page = lake_page(history, LakeQuery(warehouse=warehouse))
    for act in people.acts():
        people.do(act, warehouse, history)
    # In the demo a person approves it in Airflow.
    run_here("rescale", warehouse, people.PROPOSED, {"bucket_num": 1}, history=history)
    end, _ = scheduler.run(said.append)
    return Life(
        warehouse=warehouse,
        url=url,
        before=dict(before),
        scheduled=dict(scheduled),
        said=said,
        jobs=jobs,
        end=dict(end),
        page={row.table: row for row in page.rows},
    )


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_has_its_own_problem_and_becomes_green(life, name):
    one, before = TABLES[name], life.before[name]
    after = {r.criterion for r in life.end[name].reasons}
    if one.problem == HEALTHY:
        assert (before.color, before.reasons) == ("green", ())
    else:
        assert before.color != "green", before
        assert before.reasons[0].criterion == one.criterion, before.reasons
    assert life.end[name].color == "green", (life.end[name], life.said)
    assert one.criterion not in after, life.end[name]


def test_the_scheduler_leaves_to_people_what_only_they_may_decide(life):
    assert {n for n, h in life.scheduled.items() if h.color != "green"} == OF_PEOPLE
    assert life.jobs >= 10
    proposed = {n: row.next_job for n, row in life.page.items() if row.next_action == "propose"}
    assert proposed == {people.PROPOSED: "rescale"}


def test_the_summary_lists_the_worst_first(life):
    assert summary(life.end) == f"0 red, 0 yellow, {len(TABLES)} green"
    rows = rows_of(life.before, life.end)
    scores = [int(row[1]) for row in rows]
    assert scores == sorted(scores)
    assert {row[0].split(":")[0] for row in rows} == TABLES.keys()
