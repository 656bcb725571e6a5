"""The watcher's trigger, the DAGs that commits start, and the asset events of what they did."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from lakes import Lake

from paimon_airflow.commits import on_commit
from paimon_airflow.commits.trigger import CommitTrigger
from paimon_airflow.tasks import assets
from paimon_airflow.tasks.results import TableResult
from paimon_core.errors import InvalidArgument
from paimon_core.scan.scan import scan_files
from paimon_dags.commit_dags import commit_dags
from paimon_dags.settings import SettingsError, settings_from
from paimon_maintenance.engines.spark.loss import SparkLost
from paimon_maintenance.engines.spark.session import SparkUnavailable
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.schedule.on_commit import Maintained

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
    for spark, connection in ((True, "spark_default"), (False, None)):
        (dag,) = of_settings({"on_commit": {"spark": spark}}, lake).values()
        assert dag.task_dict["maintain"].spark_connection == connection
        assert ("run on Spark" in dag.doc_md) is spark
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


def ended(table: str, error: Exception | None = None) -> Maintained:
    status = Status.SUCCESS if error is None else Status.FAILED
    report = Report(
        job="compact", table=table, warehouse="/lake", run_id="r", status=status, error=error
    )
    return Maintained(table=table, report=report, failed=error is not None)


def until_quiet(
    monkeypatch: pytest.MonkeyPatch, ends: dict[str, list[Maintained]], slow: str = ""
) -> tuple[list[str], dict[str, Maintained]]:
    """The tables in the order of their ends; a table has a commit until it ended well."""
    left = {table: list(found) for table, found in ends.items()}
    order: list[str] = []
    others = threading.Event()

    class Watched:
        def look(self) -> dict[str, int]:
            # A failure is tried again a minute later, which is after this test.
            return {t: 2 for t, found in left.items() if len(found) == len(ends[t])}

    class Runs:
        def maintain(self, table: str) -> Maintained:
            if table == slow:
                assert others.wait(20)
            return left[table].pop(0)

    def on_result(one: Maintained) -> None:
        order.append(one.table)
        if one.table != slow:
            others.set()

    monkeypatch.setattr(on_commit, "watch_of", lambda *_, **__: Watched())
    request: Any = SimpleNamespace(
        warehouse="", patterns=(), storage={}, including=(), excluding=(), branch=None
    )
    runs: Any = Runs()
    found = on_commit.maintain_until_quiet(
        request,
        runs,
        linger_seconds=0,
        longest_seconds=30,
        poll_seconds=0.01,
        on_result=on_result,
    )
    return order, found


def test_a_table_whose_driver_was_lost_gets_another_at_once(monkeypatch):
    lost, unavailable = ended("db.t", SparkLost("x")), ended("db.t", SparkUnavailable("y"))
    order, found = until_quiet(monkeypatch, {"db.t": [lost, unavailable, ended("db.t")]})
    assert order == ["db.t"] * 3
    assert not found["db.t"].failed
    # Three losses in a row, and other failures, wait for their turn.
    order, found = until_quiet(monkeypatch, {"db.t": [lost, lost, lost, ended("db.t")]})
    assert (len(order), found["db.t"].failed) == (3, True)
    order, found = until_quiet(monkeypatch, {"db.t": [ended("db.t", OSError("z")), ended("db.t")]})
    assert (len(order), found["db.t"].failed) == (1, True)


def test_only_tables_with_a_new_snapshot_get_an_event():
    events = {assets.MAINTAINED: Mock()}
    context = {"outlet_events": events, "task": SimpleNamespace(outlets=[assets.MAINTAINED])}
    results = [
        TableResult(table="db.t", outcome="done", snapshot=7),
        TableResult(table="db.u", outcome="nothing"),
    ]
    number = assets.emit(context, results, job="compact", warehouse="/west")
    assert number == 1
    (asset,) = events[assets.MAINTAINED].add.call_args.args
    assert asset == assets.table_asset("db.t")
    assert asset.name == "paimon/lake/db.t"


def test_no_table_waits_for_a_slower_one(monkeypatch):
    ends = {"db.a": [ended("db.a")], "db.b": [ended("db.b")]}
    order, _ = until_quiet(monkeypatch, ends, slow="db.a")
    assert order == ["db.b", "db.a"]


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
    assert path == "paimon_airflow.commits.trigger.CommitTrigger"
    trigger = CommitTrigger(**arguments)
    found = events(trigger, 4, lambda: lake.append({"k": [1], "v": ["x"], "dt": ["day1"]}))
    assert found == [{"tables": {"db.t": 5}, "number": 1}]
    # A triggerer that was killed knows nothing; its successor finds what is not maintained.
    again = events(CommitTrigger(**arguments), 2)
    assert again == found


def test_the_trigger_survives_a_store_that_is_down(lake, monkeypatch):
    arguments = {"warehouse": str(lake.warehouse / "gone" / "x"), "poll_seconds": 0.05}
    assert events(CommitTrigger(**arguments), 1) == []


def dag_file(lake: Lake, folder: Path) -> Path:
    """The DAG file in Airflow's folder, with settings for this lake."""
    policy = folder / "policy.yaml"
    policy.write_text('version: 1\nrules: [{ tables: "*.*", on_commit: full }]\n')
    dags = Path(os.environ["AIRFLOW_HOME"]) / "dags"
    dags.mkdir(exist_ok=True)
    file = Path(shutil.copy(ROOT / "dags" / "caretaker.py", dags))
    common = {"warehouse": str(lake.warehouse), "policy": str(policy)}
    lines = ["[caretaker]", *(f"{k} = {json.dumps(v)}" for k, v in common.items())]
    file.with_suffix(".toml").write_text(
        "\n".join([*lines, "[on_commit]", "linger_seconds = 0", 'assets = ["db.t"]'])
    )
    return file


@pytest.mark.slow
def test_a_run_compacts_the_partition_and_adds_its_event(
    airflow_database, lake, finished, tmp_path, monkeypatch
):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    dag = runpy.run_path(str(dag_file(lake, tmp_path)))["caretaker_on_commit"]
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


@pytest.mark.slow
def test_an_event_with_a_partition_key_compacts_that_partition(
    airflow_database, lake, tmp_path, monkeypatch
):
    """Airflow's scheduler makes the run of the event; the task compacts its partition alone."""
    from airflow.assets.manager import AssetManager
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.utils.session import create_session
    from sqlalchemy import select

    file = dag_file(lake, tmp_path)
    dag_id = "caretaker_on_partition"
    bag = DagBag(dag_folder=str(file))
    assert bag.import_errors == {}
    bag.dags = {dag_id: bag.dags[dag_id]}
    DagBundlesManager().sync_bundles_to_db()
    with create_session() as session:
        sync_bag_to_db(bag, "dags-folder", None, session=session)
    with create_session() as session:
        session.get(DagModel, dag_id).is_paused = False
        asset = session.scalars(
            select(AssetModel).where(AssetModel.name == assets.table_asset("db.t").name)
        ).one()
        AssetManager.register_asset_change(
            asset=asset.to_serialized(), session=session, partition_key="dt=day1"
        )
    with create_session() as session:
        runner = SchedulerJobRunner(job=Job())
        assert runner._create_dagruns_for_partitioned_asset_dags(session) == {dag_id}
    with create_session() as session:
        made = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)).one()
        assert made.partition_key == "dt=day1"
        event_id = made.consumed_asset_events[0].id
        session.delete(made)  # `DAG.test` makes its own
    create = SerializedDAG.create_dagrun

    def with_key(dag: Any, **parts: Any) -> Any:
        run = create(dag, **{**parts, "partition_key": "dt=day1"})
        session = parts["session"]
        run.consumed_asset_events.append(session.get(AssetEvent, event_id))
        session.commit()
        return run

    monkeypatch.setattr(SerializedDAG, "create_dagrun", with_key)
    run = bag.dags[dag_id].test()
    assert str(run.state) == "success"
    table = lake.table()
    files: dict[str, int] = {}
    for entry in scan_files(table, table.snapshots.latest()):
        day = table.paths.partition_values(entry.partition)["dt"]
        files[day] = files.get(day, 0) + 1
    assert files == {"day0": 4, "day1": 1}
