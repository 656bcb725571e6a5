"""Sensors wait for real tables, in the worker and in the triggerer."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from lakes import ENV, Lake

from paimon_airflow.sensors import ConsumerCaughtUp, TableHealthy, TagExists, WatermarkReached
from paimon_airflow.sensors.conditions import ask
from paimon_airflow.sensors.trigger import ConditionTrigger
from paimon_core.commit.committer import commit
from paimon_core.errors import InvalidArgument
from paimon_core.refs.tags import Tag

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Lake:
    made = Lake(tmp_path_factory.mktemp("sensors") / "lake")
    made.primary_key("db.sick", partitioned=True)
    made.fill(20, name="db.sick")
    made.append({"k": [1], "v": ["a"], "dt": ["new"]}, "db.sick")
    made.primary_key("db.well")
    made.fill(2, name="db.well")
    table = made.table("db.well")
    table.consumers.set("reader", 2)
    return made


def place(lake: Lake, table: str = "db.well") -> dict[str, Any]:
    return {"task_id": "wait", "table": table, "warehouse": str(lake.warehouse)}


def test_health(lake):
    assert TableHealthy(**place(lake)).poke({})
    assert not TableHealthy(**place(lake, "db.sick")).poke({})
    assert TableHealthy(**place(lake, "db.sick"), score=1).poke({})
    assert TableHealthy(**place(lake, "db.sick"), partition={"dt": "new"}).poke({})
    assert not TableHealthy(**place(lake, "db.sick"), partition={"dt": "day0"}).poke({})
    assert not TableHealthy(**place(lake, "db.sick"), partition={"dt": "none"}).poke({})


def test_health_is_that_of_the_policy(lake, tmp_path, monkeypatch):
    """As `caretaker health` and the page score it: other thresholds make another score."""
    file = tmp_path / "policy.yaml"
    file.write_text(
        "version: 1\nrules:\n  - tables: db.sick\n    health:\n      point_read_runs: { weight: 0 }\n"
        "      full_read_runs: { weight: 0 }\n      small_files: { weight: 0 }\n"
    )
    assert TableHealthy(**place(lake, "db.sick"), policy=str(file)).poke({})
    monkeypatch.setenv("CARETAKER_POLICY", str(file))
    sensor = TableHealthy(**place(lake, "db.sick"))
    assert sensor.poke({})
    assert sensor.arguments()["policy"] == str(file)  # the triggerer may have another environment
    assert not TableHealthy(**place(lake, "db.sick"), policy="").poke({})
    # A goal of the policy counts, too.
    file.write_text("version: 1\nrules: [{ tables: db.well, freshness: 1 ms }]\n")
    time.sleep(0.01)
    assert not TableHealthy(**place(lake)).poke({})


def test_consumers_and_tags(lake):
    assert not ConsumerCaughtUp(**place(lake), consumer="reader").poke({})
    assert ConsumerCaughtUp(**place(lake), consumer="reader", snapshots=1).poke({})
    assert not ConsumerCaughtUp(**place(lake), consumer="other").poke({})
    assert not TagExists(**place(lake), tag="v1").poke({})


def test_watermarks(lake, monkeypatch):
    sensor = WatermarkReached(**place(lake), watermark="2026-01-01T00:00:00+00:00")
    assert sensor.arguments() == {"millis": 1_767_225_600_000}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert WatermarkReached(**place(lake), watermark=at).arguments() == sensor.arguments()
    assert WatermarkReached(**place(lake), watermark="17").arguments() == {"millis": 17}
    with pytest.raises(AirflowFailException, match="has no time zone"):
        WatermarkReached(**place(lake), watermark="2026-01-01T00:00:00").arguments()
    assert not sensor.poke({})  # these tables have no watermark


def test_a_watermark_that_a_commit_brings(lake):
    lake.primary_key("db.marked")
    lake.fill(1, name="db.marked")

    def reached(millis: int) -> bool:
        return WatermarkReached(**place(lake, "db.marked"), watermark=millis).poke({})

    assert not reached(1000)
    for mark, snapshot in ((1000, 2), (2500, 3)):
        commit(lake.table("db.marked"), [], user="w", env=ENV, watermark=mark, ignore_empty=False)
        assert lake.table("db.marked").snapshots.latest_id() == snapshot
        assert [m for m in (999, 1000, 1001, 2500, 2501) if reached(m)] == [
            m for m in (999, 1000, 1001, 2500, 2501) if m <= mark
        ]


def wait(trigger: ConditionTrigger, between: Any = lambda: None) -> dict[str, Any]:
    """The event of the trigger, while something else happens."""

    async def both() -> dict[str, Any]:
        later = asyncio.create_task(asyncio.to_thread(between))
        event = await asyncio.wait_for(anext(trigger.run()), 60)
        await later
        return event.payload

    return asyncio.run(both())


def test_a_deferred_sensor_waits_without_blocking_the_loop(lake, monkeypatch):
    sensor = TagExists(**place(lake), tag="late", poke_interval=0.2)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    path, arguments = deferred.value.trigger.serialize()
    assert path == "paimon_airflow.sensors.trigger.ConditionTrigger"

    threads = set()

    def asked(*args: Any, **how: Any) -> Any:
        threads.add(threading.current_thread())
        return ask(*args, **how)

    monkeypatch.setattr("paimon_airflow.sensors.trigger.ask", asked)

    def tag() -> None:
        time.sleep(0.5)
        table = lake.table("db.well")
        table.tags.create(Tag(name="late", snapshot=table.snapshots.latest()))

    event = wait(ConditionTrigger(**arguments), tag)
    assert event["holds"]
    assert threads
    assert threading.main_thread() not in threads, "the event loop waited for the store"
    sensor.execute_complete({}, event)
    assert TagExists(**place(lake), tag="late").execute({}) is None


def test_stores_that_hang_leave_the_threads_of_the_event_loop_free(lake, monkeypatch):
    """Other triggers use them, and so do lookups of hosts."""
    answered = threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        answered.wait(30)
        raise ConnectionError

    monkeypatch.setattr("paimon_airflow.sensors.trigger.ask", hang)
    many = 2 * (min(32, (os.cpu_count() or 1) + 4))  # more than the event loop has

    async def others_go_on() -> None:
        triggers = [ConditionTrigger(**wanted(lake)).run() for _ in range(many)]
        waiting = [asyncio.create_task(anext(t)) for t in triggers]
        await asyncio.sleep(0.2)
        try:
            assert await asyncio.wait_for(asyncio.to_thread(lambda: 42), 10) == 42
        finally:
            answered.set()
            for task in waiting:
                task.cancel()

    asyncio.run(others_go_on())


def wanted(lake: Any) -> dict[str, Any]:
    return {
        "condition": "tag_exists",
        "warehouse": str(lake.warehouse),
        "table": "db.well",
        "poke_interval": 0.1,
        "arguments": {"tag": "x"},
    }


def test_what_cannot_be_asked_fails_at_once(lake):
    # AirflowFailException: Airflow repeats a task after any other.
    for how in ({}, {"deferrable": False, "timeout": 1}):
        with pytest.raises(AirflowFailException, match=r"db\.none"):
            TagExists(**place(lake, "db.none"), tag="x", **how).execute({})
    with pytest.raises(AirflowFailException, match="soon"):
        WatermarkReached(**place(lake), watermark="soon").execute({})
    event = wait(ConditionTrigger(**{**wanted(lake), "table": "db.none"}))
    with pytest.raises(AirflowFailException, match="NotFound"):
        TagExists(**place(lake), tag="x").execute_complete({}, event)


def test_a_store_that_does_not_answer_at_first_is_asked_again(lake, monkeypatch):
    def silent(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route to the store")

    monkeypatch.setattr("paimon_airflow.sensors.table_sensors.ask", silent)
    with pytest.raises(TaskDeferred):
        TagExists(**place(lake), tag="x").execute({})
    with pytest.raises(ConnectionError):
        TagExists(**place(lake), tag="x", deferrable=False).execute({})


def test_secrets_come_from_a_connection_only(lake):
    with pytest.raises(InvalidArgument, match=r"s3\.secret-key"):
        TagExists(**place(lake), tag="x", storage={"s3.secret-key": "hidden"})
    TagExists(**place(lake), tag="x", storage={"s3.endpoint": "http://store"})


def test_the_link_leads_to_the_page_of_the_table(lake, monkeypatch):
    sensor = TagExists(task_id="w", table="db.a b&c", warehouse="/lake", tag="x")
    (link,) = sensor.operator_extra_links
    found = link.get_link(sensor, ti_key=None)
    assert found == "/caretaker/table?warehouse=%2Flake&table=db.a+b%26c&branch=main"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host/airflow/")
    assert link.get_link(sensor, ti_key=None) == f"/airflow{found}"
    assert link.get_link(TagExists(task_id="v", table="{{ t }}", tag="x"), ti_key=None) == ""
