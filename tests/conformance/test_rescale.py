"""A worked example of a rescale with its figures, and Java on tables that we rescaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from disk import assert_whole
from replay import run_step

from oracle import Oracle, OracleError
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

COLUMNS = [
    {"name": "id", "type": "BIGINT NOT NULL"},
    {"name": "word", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
DAY = "20230101"
ROWS = [[i, f"hello{i}", DAY] for i in range(1, 21) if i != 11]


def rescale(warehouse: Path, **arguments: object) -> Report:
    job = job_named("rescale")
    return run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
        )
    )


def values(rows: list[list[Any]]) -> list[str]:
    return sorted(str(row[1:]) for row in rows)


def folders(warehouse: Path) -> list[int]:
    return sorted(
        int(p.name.removeprefix("bucket-")) for p in warehouse.glob(f"db.db/t/dt={DAY}/bucket-*")
    )


def test_a_rescale_from_five_to_ten_buckets(oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)

    def do(op: str, **fields: Any) -> dict[str, Any]:
        result = run_step({"op": op, **at, **fields})
        assert "error" not in result, result
        return result

    do(
        "create_table",
        columns=COLUMNS,
        partition_keys=["dt"],
        primary_keys=["id", "dt"],
        options={"bucket": "5", "write-only": "true"},
    )
    do("write", rows=ROWS)
    assert len(folders(tmp_path)) == 4
    expected = values(oracle.rows())
    assert len(expected) == 19

    do("alter_table", changes=[{"change": "set_option", "key": "bucket", "value": "10"}])
    assert values(do("read")["rows"]) == expected == values(oracle.rows())
    refused = run_step({"op": "write", **at, "rows": [[21, "late", DAY]]})
    assert "the previous bucket num is 5" in refused["error"]
    assert "10" in refused["error"]
    with pytest.raises(OracleError, match=r"(?s)bucket.*5.*10|10.*5"):
        oracle.one("write", rows=[[21, "late", DAY]])

    report = rescale(tmp_path)
    assert report.error is None, report.error
    assert report.snapshots == (2,)
    assert folders(tmp_path) == [0, 1, 3, 4, 5, 6, 8]
    assert values(do("read")["rows"]) == expected == values(oracle.rows())
    assert values(oracle.rows(snapshot=1)) == expected
    live = oracle.one("files")["files"]
    assert {f["level"] for f in live} == {5}
    # Java finds every key in the bucket where it looks for it, and goes on writing there.
    for row in ROWS:
        found = oracle.rows(filter={"field": "id", "op": "=", "value": row[0]})
        assert values(found) == [str(row)]
    oracle.one("write", rows=[[i, "again", DAY] for i in range(1, 31)])
    oracle.one("compact")
    assert values(oracle.rows()) == values([["", i, "again", DAY] for i in range(1, 31)])
    assert values(do("read")["rows"]) == values(oracle.rows())
    assert_whole(tmp_path)


TABLES: dict[str, dict[str, Any]] = {
    "deduplicate": {"primary_keys": ["k"], "options": {"sequence.field": "n"}},
    "aggregation": {
        "primary_keys": ["k"],
        "options": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    },
    "first_row": {"primary_keys": ["k"], "options": {"merge-engine": "first-row"}},
    "deletion_vectors": {"primary_keys": ["k"], "options": {"deletion-vectors.enabled": "true"}},
    "append": {"options": {"bucket-key": "k"}},
    "append_mod": {"options": {"bucket-key": "k", "bucket-function.type": "mod"}},
}
TYPED = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "n", "type": "BIGINT"},
]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", TABLES)
def test_java_goes_on_after_a_rescale(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    """Java writes; 3 -> 7 -> 2 buckets, Java writing and compacting in between."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    spec = TABLES[kind]
    options = {"bucket": "3", "write-only": "true", **spec["options"]}
    oracle.one("create_database")
    oracle.one("create_table", columns=TYPED, **{**spec, "options": options})
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    written: list[list[Any]] = []

    def commit() -> None:
        for _ in range(15):
            number = len(written) + 1
            written.append([number * 7 % 40, f"v{number}", number])
        oracle.one("write", rows=written[-15:], compact=False)

    commit()
    commit()
    for buckets in (7, 2):
        before = oracle.rows()
        report = rescale(tmp_path, bucket_num=buckets)
        assert report.error is None, report.error
        after = oracle.rows()
        if kind in ("first_row", "deletion_vectors"):  # batch reads skip level 0: now it shows
            keys = [key for key, *_ in written]
            pick = 0 if kind == "first_row" else -1
            newest = {k: [row for row in written if row[0] == k][pick] for k in keys}
            assert values(after) == sorted(map(str, newest.values()))
        else:
            assert values(after) == values(before)
        assert values(run_step({"op": "read", **at})["rows"]) == values(after)
        commit()
        oracle.one("compact")
        assert values(run_step({"op": "read", **at})["rows"]) == values(oracle.rows())
        assert_whole(tmp_path)
    assert {f["bucket"] for f in oracle.one("files", stats=False)["files"]} == {0, 1}


def test_postponed_buckets(oracle: Oracle, tmp_path: Path) -> None:
    """Rows that wait for their bucket stay as they are; the others move; the option never says."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle.one("create_database")
    oracle.one("create_table", columns=TYPED, primary_keys=["k"], options={"bucket": "-2"})
    oracle.one("write", rows=[[i, "first", i] for i in range(30)])
    oracle.one("compact", num_buckets=2)
    oracle.one("write", rows=[[i, "waiting", i] for i in range(25, 35)])
    before = oracle.rows()
    assert len(before) == 30
    assert "must provide the resulting bucket number" in str(rescale(tmp_path).error)
    report = rescale(tmp_path, bucket_num=3)
    assert report.error is None, report.error
    live = oracle.one("files", stats=False)["files"]
    assert {f["total_buckets"] for f in live} == {3, -2}
    assert values(oracle.rows()) == values(before)
    assert oracle.one("schemas")["schemas"][-1]["options"]["bucket"] == "-2"
    oracle.one("compact", num_buckets=3)
    expected = [["", i, "waiting" if i >= 25 else "first", i] for i in range(35)]
    assert values(oracle.rows()) == values(expected)
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    assert values(run_step({"op": "read", **at})["rows"]) == values(expected)
    assert_whole(tmp_path)
