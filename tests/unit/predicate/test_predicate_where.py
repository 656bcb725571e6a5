"""Conditions in SQL."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from paimon_core.errors import InvalidArgument
from paimon_core.predicate import FALSE, TRUE, And, Leaf, Op, Or, matches_row, parse_where, to_sql
from paimon_core.types.data_types import RowType
from paimon_core.types.sql import parse_type

ROW = parse_type(
    "ROW<a INT, b BIGINT, s STRING, d DOUBLE, f FLOAT, m DECIMAL(10, 2), dt DATE, ts TIMESTAMP(3), "
    "z TIMESTAMP_LTZ(3), tm TIME(3), x BYTES, flag BOOLEAN, `odd name` INT, `date` STRING, "
    "arr ARRAY<INT>>"
)
assert isinstance(ROW, RowType)


def leaf(op: Op, field: str, *literals: Any) -> Leaf:
    return Leaf(op, field, literals)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a = 5", leaf(Op.EQ, "a", 5)),
        ("A == 5", leaf(Op.EQ, "a", 5)),
        ("5 < a", leaf(Op.GT, "a", 5)),
        ("a <> -5", leaf(Op.NE, "a", -5)),
        ("a != + 5", leaf(Op.NE, "a", 5)),
        ("`odd name`>=1", leaf(Op.GE, "odd name", 1)),
        ('"odd name" <= 1', leaf(Op.LE, "odd name", 1)),
        ("s = 'it''s'", leaf(Op.EQ, "s", "it's")),
        ("date = 'x'", leaf(Op.EQ, "date", "x")),
        ("a = '7'", leaf(Op.EQ, "a", 7)),
        ("a is null", leaf(Op.IS_NULL, "a")),
        ("a IS NOT NULL", leaf(Op.IS_NOT_NULL, "a")),
        ("a in (1, 2, null)", leaf(Op.IN, "a", 1, 2, None)),
        ("a not in (1)", leaf(Op.NOT_IN, "a", 1)),
        ("s like 'a%'", leaf(Op.LIKE, "s", "a%")),
        ("s not like 'a!%' escape '!'", leaf(Op.NOT_LIKE, "s", r"a\%")),
        ("s like 'a!!b' escape '!'", leaf(Op.LIKE, "s", "a!b")),
        ("d = 1e3", leaf(Op.EQ, "d", 1000.0)),
        ("f = 0.1", leaf(Op.EQ, "f", 0.10000000149011612)),
        ("m > 1.5", leaf(Op.GT, "m", Decimal("1.50"))),
        ("m > 1.555", leaf(Op.GT, "m", Decimal("1.555"))),
        ("dt = '2024-01-31'", leaf(Op.EQ, "dt", 19_753)),
        ("dt >= DATE '1970-01-02'", leaf(Op.GE, "dt", 1)),
        ("dt between date '1970-01-02' and '1970-01-03'", leaf(Op.BETWEEN, "dt", 1, 2)),
        ("dt not between '1970-01-02' and '1970-01-03'", leaf(Op.NOT_BETWEEN, "dt", 1, 2)),
        ("ts = TIMESTAMP '1970-01-01 00:00:01'", leaf(Op.EQ, "ts", 10**9)),
        ("ts = '1970-01-01T00:00:00.5'", leaf(Op.EQ, "ts", 5 * 10**8)),
        ("ts = date '1970-01-02'", leaf(Op.EQ, "ts", 86_400 * 10**9)),
        ("z = timestamp '1970-01-01T00:00:01Z'", leaf(Op.EQ, "z", 10**9)),
        ("tm = time '00:00:01'", leaf(Op.EQ, "tm", 1000)),
        ("x = X'cafe'", leaf(Op.EQ, "x", b"\xca\xfe")),
        ("flag", leaf(Op.EQ, "flag", True)),
        ("not flag", leaf(Op.NE, "flag", True)),
        ("flag = false", leaf(Op.EQ, "flag", False)),
        ("1 = 1", TRUE),
        ("'a' > 'b'", FALSE),
        ("true", TRUE),
        ("not true", FALSE),
        ("a = null", leaf(Op.EQ, "a", None)),
        ("a > 5.5", leaf(Op.GT, "a", 5)),
        ("a <= 5.5", leaf(Op.LE, "a", 5)),
        ("a < -5.5", leaf(Op.LE, "a", -6)),
        ("a = 5.5", leaf(Op.IN, "a")),
        ("a <> 5.5", leaf(Op.NOT_IN, "a")),
        ("a in (1, 1.5)", leaf(Op.IN, "a", 1)),
        ("a between 1.5 and 3", And((leaf(Op.GT, "a", 1), leaf(Op.LE, "a", 3)))),
    ],
)
def test_tests(sql: str, expected: Any) -> None:
    assert parse_where(sql, ROW) == expected  # type: ignore[arg-type]


def test_and_binds_stronger_than_or_and_not_is_pushed_down() -> None:
    parsed = parse_where("a = 1 or a = 2 and not (s = 'x' or b is null)", ROW)  # type: ignore[arg-type]
    expected = Or(
        (
            leaf(Op.EQ, "a", 1),
            And((leaf(Op.EQ, "a", 2), leaf(Op.NE, "s", "x"), leaf(Op.IS_NOT_NULL, "b"))),
        )
    )
    assert parsed == expected


@pytest.mark.parametrize(
    "sql",
    [
        *("", "a", "a =", "a = 5 5", "nope = 1", "a = 'x'", "s = 5", "a = 1 and", "(a = 1"),
        *("a in ()", "a between 1", "a like 'x'", "s like 5", "arr = 1", "arr[0] = 1", "s.x = 'a'"),
        *("dt = '2024-13-01'", "dt = 5", "ts = 'yesterday'", "x = 'abc'", "x = X'0'", "not"),
        *(
            "a is 5",
            "a = 1; drop",
            "s = 'open",
            "flag = 'maybe'",
            "1 = 'a'",
            "a not 5",
            "m = 'NaN'",
            "a < 1e999999999",
            "m > 1e-999999999",
            "a in (1, '-1e999999999')",
        ),
        *("s like 'a' escape 'xy'", "tm = 'x'", "1", "null"),
    ],
)
def test_what_cannot_be_read_is_refused(sql: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_where(sql, ROW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sql",
    [
        "not (a = null)",
        "not (a in (1, null))",
        "not (a = 5.5)",
        "not (a <> 5.5)",
        "not (s like 'x%')",
    ],
)
def test_not_leaves_nulls_out(sql: str) -> None:
    predicate = parse_where(sql, ROW)  # type: ignore[arg-type]
    assert not matches_row(predicate, {"a": None, "s": None})


@pytest.mark.parametrize(
    "sql",
    [
        *("a = 5", "`odd name` > 1 AND (a = 1 OR s <> 'it''s')", "dt = DATE '2024-01-31'"),
        *("ts >= TIMESTAMP '2024-01-31 12:00:00.5'", "tm < TIME '12:34:56.789'", "x = X'cafe'"),
        *("m IN (1.50, NULL)", "s NOT LIKE 'a%'", "flag = TRUE", "TRUE", "FALSE", "d = 'Infinity'"),
        *("a NOT BETWEEN 1 AND 2 OR b IS NULL", "z = TIMESTAMP '2024-01-31 12:00:00'"),
    ],
)
def test_printing_reads_back(sql: str) -> None:
    parsed = parse_where(sql, ROW)  # type: ignore[arg-type]
    printed = to_sql(parsed, ROW)  # type: ignore[arg-type]
    assert parse_where(printed, ROW) == parsed  # type: ignore[arg-type]


def test_what_sql_writes_as_like() -> None:
    assert to_sql(leaf(Op.STARTS_WITH, "s", "10%")) == r"s LIKE '10\%%'"
    assert to_sql(leaf(Op.CONTAINS, "s", "x")) == "s LIKE '%x%'"
    assert to_sql(leaf(Op.IN, "a")) == "FALSE"
    assert to_sql(leaf(Op.NOT_IN, "a")) == "a IS NOT NULL"
