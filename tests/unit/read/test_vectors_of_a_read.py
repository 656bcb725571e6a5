"""A read opens the deletion vectors of what it reads, and says so when they are gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake
from row_deletes import delete_rows

from paimon_core.predicate import Leaf, Op
from paimon_core.read.table_read import read_table
from paimon_maintenance.job.exit_codes import ExitCode


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Two days of ten rows, two rows of each marked as deleted."""
    lake.log(partitioned=True, **{"deletion-vectors.enabled": "true"})
    lake.fill(1)
    assert delete_rows(lake.table(), {0, 1, 2, 3}) == 4
    return lake


def test_vectors_of_other_partitions_are_left_alone(lake: Lake) -> None:
    table = lake.table()
    latest = table.latest_or_not_found()
    for entry in table.index_entries(latest):
        name = table.paths.partition_path(entry.partition)
        if name == "dt=day1":
            Path(table.paths.index_file(entry.partition, entry.bucket, entry.index_file)).unlink()
    day0 = Leaf(Op.EQ, "dt", ("day0",))
    rows = [r for b in read_table(table, latest, predicate=day0) for r in b.to_pylist()]
    assert sorted(r["k"] for r in rows) == [4, 6, 8]


@pytest.mark.parametrize(
    "words",
    [
        ("read",),
        ("files",),
        ("run", "compact", "--engine", "local"),
        ("plan", "sort_compact", "--order-by", "v"),
    ],
)
def test_a_lost_index_manifest_is_told_as_such(words: tuple[str, ...], lake: Lake) -> None:
    table = lake.table()
    latest = table.latest_or_not_found()
    Path(table.paths.manifest(latest.index_manifest or "")).unlink()
    ran = caretaker(*words, "db.t", "-w", lake.warehouse)
    assert ran.code == ExitCode.CORRUPT_TABLE, ran
    assert latest.index_manifest in ran.err
