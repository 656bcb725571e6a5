"""A replaced format table keeps its new rows if an executor is lost once the old table is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_cluster import standalone_cluster

pytestmark = pytest.mark.spark
CHECKOUT = Path(__file__).parents[2]

# In a process of its own: the JVM of this one works without a cluster.
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from format_catalog import session_with_formats
from paimon_maintenance.engines.spark.session import SharedSession
from paimon_spark.sql.dml import as_select, large_writes
from paimon_spark.sql.run import execute
from spark_cluster import Cluster

master, work, lake = sys.argv[1:]
cluster = Cluster(master, Path(work), ())
conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
shared = SharedSession()
spark = shared.start(master, conf, verbose=False, queries=True)
while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:  # with the driver
    time.sleep(0.1)
session = session_with_formats(Path(lake), spark)
execute(session, "CREATE TABLE t USING csv AS SELECT 1 AS id")
replace_with = as_select.replace_with

def losing(*arguments):
    cluster.kill_executor()
    return replace_with(*arguments)

as_select.replace_with = losing
large_writes.LARGE_WRITE = -1
execute(session, "CREATE OR REPLACE TABLE t USING csv AS SELECT id FROM range(0, 1000, 1, 8)")
print(execute(session, "SELECT count(*), sum(id) FROM t").rows)
shared.close()
"""


@pytest.mark.long
def test_an_executor_that_is_lost_loses_no_rows(tmp_path: Path) -> None:
    paths = [str(CHECKOUT / name) for name in (".", "maintenance", "tests")]
    lake = tmp_path / "lake"
    lake.mkdir()
    with standalone_cluster(tmp_path / "cluster", workers=2, cores=1, memory="512m") as cluster:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, cluster.master, str(cluster.work), str(lake)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert "1000" in done.stdout, done.stderr[-3000:]
    assert "499500" in done.stdout
