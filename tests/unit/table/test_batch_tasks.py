"""The tasks of a batch read give together the rows of the batch read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import Predicate, parse_where
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_core.table.source.batch_tasks import pack_tasks, plan_batch, read_task
from paimon_core.types.json_columns import batch_to_json_rows

GOLDEN = Path(__file__).parents[2] / "golden"
# So small that every file, or section of a merge tree, is a split.
SMALL = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}


def tables() -> list[Any]:
    folders = sorted(p.parent for p in GOLDEN.glob("*/*/expected.json"))
    return [pytest.param(f, id=f"{f.parent.name}-{f.name}") for f in folders]


def opened(folder: Path, **options: str) -> FileStoreTable:
    return open_table(str(folder / "warehouse"), "db.t", dynamic_options={**SMALL, **options})


def texts(batches: Any, table: FileStoreTable) -> list[str]:
    names = list(table.schema.names)
    row_type = table.schema.row_type
    return sorted(
        str(row) for b in batches for row in batch_to_json_rows(b.select(names), row_type)
    )


def in_tasks(table: FileStoreTable, predicate: Predicate | None = None) -> tuple[int, list[str]]:
    scan = batch_scan_of(table)
    tasks = plan_batch(scan, predicate=predicate)
    shipped = [pickle.loads(pickle.dumps(t)) for p in pack_tasks(tasks, parallelism=99) for t in p]
    assert len(shipped) == len(tasks)
    names = scan.table.schema.names
    rows = (b for t in shipped for b in read_task(t, columns=names, predicate=predicate))
    return len(tasks), texts(rows, scan.table)


@pytest.mark.sampled
@pytest.mark.one_java
@pytest.mark.parametrize("folder", tables())
def test_tasks_read_what_the_batch_reads(folder: Path) -> None:
    table = opened(folder)
    latest = table.snapshots.latest_id() or 0
    earliest = table.snapshots.earliest_id() or 0
    scans = [table, opened(folder, **{"scan.snapshot-id": str(earliest)})]
    for mode in ("delta", "diff"):
        between = {
            "incremental-between": f"{earliest},{latest}",
            "incremental-between-scan-mode": mode,
        }
        scans.append(opened(folder, **between))
    for each in scans:
        scan = batch_scan_of(each)
        try:
            expected = texts(read_batch(scan), scan.table)
        except PaimonError as e:
            with pytest.raises(type(e)):
                in_tasks(each)
            continue
        assert in_tasks(each)[1] == expected


def test_predicates_hold_in_tasks() -> None:
    for name, where in (
        ("levels", "k > 5 AND k < 9"),
        ("bloom_index", "k = 3"),
        ("deletion_vectors", "k >= 4"),
        ("partitions_null", "dt = '2024-01-01' AND hh IS NULL"),
    ):
        table = opened(GOLDEN / "1.4.2" / name)
        predicate = parse_where(where, table.schema.row_type)
        expected = texts(read_batch(batch_scan_of(table), predicate=predicate), table)
        assert expected
        assert in_tasks(table, predicate)[1] == expected


def test_small_splits_make_many_tasks_and_large_ones_few() -> None:
    folder = GOLDEN / "1.4.2" / "append_unaware"
    table = opened(folder)
    many = plan_batch(batch_scan_of(table))
    assert len(many) > 3
    assert len(pack_tasks(many, parallelism=99)) == len(many)
    plain = open_table(str(folder / "warehouse"), "db.t")
    tasks = plan_batch(batch_scan_of(plain))
    assert len(pack_tasks(tasks, parallelism=1)) == 1
