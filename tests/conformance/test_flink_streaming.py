"""A real Flink job writes a commit a second while our compaction runs again and again.

The writer must not restart (its restart strategy is `none`, so that a restart would be a failure),
and in the end Flink reads exactly what it wrote.  CARETAKER_FLINK_SECONDS sets how long it writes.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from oracle import FlinkSql
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

SECONDS = int(os.environ.get("CARETAKER_FLINK_SECONDS", "20"))
RATE = 200
KEYS = 997

SETUP = """
CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{warehouse}');
USE CATALOG lake;
CREATE DATABASE IF NOT EXISTS db;
CREATE TABLE IF NOT EXISTS db.t (k BIGINT NOT NULL, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('bucket' = '2', 'write-only' = 'true', 'snapshot.num-retained.min' = '1000');
"""

WRITE = """
SET 'execution.checkpointing.interval' = '1 s';
SET 'restart-strategy.type' = 'none';
SET 'table.dml-sync' = 'true';
CREATE TEMPORARY TABLE source (id BIGINT) WITH ('connector' = 'datagen',
  'rows-per-second' = '{rate}', 'fields.id.kind' = 'sequence',
  'fields.id.start' = '1', 'fields.id.end' = '{last}');
INSERT INTO db.t SELECT MOD(id, {keys}), id FROM source;
"""

READ = "SELECT COUNT(*), SUM(v), MIN(v), MAX(v) FROM db.t;"


@pytest.mark.long
@pytest.mark.slow
def test_a_streaming_writer_never_notices(flink_sql: FlinkSql, tmp_path: Path) -> None:
    last = RATE * SECONDS
    setup = SETUP.format(warehouse=tmp_path)
    flink_sql(setup)
    write = setup + WRITE.format(rate=RATE, last=last, keys=KEYS)
    compacted = 0
    with flink_sql.start(write) as job:
        while job.returncode is None:
            report = run_table(
                RunRequest(
                    job=COMPACT,
                    warehouse=str(tmp_path),
                    table="db.t",
                    arguments=COMPACT.read_arguments({"strategy": "full"}),
                    force=True,
                )
            )
            assert report.error is None, report.error
            compacted += len(report.snapshots)
            time.sleep(0.2)
        job.wait(60)
        lines = job.lines()
    assert job.returncode == 0, "\n".join(lines[-20:])
    assert not any(line.startswith("ERR") for line in lines), "\n".join(lines)
    assert compacted > SECONDS // 10, "the compaction hardly ran beside the writer"
    newest = range(last - KEYS + 1, last + 1)
    found = flink_sql(setup + READ)
    assert f"+I[{KEYS}, {sum(newest)}, {newest[0]}, {newest[-1]}]" in found, found[-5:]
