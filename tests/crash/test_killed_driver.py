"""A Spark driver that is killed while its tasks write: the table is whole, and no process stays.

The JVM ends when the pipe from the driver closes, and the Python workers with it.  One kill, in the
middle of a compaction; that no kill harms a table is shown at every FileIO call in test_jobs.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import assert_nothing_left, errors, remove_orphans, rows, run_job
from lakes import Lake
from processes import in_session, kill_session, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]
PATIENCE = 60.0
COMMAND = ["run", "compact", "db.t", "--engine", "spark", "--master", "local[2]"]


def test_a_killed_driver_takes_everything_with_it(tmp_path: Path) -> None:
    warehouse = tmp_path / "lake"
    lake = Lake(warehouse)
    lake.primary_key(buckets=50)
    lake.fill(2, rows=3000)
    before, files = rows(warehouse), lake.on_disk()
    driver = subprocess.Popen(
        [sys.executable, "-m", "paimon_maintenance.cli", *COMMAND, "-w", str(warehouse)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # What the dead driver leaves there goes with the test.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    while lake.on_disk() == files:
        assert driver.poll() is None, "it ended before it wrote anything"
        assert time.monotonic() < deadline, "it wrote nothing"
        time.sleep(0.005)
    family = in_session(driver.pid)
    assert any("java" in command for command in family.values()), family
    assert any("pyspark" in command for command in family.values()), family
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + PATIENCE
    while left := in_session(driver.pid):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.1)

    assert lake.table().snapshots.latest_id() == 2
    assert rows(warehouse) == before
    assert errors(warehouse) == set()
    assert lake.on_disk() > files, "no task had written anything"
    report = run_job(warehouse, "compact", {"strategy": "full"})
    assert report.error is None, report.error
    assert rows(warehouse) == before
    remove_orphans(warehouse)
    assert_nothing_left(warehouse)


@pytest.mark.long
def test_a_killed_jvm_is_called_one(tmp_path: Path) -> None:
    warehouse = tmp_path / "lake"
    lake = Lake(warehouse)
    lake.primary_key(buckets=50)
    lake.fill(2, rows=3000)
    files = lake.on_disk()
    output = tmp_path / "output"
    with output.open("wb") as written:
        driver = subprocess.Popen(
            [sys.executable, "-m", "paimon_maintenance.cli", *COMMAND, "-w", str(warehouse)],
            stdout=subprocess.DEVNULL,
            stderr=written,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
            start_new_session=True,
        )
    try:
        wait_until(lambda: lake.on_disk() != files, output.read_text)
        (jvm,) = (pid for pid, command in in_session(driver.pid).items() if "java" in command)
        os.kill(jvm, signal.SIGKILL)
        assert driver.wait(PATIENCE) == 1
    finally:
        kill_session(driver)
    told = output.read_text()
    assert "Spark's JVM was killed (SIGKILL)" in told
    assert "spark.driver.memory" in told
    # Neither of these is the reason, and nobody should look there.
    assert "check that a JDK" not in told
    assert "storage" not in told
    assert "Traceback" not in told, told
    assert lake.table().snapshots.latest_id() == 2
