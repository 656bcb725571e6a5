"""Deletes that are ignored."""

from __future__ import annotations

import pytest

from paimon_core.lsm.engines.deduplicate import Deduplicate
from paimon_core.lsm.tree.sort_merge import MergeOrder, merge_slices
from tests.merge_model import INT, Record, kv_batch, records_of, row_type

FIELDS = row_type(k=INT.with_nullable(False), v=INT)


def records(*kinds: int, k: int = 1) -> list[Record]:
    return [Record(i, kind, {"k": k, "v": i}) for i, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        ((3,), 0),  # a lone delete stays
        ((3, 1), None),
        ((0, 3, 3), 0),
        ((0, 2, 1), 1),
        ((3, 0), 1),
    ],
)
def test_ignored_deletes(kinds: tuple[int, ...], kept: int | None) -> None:
    rows = records(*kinds) + records(0, 0, k=2)
    (piece,) = merge_slices([iter([kv_batch(rows, FIELDS)])], MergeOrder(key=FIELDS.project(["k"])))
    merged = Deduplicate(ignore_delete=True).merge(piece)
    expected = [(1, kept)] * (kept is not None) + [(2, 1)]
    result = records_of(iter([merged.batch]), FIELDS)
    assert [(r.values["k"], r.values["v"]) for r in result] == expected
    assert merged.groups is not None or len(expected) == 2
    if merged.groups is not None:
        assert list(merged.groups) == ([0, 1] if kept is not None else [1])
