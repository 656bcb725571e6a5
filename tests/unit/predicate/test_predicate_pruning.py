"""What statistics say about a predicate."""

from __future__ import annotations

import math
from typing import Any

import pytest

from paimon_core.predicate import FALSE, TRUE, And, Leaf, Op, Or, may_match


def check(op: Op, literals: tuple[Any, ...], stats: Any, rows: int = 10) -> bool:
    return may_match(Leaf(op, "x", literals), rows, lambda _: stats)


@pytest.mark.parametrize(
    ("op", "literals", "expected"),
    [
        (Op.EQ, (5,), True),
        (Op.EQ, (4,), False),
        (Op.EQ, (10,), False),
        (Op.NE, (5,), True),
        (Op.LT, (5,), False),
        (Op.LT, (6,), True),
        (Op.LE, (5,), True),
        (Op.GT, (9,), False),
        (Op.GE, (9,), True),
        (Op.IN, (1, 2, None), False),
        (Op.IN, (1, 7), True),
        (Op.NOT_IN, (7,), True),
        (Op.NOT_IN, (7, None), False),
        (Op.BETWEEN, (1, 4), False),
        (Op.BETWEEN, (1, 5), True),
        (Op.BETWEEN, (10, 11), False),
        (Op.NOT_BETWEEN, (5, 9), False),
        (Op.NOT_BETWEEN, (6, 9), True),
        (Op.EQ, (None,), False),
        (Op.IS_NULL, (), True),
        (Op.IS_NOT_NULL, (), True),
    ],
)
def test_bounds(op: Op, literals: tuple[Any, ...], expected: bool) -> None:  # noqa: FBT001
    assert check(op, literals, (5, 9, 3)) is expected


def test_a_single_value() -> None:
    assert not check(Op.NE, (5,), (5, 5, 0))
    assert not check(Op.NOT_IN, (5, 6), (5, 5, 0))


def test_nulls() -> None:
    assert not check(Op.IS_NULL, (), (1, 2, 0))
    assert not check(Op.IS_NOT_NULL, (), (None, None, 10))
    assert not check(Op.EQ, (1,), (None, None, 10))
    assert check(Op.IS_NULL, (), (None, None, None))
    assert check(Op.IS_NOT_NULL, (), (None, None, None))


def test_the_unknown_may_match() -> None:
    assert check(Op.EQ, (1,), None)
    assert check(Op.EQ, (1,), (None, None, 0))
    assert check(Op.EQ, (1,), (None, 0, 0))
    assert not check(Op.EQ, (None,), None)
    assert not check(Op.IN, (), None)


def test_text() -> None:
    stats = ("abc", "abx", 0)
    assert check(Op.STARTS_WITH, ("ab",), stats)
    assert check(Op.STARTS_WITH, ("abd",), stats)
    assert not check(Op.STARTS_WITH, ("b",), stats)
    assert not check(Op.STARTS_WITH, ("aa",), stats)
    assert not check(Op.LIKE, ("b%",), stats)
    assert check(Op.LIKE, ("%b",), stats)
    assert check(Op.LIKE, ("ab_",), stats)
    assert check(Op.NOT_LIKE, ("ab%",), stats)
    assert check(Op.CONTAINS, ("zzz",), stats)


@pytest.mark.parametrize("op", [Op.GT, Op.GE, Op.NE])
def test_nan_may_hide_above_the_maximum(op: Op) -> None:
    # Some writers leave NaN out of the bounds, and NaN is greater than everything.
    assert check(op, (100.0,), (1.0, 5.0, 0))
    assert check(Op.EQ, (math.nan,), (1.0, 5.0, 0))


def test_floats_prune_where_nan_cannot_match() -> None:
    assert not check(Op.EQ, (100.0,), (1.0, 5.0, 0))
    assert not check(Op.LT, (1.0,), (1.0, math.nan, 0))
    assert not check(Op.BETWEEN, (6.0, 7.0), (1.0, 5.0, 0))
    assert not check(Op.IN, (0.5, 6.0), (1.0, 5.0, 0))
    assert check(Op.EQ, (100.0,), (1.0, math.nan, 0))
    assert check(Op.EQ, (1.0,), (math.nan, math.nan, 0))
    assert check(Op.EQ, (-0.0,), (0.0, 5.0, 0))
    assert check(Op.EQ, (0.0,), (-1.0, -0.0, 0))


def test_and_or() -> None:
    five = Leaf(Op.EQ, "x", (5,))
    six = Leaf(Op.EQ, "x", (6,))

    def stats(_: str) -> tuple[int, int, int]:
        return (5, 5, 0)

    assert not may_match(And((five, six)), 1, stats)
    assert may_match(Or((five, six)), 1, stats)
    assert not may_match(FALSE, 1, stats)
    assert may_match(TRUE, 1, stats)
    assert not may_match(TRUE, 0, stats)
    assert not may_match(five, 0, stats)
