"""The sick tables of the demo are sick, and its scheduler makes them green."""

from __future__ import annotations

import pytest

from paimon_maintenance.demo import sick
from paimon_maintenance.demo.scheduler import Scheduler, rows_of, summary
from paimon_maintenance.history.lake_view import LakeQuery, lake_page
from paimon_maintenance.history.store import SqlHistory


def test_every_problem_has_a_table_of_its_own():
    tables = sick.sick_tables()
    assert len({one.table for one in tables}) == len(tables)
    assert sum(1 for one in tables if one.problem == "healthy") == 2
    assert all(one.options["caretaker.owner"] for one in tables)


@pytest.fixture
def lake(tmp_path, monkeypatch):
    chosen = {"balance", "cart", "country", "stock"}
    few = tuple(one for one in sick.sick_tables() if one.name in chosen)
    monkeypatch.setattr(sick, "sick_tables", lambda: few)
    assert len(sick.make_sick_tables(str(tmp_path / "lake"))) == len(chosen)
    return str(tmp_path / "lake")


def test_the_scheduler_heals_them_and_the_page_shows_it(lake, tmp_path):
    url = f"sqlite:///{tmp_path / 'history.db'}"
    scheduler = Scheduler(lake, url)
    before = scheduler.measure()
    assert summary(before) == "1 red, 1 yellow, 2 green"
    said: list[str] = []
    after, jobs = scheduler.run(said.append)
    assert summary(after) == "0 red, 0 yellow, 4 green"
    assert jobs == len(said) >= 3
    assert [row[0].split(":")[0] for row in rows_of(before, after)] == [
        "shop.balance",
        "shop.cart",
        "shop.stock",
        "shop.country",
    ]
    page = lake_page(SqlHistory(url), LakeQuery(warehouse=lake))
    assert {row.color for row in page.rows} == {"green"}
    assert {row.owner for row in page.rows} == {"finance", "logistics", "web"}
    proposed = {row.table: row.next_job for row in page.rows if row.next_action == "propose"}
    assert proposed == {"shop.stock": "rescale"}
