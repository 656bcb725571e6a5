"""What is said of a Spark job that failed."""

from __future__ import annotations

from paimon_maintenance.engines.spark.loss import next_step_after

FULL = """An error occurred while calling o113.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, \
most recent failure: Lost task 0.3 in stage 1.0 (TID 4) (10.0.0.7 executor 2): java.io.IOException: \
No space left on device
"""


def test_a_full_disk_of_an_executor() -> None:
    assert "spark.local.dir" in next_step_after(RuntimeError(FULL))
    assert "logs of the executors" in next_step_after(RuntimeError("Lost task 0.3"))
