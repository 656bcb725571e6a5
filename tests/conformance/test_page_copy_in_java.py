"""Append files that Java wrote, joined by copying their pages: for Java as if it had joined them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_data_files_for_java import COLUMNS, ROWS, filters

from oracle import Oracle
from paimon_core.format.parquet.chunks import CREATED_BY
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.write import page_writer
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

LONG = "x" * 5000
"""Too long for a footer's statistics."""


def commits() -> list[list[list[Any]]]:
    """Rows of seven commits: few different ones again and again, many, nulls, none that compares."""
    repeated = [[[k, *ROWS[k % len(ROWS)][1:]] for k in range(n, n + 300)] for n in (0, 300)]
    several = [[[k, *row[1:]] for k, row in enumerate(ROWS, start)] for start in (600, 610, 620)]
    nulls = [[k, *[None] * (len(COLUMNS) - 1)] for k in range(630, 640)]
    odd = [list(ROWS[k % 2]) for k in range(4)]
    names = list(COLUMNS)
    for k, row in enumerate(odd):
        row[0] = 640 + k
        row[names.index("c_float")] = "NaN" if k == 1 else -0.5
        row[names.index("c_double")] = "-Infinity" if k == 2 else "NaN"
        row[names.index("c_string")] = LONG + str(k)
    return [*repeated, *several, nulls, odd]


def compact(warehouse: Path) -> None:
    """By ours, all files."""
    job = job_named("compact")
    report = run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.ours",
            arguments=job.read_arguments({"strategy": "full"}),
        )
    )
    assert report.error is None


def copied_files(warehouse: Path) -> list[bool]:
    table = open_table(str(warehouse), "db.ours")
    return [
        str(pq.read_metadata(table.paths.data_file(e.partition, e.bucket, e.file)).created_by)
        .startswith(f"{CREATED_BY} ")
        for e in scan_files(table, table.latest_or_not_found())
    ]  # fmt: skip


def statistics(oracle: Oracle, table: str) -> list[Any]:
    """Rows, counts, least and greatest values of the one file; Java 2.0 has some of BINARY, too."""
    (row,) = oracle.rows(table=table, system="files")
    return [re.sub(r"c_bin=[^,]*", "c_bin", str(text)) for text in [row[7], *row[11:14]]]


@pytest.mark.long
def test_joined_as_java_joins(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_writer, "PAGE_ROWS", 0)
    oracle.defaults(warehouse=tmp_path, database="db")
    options = {"bucket": "-1", "compaction.min.file-num": "2", "write-only": "true"}
    columns = [{"name": n, "type": t} for n, t in COLUMNS.items()]
    *plain, odd = commits()
    for table in ("java", "ours"):
        oracle.one("create_table", table=table, columns=columns, options=options)
        oracle([{"op": "write", "table": table, "rows": rows} for rows in plain])
    whole = oracle.rows(table="ours")
    compact(tmp_path)
    oracle.one("compact", table="java")
    assert copied_files(tmp_path) == [True]
    assert oracle.rows(table="ours") == oracle.rows(table="java") == whole
    assert statistics(oracle, "ours") == statistics(oracle, "java")

    # Java goes on, and so do we, on what has been joined.
    oracle([{"op": "write", "table": t, "rows": odd} for t in ("java", "ours") for _ in range(3)])
    more = oracle.rows(table="ours")
    compact(tmp_path)
    oracle.one("compact", table="java")
    assert copied_files(tmp_path) == [True]
    assert oracle.rows(table="ours") == oracle.rows(table="java") == more
    conditions = [*filters(COLUMNS, ROWS), {"field": "c_string", "op": ">", "value": "x" * 99}]
    asked = [
        {"op": "read", "table": table, "filter": condition}
        for condition in conditions
        for table in ("ours", "java")
    ]
    answers = [answer["rows"] for answer in oracle(asked)]
    for number, condition in enumerate(conditions):
        assert answers[2 * number] == answers[2 * number + 1], condition
    oracle([{"op": "write", "table": "ours", "rows": odd}, {"op": "compact", "table": "ours"}])
    assert copied_files(tmp_path) == [False]
    assert len(oracle.rows(table="ours")) == len(more) + len(odd)
