"""A real Flink job writes a commit a second while our jobs run again and again.

The writer must not restart (its restart strategy is `none`, so that a restart would be a failure),
and in the end Flink reads exactly what it wrote.  CARETAKER_FLINK_SECONDS sets how long it writes.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest
from harness import run_job

from oracle import FlinkSql

SECONDS = int(os.environ.get("CARETAKER_FLINK_SECONDS", "20"))
RATE = 200
KEYS = 997

SETUP = """
CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{warehouse}');
USE CATALOG lake;
CREATE DATABASE IF NOT EXISTS db;
CREATE TABLE IF NOT EXISTS db.t (p BIGINT NOT NULL, k BIGINT NOT NULL, v BIGINT{key}){partition}
  WITH ({options});
"""

WRITE = """
SET 'execution.checkpointing.interval' = '1 s';
SET 'restart-strategy.type' = 'none';
SET 'table.dml-sync' = 'true';
CREATE TEMPORARY TABLE source (id BIGINT) WITH ('connector' = 'datagen',
  'rows-per-second' = '{rate}', 'fields.id.kind' = 'sequence',
  'fields.id.start' = '1', 'fields.id.end' = '{last}');
INSERT INTO db.t SELECT MOD(MOD(id, {keys}), 3), MOD(id, {keys}), id FROM source;
"""

READ = "SELECT COUNT(*), SUM(v), MIN(v), MAX(v) FROM db.t;"

JOBS: tuple[tuple[str, dict[str, object]], ...] = (
    ("compact", {"strategy": "full"}),
    ("expire_snapshots", {"retain_max": 3, "retain_min": 1}),
    ("compact", {"strategy": "minor"}),
    ("compact_manifest", {}),
    ("remove_orphan_files", {}),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table; Flink itself compacts it if it is not `write-only`."""

    name: str
    options: dict[str, str]
    key: str = "k"
    partition: str = ""
    write_only: bool = True

    def setup(self, warehouse: Path) -> str:
        options = self.options | {"snapshot.num-retained.min": "1000"}
        if self.write_only:
            options |= {"write-only": "true"}
        return SETUP.format(
            warehouse=warehouse,
            key=f", PRIMARY KEY ({self.key}) NOT ENFORCED" if self.key else "",
            partition=f" PARTITIONED BY ({self.partition})" if self.partition else "",
            options=", ".join(f"'{name}' = '{value}'" for name, value in options.items()),
        )


KINDS = (
    Kind("fixed buckets", {"bucket": "2"}),
    Kind("partitions", {"bucket": "2"}, key="p, k", partition="p"),
    Kind("dynamic buckets", {"bucket": "-1", "dynamic-bucket.target-row-num": "200"}),
    Kind("postponed buckets", {"bucket": "-2"}, key="p, k", partition="p"),
    Kind("deletion vectors", {"bucket": "2", "deletion-vectors.enabled": "true"}),
    Kind("changelog", {"bucket": "2", "changelog-producer": "lookup"}, write_only=False),
    Kind("append", {"bucket": "-1"}, key="", partition="p"),
    Kind("row tracking", {"bucket": "-1", "row-tracking.enabled": "true"}, key=""),
)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_streaming_writer_never_notices(flink_sql: FlinkSql, tmp_path: Path, kind: Kind) -> None:
    last = RATE * SECONDS
    setup = kind.setup(tmp_path)
    flink_sql(setup)
    jobs = cycle([job for job in JOBS if kind.write_only or job[0] != "compact"])
    made: Counter[str] = Counter()
    with flink_sql.start(setup + WRITE.format(rate=RATE, last=last, keys=KEYS)) as writer:
        while writer.returncode is None:
            # A table without a snapshot, but with files of its first commit, is refused.
            if any(tmp_path.glob("db.db/t/snapshot/snapshot-*")):
                name, arguments = next(jobs)
                report = run_job(tmp_path, name, arguments)
                assert report.error is None, f"{name}: {report.error}"
                made[name] += len(report.snapshots)
            time.sleep(0.2)
        writer.wait(60)
        lines = writer.lines()
    assert writer.returncode == 0, "\n".join(lines[-20:])
    assert not any(line.startswith("ERR") for line in lines), "\n".join(lines)
    if kind.write_only:
        assert made["compact"] > SECONDS // 10, "the compaction hardly ran beside the writer"
        # With deletion vectors or postponed buckets, rows show once they are compacted.
        report = run_job(tmp_path, *JOBS[0])
        assert report.error is None, report.error
    values = range(last - KEYS + 1, last + 1) if kind.key else range(1, last + 1)
    found = flink_sql(setup + READ)
    assert f"+I[{len(values)}, {sum(values)}, {values[0]}, {values[-1]}]" in found, found[-5:]
