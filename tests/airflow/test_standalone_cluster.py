"""The wiring of docker/compose.yaml, without containers: a Spark standalone master and worker of
our own, a lake on S3, and both ways to it, the command line and the Airflow DAG.

Executors know nothing of the checkout (the packages are shipped to them) and reach the store with
what they find in their environment, as the containers do.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from s3_store import s3_server

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.demo.child_process import ChildProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.airflow,
    pytest.mark.s3,
    pytest.mark.e2e,
    pytest.mark.slow,
]

ROOT = Path(__file__).resolve().parents[2]
COMMITS = 6
AWAY = re.compile("^(AIRFLOW|AWS_|CARETAKER|PYTHONPATH|PYSPARK|SPARK)")


@dataclass(frozen=True)
class Cluster:
    master: str
    store: dict[str, str]
    worker_log: Path


def wait_until(ready: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            if ready():
                return
        except (OSError, ValueError):
            pass  # not there yet, or its page is still empty
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Master and worker from the pyspark package, all on the loopback."""
    import pyspark

    home = tmp_path_factory.mktemp("cluster")
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port, page, worker_page = free_port(), free_port(), free_port()
    bare = {k: v for k, v in os.environ.items() if not AWAY.match(k)}
    bare |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    deploy = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1", "--webui-port"]
    with s3_server() as server:
        store = {
            "AWS_ENDPOINT_URL": server.options["s3.endpoint"],
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        master = [spark_class, f"{deploy}.master.Master", *here, str(page), "--port", str(port)]
        url = f"spark://127.0.0.1:{port}"
        worker = [spark_class, f"{deploy}.worker.Worker", *here, str(worker_page)]
        worker += ["--cores", "2", "--memory", "2g", "--work-dir", str(home / "work"), url]
        worker_log = home / "worker.log"
        with (
            ChildProcess(master, env=bare, log=home / "master.log"),
            ChildProcess(worker, env=bare | store, log=worker_log),
        ):

            def worker_is_known() -> bool:
                with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=60) as got:
                    return bool(json.load(got)["aliveworkers"])

            wait_until(worker_is_known, worker_log)
            yield Cluster(url, store, worker_log)


@pytest.fixture
def lake(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two tables of several small files; the test's own process is given the credentials too."""
    import botocore.session

    for name, value in cluster.store.items():
        monkeypatch.setenv(name, value)
    client = botocore.session.get_session().create_client("s3", region_name="us-east-1")
    client.create_bucket(Bucket="lake")
    warehouse, env = "s3://lake/warehouse", system_environment()
    catalog = FileSystemCatalog(warehouse, {})
    catalog.create_database("db")
    for name in ("db.a", "db.b"):
        columns = [Column("k", "INT NOT NULL"), Column("v", "STRING")]
        options = {"bucket": "1", "write-only": "true"}
        schema = create_schema(
            columns, now_millis=env.now_millis(), primary_keys=["k"], options=options
        )
        catalog.create_table(name, schema)
        for number in range(COMMITS):
            table = open_table(warehouse, name)
            into = RowWriter(table, env=env)
            into.write(rows(number))
            commit(table, into.prepare_commit(), user="test", identifier=number, env=env)
    return warehouse


def rows(number: int) -> Any:
    import pyarrow as pa

    keys = pa.array(range(100), pa.int32())
    return pa.table({"k": keys, "v": pa.array([f"v{number}"] * 100)})


def files(warehouse: str, name: str) -> list[tuple[int, int]]:
    """Total buckets and level of each file."""
    from paimon_core.scan.scan import scan_files

    table = open_table(warehouse, name)
    entries = scan_files(table, table.latest_or_not_found())
    return sorted((e.total_buckets, e.file.level) for e in entries)


def test_the_command_line_and_airflow_maintain_a_lake_on_s3_on_a_cluster(
    cluster: Cluster,
    lake: str,
    airflow_database: None,
    run_dag: Any,
    monkeypatch: pytest.MonkeyPatch,
):
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'maintenance'}"}
    command = ["run", "compact", "db.a", "-w", lake, "--strategy", "full"]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "paimon_maintenance.cli",
            *command,
            "--master",
            cluster.master,
            "--engine",
            "spark",
            "--json",
        ],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert (report["engine"], report["status"]) == ("spark", "success")
    assert files(lake, "db.a") == [(1, 5)]

    connection = {"conn_type": "spark", "host": cluster.master, "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    conf = {
        "warehouse": lake,
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
    assert {buckets for buckets, _ in files(lake, "db.b")} == {2}
    # Both were applications of this cluster.
    assert cluster.worker_log.read_text().count("Asked to launch executor") == 2
