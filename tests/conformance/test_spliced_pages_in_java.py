"""Primary-key files that Java wrote, merged with most of their pages copied, as Java reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from small_pages import small_pages
from test_data_files_for_java import COLUMNS, ROWS, filters

from oracle import Oracle
from paimon_core.format.parquet.chunks import CREATED_BY
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.write.splice_writer import RollingSpliceWriter
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table


def rows_of(first: int, count: int, shift: int) -> list[list[Any]]:
    return [[k, *ROWS[(k + shift) % len(ROWS)][1:]] for k in range(first, first + count)]


def compact(warehouse: Path) -> int:
    """Compact our table; return the number of rows that were copied."""
    copied: list[int] = []
    take_over = RollingSpliceWriter.take_over

    def noted(self: RollingSpliceWriter, stored: Any) -> None:
        copied.append(len(stored.rows))
        take_over(self, stored)

    job = job_named("compact")
    request = RunRequest(
        job=job,
        warehouse=str(warehouse),
        table="db.ours",
        arguments=job.read_arguments({"strategy": "full"}),
    )
    RollingSpliceWriter.take_over = noted  # type: ignore[method-assign]
    try:
        with small_pages(20):
            report = run_table(request)
    finally:
        RollingSpliceWriter.take_over = take_over  # type: ignore[method-assign]
    assert report.error is None
    return sum(copied)


def made_by(warehouse: Path) -> list[str]:
    table = open_table(str(warehouse), "db.ours")
    return [
        str(pq.read_metadata(table.paths.data_file(e.partition, e.bucket, e.file)).created_by)
        for e in scan_files(table, table.latest_or_not_found())
    ]


def statistics(oracle: Oracle, table: str) -> list[Any]:
    """Level, rows, keys, counts, bounds and sequence numbers; Java 2.0 has bounds of BINARY, too."""
    (row,) = oracle.rows(table=table, system="files")
    return [re.sub(r"c_bin=[^,]*", "c_bin", str(text)) for text in [row[5], row[7], *row[9:16]]]


def test_merged_as_java_merges(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=tmp_path, database="db")
    options = {"bucket": "1", "write-only": "true", "parquet.page.row.count.limit": "20"}
    columns = [{"name": n, "type": t} for n, t in COLUMNS.items()]
    tables = ("java", "ours")
    for table in tables:
        oracle.one(
            "create_table", table=table, columns=columns, primary_keys=["k"], options=options
        )
    for rows in (rows_of(0, 400, 0), rows_of(130, 30, 1), rows_of(390, 20, 2)):
        oracle([{"op": "write", "table": table, "rows": rows} for table in tables])
    whole = oracle.rows(table="ours")
    assert compact(tmp_path) >= 300
    oracle.one("compact", table="java")
    assert all(text.startswith(f"{CREATED_BY} ") for text in made_by(tmp_path))

    assert oracle.rows(table="ours") == oracle.rows(table="java") == whole
    assert statistics(oracle, "ours") == statistics(oracle, "java")

    # Java skips by our page indexes as by its own.
    conditions = [*filters(COLUMNS, ROWS), {"field": "k", "op": "=", "value": 395}]
    answers = [
        answer["rows"]
        for answer in oracle(
            [
                {"op": "read", "table": table, "filter": condition}
                for condition in conditions
                for table in tables
            ]
        )
    ]
    for number, condition in enumerate(conditions):
        assert answers[2 * number] == answers[2 * number + 1], condition

    # Both go on with what was copied.
    oracle([{"op": "write", "table": table, "rows": rows_of(200, 5, 3)} for table in tables])
    more = oracle.rows(table="java")
    assert compact(tmp_path) >= 300
    assert oracle.rows(table="ours") == more
    oracle([{"op": "write", "table": table, "rows": rows_of(0, 5, 3)} for table in tables])
    oracle([{"op": "compact", "table": table} for table in tables])
    assert oracle.rows(table="ours") == oracle.rows(table="java")
