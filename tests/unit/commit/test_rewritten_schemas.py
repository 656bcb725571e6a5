"""No rewrite of rows loses the columns that were added since its table was opened."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from command_line import caretaker
from sql_sessions import Sql

from paimon_core.commit.committer import commit
from paimon_core.errors import CommitConflict
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.sink.compact_table import buckets_of, compact_buckets, compact_table
from paimon_core.table.sink.delete_rows import delete_rows
from paimon_core.table.sink.write_session import write_rows
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_maintenance.jobs.compact import plan as compact
from paimon_maintenance.jobs.rescale import plan as rescale
from paimon_spark.sql.frames.pushdown import plain_condition

KINDS = {
    "keys": "'primary-key' = 'a', 'bucket' = '1', 'num-sorted-run.compaction-trigger' = '2'",
    "append": "'bucket' = '1', 'bucket-key' = 'a', 'compaction.min.file-num' = '2'",
}


@pytest.fixture(params=KINDS)
def sql(request: pytest.FixtureRequest, tmp_path: Path) -> Sql:
    sql = Sql(tmp_path)
    options = f"{KINDS[request.param]}, 'write-only' = 'true'"
    sql(f"CREATE TABLE t (a INT, v INT) TBLPROPERTIES ({options}); INSERT INTO t VALUES (0, 0)")
    return sql


def opened(sql: Sql, **options: str) -> FileStoreTable:
    return sql.session.open(sql.session.table_name(["t"]), to_write=True, options=options)


def add_column(sql: Sql) -> None:
    sql(
        "ALTER TABLE t ADD COLUMN w INT; INSERT INTO t VALUES (1, 1, 1); INSERT INTO t VALUES (2, 2, 2)"
    )


def rows(sql: Sql) -> list[tuple[Any, ...]]:
    found = (r for b in read_batch(batch_scan_of(opened(sql))) for r in b.to_pylist())
    return sorted((r["a"], r["v"], r["w"]) for r in found)


def test_a_writer_compacts_under_the_newest_schema(sql: Sql) -> None:
    old, env = opened(sql, **{"write-only": "false"}), sql.session.env
    add_column(sql)
    for key in (8, 9):
        write_rows(old, pa.table({"a": pa.array([key], pa.int32())}), env=env)
    compact_table(old, full=True, env=env)
    assert len({s.commit_kind for s in old.snapshots.all()}) == 2
    expected = [(0, 0, None), (1, 1, 1), (2, 2, 2), (8, None, None), (9, None, None)]
    assert rows(sql) == expected
    predicate = plain_condition(old, "a = 2")
    assert predicate is not None
    assert delete_rows(old, predicate, env=env).rows == 1
    assert rows(sql) == [r for r in expected if r[0] != 2]


def test_rows_that_were_rewritten_under_an_older_schema_are_refused(sql: Sql) -> None:
    old, env = opened(sql), sql.session.env
    add_column(sql)
    results = compact_buckets(old, buckets_of(old), full=True, env=env)
    messages = [m for result in results for m in result.to_messages()]
    with pytest.raises(CommitConflict, match="without the columns that schema 1 has added"):
        commit(old, messages, user="u", env=env)
    assert rows(sql) == [(0, 0, None), (1, 1, 1), (2, 2, 2)]


@pytest.mark.parametrize("change", ["UPDATE t SET v = 7 WHERE a = 1", "DELETE FROM t WHERE v = 1"])
def test_a_column_that_is_added_during_a_statement_keeps_its_values(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    beside, at_newest = Sql(tmp_path), FileStoreTable.at_newest_snapshot

    def late(table: FileStoreTable) -> Any:
        monkeypatch.undo()
        add_column(beside)
        return at_newest(table)

    monkeypatch.setattr(FileStoreTable, "at_newest_snapshot", late)
    sql(change)
    kept = [(1, 7, 1)] if change.startswith("UPDATE") else []
    assert rows(sql) == [(0, 0, None), *kept, (2, 2, 2)]


@pytest.mark.parametrize(
    ("module", "check", "attempts", "job"),
    [
        (compact, "check_compactable", 2, ["compact", "--strategy", "full"]),
        # It changes the schema itself, before it reads.
        (rescale, "check_rescalable", 1, ["rescale", "--bucket-num", "2"]),
    ],
    ids=["compact", "rescale"],
)
def test_a_job_keeps_a_column_that_was_added_after_it_began(
    sql: Sql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    check: str,
    attempts: int,
    job: list[str],
) -> None:
    """The job has opened the table, and looks at its newest snapshot next."""

    def late(table: FileStoreTable) -> None:
        monkeypatch.undo()
        add_column(sql)
        getattr(module, check)(table)

    monkeypatch.setattr(module, check, late)
    done = caretaker("run", *job, "default.t", "-w", tmp_path, "--json")
    assert done.json["status"] == "success", done.err
    assert done.json["attempts"] == attempts
    assert rows(sql) == [(0, 0, None), (1, 1, 1), (2, 2, 2)]
