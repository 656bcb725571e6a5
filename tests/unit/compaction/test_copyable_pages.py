"""Which blocks of keys are alone, by the definition itself; and bounds that cannot be right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.compaction.copyable_pages import _alone, _Block, _tightened
from paimon_core.compaction.untouched import untouched


@st.composite
def blocks(draw: st.DrawFn) -> list[_Block]:
    """Sorted blocks of a few files; those of a file follow one another, apart or not."""
    found = []
    for file in range(draw(st.integers(1, 4))):
        bounds = sorted(draw(st.lists(st.integers(0, 30), min_size=2, max_size=8)))
        for i, (low, high) in enumerate(zip(bounds[::2], bounds[1::2], strict=False)):
            group = draw(st.sampled_from([0, 0, 0, 1, None]))
            found.append(_Block(file, range(i * 10, i * 10 + 10), (low,), (high,), group))
    return sorted(found, key=lambda b: (b.low, b.file, b.rows.start))


def overlaps(a: _Block, b: _Block) -> bool:
    return a.file != b.file and a.low <= b.high and b.low <= a.high


@given(blocks())
def test_spans_are_the_blocks_alone(some: list[_Block]) -> None:
    spans = list(_alone(some))
    for first, last in spans:
        assert len({(b.file, b.group) for b in some[first : last + 1]}) == 1
    inside = {i for first, last in spans for i in range(first, last + 1)}
    assert inside == {
        i
        for i, block in enumerate(some)
        if block.group is not None and not any(overlaps(block, other) for other in some)
    }


def block(low: int, high: int) -> _Block:
    return _Block(0, range(1), (low,), (high,), 0)


@pytest.mark.parametrize(
    ("found", "low", "high"),
    [
        ([(5, 9), (10, 12)], 4, 12),  # the file begins before its first page
        ([(5, 9), (10, 12)], 5, 13),  # it ends after its last page
        ([(5, 20), (8, 12)], 5, 25),
        ([(50, 60), (10, 12)], 50, 12),  # the pages are not in order
    ],
)
def test_bounds_that_contradict_the_file_are_not_used(
    found: list[tuple[int, int]], low: int, high: int
) -> None:
    assert _tightened([block(*b) for b in found], (low,), (high,)) == []


def test_bounds_follow_from_the_order_of_the_file() -> None:
    loose = [block(1, 20), block(10, 30), block(9, 40)]
    tight = _tightened(loose, (3,), (35,))
    assert [(b.low, b.high) for b in tight] == [((3,), (20,)), ((10,), (30,)), ((10,), (35,))]


def test_ranges_begin_and_end_at_borders() -> None:
    borders = [0, 10, 20, 30, 40, 50]

    def ranges(*deleted: int, least: int = 1, most: int = 1000) -> list[tuple[int, int]]:
        found = untouched(borders, np.array(deleted, np.int64), least=least, most=most)
        return [(r.start, r.stop) for r in found]

    assert ranges() == [(0, 50)]
    assert ranges(0) == [(10, 50)]
    assert ranges(15, 16, 49) == [(0, 10), (20, 40)]
    assert ranges(25, least=21) == []
    assert ranges(60, most=20) == [(0, 20), (20, 40), (40, 50)]
    assert ranges(*range(0, 50, 9)) == []
