"""Writers that put rows into different numbers of buckets never both write to a partition.

A key would be in two buckets, and readers would return two rows of it.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lakes import ENV, Lake
from sql_sessions import Sql

from paimon_core.commit.committer import commit
from paimon_core.commit.message import CommitMessage
from paimon_core.errors import CommitConflict
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table
from paimon_spark.sql.dml import postpone


def rows_for(table: FileStoreTable, day: str) -> list[CommitMessage]:
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array(range(6), pa.int32()), "v": ["x"] * 6, "dt": [day] * 6}))
    return writer.prepare_commit()


def rescale(lake: Lake, number: int) -> None:
    job = job_named("rescale")
    arguments = job.read_arguments({"bucket_num": number})
    report = run_table(
        RunRequest(job=job, warehouse=str(lake.warehouse), table="db.t", arguments=arguments)
    )
    assert report.error is None


@pytest.mark.parametrize("first", ["before", "after"])
def test_writers_with_the_schemas_before_and_after_a_rescale(first: str, lake: Lake) -> None:
    """Others commit between them, so that the newest snapshot has the schema of the second."""
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill(1)
    tables = {"before": lake.table()}
    rescale(lake, 3)
    tables["after"] = lake.table()
    other = tables["after" if first == "before" else "before"]
    late = rows_for(other, "new")
    commit(tables[first], rows_for(tables[first], "new"), user="first", env=ENV)
    commit(other, rows_for(other, "another"), user="other", env=ENV)
    with pytest.raises(
        CommitConflict, match=r"a partition has \d buckets, but this commit was made"
    ):
        commit(other, late, user="late", env=ENV)


def test_two_inserts_choose_the_buckets_of_a_new_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql, other = Sql(tmp_path), Sql(tmp_path)
    sql("""
        CREATE TABLE t (k INT, v STRING) TBLPROPERTIES
            ('primary-key' = 'k', 'bucket' = '-2', 'postpone.target-row-num-per-bucket' = '2')
    """)
    commit_write, waiting = postpone.commit_write, ["INSERT INTO t VALUES (1, 'theirs')"]

    def late(*args: object, **options: object) -> object:
        while waiting:
            other(waiting.pop())
        return commit_write(*args, **options)

    monkeypatch.setattr(postpone, "commit_write", late)
    ours = "INSERT INTO t VALUES " + ", ".join(f"({k}, 'ours')" for k in range(6))
    with pytest.raises(CommitConflict, match="a partition has 1 buckets, but this commit was made"):
        sql(ours)
    sql(ours)
    table = open_table(str(tmp_path), "default.t")
    batches = read_table(table, table.latest_or_not_found(), columns=["k"])
    assert sorted(k for b in batches for k in b.column("k").to_pylist()) == list(range(6))
