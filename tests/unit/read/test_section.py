"""How much of a section is read at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_core.format.data_format import BATCH_ROWS
from paimon_core.lsm.tree.sorted_run import Section, SortedRun
from paimon_core.read.section import LEAST_ROWS, MAX_FAN_IN, MOST_ROWS, batch_rows, fan_in
from paimon_core.types.data_types import ArrayType, RowType
from tests.lsm_files import a_file
from tests.merge_model import BIGINT, STRING, row_type

MB = 2**20
NARROW = row_type(k=BIGINT, v=STRING)
WIDE = row_type(**{f"c{i}": BIGINT for i in range(200)})


def section(runs: int, *, size: int, rows: int) -> Section:
    file = replace(a_file(0, 9, size=size), row_count=rows)
    return tuple(SortedRun((file,)) for _ in range(runs))


@pytest.mark.parametrize(
    ("fields", "size", "most"),
    [
        (NARROW, 128 * MB, MAX_FAN_IN),
        (WIDE, 128 * MB, 2),
        (WIDE, 20 * MB, 8),
        (WIDE, 100_000, MAX_FAN_IN),
        (
            row_type(a=ArrayType(element=row_type(**{f"c{i}": BIGINT for i in range(48)}))),
            500 * MB,
            10,
        ),
    ],
)
def test_runs_side_by_side(fields: RowType, size: int, most: int) -> None:
    assert fan_in(section(100, size=size, rows=1_000_000), fields) == most


def test_rows_at_a_time() -> None:
    assert batch_rows(section(10, size=50 * MB, rows=500_000), NARROW, side_by_side=10) == MOST_ROWS
    two = batch_rows(section(2, size=50 * MB, rows=500_000), NARROW, side_by_side=2)
    assert two == 5 * MOST_ROWS
    skewed = (*section(1, size=400 * MB, rows=4_000_000), *section(9, size=MB, rows=10_000))
    assert batch_rows(skewed, NARROW, side_by_side=2) == BATCH_ROWS
    huge = section(10, size=500 * MB, rows=500)
    assert batch_rows(huge, NARROW, side_by_side=10) == LEAST_ROWS
    assert batch_rows(section(1, size=0, rows=0), NARROW, side_by_side=1) == MOST_ROWS
    many = batch_rows(section(64, size=50 * MB, rows=500_000), NARROW, side_by_side=64)
    assert LEAST_ROWS < many < MOST_ROWS
