"""Slices, cuts, ties, pass-through and refusals of the streaming merge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from paimon_core.errors import CorruptTable
from paimon_core.lsm.engines.deduplicate import Deduplicate
from paimon_core.lsm.tree import sort_merge
from paimon_core.lsm.tree.sort_merge import MergeOrder, merge_slices, merge_sorted
from tests.merge_model import INT, STRING, Record, kv_batches, records_of, row_type

FIELDS = row_type(k=INT.with_nullable(False), v=STRING)
KEY = FIELDS.project(["k"])
ORDER = MergeOrder(key=KEY)


def run(*keys: int, start: int = 0, v: str = "") -> list[Record]:
    return [Record(start + i, 0, {"k": k, "v": f"{v}{k}"}) for i, k in enumerate(keys)]


def batches(records: list[Record], size: int = 3) -> Iterator[pa.RecordBatch]:
    return kv_batches(records, FIELDS, size)


def values(result: Iterator[pa.RecordBatch]) -> list[str]:
    return [r.values["v"] for r in records_of(result, FIELDS)]


def test_later_run_wins_between_equal_sequence_numbers() -> None:
    runs = [run(1, 2, v="old"), run(1, 2, v="new")]
    merged = merge_sorted([batches(r) for r in runs], key=KEY, engine=Deduplicate())
    assert values(merged) == ["new1", "new2"]
    merged = merge_sorted([batches(r) for r in reversed(runs)], key=KEY, engine=Deduplicate())
    assert values(merged) == ["old1", "old2"]


def test_later_row_wins_within_a_run_on_equal_sequence_numbers() -> None:
    rows = [Record(5, 0, {"k": 1, "v": "a"}), Record(5, 0, {"k": 1, "v": "b"})]
    merged = merge_sorted([batches(rows, 1)], key=KEY, engine=Deduplicate(), buffered_rows=1)
    assert values(merged) == ["b"]


def test_slices_hold_whole_groups_and_name_their_runs() -> None:
    runs = [run(*range(0, 40, 2), start=100), run(*range(0, 40, 3))]
    seen: list[int] = []
    for piece in merge_slices([batches(r) for r in runs], ORDER, buffered_rows=4):
        keys = np.array(piece.batch.column("k").to_pylist())
        origin = piece.runs
        assert all(k % 2 == 0 for k in keys[origin == 0])
        assert all(k % 3 == 0 for k in keys[origin == 1])
        seen += [int(k) for k in keys[piece.last_rows()]]
    assert seen == sorted({*range(0, 40, 2), *range(0, 40, 3)})


def test_a_run_that_meets_no_other_passes_without_a_copy() -> None:
    runs = [run(*range(10)), run(*range(100, 110))]
    given = [list(batches(r, 5)) for r in runs]
    out = list(
        merge_sorted([iter(g) for g in given], key=KEY, engine=Deduplicate(), buffered_rows=5)
    )
    addresses = {b.column("k").buffers()[1].address for g in given for b in g}
    passed = [b for b in out if b.column("k").buffers()[1].address in addresses]
    assert sum(b.num_rows for b in passed) >= 15  # all but the slice where both runs meet
    assert sum(b.num_rows for b in out) == 20


def test_runs_are_read_only_as_far_as_needed() -> None:
    read = [0, 0]

    def counted(index: int, records: list[Record]) -> Iterator[pa.RecordBatch]:
        for batch in batches(records, 10):
            read[index] += batch.num_rows
            yield batch

    runs = [run(*range(1000)), run(*range(1000))]
    pieces = merge_slices([counted(i, r) for i, r in enumerate(runs)], ORDER, buffered_rows=10)
    next(pieces)
    assert read == [10, 10]
    next(pieces)
    assert max(read) <= 30


def test_a_key_longer_than_the_buffer() -> None:
    rows = [Record(i, 0, {"k": 7, "v": str(i)}) for i in range(50)]
    runs = [rows, run(6, 7, 8, start=1000)]
    merged = merge_sorted(
        [batches(r, 2) for r in runs], key=KEY, engine=Deduplicate(), buffered_rows=2
    )
    assert values(merged) == ["6", "7", "8"]


def test_large_slices_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_merge, "MAX_SLICE_BYTES", 2000)
    runs = [run(*range(0, 300, 2)), run(*range(300), start=1000, v="n")]
    pieces = list(merge_slices([batches(r, 150) for r in runs], ORDER, buffered_rows=1000))
    assert len(pieces) > 5
    merged = merge_sorted([batches(r, 150) for r in runs], key=KEY, engine=Deduplicate())
    assert values(merged) == [f"n{i}" for i in range(300)]


@pytest.mark.parametrize("size", [1, 2, 10])
@pytest.mark.parametrize("others", [[], [0, 1, 2, 3, 4]])
def test_an_unsorted_run_is_refused(size: int, others: list[int]) -> None:
    runs = [run(1, 2, 4, 3, 5), run(*others)]
    with pytest.raises(CorruptTable, match="sorted run 0 is not sorted"):
        list(merge_sorted([batches(r, size) for r in runs], key=KEY, engine=Deduplicate()))


def test_a_null_key_is_refused() -> None:
    fields = row_type(k=INT, v=STRING)
    rows = [Record(0, 0, {"k": None, "v": "x"})]
    with pytest.raises(CorruptTable, match="null in key column k"):
        list(merge_sorted([kv_batches(rows, fields, 1)], key=KEY, engine=Deduplicate()))


def test_nothing_in_nothing_out() -> None:
    assert list(merge_sorted([], key=KEY, engine=Deduplicate())) == []
    assert list(merge_sorted([iter(())], key=KEY, engine=Deduplicate())) == []


def test_columns_that_are_not_the_tables_come_along() -> None:
    given = [
        b.append_column("_POSITION", pa.array(range(b.num_rows), pa.int64()))
        for r in (run(1, 2, 3), run(2, 3, 4, start=10))
        for b in batches(r)
    ]
    (piece,) = merge_slices([iter([b]) for b in given], ORDER)
    last = piece.take(piece.last_rows())
    assert last.column("_POSITION").to_pylist() == [0, 0, 1, 2]
