"""The wiring of docker/compose.yaml, without containers: a Spark standalone master and two workers of
our own, a lake on S3, and both ways to it, the command line and the Airflow DAG; and what happens if
an executor dies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from s3_store import environment_of, s3_server
from spark_cluster import Cluster, standalone_cluster

from paimon_core import open_catalog
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.engines.spark.jvm import EXECUTOR_OPTIONS, QUICK
from paimon_maintenance.verify.check import check_table

pytestmark = [
    pytest.mark.spark,
    pytest.mark.airflow,
    pytest.mark.s3,
    pytest.mark.e2e,
    pytest.mark.slow,
]

ROOT = Path(__file__).resolve().parents[2]
COMMITS = 6
OWN_OPTIONS = f"{EXECUTOR_OPTIONS}=-Dcaretaker.test=x"


@dataclass(frozen=True)
class OnS3:
    """A cluster, and the environment in which its executors and the test find the store."""

    cluster: Cluster
    store: dict[str, str]


@pytest.fixture(scope="module")
def on_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnS3]:
    """Two workers of one core and 1 GiB each."""
    with s3_server() as server:
        store = environment_of(server.options)
        home = tmp_path_factory.mktemp("cluster")
        with standalone_cluster(
            home, workers=2, cores=1, memory="1g", environment=store
        ) as cluster:
            yield OnS3(cluster, store)


@pytest.fixture
def warehouse(on_s3: OnS3, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty warehouse; the test's own process gets the credentials too."""
    import botocore.session

    for name, value in on_s3.store.items():
        monkeypatch.setenv(name, value)
    client = botocore.session.get_session().create_client("s3", region_name="us-east-1")
    bucket = f"lake-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=bucket)
    root = f"s3://{bucket}/warehouse"
    FileSystemCatalog(root, {}).create_database("db")
    return root


def fill(warehouse: str, name: str, *, buckets: int = 1, keys: int = 100) -> None:
    """A table of COMMITS overlapping files in each bucket."""
    env = system_environment()
    columns = [Column("k", "INT NOT NULL"), Column("v", "STRING")]
    options = {"bucket": str(buckets), "write-only": "true"}
    schema = create_schema(
        columns, now_millis=env.now_millis(), primary_keys=["k"], options=options
    )
    FileSystemCatalog(warehouse, {}).create_table(name, schema)
    for number in range(COMMITS):
        table = open_table(warehouse, name)
        into = RowWriter(table, env=env)
        into.write(rows(number, keys))
        commit(table, into.prepare_commit(), user="test", identifier=number, env=env)


def rows(number: int, keys: int) -> Any:
    import pyarrow as pa

    values = pa.array([f"v{number}"] * keys)
    return pa.table({"k": pa.array(range(keys), pa.int32()), "v": values})


def compact_command(warehouse: str, name: str, master: str) -> list[str]:
    """The command line that compacts the table completely on the cluster."""
    command = [sys.executable, "-m", "paimon_maintenance.cli", "run", "compact", name]
    command += ["-w", warehouse, "--strategy", "full", "--engine", "spark", "--json"]
    return [*command, "--master", master]


def with_checkout() -> dict[str, str]:
    """The environment of a process that finds our packages."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'maintenance'}"}


def files(warehouse: str, name: str) -> list[tuple[int, int]]:
    """Total buckets and level of each file."""
    from paimon_core.scan.scan import scan_files

    table = open_table(warehouse, name)
    entries = scan_files(table, table.latest_or_not_found())
    return sorted((e.total_buckets, e.file.level) for e in entries)


def test_the_command_line_and_airflow_maintain_a_lake_on_s3_on_a_cluster(
    on_s3: OnS3,
    warehouse: str,
    airflow_database: None,
    run_dag: Any,
    monkeypatch: pytest.MonkeyPatch,
):
    fill(warehouse, "db.a")
    fill(warehouse, "db.b")
    master, before = on_s3.cluster.master, on_s3.cluster.served()
    earlier = on_s3.cluster.launch_commands()
    ran = subprocess.run(
        compact_command(warehouse, "db.a", master),
        env=with_checkout() | {"PYSPARK_SUBMIT_ARGS": f"--conf {OWN_OPTIONS} pyspark-shell"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert (report["engine"], report["status"]) == ("spark", "success")
    assert files(warehouse, "db.a") == [(1, 5)]
    first = on_s3.cluster.launch_commands() - earlier
    assert len(first) >= 2
    assert all("-Dcaretaker.test=x" in c and QUICK not in c for c in first)

    connection = {"conn_type": "spark", "host": master, "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    conf = {
        "warehouse": warehouse,
        "tables": ["db.b"],
        "bucket_num": 2,
        "safety_tag": "0",
        "engine": "spark",
    }
    done = run_dag(conf, job="rescale")
    assert done.state == "success", done.report
    assert done.tasks["on_spark[0]"] == "success"
    (label,) = done.labels
    assert label.startswith("db.b: files 6 -> 2 (spark: ")
    assert {buckets for buckets, _ in files(warehouse, "db.b")} == {2}
    # Both were applications of this cluster, with an executor on each worker.
    assert len(on_s3.cluster.served() - before) == 4
    second = on_s3.cluster.launch_commands() - earlier - first
    assert len(second) >= 2
    assert all(QUICK in command for command in second)


@pytest.mark.long
def test_a_job_whose_executor_dies_ends_well(on_s3: OnS3, warehouse: str, tmp_path: Path):
    fill(warehouse, "db.t", buckets=12, keys=60_000)
    before = table_rows(warehouse)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            compact_command(warehouse, "db.t", on_s3.cluster.master),
            env=with_checkout(),
            stdout=subprocess.PIPE,
            stderr=log,
        )
        # The first result is there, so the job is under way.
        while new_files(warehouse) == 0:
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.05)
        on_s3.cluster.kill_executor()
        out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    report = json.loads(out)
    assert (report["status"], report["after"]["files"]) == ("success", 12)
    assert table_rows(warehouse) == before
    assert not check_table(open_table(warehouse, "db.t")).findings


def table_rows(warehouse: str) -> Any:
    """All rows of db.t by key."""
    return open_catalog(warehouse).get_table("db.t").to_arrow().sort_by("k")


def new_files(warehouse: str) -> int:
    """How many data files of db.t are there beyond those of its commits."""
    table = open_table(warehouse, "db.t")
    folders = [f"{table.root}/bucket-{number}" for number in range(12)]
    return sum(len(table.io.list_dir(folder)) for folder in folders) - 12 * COMMITS
