"""Java on tables that we sorted, and its filters on their statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from disk import assert_whole
from replay import run_step

from oracle import Oracle
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

COLUMNS = [
    {"name": "x", "type": "INT"},
    {"name": "t", "type": "TIMESTAMP(6)"},
    {"name": "s", "type": "STRING"},
    {"name": "d", "type": "DECIMAL(20, 2)"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
ROWS = [
    [
        None if i % 31 == 0 else i * 7919 % 500 - 250,
        f"2024-01-{1 + i % 28:02}T00:00:00.{i:06}",
        None if i % 37 == 0 else f"text {i * 31 % 97:02}",
        f"{i * 17 % 89 - 40}.25",
        f"2024010{1 + i % 2}",
    ]
    for i in range(400)
]


def values(rows: list[list[Any]]) -> list[str]:
    return sorted(str(row[1:]) for row in rows)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("strategy", "vectors"), [("order", "false"), ("zorder", "true"), ("hilbert", "false")]
)
def test_java_reads_the_same_and_goes_on(
    oracle: Oracle, tmp_path: Path, strategy: str, vectors: str
) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    oracle.one("create_database")
    oracle.one(
        "create_table",
        columns=COLUMNS,
        partition_keys=["dt"],
        options={
            "bucket": "-1",
            "write-only": "true",
            "compaction.min.file-num": "2",
            "deletion-vectors.enabled": vectors,
        },
    )
    for begin in range(0, len(ROWS), 100):
        oracle.one("write", rows=ROWS[begin : begin + 100], compact=False)
    before = oracle.rows()
    job = job_named("sort_compact")
    report = run_table(
        RunRequest(
            job=job,
            warehouse=str(tmp_path),
            table="db.t",
            arguments=job.read_arguments(
                {
                    "order_strategy": strategy,
                    "order_by": ["x", "t", "s", "d"],
                    "options": {"target-file-size": "2 kb"},
                }
            ),
        )
    )
    assert report.error is None, report.error
    assert values(oracle.rows()) == values(before)
    assert values(run_step({"op": "read", **at})["rows"]) == values(before)
    (snapshot,) = report.snapshots
    last = oracle.one("snapshots")["snapshots"][-1]
    assert (last["id"], last["commitKind"]) == (snapshot, "COMPACT")
    for condition in (
        {"field": "x", "op": "between", "value": [-20, 20]},
        {"field": "s", "op": "=", "value": "text 31"},
        {"field": "d", "op": "<", "value": "-30.00"},
        {"field": "x", "op": "isNull"},
    ):
        found = values(oracle.rows(filter=condition))
        assert found == values(run_step({"op": "read", "filter": condition, **at})["rows"])
        assert found
    oracle.one("write", rows=[[1, "2024-02-01T00:00:00", "new", "1.00", "20240101"]])
    oracle.one("compact")
    assert len(oracle.rows()) == len(before) + 1
    assert values(run_step({"op": "read", **at})["rows"]) == values(oracle.rows())
    assert_whole(tmp_path)


def test_java_and_incremental_clustering(oracle: Oracle, tmp_path: Path) -> None:
    """Java appends, we sort what is due and move it up; Java reads it and appends again."""
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    oracle.one("create_database")
    options = {
        "bucket": "-1",
        "write-only": "true",
        "clustering.incremental": "true",
        "clustering.columns": "x,s",
    }
    oracle.one("create_table", columns=COLUMNS, partition_keys=["dt"], options=options)
    job = job_named("sort_compact")
    for turn in range(2):
        for begin in range(0, 200, 50):
            rows = ROWS[200 * turn + begin :][:50]
            oracle.one("write", rows=rows, compact=False)
        before = oracle.rows()
        report = run_table(
            RunRequest(
                job=job,
                warehouse=str(tmp_path),
                table="db.t",
                arguments=job.read_arguments({"strategy": "full"}),
            )
        )
        assert report.error is None, report.error
        assert values(oracle.rows()) == values(before)
        assert values(run_step({"op": "read", **at})["rows"]) == values(before)
        assert {f["level"] for f in oracle.one("files", stats=False)["files"]} == {5}
    assert_whole(tmp_path)


def test_java_and_dynamic_buckets(oracle: Oracle, tmp_path: Path) -> None:
    """Rows move between buckets; Java finds each key where our new index says."""
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    oracle.one("create_database")
    columns = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
    options = {"bucket": "-1", "write-only": "true", "dynamic-bucket.target-row-num": "40"}
    oracle.one("create_table", columns=columns, primary_keys=["k"], options=options)
    oracle.one("write", rows=[[k, f"{k * 7919 % 1000:04}"] for k in range(150)])
    oracle.one("write", rows=[{"kind": "-D", "values": [k, "x"]} for k in range(0, 150, 10)])
    before = oracle.rows()
    job = job_named("sort_compact")
    report = run_table(
        RunRequest(
            job=job,
            warehouse=str(tmp_path),
            table="db.t",
            arguments=job.read_arguments({"order_by": ["v"], "writers_stopped": True}),
        )
    )
    assert report.error is None, report.error
    assert values(oracle.rows()) == values(before)
    assert {f["level"] for f in oracle.one("files", stats=False)["files"]} == {5}
    oracle.one("write", rows=[[k, "again"] for k in range(0, 160, 2)])
    oracle.one("compact")
    expected = {row[1]: row[2] for row in before} | dict.fromkeys(range(0, 160, 2), "again")
    assert values(oracle.rows()) == sorted(str([k, v]) for k, v in expected.items())
    assert values(run_step({"op": "read", **at})["rows"]) == values(oracle.rows())
    assert_whole(tmp_path)
