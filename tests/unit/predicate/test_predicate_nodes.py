"""Building predicates, and trying them on single rows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from paimon_core.errors import InvalidArgument
from paimon_core.predicate import (
    FALSE,
    TRUE,
    And,
    Leaf,
    Op,
    Or,
    conjunction,
    disjunction,
    fields_of,
    from_oracle_filter,
    matches_row,
    negate,
    renamed,
    split_conjuncts,
)
from paimon_core.types.sql import parse_type

ROW = parse_type("ROW<a INT, s STRING, d DOUBLE, t DATE>")
A1, B2, C3 = (Leaf(Op.EQ, name, (n,)) for name, n in (("a", 1), ("b", 2), ("c", 3)))


def test_conjunctions_are_flat() -> None:
    assert conjunction([]) == TRUE
    assert conjunction([A1]) == A1
    assert conjunction([A1, And((B2, C3))]) == And((A1, B2, C3))
    assert split_conjuncts(And((A1, And((B2, Or((C3, A1))))))) == [A1, B2, Or((C3, A1))]
    assert split_conjuncts(TRUE) == []
    assert disjunction([]) == FALSE
    assert disjunction([A1, Or((B2, C3))]) == Or((A1, B2, C3))


def test_fields_and_renaming() -> None:
    predicate = And((A1, Or((B2, C3))))
    assert fields_of(predicate) == {"a", "b", "c"}
    assert fields_of(TRUE) == frozenset()
    assert fields_of(renamed(predicate, {"a": "x", "c": "b"})) == {"x", "b"}


@pytest.mark.parametrize(
    ("op", "literals", "matching", "other"),
    [
        (Op.EQ, (5,), 5, 6),
        (Op.NE, (5,), 6, 5),
        (Op.LT, (5,), 4, 5),
        (Op.LE, (5,), 5, 6),
        (Op.GT, (5,), 6, 5),
        (Op.GE, (5,), 5, 4),
        (Op.IN, (1, None, 5), 5, 6),
        (Op.NOT_IN, (1, 5), 6, 5),
        (Op.BETWEEN, (2, 5), 2, 6),
        (Op.NOT_BETWEEN, (2, 5), 1, 5),
        (Op.STARTS_WITH, ("ab",), "abc", "bab"),
        (Op.ENDS_WITH, ("ab",), "bab", "abc"),
        (Op.CONTAINS, ("b",), "abc", "ac"),
        (Op.LIKE, ("a_%c",), "abbc", "ac"),
        (Op.NOT_LIKE, ("a%",), "ba", "ab"),
    ],
)
def test_leaves(op: Op, literals: tuple[Any, ...], matching: Any, other: Any) -> None:
    leaf = Leaf(op, "x", literals)
    assert matches_row(leaf, {"x": matching})
    assert not matches_row(leaf, {"x": other})
    assert not matches_row(leaf, {"x": None})
    assert not matches_row(negate(leaf), {"x": matching})
    assert matches_row(negate(leaf), {"x": other}) == (None not in literals)
    assert not matches_row(negate(leaf), {"x": None})


@pytest.mark.parametrize("op", [Op.EQ, Op.NE, Op.LT, Op.GE, Op.LIKE, Op.NOT_LIKE, Op.CONTAINS])
def test_a_comparison_with_null_holds_for_nothing(op: Op) -> None:
    assert not matches_row(Leaf(op, "x", (None,)), {"x": "a"})


def test_null_tests() -> None:
    assert matches_row(Leaf(Op.IS_NULL, "x"), {"x": None})
    assert matches_row(negate(Leaf(Op.IS_NULL, "x")), {"x": 0})
    assert not matches_row(Leaf(Op.NOT_IN, "x", (1, None)), {"x": 5})
    assert matches_row(Leaf(Op.NOT_BETWEEN, "x", (5, None)), {"x": 4})
    assert not matches_row(Leaf(Op.NOT_BETWEEN, "x", (5, None)), {"x": 6})


def test_floats_are_in_javas_order() -> None:
    order = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for i, a in enumerate(order):
        for j, b in enumerate(order):
            assert matches_row(Leaf(Op.LT, "x", (b,)), {"x": a}) == (i < j)
            assert matches_row(Leaf(Op.EQ, "x", (b,)), {"x": a}) == (i == j)
            assert matches_row(Leaf(Op.IN, "x", (b,)), {"x": a}) == (i == j)


def test_text_and_binary_are_in_byte_order() -> None:
    # By UTF-16 units the first would be the smaller one.
    assert matches_row(Leaf(Op.GT, "x", ("\uff5e",)), {"x": "\U0001d11e"})
    assert matches_row(Leaf(Op.GT, "x", (b"\x7f",)), {"x": b"\x80"})


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a%", "a\nb", True),
        ("a_b", "a\nb", False),
        ("a_b", "a𝄞b", True),
        (r"10\%", "10%", True),
        (r"10\%", "10x", False),
        (r"a\\b", "a\\b", True),
        ("a.c", "abc", False),
        ("", "", True),
        ("%", "", True),
        ("a.*[b](c)", "a.*[b](c)", True),
    ],
)
def test_like(pattern: str, text: str, expected: bool) -> None:  # noqa: FBT001
    assert matches_row(Leaf(Op.LIKE, "x", (pattern,)), {"x": text}) is expected


def test_an_escape_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="LIKE"):
        matches_row(Leaf(Op.LIKE, "x", (r"a\b",)), {"x": "a"})


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({"field": "a", "op": "=", "value": 5}, Leaf(Op.EQ, "a", (5,))),
        ({"field": "t", "op": ">=", "value": "1970-01-02"}, Leaf(Op.GE, "t", (1,))),
        ({"field": "a", "op": "isNull"}, Leaf(Op.IS_NULL, "a")),
        ({"field": "s", "op": "startsWith", "value": "x"}, Leaf(Op.STARTS_WITH, "s", ("x",))),
        ({"field": "a", "op": "between", "value": [1, 2]}, Leaf(Op.BETWEEN, "a", (1, 2))),
        ({"field": "a", "op": "in", "value": [1, None]}, Leaf(Op.IN, "a", (1, None))),
        (
            {"or": [{"field": "a", "op": "<", "value": 1}, {"and": []}]},
            Or((Leaf(Op.LT, "a", (1,)), TRUE)),
        ),
    ],
)
def test_filters_of_the_oracle(obj: dict[str, Any], expected: Any) -> None:
    assert from_oracle_filter(obj, ROW) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "obj",
    [
        {"field": "z", "op": "="},
        {"field": "a", "op": "~"},
        {},
        {"field": "a", "op": "=", "value": "x"},
    ],
)
def test_filters_that_make_no_sense(obj: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        from_oracle_filter(obj, ROW)  # type: ignore[arg-type]
