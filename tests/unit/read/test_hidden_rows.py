"""The rows of all files without the hidden ones are the rows of the table."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from golden_files import GOLDEN, VERSIONS
from lakes import ENV, Lake

from paimon_core.commit.committer import commit
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.data_file import read_data_file
from paimon_core.read.hidden_rows import hidden_rows, shows_stored_rows
from paimon_core.read.table_read import read_table
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_tasks import plan_snapshot
from paimon_core.write.row_writer import RowWriter

COMBINED = ("aggregation", "partial_update", "sequence_group")


def visible(table: FileStoreTable, snapshot: Snapshot) -> list[str]:
    """The rows of the files, read one by one and without a merge."""
    rows: list[str] = []
    for task in plan_snapshot(table, snapshot):
        hidden = hidden_rows(table, task.entries, task.index_files)
        assert set(hidden) == {e.file.file_name for e in task.entries}
        for entry in task.entries:
            file = entry.file
            positions = hidden[file.file_name]
            assert np.all(np.diff(positions) > 0)
            batches = read_data_file(
                table.io,
                table.paths.data_file(entry.partition, entry.bucket, file),
                file,
                file_schema=table.schema_of(file.schema_id),
                read_type=table.schema.row_type,
                key_value=False,
                partition=entry.partition,
            )
            stored = [str(row) for b in batches for row in b.to_pylist()]
            rows += [row for i, row in enumerate(stored) if i not in set(positions.tolist())]
    return sorted(rows)


def shown(table: FileStoreTable, snapshot: Snapshot) -> list[str]:
    names = table.schema.names
    batches = read_table(table, snapshot, columns=names)
    return sorted(str(row) for b in batches for row in b.select(names).to_pylist())


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_of_java(version: str) -> None:
    hidden = compared = 0
    for folder in sorted((GOLDEN / version).iterdir()):
        for schema in folder.glob("warehouse/*.db/*/schema"):
            table = open_table(
                str(folder / "warehouse"), f"{schema.parents[1].stem}.{schema.parent.name}"
            )
            snapshot = table.snapshots.latest()
            assert shows_stored_rows(table) != folder.name.startswith(COMBINED), folder.name
            if snapshot is None or not shows_stored_rows(table):
                continue
            rows = shown(table, snapshot)
            assert visible(table, snapshot) == rows, folder.name
            files = [e.file for t in plan_snapshot(table, snapshot) for e in t.entries]
            hidden += sum(f.row_count for f in files) - len(rows)
            compared += 1
    assert compared > 30
    assert hidden > 100


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sequence.field": "v"},
        {"sequence.field": "v", "sequence.field.sort-order": "descending"},
        {"ignore-delete": "true"},
        {"sequence.field": "v", "changelog-producer": "lookup"},
    ],
)
def test_versions_and_deletes(tmp_path: Path, options: dict[str, str]) -> None:
    chance = random.Random(7)
    lake = Lake(tmp_path)
    lake.create(options={"bucket": "2", "write-only": "true", **options})
    for _ in range(6):
        keys = chance.sample(range(200), 60)
        values = [chance.choice((None, "a", "b", "c")) for _ in keys]
        kinds = np.array([chance.choice((0, 0, 2, 3)) for _ in keys], np.int8)
        table = lake.table()
        writer = RowWriter(table, env=ENV)
        writer.write(pa.table({"k": pa.array(keys, pa.int32()), "v": values}), kinds)
        commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)
    table = lake.table()
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert len(shown(table, snapshot)) > 50
    assert visible(table, snapshot) == shown(table, snapshot)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill(2)
    lake.fill(2)
    table = lake.table()
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    (task,) = plan_snapshot(table, snapshot)
    name = task.entries[0].file.file_name
    next(tmp_path.rglob(name)).unlink()
    with pytest.raises(CorruptTable, match="missing"):
        hidden_rows(table, task.entries)
