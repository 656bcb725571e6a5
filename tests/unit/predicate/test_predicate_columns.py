"""Predicates over Arrow columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from paimon_core.errors import InvalidArgument
from paimon_core.predicate import (
    FALSE,
    TRUE,
    And,
    Leaf,
    Op,
    Or,
    evaluate,
    parse_where,
    to_arrow_expression,
)
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type


def rows_of(text: str, values: list[Any], op: Op, *literals: Any) -> list[Any]:
    data_type = parse_type(text)
    batch = pa.record_batch({"x": column_from_internal(values, data_type)})
    mask = evaluate(Leaf(op, "x", literals), batch).to_pylist()
    return [v for v, keep in zip(values, mask, strict=True) if keep]


NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "values", "op", "literals", "expected"),
    [
        ("INT", [1, None, 3], Op.GT, (1,), [3]),
        ("INT", [1, None, 3], Op.LT, (2**40,), [1, 3]),
        ("INT", [1, None, 3], Op.GT, (2**40,), []),
        ("INT", [1, None, 3], Op.NE, (2**40,), [1, 3]),
        ("INT", [1, None, 3], Op.GE, (-(2**40),), [1, 3]),
        ("INT", [1, None, 3], Op.IN, (3, None, 2**40), [3]),
        ("INT", [1, None, 3], Op.NOT_IN, (3, 2**40), [1]),
        ("INT", [1, None, 3], Op.NOT_IN, (3, None), []),
        ("INT", [1, None, 3], Op.NOT_IN, (), [1, 3]),
        ("INT", [1, None, 3], Op.IS_NULL, (), [None]),
        ("INT", [1, None, 3], Op.BETWEEN, (None, 5), []),
        ("INT", [1, None, 3], Op.NOT_BETWEEN, (None, 2), [3]),
        ("BOOLEAN", [True, False, None], Op.LT, (True,), [False]),
        ("DATE", [0, 5, None], Op.GE, (5,), [5]),
        ("TIME(3)", [0, 5, None], Op.EQ, (5,), [5]),
        ("STRING", ["a", "é", "\U0001d11e", None], Op.GT, ("\uff5e",), ["\U0001d11e"]),
        ("STRING", ["ab", "a\nb", None], Op.LIKE, ("a_b",), []),
        ("STRING", ["ab", "a\nb", None], Op.LIKE, ("a%b",), ["ab", "a\nb"]),
        ("STRING", ["a.c", "abc"], Op.LIKE, ("a.c",), ["a.c"]),
        ("STRING", ["ab", "b", None], Op.NOT_LIKE, ("a%",), ["b"]),
        ("STRING", ["ab", "b", None], Op.CONTAINS, (None,), []),
        ("BYTES", [b"\x80", b"\x7f"], Op.GT, (b"\x7f",), [b"\x80"]),
        ("TIMESTAMP(3)", [0, 1_000_000], Op.LT, (1,), [0]),
        ("TIMESTAMP(3)", [0, 1_000_000], Op.EQ, (1,), []),
        ("TIMESTAMP(3)", [0, 1_000_000], Op.NE, (1,), [0, 1_000_000]),
        ("TIMESTAMP(3)", [0, 1_000_000], Op.GE, (1,), [1_000_000]),
        ("TIMESTAMP(9)", [0, 1], Op.LT, (2**80,), [0, 1]),
        (
            "DECIMAL(4, 2)",
            [Decimal("1.50"), Decimal("1.51")],
            Op.GT,
            (Decimal("1.505"),),
            [Decimal("1.51")],
        ),
        ("DECIMAL(4, 2)", [Decimal("-1.50")], Op.LT, (Decimal("-1.495"),), [Decimal("-1.50")]),
        ("DECIMAL(4, 2)", [Decimal("1.50")], Op.LT, (Decimal("1E+9"),), [Decimal("1.50")]),
        (
            "DECIMAL(4, 2)",
            [Decimal("1.50")],
            Op.IN,
            (Decimal("1.5"), Decimal("1.501")),
            [Decimal("1.50")],
        ),
        (
            "DECIMAL(38, 0)",
            [Decimal(10**38 - 1)],
            Op.EQ,
            (Decimal(10**38 - 1),),
            [Decimal(10**38 - 1)],
        ),
        ("DOUBLE", [0.0, 1.0, None], Op.EQ, (-0.0,), []),
        ("DOUBLE", [-0.0, 1.0, None], Op.LT, (0.0,), [-0.0]),
        ("FLOAT", [0.5, 1.0], Op.GT, (0.1,), [0.5, 1.0]),
        ("FLOAT", [0.10000000149011612], Op.GT, (0.1,), [0.10000000149011612]),
        ("FLOAT", [0.10000000149011612], Op.LE, (0.1,), []),
        ("FLOAT", [0.5], Op.LT, (1e300,), [0.5]),
    ],
)
def test_leaves(text: str, values: list[Any], op: Op, literals: Any, expected: Any) -> None:
    assert rows_of(text, values, op, *literals) == expected


def test_nan_is_the_greatest_number() -> None:
    values = [1.0, NAN, float("inf")]
    assert str(rows_of("DOUBLE", values, Op.GT, float("inf"))) == "[nan]"
    assert str(rows_of("DOUBLE", values, Op.EQ, NAN)) == "[nan]"
    assert str(rows_of("DOUBLE", values, Op.IN, NAN, 1.0)) == "[1.0, nan]"


def test_tables_chunks_and_dictionaries() -> None:
    chunks = pa.chunked_array([["a", None], [], ["b"]])
    table = pa.table({"s": chunks, "d": chunks.dictionary_encode(), "f": [1.0, 2.0, NAN]})
    for name in ("s", "d"):
        assert evaluate(Leaf(Op.GE, name, ("b",)), table).to_pylist() == [False, False, True]
        assert evaluate(Leaf(Op.LIKE, name, ("a",)), table).to_pylist() == [True, False, False]
    assert evaluate(Leaf(Op.GE, "f", (2.0,)), table).to_pylist() == [False, True, True]
    empty = table.slice(0, 0)
    assert evaluate(Leaf(Op.GE, "f", (2.0,)), empty).to_pylist() == []


def test_and_or_and_constants() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2, None])})
    one, two = Leaf(Op.EQ, "a", (1,)), Leaf(Op.EQ, "a", (2,))
    assert evaluate(Or((one, two)), batch).to_pylist() == [True, True, False]
    assert evaluate(And((one, two)), batch).to_pylist() == [False] * 3
    assert evaluate(TRUE, batch).to_pylist() == [True] * 3
    assert evaluate(FALSE, batch).to_pylist() == [False] * 3


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InvalidArgument, match="'b'"):
        evaluate(Leaf(Op.EQ, "b", (1,)), pa.record_batch({"a": [1]}))


FIELDS = RowType(
    fields=tuple(
        DataField(id=i, name=n, type=parse_type(t))
        for i, (n, t) in enumerate([("a", "INT"), ("s", "STRING"), ("d", "DOUBLE")])
    )
)


@pytest.mark.parametrize(
    ("sql", "exact"),
    [
        ("a = 1 or s > 'b'", True),
        ("a in (1, 3) and s is not null", True),
        ("a between 1 and 2", True),
        ("a not between 1 and 2", True),
        ("a = 1 and d > 0", False),
        ("a = 1 or d > 0", None),
        ("s like 'a%'", None),
        ("a = null", None),
        ("false", True),
    ],
)
def test_expressions_hold_wherever_the_predicate_does(sql: str, exact: bool | None) -> None:  # noqa: FBT001
    predicate = parse_where(sql, FIELDS)
    table = pa.table(
        {"a": [1, 2, 3, None, 1], "s": ["a", "c", None, "d", "x"], "d": [1.0, NAN, -1.0, 2.0, 0.0]},
        schema=arrow_schema(FIELDS),
    )
    expression = to_arrow_expression(predicate, FIELDS)
    assert (expression is None) == (exact is None)
    mask = evaluate(predicate, table).to_pylist()
    if expression is not None:
        found = ds.dataset(table).to_table(filter=expression).to_pylist()
        expected = table.filter(pa.array(mask)).to_pylist()
        # As text: NaN is not equal to itself.
        assert {str(row) for row in expected} <= {str(row) for row in found}
        assert (str(found) == str(expected)) == exact
