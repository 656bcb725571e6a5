"""A driver whose JVM was killed: the work at that time is lost, and the next starts another JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
CHECKOUT = Path(__file__).parents[2]

# In a process of its own, because the JVM of this one serves all tests.
PROGRAM = """
import os, signal, sys, threading, time
from pyspark import SparkContext
from spark_work import slow, work
from paimon_maintenance.engines.spark.engine import SparkEngine
from paimon_maintenance.engines.spark.loss import SparkLost
from paimon_maintenance.engines.spark.session import SparkUnavailable
from paimon_maintenance.job.engine import WorkUnit

def units(*payloads):
    return [WorkUnit(payload=p, expected_bytes=2**20, label="one") for p in payloads]

engine = SparkEngine(master="local[1]", conf={"spark.ui.enabled": "true", "spark.ui.port": "0"})
assert engine.application is None
assert engine.run_units(units(b"a"), work)[0].payload == b"A"
first = engine.application
assert first.id.startswith("local-") and first.ui.startswith("http://127.0.0.1:"), first
runtime = engine.session()._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
assert {"-XX:TieredStopAtLevel=1", "-Dcaretaker.test=x"} <= set(runtime.getInputArguments())
assert os.environ["JDK_JAVA_OPTIONS"] == "-Dcaretaker.test=x"
jvm = engine.session().sparkContext._gateway.proc.pid
threading.Timer(0.3, os.kill, (jvm, signal.SIGKILL)).start()
try:
    engine.run_units(units(*[b"x"] * 3), slow)
except SparkLost as e:
    assert "was killed (SIGKILL)" in e.message, e.message
else:
    raise AssertionError("the work outlived its driver")
assert not engine.started
assert engine.application == first

def kill_when_there_is_a_context():
    while SparkContext._active_spark_context is None:
        time.sleep(0.001)
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)

threading.Thread(target=kill_when_there_is_a_context).start()
try:
    engine.run_units(units(b"b"), work)
except (SparkUnavailable, SparkLost) as e:
    print(type(e).__name__, e.message, file=sys.stderr)
else:
    raise AssertionError("a killed JVM started")
assert engine.run_units(units(b"b"), work)[0].payload == b"B"
assert engine.session().sparkContext._gateway.proc.pid != jvm
assert engine.application.id != first.id
engine.close()

# The JVM outlives the session, and dies where nobody looks.
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
SparkContext._gateway.proc.wait()
assert engine.run_units(units(b"c"), work)[0].payload == b"C"
engine.close()
print("again")
"""


@pytest.mark.long
def test_work_after_a_killed_driver_gets_another(tmp_path):
    paths = [str(CHECKOUT / name) for name in (".", "maintenance", "tests")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "JDK_JAVA_OPTIONS": "-Dcaretaker.test=x",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.strip() == "again", done.stderr[-2000:]
