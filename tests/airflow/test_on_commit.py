"""The watcher's trigger, the DAGs that commits start, and the asset events of what they did."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest
from lakes import Lake

from paimon_airflow import assets
from paimon_airflow.commit_trigger import CommitTrigger
from paimon_core.errors import InvalidArgument
from paimon_dags.commit_dags import commit_dags
from paimon_dags.settings import SettingsError, settings_from

pytestmark = pytest.mark.airflow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lake(tmp_path, monkeypatch) -> Lake:
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    made = Lake(tmp_path / "lake")
    made.primary_key("db.t", partitioned=True)
    made.primary_key("db.u")
    made.fill(4)
    return made


def of_settings(text: dict[str, Any], lake: Lake) -> dict[str, Any]:
    raw = {"caretaker": {"warehouse": str(lake.warehouse)}, **text}
    return {dag.dag_id: dag for dag in commit_dags(settings_from(raw, environ={}))}


def test_there_is_no_dag_without_its_settings(lake):
    assert of_settings({}, lake) == {}
    assert set(of_settings({"on_commit": {}}, lake)) == {"caretaker_on_commit"}
    both = of_settings({"on_commit": {"assets": ["db.t", "db.u"]}}, lake)
    assert set(both) == {"caretaker_on_commit", "caretaker_on_partition"}
    outlets = {a.name for a in both["caretaker_on_partition"].task_dict["maintain"].outlets}
    assert outlets == {"caretaker", "paimon/lake/db.t", "paimon/lake/db.u"}
    with pytest.raises(SettingsError, match="needs `warehouse`"):
        list(commit_dags(settings_from({"on_commit": {}}, environ={})))
    for wrong in ({"tables": "db.*"}, {"poll_seconds": 0}, {"polls": 1}):
        with pytest.raises(SettingsError):
            settings_from({"on_commit": wrong}, environ={})


def test_a_partition_is_a_key_and_back():
    for partition in ({"dt": "2024-01-01"}, {"dt": "a/b=c", "hr": "03"}, {"dt": "ü 10:30"}):
        key = assets.partition_key(partition)
        assert key is not None
        assert assets.partition_of(key) == partition
    assert assets.partition_key({"dt": "2024-01-01", "hr": "03"}) == "dt=2024-01-01/hr=03"
    assert assets.partition_key({}) is None
    assert assets.partition_key({"dt": "x" * 250}) is None
    for wrong in ("2024-01-01", "=1", "dt=1/2"):
        with pytest.raises(InvalidArgument):
            assets.partition_of(wrong)
    assert assets.table_of(assets.table_asset("db.t").name) == "db.t"
    assert assets.table_of("paimon/other/db.t") is None
    assert assets.table_asset("db.a b/c").uri == "x-paimon://lake/db/a%20b%2Fc"


def events(trigger: CommitTrigger, seconds: float, between: Any = lambda: None) -> list[Any]:
    """What the trigger fires in this time; `between` runs once after its first look."""

    async def collect() -> list[Any]:
        found = []

        async def run() -> None:
            async for event in trigger.run():
                found.append(event.payload)  # noqa: PERF401 - it is cancelled on the way

        task = asyncio.create_task(run())
        await asyncio.sleep(seconds / 2)
        await asyncio.to_thread(between)
        await asyncio.sleep(seconds / 2)
        task.cancel()
        return found

    return asyncio.run(collect())


def test_the_trigger_fires_for_commits_once(lake):
    path, arguments = CommitTrigger(warehouse=str(lake.warehouse), poll_seconds=0.05).serialize()
    assert path == "paimon_airflow.commit_trigger.CommitTrigger"
    trigger = CommitTrigger(**arguments)
    found = events(trigger, 4, lambda: lake.append({"k": [1], "v": ["x"], "dt": ["day1"]}))
    assert found == [{"tables": {"db.t": 5}, "number": 1}]
    # A triggerer that was killed knows nothing; its successor finds what is not maintained.
    again = events(CommitTrigger(**arguments), 2)
    assert again == found


def test_the_trigger_survives_a_store_that_is_down(lake, monkeypatch):
    arguments = {"warehouse": str(lake.warehouse / "gone" / "x"), "poll_seconds": 0.05}
    assert events(CommitTrigger(**arguments), 1) == []


@pytest.mark.slow
def test_a_run_compacts_the_partition_and_adds_its_event(
    airflow_database, lake, finished, tmp_path, monkeypatch
):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    policy = tmp_path / "policy.yaml"
    policy.write_text('version: 1\nrules: [{ tables: "*.*", on_commit: full }]\n')
    folder = Path(os.environ["AIRFLOW_HOME"]) / "dags"
    folder.mkdir(exist_ok=True)
    file = Path(shutil.copy(ROOT / "dags" / "caretaker.py", folder))
    common = {"warehouse": str(lake.warehouse), "policy": str(policy)}
    lines = ["[caretaker]", *(f"{k} = {json.dumps(v)}" for k, v in common.items())]
    file.with_suffix(".toml").write_text(
        "\n".join([*lines, "[on_commit]", "linger_seconds = 0", 'assets = ["db.t"]'])
    )
    dag = runpy.run_path(str(file))["caretaker_on_commit"]
    assert str(dag.test().state) == "success"  # the first look sets the positions
    lake.append({"k": [1], "v": ["x"], "dt": ["day1"]})
    run = dag.test()
    assert str(run.state) == "success"
    assert lake.table().snapshots.latest_id() == 6
    with create_session() as session:
        found = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id))
        told = [(e.partition_key, dict(e.extra)) for e in found]
    extra = {
        "table": "db.t",
        "warehouse": str(lake.warehouse),
        "snapshot": 6,
        "job": "compact",
        "partitions": [{"dt": "day1"}],
    }
    assert ("dt=day1", extra) in told
