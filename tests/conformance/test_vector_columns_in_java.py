"""VECTOR columns: ours rescales tables, Flink reads the same rows and writes, ours rescales again."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import caretaker

from oracle import FlinkSql
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.job.exit_codes import ExitCode

ENV = system_environment()
VECTOR = {"vector-field": "e", "field.e.vector-dim": "2", "bucket": "2"}
COLUMNS = [Column("k", "INT"), Column("e", "VECTOR<FLOAT, 2>"), Column("v", "STRING")]
COMMITS = (
    [(1, [1.5, 1.0]), (2, [1.5, 2.0]), (3, [1.5, 3.0]), (4, [1.5, 4.0])],
    [(2, [2.5, 2.0]), (3, None), (5, [2.5, 5.0])],
)
THEIRS = "(VALUES (5, ARRAY[3.5, 5]), (6, ARRAY[3.5, 6])) AS v (k, e)"


def _rows(lake: Path, table: str) -> list[str]:
    return sorted(map(str, caretaker("read", table, "-w", lake).rows))


def _rescale(lake: Path, table: str, buckets: int) -> None:
    before = _rows(lake, table)
    words = ("--bucket-num", buckets, "--engine", "local", "--force")
    ran = caretaker("run", "rescale", table, "-w", lake, *words)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert _rows(lake, table) == before
    assert caretaker("verify", table, "-w", lake, "--deep").code == ExitCode.SUCCESS


@pytest.mark.long
@pytest.mark.slow
def test_rescaled_vectors_are_read_by_java(flink_sql: FlinkSql, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    catalog = FileSystemCatalog(str(lake), {})
    catalog.create_database("db")
    for name, keys, options in (("p", ["k"], {}), ("a", [], {"bucket-key": "k"})):
        schema = create_schema(COLUMNS, now_millis=1, primary_keys=keys, options=VECTOR | options)
        catalog.create_table(f"db.{name}", schema)
        table = catalog.get_table(f"db.{name}")
        for rows in COMMITS:
            writer = RowWriter(table, env=ENV)
            ks, es = zip(*rows, strict=True)
            e = pa.array(es, pa.list_(pa.float32()))
            writer.write(pa.table({"k": pa.array(ks, pa.int32()), "e": e, "v": ["x"] * len(ks)}))
            commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)
        _rescale(lake, f"db.{name}", 5)
    inserts = (
        f"INSERT INTO {t} SELECT k, CAST(e AS ARRAY<FLOAT>), 'x' FROM {THEIRS};" for t in "pa"
    )
    lines = flink_sql(
        f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{lake}');\n"
        "USE CATALOG c;\nUSE db;\nSET 'table.dml-sync' = 'true';\n"
        "SET 'parallelism.default' = '1';\nSELECT * FROM p;\nSELECT * FROM a;\n"
        + "\n".join(inserts)
        + "\nSELECT * FROM p;\n"
    )
    theirs = [line for line in lines if re.match(r"\+I\[\d", line)]
    merged = ["+I[1, [1.5, 1.0], x]", "+I[2, [2.5, 2.0], x]", "+I[3, null, x]"]
    assert sorted(theirs[:5]) == [*merged, "+I[4, [1.5, 4.0], x]", "+I[5, [2.5, 5.0], x]"]
    assert len(set(theirs[5:12])) == 7
    assert sorted(theirs[12:]) == [
        *merged,
        "+I[4, [1.5, 4.0], x]",
        "+I[5, [3.5, 5.0], x]",
        "+I[6, [3.5, 6.0], x]",
    ]
    for table, count in (("db.p", 6), ("db.a", 9)):
        _rescale(lake, table, 3)
        assert len(_rows(lake, table)) == count
