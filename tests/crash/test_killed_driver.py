"""A Spark driver that is killed while its tasks write: the table is whole, and no process stays.

The JVM ends when the pipe from the driver closes, and the Python workers with it.  One kill, in the
middle of a compaction; that no kill harms a table is shown at every FileIO call in test_jobs.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import assert_nothing_left, errors, remove_orphans, rows, run_job
from lakes import Lake

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
        [sys.executable, "-m", "maintenance.cli", *COMMAND, "-w", str(warehouse)],
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


def in_session(session: int) -> dict[int, str]:
    """The processes that a process and its children started, and their commands; no zombies."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of) == session and state != "Z":
            found[int(folder.name)] = command
    return found
