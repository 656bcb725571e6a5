"""Hypothesis strategies for Paimon's types and for internal values of them."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from paimon_core.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from paimon_core.types.decimals import from_unscaled

R = TypeRoot

# Text that JSON, UTF-8 and Arrow hold: no lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NANOS = st.integers(-(2**63), 2**63 - 1)
INTEGERS = {R.TINYINT: 7, R.SMALLINT: 15, R.INT: 31, R.BIGINT: 63}


@st.composite
def atomic_types(draw: st.DrawFn) -> AtomicType:
    nullable = draw(st.booleans())
    kind = draw(st.sampled_from([r for r in R if r not in NOT_ATOMIC]))
    match kind:
        case R.CHAR | R.VARCHAR | R.BINARY | R.VARBINARY:
            length = draw(st.sampled_from([1, 7, 20, MAX_LENGTH]))
            return AtomicType(kind=kind, nullable=nullable, length=length)
        case R.DECIMAL:
            precision = draw(st.integers(1, 38))
            scale = draw(st.integers(0, precision))
            return AtomicType(kind=kind, nullable=nullable, precision=precision, scale=scale)
        case R.TIME | R.TIMESTAMP | R.TIMESTAMP_LTZ:
            return AtomicType(kind=kind, nullable=nullable, precision=draw(st.integers(0, 9)))
    return AtomicType(kind=kind, nullable=nullable)


NOT_ATOMIC = (R.ARRAY, R.MULTISET, R.MAP, R.ROW, R.VECTOR, R.VARIANT, R.BLOB)


def data_types(max_leaves: int = 6) -> st.SearchStrategy[DataType]:
    return st.recursive(atomic_types(), _nested, max_leaves=max_leaves)


def _nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    keys = atomic_types()
    return st.one_of(
        st.builds(ArrayType, nullable=st.booleans(), element=inner),
        st.builds(MultisetType, nullable=st.booleans(), element=keys),
        st.builds(MapType, nullable=st.booleans(), key=keys, value=inner),
        st.lists(inner, min_size=1, max_size=4).map(row_of),
    )


def row_of(types: list[DataType]) -> RowType:
    """A row of fields f0, f1, ... with ids from 0."""
    return RowType(fields=tuple(DataField(id=i, name=f"f{i}", type=t) for i, t in enumerate(types)))


def values(data_type: DataType) -> st.SearchStrategy[Any]:
    """Internal values of the type, None among them where it is nullable."""
    present = _values(data_type)
    return st.none() | present if data_type.nullable else present


def _values(t: DataType) -> st.SearchStrategy[Any]:
    match t:
        case AtomicType():
            return _atomic_values(t)
        case ArrayType():
            return st.lists(values(t.element), max_size=5)
        case MultisetType():
            return _pairs(t.element, st.integers(1, 9))
        case MapType():
            return _pairs(t.key, values(t.value))
        case RowType():
            return st.tuples(*map(values, t.types))
    raise AssertionError(t)


def _pairs(key: DataType, items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    # Arrow's maps know no null keys.
    pairs = st.tuples(_values(key), items)
    return st.lists(pairs, max_size=4, unique_by=lambda pair: repr(pair[0]))


def _atomic_values(t: AtomicType) -> st.SearchStrategy[Any]:
    match t.kind:
        case R.BOOLEAN:
            return st.booleans()
        case R.TINYINT | R.SMALLINT | R.INT | R.BIGINT:
            bound = 2 ** INTEGERS[t.kind]
            return st.integers(-bound, bound - 1)
        case R.FLOAT:
            return st.floats(width=32).map(_canonical_float)
        case R.DOUBLE:
            return st.floats().map(lambda v: float("nan") if v != v else v)  # noqa: PLR0124 - NaN
        case R.CHAR | R.VARCHAR:
            return TEXT
        case R.BINARY | R.VARBINARY:
            return st.binary(max_size=20)
        case R.DECIMAL:
            bound = 10 ** (t.precision or 0) - 1
            return st.integers(-bound, bound).map(lambda n: from_unscaled(n, t.scale or 0))
        case R.DATE:
            return st.integers(-(2**31), 2**31 - 1)
        case R.TIME:
            return st.integers(0, 86_399_999)
        case R.TIMESTAMP | R.TIMESTAMP_LTZ:
            step = 10 ** (9 - (t.precision or 0))
            return NANOS.map(lambda n: n // step * step).filter(lambda n: n >= -(2**63))
    raise AssertionError(t)


def _canonical_float(value: float) -> float:
    single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return float("nan") if single != single else single  # noqa: PLR0124 - NaN


def same(a: Any, b: Any) -> bool:
    """Equality in which NaN equals itself and the zeros differ."""
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("<d", a) == struct.pack("<d", b) or (a != a and b != b)  # noqa: PLR0124
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) and type(a) is type(b)
