"""`format("paimon")` through a server of Spark Connect: batches, streams and lookups."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import connect_client
import pytest
from lakes import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLIENT = Path(connect_client.__file__)


def test_batches_streams_and_lookups(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log("db.log")
    lake.primary_key("db.keyed", buckets=2)
    done = subprocess.run(
        [sys.executable, str(CLIENT), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        # SPARK_TESTING: the server chooses a free port.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        | {"SPARK_TESTING": "1"},
        check=False,
    )
    if done.returncode == connect_client.NO_SERVER:
        pytest.skip(f"Spark Connect does not start: {done.stdout[-500:]}")
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    rows = [[i, f"v{i}"] for i in range(20)]
    assert seen == {
        "client": "pyspark.sql.connect.session",
        "counted": [15, 2, 2],
        "rows": rows,
        "filtered": 9,
        "read": 20,
        "snapshots": 2,
        "looked up": [[7, "v7"], [99, None]],
    }
