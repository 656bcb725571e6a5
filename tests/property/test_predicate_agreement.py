"""Columns, rows, statistics and SQL agree about every predicate."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st
from type_strategies import atomic_types, row_of, values

from paimon_core.predicate import (
    And,
    Leaf,
    Op,
    Or,
    Predicate,
    evaluate,
    matches_row,
    may_match,
    negate,
    parse_where,
    to_sql,
)
from paimon_core.predicate.nodes import order_of
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot

COMPARISONS = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]
TEXTS = [Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS]


@st.composite
def tables(draw: st.DrawFn) -> tuple[RowType, dict[str, list[Any]], Predicate]:
    types = draw(st.lists(atomic_types(), min_size=1, max_size=3))
    row = row_of([t.with_nullable(True) for t in types])
    size = draw(st.integers(1, 6))
    # A few values a column, so that literals meet them.
    pools = {f.name: draw(st.lists(values(f.type), min_size=1, max_size=4)) for f in row.fields}
    held = {
        name: draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size))
        for name, pool in pools.items()
    }
    leaves = st.sampled_from(row.fields).flatmap(lambda f: _leaves(f, pools[f.name]))
    predicate = draw(
        st.recursive(
            leaves,
            lambda inner: (
                st.builds(And, st.lists(inner, max_size=3).map(tuple))
                | st.builds(Or, st.lists(inner, max_size=3).map(tuple))
            ),
            max_leaves=4,
        )
    )
    return row, held, predicate


def _leaves(field: DataField, pool: list[Any]) -> st.SearchStrategy[Leaf]:
    literal = st.sampled_from(pool) | values(field.type)
    ops = [
        st.builds(Leaf, st.sampled_from(COMPARISONS), st.just(field.name), st.tuples(literal)),
        st.builds(
            Leaf,
            st.sampled_from([Op.IN, Op.NOT_IN]),
            st.just(field.name),
            st.lists(literal, max_size=3).map(tuple),
        ),
        st.builds(
            Leaf,
            st.sampled_from([Op.BETWEEN, Op.NOT_BETWEEN]),
            st.just(field.name),
            st.tuples(literal, literal),
        ),
        st.builds(Leaf, st.sampled_from([Op.IS_NULL, Op.IS_NOT_NULL]), st.just(field.name)),
    ]
    if field.type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        part = literal.map(lambda s: s if s is None else s[:2])
        pattern = literal.map(
            lambda s: s if s is None else s.replace("\\", "")[:3] + "%_"[len(s) % 2]
        )
        ops += [
            st.builds(Leaf, st.sampled_from(TEXTS), st.just(field.name), st.tuples(part)),
            st.builds(
                Leaf,
                st.sampled_from([Op.LIKE, Op.NOT_LIKE]),
                st.just(field.name),
                st.tuples(pattern),
            ),
        ]
    return st.one_of(ops)


def as_rows(held: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(held, row, strict=True)) for row in zip(*held.values(), strict=True)]


def batch_of(row: RowType, held: dict[str, list[Any]]) -> pa.RecordBatch:
    return pa.record_batch({f.name: column_from_internal(held[f.name], f.type) for f in row.fields})


@given(tables())
def test_columns_agree_with_rows(table: tuple[RowType, dict[str, list[Any]], Predicate]) -> None:
    row, held, predicate = table
    batch = batch_of(row, held)
    for p in (predicate, negate(predicate)):
        assert evaluate(p, batch).to_pylist() == [matches_row(p, r) for r in as_rows(held)]


@given(tables())
def test_not_excludes(table: tuple[RowType, dict[str, list[Any]], Predicate]) -> None:
    _, held, predicate = table
    for r in as_rows(held):
        assert not (matches_row(predicate, r) and matches_row(negate(predicate), r))


@given(tables())
def test_statistics_never_deny_a_match(
    table: tuple[RowType, dict[str, list[Any]], Predicate],
) -> None:
    _, held, predicate = table
    rows = as_rows(held)

    def stats(name: str) -> tuple[Any, Any, int]:
        present = sorted((v for v in held[name] if v is not None), key=order_of)
        bounds = (present[0], present[-1]) if present else (None, None)
        return (*bounds, len(rows) - len(present))

    if any(matches_row(predicate, r) for r in rows):
        assert may_match(predicate, len(rows), stats)
        assert may_match(predicate, len(rows), lambda _: None)


@given(tables())
def test_sql_reads_back(table: tuple[RowType, dict[str, list[Any]], Predicate]) -> None:
    row, held, predicate = table
    # SQL text names no years beyond four digits.
    assume(all(_plain(f.type, v) for f in row.fields for v in _literals(predicate, f.name)))
    again = parse_where(to_sql(predicate, row), row)
    for r in as_rows(held):
        assert matches_row(again, r) == matches_row(predicate, r)


def _literals(predicate: Predicate, name: str) -> list[Any]:
    if isinstance(predicate, Leaf):
        return list(predicate.literals) if predicate.field == name else []
    return [v for child in predicate.children for v in _literals(child, name)]


def _plain(data_type: Any, value: Any) -> bool:
    assert isinstance(data_type, AtomicType)
    if data_type.kind is TypeRoot.DATE and value is not None:
        return -719_162 <= value < 2_932_897
    return True
