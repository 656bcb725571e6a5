"""A Spark stream whose whole driver is killed at random moments: every row arrives exactly once.

    python tests/crash/stream_kills.py --kills 20 [--seed N]

Driver, JVM and Python workers get SIGKILL together, sometimes while they start, mostly during a
micro-batch; then a new driver goes on from the checkpoint.  The last one is left to end.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path += [str(p) for p in (Path(__file__).parents[1], Path(__file__).parents[2])]

from lakes import Lake
from processes import kill_session

from paimon_core.read.table_read import read_table

ROWS = 20
PATIENCE = 300.0
SHORT, START = 1.5, 8.0
"""The most seconds that a driver lives on in a micro-batch, and while it starts."""
DRIVER = Path(__file__).with_name("stream_driver.py")


def run(folder: Path, *, kills: int, commits: int, seed: int) -> list[str]:
    """What was killed when; AssertionError if a row is missing or there twice."""
    chance = random.Random(seed)
    lake = Lake(folder / "lake")
    lake.log("db.source")
    lake.create("db.sink", primary_key=False, options={"bucket": "-1"})
    for number in range(commits):
        keys = list(range(number * ROWS, (number + 1) * ROWS))
        lake.append({"k": keys, "v": [f"v{number}"] * ROWS}, "db.source")
    said = []
    for number in range(kills):
        before = _batches(lake)
        # In one of five the driver dies while it starts.
        more = chance.choice((0, 1, 1, 2, 2))
        _kill_one(folder, lake, before + more if more else None, chance.uniform(0, 1))
        said.append(f"kill {number + 1}: micro-batches {before} -> {_batches(lake)}")
        print(said[-1], flush=True)
        _check(lake, whole=False)
    driver, output = _started(folder)
    assert driver.wait() == 0, output.read_text()
    _check(lake, whole=True)
    said.append(f"the end: {_batches(lake)} micro-batches")
    return said


def _kill_one(folder: Path, lake: Lake, batches: int | None, delay: float) -> None:
    """Kill a driver shortly after the sink has this many micro-batches; None: while it starts."""
    driver, output = _started(folder)
    try:
        deadline = time.monotonic() + PATIENCE
        while batches is not None and _batches(lake) < batches:
            assert driver.poll() is None, f"it ended by itself\n{output.read_text()}"
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.02)
        time.sleep(delay * (SHORT if batches is not None else START))
        assert driver.poll() is None, f"it ended by itself\n{output.read_text()}"
    finally:
        kill_session(driver)


def _started(folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    output = folder / "output"
    path = os.pathsep.join(p for p in sys.path if p)
    with output.open("wb") as written:
        driver = subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder)],
            stdout=written,
            stderr=written,
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)},
            start_new_session=True,
        )
    return driver, output


def _batches(lake: Lake) -> int:
    """How many micro-batches the sink has."""
    return len({s.commit_identifier for s in lake.table("db.sink").snapshots.all()})


def _check(lake: Lake, *, whole: bool) -> None:
    """Each row of the first micro-batches is there once; with `whole`, of all."""
    found = _keys(lake, "db.sink")
    assert len(found) == len(set(found)), f"{len(found) - len(set(found))} rows are there twice"
    assert found == list(range(len(found)))
    assert len(found) % ROWS == 0
    if whole:
        assert found == _keys(lake, "db.source")
    table = lake.table("db.sink")
    appended = [
        s.commit_identifier for s in table.snapshots.all() if s.commit_kind.value == "APPEND"
    ]
    assert len(appended) == len(set(appended))


def _keys(lake: Lake, name: str) -> list[int]:
    table = lake.table(name)
    latest = table.snapshots.latest()
    if latest is None:
        return []
    return sorted(k for b in read_table(table, latest, columns=["k"]) for k in b["k"].to_pylist())


def main() -> None:
    """Print each kill; fails as `run` does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commits = 6 * wanted.kills
        print(run(Path(folder), kills=wanted.kills, commits=commits, seed=wanted.seed)[-1])
    print(f"{wanted.kills} kills, every row once")


if __name__ == "__main__":
    main()
