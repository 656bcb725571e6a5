"""Tables with data evolution: columns of several files are put together as Java does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from avro_fields import add_fields
from command_line import Ran, caretaker, in_order
from lakes import ENV

from oracle import Oracle
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.manifest.data_file import FileKind, FileSource, ManifestEntry
from paimon_core.predicate import parse_where
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of
from paimon_core.table.source.batch_tasks import plan_batch, read_task
from paimon_core.write.data_file_writer import RollingAppendWriter
from paimon_maintenance.job.exit_codes import ExitCode

COLUMNS = [
    {"name": "k", "type": "INT"},
    {"name": "v", "type": "STRING"},
    {"name": "n", "type": "BIGINT"},
]
OPTIONS = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}


@pytest.fixture
def table(oracle: Oracle, tmp_path: Path) -> Oracle:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle.one("create_database")
    oracle.one("create_table", columns=COLUMNS, options=OPTIONS)
    oracle.one("write", rows=[[i, f"v{i}", i * 10] for i in range(5)])
    oracle.one("write", rows=[[i, f"v{i}", i * 10] for i in range(5, 8)])
    return oracle


def _update(warehouse: Path, first_row_id: int, **columns: list[Any]) -> None:
    """Commit a file with new values of some columns, as an engine's MERGE INTO writes it."""
    table = open_table(str(warehouse), "db.t")
    schema = table.schema
    some = replace(schema, fields=tuple(f for f in schema.fields if f.name in columns))
    old = next(
        e
        for e in scan_files(table, table.latest_or_not_found())
        if e.file.first_row_id == first_row_id
    )
    writer = RollingAppendWriter(
        table.io,
        table.paths,
        old.partition,
        old.bucket,
        some,
        file_source=FileSource.APPEND,
        env=ENV,
    )
    types = {"k": pa.int32(), "v": pa.string(), "n": pa.int64()}
    arrays = [pa.array(values, types[name]) for name, values in columns.items()]
    writer.write(pa.RecordBatch.from_arrays(arrays, names=list(columns)))
    (file,) = writer.close()
    file = replace(
        file,
        first_row_id=first_row_id,
        write_cols=some.names,
        min_sequence_number=0,
        max_sequence_number=0,
    )
    entry = ManifestEntry(FileKind.ADD, old.partition, old.bucket, old.total_buckets, file)
    request = CommitRequest(user=ENV.new_uuid(), kind=CommitKind.APPEND, check=False)
    commit_changes(table, lambda _: ManifestChanges((entry,)), request, env=ENV)


def _read(warehouse: Path, *words: object) -> Ran:
    return caretaker("read", "db.t", "-w", warehouse, *words)


def test_updated_columns_are_read_as_java_reads_them(table: Oracle, tmp_path: Path) -> None:
    _update(tmp_path, 0, v=[f"new{i}" for i in range(5)])
    _update(tmp_path, 5, n=[None, 1, 2], v=["a", None, "c"])
    _update(tmp_path, 0, v=[f"newer{i}" for i in range(5)])
    rows = table.rows()
    assert rows[0] == ["+I", 0, "newer0", 0]
    assert in_order(_read(tmp_path).rows) == rows
    for projection in (["v"], ["n", "k"], ["k"]):
        some = _read(tmp_path, "--columns", ",".join(projection))
        assert in_order(some.rows) == table.rows(projection=projection)
    for condition in ("v = 'newer3'", "v = 'v3'", "n = 2", "k < 2 and v = 'newer1'"):
        predicate = parse_where(condition, open_table(str(tmp_path), "db.t").schema.row_type)
        assert predicate is not None
        kept = [r for r in rows if _holds(condition, r)]
        assert in_order(_read(tmp_path, "--where", condition).rows) == kept, condition
    older = _read(tmp_path, "--snapshot", 3)
    assert in_order(older.rows) == table.rows(snapshot=3)


def _holds(condition: str, row: list[Any]) -> bool:
    _, k, v, n = row
    return bool(
        {
            "v = 'newer3'": v == "newer3",
            "v = 'v3'": v == "v3",
            "n = 2": n == 2,
            "k < 2 and v = 'newer1'": k < 2 and v == "newer1",
        }[condition]
    )


def test_tasks_do_not_tear_groups_apart(table: Oracle, tmp_path: Path) -> None:
    _update(tmp_path, 0, v=[f"new{i}" for i in range(5)])
    opened = open_table(str(tmp_path), "db.t", dynamic_options={"source.split.target-size": "1 b"})
    tasks = plan_batch(batch_scan_of(opened))
    found = [
        [b["v"][i].as_py() for i in range(b.num_rows)]
        for task in tasks
        for b in read_task(task, columns=["k", "v", "n"])
    ]
    assert len(tasks) == 2
    assert sorted(v for batch in found for v in batch) == sorted(r[2] for r in table.rows())


def test_columns_added_later_are_null_until_they_are_updated(table: Oracle, tmp_path: Path) -> None:
    table.one("alter_table", changes=[{"change": "add_column", "name": "x", "type": "STRING"}])
    table.one("write", rows=[[9, "v", 1, "x"]])
    assert in_order(_read(tmp_path).rows) == table.rows()
    _update(tmp_path, 0, n=[7] * 5)
    assert in_order(_read(tmp_path).rows) == table.rows()


def test_metadata_jobs_keep_the_rows_and_other_rewrites_are_refused(
    table: Oracle, tmp_path: Path
) -> None:
    _update(tmp_path, 0, v=[f"new{i}" for i in range(5)])
    rows = table.rows()
    for words in (
        ("create_tag", "--tag", "kept"),
        ("create_branch", "--branch-name", "b", "--tag", "kept"),
        ("compact_manifest",),
        ("expire_snapshots", "--retain-max", 1, "--retain-min", 1, "--older-than", "2100-01-01"),
    ):
        ran = caretaker("run", words[0], "db.t", "-w", tmp_path, "--force", *words[1:])
        assert ran.code == ExitCode.SUCCESS, ran.err
        assert table.rows() == rows
        assert in_order(_read(tmp_path).rows) == rows
    table.one("write", rows=[[100, "x", 1]])
    for words in (
        ("rescale", "--bucket-num", 2),
        ("sort_compact", "--order-strategy", "order", "--order-by", "k"),
    ):
        local = ("--engine", "local")
        ran = caretaker("run", words[0], "db.t", "-w", tmp_path, *local, *words[1:])
        assert ran.code == ExitCode.REFUSED
        assert "data-evolution.enabled" in ran.err


def test_sequence_numbers_of_columns_are_refused_by_name(table: Oracle, tmp_path: Path) -> None:
    """Later versions choose the file of each column by `_WRITE_COLS_SEQUENCES`."""
    _update(tmp_path, 0, v=[f"new{i}" for i in range(5)])
    for path in (tmp_path / "db.db" / "t" / "manifest").glob("manifest-*"):
        if path.name.startswith("manifest-list-"):
            continue
        numbers = {"_WRITE_COLS_SEQUENCES": (["null", {"type": "array", "items": "long"}], [5])}
        path.write_bytes(add_fields(path, numbers, record=("_FILE",)))
    merge = ("compact", "db.t", "-w", tmp_path, "--options", "compaction.min.file-num=2")
    for ran in (_read(tmp_path), caretaker("run", *merge)):
        assert ran.code == ExitCode.REFUSED
        assert "_WRITE_COLS_SEQUENCES" in ran.err
