"""Writers append while compaction runs again and again: no row lost, none doubled."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest
from replay import run_step

from paimon_core.commit.committer import commit
from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

ROUNDS = 50
MOST_ROUNDS = 500  # of a writer that waits for compactions
ROWS = 10

TABLES: dict[str, dict[str, Any]] = {
    "primary_key": {
        "primary_keys": ["id"],
        "options": {"bucket": "2", "write-only": "true", "commit.max-retries": "1000"},
    },
    "append": {
        "options": {
            "bucket": "-1",
            "write-only": "true",
            "compaction.min.file-num": "2",
            "commit.max-retries": "1000",
        }
    },
    "append, compacted by its writers too": {
        "options": {"bucket": "-1", "compaction.min.file-num": "2", "commit.max-retries": "1000"}
    },
}


def writer(warehouse: str, number: int, compacted: Event, rounds: Any) -> None:
    """Commits `ROWS` rows with keys of its own, `ROUNDS` times and then until compactions have landed.

    Sets `rounds[number]`.
    """
    import pyarrow as pa

    env = system_environment()
    table = open_table(warehouse, "db.t")
    for i in range(MOST_ROUNDS):
        if i >= ROUNDS:
            if compacted.is_set():
                break
            time.sleep(0.1)  # two writers without a pause win every race against a compaction
        rounds[number] = i + 1
        first = (number * MOST_ROUNDS + i) * ROWS
        w = RowWriter(table, env=env)
        w.write(
            pa.table(
                {
                    "id": pa.array(range(first, first + ROWS), pa.int64()),
                    "v": pa.array([f"w{number}-{i}"] * ROWS),
                }
            )
        )
        commit(table, w.prepare_commit(), user=env.new_uuid(), env=env)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_two_writers_and_a_compaction(kind: str, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    columns = [{"name": "id", "type": "BIGINT NOT NULL"}, {"name": "v", "type": "STRING"}]
    created = run_step({"op": "create_table", **at, "columns": columns, **TABLES[kind]})
    assert "error" not in created, created
    context = multiprocessing.get_context("spawn")
    enough = context.Event()
    if "write-only" not in TABLES[kind]["options"]:
        enough.set()  # the writers leave little to compact
    rounds = context.Array("i", 2)
    writers = [
        context.Process(target=writer, args=(str(tmp_path), n, enough, rounds)) for n in range(2)
    ]
    for w in writers:
        w.start()
    compacted = 0
    while any(w.is_alive() for w in writers):
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
        if compacted > 1:
            enough.set()
    for w in writers:
        w.join()
        assert w.exitcode == 0
    assert enough.is_set(), "the compaction never ran beside the writers"
    rows = run_step({"op": "read", **at})["rows"]
    ids = sorted(row[1] for row in rows)
    written = [
        range(n * MOST_ROUNDS * ROWS, (n * MOST_ROUNDS + rounds[n]) * ROWS) for n in range(2)
    ]
    assert ids == [key for keys in written for key in keys]
    kinds = [s["commitKind"] for s in run_step({"op": "snapshots", **at})["snapshots"]]
    assert kinds.count("APPEND") == sum(rounds)
