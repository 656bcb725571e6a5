"""Units on a real Spark: `local[2]`, classic, and Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import spark_work
from command_line import caretaker, read_rows
from evolving_tables import EVOLVING, groups_of, rows_by_id, update_columns
from lakes import Lake
from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value
from spark_cluster import connect_server
from spark_work import slow, work

from paimon_core.errors import PaimonError, UnsupportedFeature
from paimon_core.read.table_read import deletion_vectors
from paimon_core.scan.scan import scan_changelog
from paimon_maintenance.engines.combine import Combiner
from paimon_maintenance.engines.process import SETTINGS
from paimon_maintenance.engines.spark import engine as engine_module
from paimon_maintenance.engines.spark.engine import SparkEngine, UnitLost
from paimon_maintenance.engines.spark.loss import SparkLost
from paimon_maintenance.job.engine import UnitResult, WorkUnit
from paimon_maintenance.job.report import Status
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

pytestmark = pytest.mark.spark

CHECKOUT = Path(__file__).parents[2]
MB = 1024**2


def units(*payloads: bytes, size: int = 20 * MB) -> list[WorkUnit]:
    return [WorkUnit(payload=p, expected_bytes=size, label=p.decode()) for p in payloads]


@pytest.fixture(scope="module")
def spark():
    # The test's own functions travel whole: the JVM, and with it what workers can import, may be
    # that of an earlier test.
    register_pickle_by_value(spark_work)
    engine = SparkEngine(master="local[2]")
    yield engine
    engine.close()
    unregister_pickle_by_value(spark_work)


def test_results_come_back_in_order_and_errors_typed(spark):
    results = spark.run_units(units(b"a", b"refused", b"c", b"odd"), work)
    assert [r.index for r in results] == [0, 1, 2, 3]
    assert results[0].payload == b"A"
    assert results[2].payload == b"C"
    error = results[1].error
    assert isinstance(error, UnsupportedFeature)
    assert (error.feature, error.table) == ("bitmaps", "db.t")
    # An error that cannot travel keeps its text.
    assert isinstance(results[3].error, PaimonError)
    assert "no way to pickle" in str(results[3].error)


def test_large_payloads_travel_as_rows(spark, monkeypatch):
    monkeypatch.setattr(engine_module, "_WITH_FUNCTION_BYTES", 2)
    results = spark.run_units(units(b"a", b"b", b"refused"), work)
    assert [r.payload for r in results] == [b"A", b"B", None]
    assert isinstance(results[2].error, UnsupportedFeature)


def test_workers_keep_freed_memory(spark):
    (result,) = spark.run_units(units(b"allocator"), work)
    assert result.payload == SETTINGS["MIMALLOC_PURGE_DELAY"].encode()


def test_workers_look_for_garbage_rarely(spark):
    (result,) = spark.run_units(units(b"garbage"), work)
    assert result.payload == b"150000"


def test_small_units_share_a_task(spark):
    tasks = {r.payload for r in spark.run_units(units(*[b"task"] * 40, size=1000), work)}
    assert len(tasks) == 1
    tasks = {r.payload for r in spark.run_units(units(*[b"task"] * 8, size=40 * MB), work)}
    assert len(tasks) == 8


def test_parallelism_bounds_the_tasks(spark):
    engine = spark.with_parallelism(3)
    assert (spark.slots(), engine.slots()) == (2, 3)
    tasks = {r.payload for r in engine.run_units(units(*[b"task"] * 8, size=40 * MB), work)}
    assert len(tasks) == 3


def test_a_dying_worker_loses_its_own_unit_only(spark):
    results = spark.run_units(units(b"a", b"die", b"c", size=40 * MB), work)
    assert [r.payload for r in results] == [b"A", None, b"C"]
    error = results[1].error
    assert isinstance(error, UnitLost)
    assert "die" in str(error)


def test_small_tables_share_a_job_and_a_dying_one_harms_no_other(spark, caplog):
    engine = replace(spark, combiner=Combiner())
    caplog.set_level("INFO", logger="paimon_maintenance.engines.spark.engine")
    ready = threading.Barrier(3, timeout=60)

    def run(payloads: tuple[bytes, ...]) -> list[UnitResult]:
        ready.wait()
        try:
            return engine.run_units(units(*payloads, size=1000), work)
        except SparkLost as e:  # all tasks of this call died
            return [UnitResult(index=0, error=e)]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(run, [(b"a", b"b"), (b"c",), (b"refused",)]))
        assert [[r.payload for r in results] for results in found] == [[b"A", b"B"], [b"C"], [None]]
        assert isinstance(found[2][0].error, UnsupportedFeature)
        assert [m for m in caplog.messages if m.startswith("units=")] == [
            "units=4 tasks=2 tables=3 slots=2"
        ]
        found = list(pool.map(run, [(b"a",), (b"die",), (b"c",)]))
    assert [[r.payload for r in results] for results in found] == [[b"A"], [None], [b"C"]]
    assert isinstance(found[1][0].error, SparkLost)


def test_progress_is_told_while_tasks_run(spark):
    shares: list[float] = []
    results = spark.run_units(
        units(*b"abcdef".hex(" ").encode().split()), slow, on_share=shares.append
    )
    assert len(results) == 6
    assert shares == sorted(shares)
    assert any(0 < share < 1 for share in shares)


def test_no_units_need_no_session():
    engine = SparkEngine(master="local[2]")
    assert engine.run_units([], work) == []
    assert not engine.started


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key("db.t", buckets=3, partitioned=True)
    lake.fill(3, rows=50)
    lake.log("db.log", compaction_min_file__num="2")
    lake.fill(3, name="db.log")
    return lake


def test_compaction_on_spark(spark, lake):
    rows = read_rows(lake.warehouse)
    request = RunRequest(
        job=COMPACT,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=COMPACT.read_arguments({"slice_bytes": "1 kb"}),
    )
    report = run_table(request, RunServices(engine=spark))
    assert report.status is Status.SUCCESS, report.error
    assert report.engine == "spark"
    assert report.before.sorted_runs == 18
    assert report.after.sorted_runs == 6
    assert read_rows(lake.warehouse) == rows
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    assert lake.on_disk() == lake.referenced()


def test_a_changelog_made_in_slices_on_spark(spark, tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key("db.t", changelog__producer="lookup")
    for _ in range(2):
        lake.fill(2, rows=50)
        request = RunRequest(
            job=COMPACT,
            warehouse=str(lake.warehouse),
            table="db.t",
            arguments=COMPACT.read_arguments({"slice_bytes": "1 kb"}),
        )
        report = run_table(request, RunServices(engine=spark))
        assert report.status is Status.SUCCESS, report.error
    told = [s.changelog_record_count for s in lake.table().snapshots.all()]
    # 50 new keys, then 50 before and after.
    assert told == [None, None, 50, None, None, 100]
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    table = lake.table()
    telling = [s for s in table.snapshots.all() if s.changelog_manifest_list]
    files = {e.file.file_name for s in telling for e in scan_changelog(table, s)}
    assert lake.on_disk() == lake.referenced() | files
    assert len(files) > 2, "the bucket was not cut"


def test_columns_are_merged_on_spark(spark, tmp_path):
    lake = Lake(tmp_path)
    lake.create(primary_key=False, partitioned=True, options=EVOLVING)
    for i, day in enumerate("aabba"):
        lake.append({"k": [i, 10 + i], "v": [f"v{i}", None], "dt": [day] * 2})
    update_columns(lake.table(), groups_of(lake.table())[1], v=["new", "newer"])
    rows = rows_by_id(lake.table())
    request = RunRequest(
        job=COMPACT, warehouse=str(tmp_path), table="db.t", arguments=COMPACT.read_arguments({})
    )
    report = run_table(request, RunServices(engine=spark))
    assert (report.status, report.engine) == (Status.SUCCESS, "spark"), report.error
    assert (report.before.files, report.after.files) == (6, 3)
    assert rows_by_id(lake.table()) == rows
    assert lake.on_disk() == lake.referenced()


def test_deletion_vectors_on_spark(spark, tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key("db.t", **{"deletion-vectors.enabled": "true"})
    noise = [str(i * 7919 % 10007) for i in range(500)]
    lake.append({"k": list(range(500)), "v": noise})

    def compact(strategy: str) -> None:
        request = RunRequest(
            job=COMPACT,
            warehouse=str(lake.warehouse),
            table="db.t",
            arguments=COMPACT.read_arguments({"slice_bytes": "1 kb", "strategy": strategy}),
        )
        report = run_table(request, RunServices(engine=spark))
        assert report.status is Status.SUCCESS, report.error
        assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0

    compact("full")
    for start in (0, 1):
        changed = range(start, 200 + start, 2)
        # Two files that overlap are merged, and cut over several tasks.
        lake.append({"k": list(changed), "v": ["new"] * 100})
        lake.append({"k": list(changed), "v": ["newer"] * 100})
        compact("minor")
    table = lake.table()
    vectors = deletion_vectors(table, table.latest_or_not_found())
    assert sum(map(len, vectors.values())) == 200
    newest = [(k, "newer" if k < 200 else noise[k]) for k in range(500)]
    assert sorted((r[1], r[2]) for r in read_rows(lake.warehouse)) == newest
    compact("full")
    assert deletion_vectors(table, table.latest_or_not_found()) == {}
    assert sorted((r[1], r[2]) for r in read_rows(lake.warehouse)) == newest


def test_a_unit_that_fails_on_an_executor_does_not_stop_the_others(spark, lake):
    rows = read_rows(lake.warehouse)
    table = lake.table()
    broken = next(Path(table.root).glob("dt=day0/bucket-0/*"))
    content = broken.read_bytes()
    broken.write_bytes(b"x" * len(content))
    request = RunRequest(
        job=COMPACT,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=COMPACT.read_arguments({}),
    )
    report = run_table(request, RunServices(engine=spark))
    assert report.exit_code == 7, report.error
    assert [f.label for f in report.failed_units] == ["dt=day0 bucket 0"]
    assert len(report.snapshots) == 1
    assert len(report.buckets) == 5
    broken.write_bytes(content)
    assert read_rows(lake.warehouse) == rows


def caretaker_in_a_process(*words: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "maintenance"), str(CHECKOUT / "tests")])
    return subprocess.run(
        [sys.executable, "-m", "paimon_maintenance.cli", *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_spark_connect(lake, tmp_path):
    rows = read_rows(lake.warehouse)
    # A process of its own: one process cannot be both a classic and a Connect client.
    with connect_server() as url:
        ran = caretaker_in_a_process(
            *(
                "run",
                "compact",
                "db.t",
                "-w",
                str(lake.warehouse),
                "--engine",
                "spark",
                "--master",
                url,
                "--json",
            )
        )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout)["after"]["files"] == 6
    assert read_rows(lake.warehouse) == rows


def test_the_command_line_runs_on_spark(lake):
    rows = read_rows(lake.warehouse)
    ran = caretaker_in_a_process(
        *(
            "run",
            "compact",
            "db.*",
            "-w",
            str(lake.warehouse),
            "--spark-threshold",
            "0",
            "--master",
            "local[2]",
            "--json",
        ),
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout)
    assert {r["table"]: r["engine"] for r in told["reports"]} == {
        "db.log": "spark",
        "db.t": "spark",
    }
    assert read_rows(lake.warehouse) == rows


def test_a_master_that_is_not_there(lake):
    ran = caretaker_in_a_process(
        *(
            "run",
            "compact",
            "db.t",
            "-w",
            str(lake.warehouse),
            "--engine",
            "spark",
            "--master",
            "nonsense",
            "--json",
        )
    )
    assert ran.returncode == 1, ran.stderr[-3000:]
    error = json.loads(ran.stdout)["error"]
    assert error["type"] == "SparkUnavailable"
    assert "--engine local" in error["next_step"]


def test_a_place_for_temporary_files_that_is_none(lake, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(file))
    words = ("run", "compact", "db.t", "-w", str(lake.warehouse), "--engine", "spark", "--json")
    ran = caretaker_in_a_process(*words)
    assert ran.returncode == 1, ran.stderr[-3000:]
    error = json.loads(ran.stdout)["error"]
    assert error["type"] == "SparkUnavailable"
    assert f"where SPARK_LOCAL_DIRS says ({file}: File exists)" in error["message"]
    assert "JDK" not in error["next_step"]


def test_a_batch_of_tables_in_one_application(lake, tmp_path):
    lake.from_the_future("db.agg")
    rows = read_rows(lake.warehouse)
    batch = tmp_path / "batch.json"
    batch.write_text(
        json.dumps(
            [
                {"job": "compact", "warehouse": str(lake.warehouse), **request}
                for request in (
                    {"table": "db.agg"},
                    {"table": "db.t"},
                    {"table": "db.log", "arguments": {"strategy": "minor"}},
                    {"table": "db.nothing"},
                    {"table": "db.log", "arguments": {"wrong": 1}},
                )
            ]
        )
    )
    results = tmp_path / "results"
    submit = Path(sys.executable).parent / "spark-submit"
    command = [str(submit), "--master", "local[2]"]
    command += ["--conf", "spark.ui.enabled=false"]
    command += ["--conf", "spark.driver.host=127.0.0.1"]
    command += ["--conf", "spark.driver.bindAddress=127.0.0.1"]
    command += [str(CHECKOUT / "maintenance" / "paimon_maintenance" / "spark_app.py")]
    command += ["--batch", str(batch), "--results", str(results)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment.pop("PYTHONPATH", None)
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    told = {p.name: json.loads(p.read_text()) for p in results.iterdir()}
    assert {name: r["exit_code"] for name, r in told.items()} == {
        "db.agg.json": 4,
        "db.t.json": 0,
        "db.log.json": 0,
        "db.nothing.json": 2,
        "db.log.2.json": 2,
    }, ran.stderr[-3000:]
    # Failures of several kinds.
    assert ran.returncode == 1
    assert told["db.t.json"]["engine"] == "spark"
    assert told["db.t.json"]["after"]["files"] == 6
    assert read_rows(lake.warehouse) == rows
