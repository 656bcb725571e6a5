"""`caretaker spark-archive`: the JVM of the next driver uses its file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import caretaker

from paimon_maintenance.engines.spark.class_archive import SUBMIT_OPTIONS

pytestmark = pytest.mark.spark
CHECKOUT = Path(__file__).parents[2]

# In a process of its own, because the JVM of this one runs already.
PROGRAM = """
import sys
from pathlib import Path
from paimon_maintenance.engines.spark.engine import SparkEngine

engine = SparkEngine(master="local[1]")
jvm = engine.session().sparkContext._gateway.proc.pid
assert sys.argv[1] in Path(f"/proc/{jvm}/maps").read_text()
engine.close()
"""


@pytest.mark.long
def test_the_next_driver_starts_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my caches"))
    monkeypatch.delenv(SUBMIT_OPTIONS, raising=False)
    ran = caretaker("spark-archive", "--json")
    assert ran.code == 0, ran.out
    archive = Path(ran.json["archive"])
    assert archive.stat().st_size == ran.json["bytes"] > 1024**2
    assert list(archive.parent.iterdir()) == [archive]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(archive)],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'maintenance'}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]
