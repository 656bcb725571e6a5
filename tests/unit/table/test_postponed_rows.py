"""Reads with `postpone.merge-on-read` show what a compaction would leave, and change nothing."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import caretaker
from lakes import ENV, Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.compaction.postpone import replay, replay_units
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.predicate import parse_where
from paimon_core.read.stream import StreamScan
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.table.sink.delete_rows import delete_rows
from paimon_core.table.source import postponed_rows
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_core.table.source.batch_tasks import plan_batch, read_task
from paimon_core.table.system.read import read_system_table
from paimon_core.write.row_writer import RowWriter

MERGED = {"postpone.merge-on-read": "true"}
ENGINES: dict[str, dict[str, str]] = {
    "newest": {},
    "sequence": {"sequence.field": "s"},
    "descending": {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    "partial": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "sum": {"merge-engine": "aggregation", "fields.s.aggregate-function": "sum"},
    "lookup": {"changelog-producer": "lookup", "merge-engine": "aggregation"},
}
COLUMNS = [
    Column("dt", "STRING NOT NULL"),
    Column("a", "INT NOT NULL"),
    Column("b", "STRING NOT NULL"),
    Column("v", "STRING"),
    Column("s", "BIGINT"),
]


def created(place: Path, options: dict[str, str]) -> None:
    catalog = FileSystemCatalog(str(place))
    catalog.create_database("db", if_not_exists=True)
    told = {"bucket": "-2", "postpone.default-bucket-num": "3", "bucket-key": "b", **options}
    schema = create_schema(
        COLUMNS,
        now_millis=ENV.now_millis(),
        partition_keys=["dt"],
        primary_keys=["dt", "a", "b"],
        options=told,
    )
    catalog.create_table("db.t", schema)


def written(place: Path, seed: int, rows: int, *, days: str = "xyz", deletes: bool = True) -> None:
    chance = random.Random(seed)
    data = [
        (
            chance.choice(days),
            chance.randint(0, 9),
            chance.choice(["p", "q", "r"]),
            chance.choice([None, f"v{seed}-{i}"]),
            chance.choice([None, chance.randint(0, 50)]),
        )
        for i in range(rows)
    ]
    kinds = [3 if deletes and chance.random() < 0.2 else 0 for _ in data]
    types = [pa.string(), pa.int32(), pa.string(), pa.string(), pa.int64()]
    arrays = [pa.array(c, t) for c, t in zip(zip(*data, strict=True), types, strict=True)]
    table = open_table(str(place), "db.t")
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table(arrays, names=[c.name for c in COLUMNS]), np.array(kinds, np.int8))
    commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


def replayed(place: Path) -> None:
    table = open_table(str(place), "db.t")
    units = replay_units(table, scan_files(table, table.latest_or_not_found()))
    messages = [m for u in units for m in replay(table, u, env=ENV).to_messages()]
    commit(table, messages, user=ENV.new_uuid(), env=ENV)


def shown(place: Path, where: str | None = None, **options: str) -> list[list[Any]]:
    """The rows of the driver's read, which are those of its tasks too."""
    table = open_table(str(place), "db.t", dynamic_options=options)
    scan = batch_scan_of(table)
    predicate = None if where is None else parse_where(where, table.schema.row_type)
    names = ["v", "a", "dt"]
    rows = _values(read_batch(scan, columns=names, predicate=predicate), names)
    tasks = pickle.loads(pickle.dumps(plan_batch(scan, predicate=predicate)))
    parts = (b for t in tasks for b in read_task(t, columns=names, predicate=predicate))
    assert _values(parts, names) == rows
    return rows


def _values(batches: Any, names: list[str]) -> list[list[Any]]:
    return sorted(([r[n] for n in names] for b in batches for r in b.to_pylist()), key=str)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_compaction_would_leave(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postponed_rows, "_WAITING_BYTES", 1000)  # rows go to local disk
    monkeypatch.setattr(postponed_rows, "MOST_ROWS", 7)
    deletes = engine not in ("partial", "sum", "lookup")
    created(tmp_path, ENGINES[engine])
    written(tmp_path, 1, 60, days="xy", deletes=deletes)
    replayed(tmp_path)
    written(tmp_path, 2, 60, days="yz", deletes=deletes)
    written(tmp_path, 3, 60, days="yz", deletes=deletes)
    conditions = (None, "dt = 'y'", "a < 4", "v LIKE 'v2%'", "a > 90", "dt = 'x' AND b = 'p'")
    before = [shown(tmp_path, c, **MERGED) for c in conditions]
    hidden = shown(tmp_path)
    assert len(before[0]) > len(hidden) > 0
    at = open_table(str(tmp_path), "db.t").latest_or_not_found().id
    replayed(tmp_path)
    assert [shown(tmp_path, c) for c in conditions] == before
    assert shown(tmp_path, **MERGED, **{"scan.snapshot-id": str(at)}) == before[0]


def test_only_partitions_with_postponed_rows_are_read_as_a_whole(tmp_path: Path) -> None:
    created(tmp_path, {})
    written(tmp_path, 1, 40)
    replayed(tmp_path)
    written(tmp_path, 2, 9, days="x")
    table = open_table(str(tmp_path), "db.t", dynamic_options=MERGED)
    tasks = plan_batch(batch_scan_of(table))
    postponed = [t for t in tasks if isinstance(t, postponed_rows.PostponedTask)]
    (task,) = postponed
    assert task.buckets == 3
    assert {e.bucket for e in task.entries} > {POSTPONE_BUCKET}
    assert len(tasks) > 1
    # Files that cannot hold a matching key are not read, those that could match after the merge are.
    assert task.real
    predicate = parse_where("a > 90", table.schema.row_type)
    (pruned,) = plan_batch(batch_scan_of(table), predicate=predicate)
    assert isinstance(pruned, postponed_rows.PostponedTask)
    assert pruned.real == ()
    assert pruned.first_sequence == task.first_sequence


def test_deletion_vectors_and_level_0(tmp_path: Path) -> None:
    """New files of real buckets wait for their compaction, unless those are merged too."""
    vectors = {"deletion-vectors.enabled": "true"}
    created(tmp_path, {"bucket-key": "b", **vectors})
    written(tmp_path, 1, 40, deletes=False)
    replayed(tmp_path)
    written(tmp_path, 2, 10, days="x", deletes=False)
    both = {"deletion-vectors.merge-on-read": "true"}
    assert shown(tmp_path) == []
    only = shown(tmp_path, **MERGED)
    assert {row[2] for row in only} == {"x"}
    everything = shown(tmp_path, **MERGED, **both)
    assert {row[2] for row in everything} == set("xyz")
    replayed(tmp_path)
    assert shown(tmp_path, **both) == everything


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({"incremental-between": "1,2"}, "incremental"),
        ({"scan.file-creation-time-millis": "0"}, "from-file-creation-time"),
        ({"scan.creation-time-millis": "0"}, "from-creation-timestamp"),
    ],
)
def test_only_whole_snapshots(tmp_path: Path, options: dict[str, str], mode: str) -> None:
    lake = Lake(tmp_path)
    lake.create(options={"bucket": "-2"})
    lake.fill(2)
    table = open_table(str(tmp_path), "db.t", dynamic_options={**MERGED, **options})
    scan = batch_scan_of(table)
    for refused in (lambda: plan_batch(scan), lambda: read_batch(scan)):
        with pytest.raises(UnsupportedFeature, match=f"but found scan mode '{mode}'"):
            refused()


def test_where_the_option_has_no_effect(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create(options={"bucket": "-2", **MERGED})
    lake.append({"k": [1], "v": ["a"]})
    table = lake.table()
    assert len(_values(read_batch(batch_scan_of(table)), ["k"])) == 1
    with pytest.raises(UnsupportedFeature, match="only supported for batch reads"):
        StreamScan(table=table)
    _, log = read_system_table(table, "audit_log", table.snapshots.latest())
    assert _values(log, ["k"]) == []
    full = open_table(str(tmp_path), "db.t", dynamic_options={"scan.mode": "compacted-full"})
    assert _values(read_batch(batch_scan_of(full)), ["k"]) == []
    lake.primary_key("db.plain", postpone__merge__on__read="true")
    assert not postponed_rows.merges_postponed(lake.table("db.plain"))


def test_deleting_postponed_rows(tmp_path: Path) -> None:
    """The delete is newer than the rows that it deletes."""
    created(tmp_path, MERGED)
    written(tmp_path, 1, 40, deletes=False)
    table: FileStoreTable = open_table(str(tmp_path), "db.t")
    gone = shown(tmp_path, "a < 5")
    deleted = delete_rows(table, parse_where("a < 5", table.schema.row_type), env=ENV)
    assert deleted.rows == len(gone) > 0
    assert shown(tmp_path, "a < 5") == []
    assert shown(tmp_path) != []


def test_statistics_of_postponed_rows_are_refused(tmp_path: Path) -> None:
    created(tmp_path, MERGED)
    written(tmp_path, 1, 10)
    done = caretaker("run", "analyze", "db.t", "-w", str(tmp_path))
    assert done.code != 0
    assert "statistics of postponed rows" in done.err
    assert caretaker("run", "compact", "db.t", "-w", str(tmp_path)).code == 0
    assert caretaker("run", "analyze", "db.t", "-w", str(tmp_path)).code == 0
