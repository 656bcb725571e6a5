"""Reads that pass over missing and damaged files, where the table's options say so."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.errors import CorruptTable
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_core.table.source.batch_tasks import plan_batch, read_task
from paimon_core.table.source.stream import stream_of

LOST = {"scan.ignore-lost-files": "true"}
CORRUPT = {"scan.ignore-corrupt-files": "true"}
KINDS = {
    "append": "'bucket' = '-1'",
    "primary key": "'primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true'",
}


@pytest.fixture(params=KINDS)
def sql(request: pytest.FixtureRequest, tmp_path: Path) -> Sql:
    sql = Sql(tmp_path)
    sql(f"CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ({KINDS[request.param]})")
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO t VALUES (2, 'B'), (3, 'c')")
    return sql


def newest_file(sql: Sql) -> Path:
    files = Path(sql.session.warehouse, "default.db/t/bucket-0").glob("data-*")
    return max(files, key=lambda f: f.stat().st_mtime_ns)


def read(sql: Sql, options: dict[str, str]) -> list[tuple[int, str]]:
    table = open_table(sql.session.warehouse, "default.t", dynamic_options=options)
    scan = batch_scan_of(table)
    rows = [r for b in read_batch(scan, columns=("id", "v")) for r in b.to_pylist()]
    by_task = [
        r
        for task in plan_batch(scan)
        for b in read_task(task, columns=("id", "v"))
        for r in b.to_pylist()
    ]
    assert sorted(rows, key=str) == sorted(by_task, key=str)
    return sorted((r["id"], r["v"]) for r in rows)


def test_lost_files(sql: Sql) -> None:
    newest_file(sql).unlink()
    assert read(sql, LOST) == [(1, "a"), (2, "b")]
    for options in ({}, CORRUPT):
        with pytest.raises(CorruptTable, match="missing"):
            read(sql, options)


def test_damaged_files(sql: Sql) -> None:
    file = newest_file(sql)
    file.write_bytes(file.read_bytes()[:40])
    assert read(sql, CORRUPT) == [(1, "a"), (2, "b")]
    for options in ({}, LOST):
        with pytest.raises(CorruptTable):
            read(sql, options)


def test_streams(sql: Sql) -> None:
    newest_file(sql).unlink()
    for start in ({"scan.mode": "latest-full"}, {"scan.snapshot-id": "1"}):
        table = open_table(sql.session.warehouse, "default.t", dynamic_options={**LOST, **start})
        stream = stream_of(table)
        plans = [stream.plan() for _ in range(3)]
        ids = [i for p in plans for b in stream.read(p) for i in b.column("id").to_pylist()]
        assert sorted(ids) == [1, 2]


def test_changes_fail(sql: Sql) -> None:
    newest_file(sql).unlink()
    for key in (*LOST, *CORRUPT):
        sql(f"ALTER TABLE t SET TBLPROPERTIES ('{key}' = 'true')")
    for change in ("UPDATE t SET v = 'x' WHERE id < 3", "DELETE FROM t WHERE id = 2"):
        with pytest.raises(CorruptTable, match="missing"):
            sql(change)
    with suppress(CorruptTable):
        sql("CALL sys.compact(table => 'default.t', compact_strategy => 'full')")
    with pytest.raises(CorruptTable, match="missing"):
        read(sql, dict.fromkeys((*LOST, *CORRUPT), "false"))  # the file is still named
