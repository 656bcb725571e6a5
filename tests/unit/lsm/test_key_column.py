"""Digits against Java's order of values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples

from paimon_core.errors import UnsupportedFeature
from paimon_core.lsm.key_column import key_column
from paimon_core.lsm.key_order import KeyView, comparable, sort_rows, stored_key
from paimon_core.schema.table_schema import KeyType
from paimon_core.types.binary_row import encode_row
from paimon_core.types.buffers import bool_values, valid_rows
from paimon_core.types.data_types import TypeRoot
from tests.merge_model import KEY_VALUES, Record, atomic, kv_batch, row_type

# Each list ascends in Java's order; the types are those of the columns.
ASCENDING: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, -1, 0, 127]),
    (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    (pa.bool_(), [False, True]),
    (pa.float32(), [-math.inf, -1.5, 0.0, 1e-45, 1.0, math.inf, math.nan]),
    (pa.float64(), [-math.inf, -1e-300, 0.0, 5e-324, 1.0, math.inf, math.nan]),
    (pa.date32(), [-1, 0, 1]),
    (pa.time32("ms"), [0, 1, 86_399_999]),
    (pa.timestamp("us"), [-1, 0, 1]),
    (pa.decimal128(18, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("9.99")]),
    (
        pa.decimal128(38, 0),
        [Decimal(v) for v in (-(10**37), -(2**64) - 1, -(2**64), -1, 0, 2**63, 2**64, 10**37)],
    ),
    (
        pa.string(),
        [
            "",
            "a",
            "a\0",
            "a\0b",
            "ab",
            "abcdefgh",
            "abcdefgh\0",
            "abcdefghi",
            "b",
            "\uffff",
            "\U0001f600",
        ],
    ),
    (pa.large_string(), ["x" * 30, "x" * 30 + "a", "x" * 31]),
    (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
    (pa.binary(2), [b"\x00\xff", b"\x80\x00"]),
]


@pytest.mark.parametrize(("arrow_type", "values"), ASCENDING, ids=lambda v: str(v)[:20])
@pytest.mark.parametrize("offset", [0, 3])
def test_digits_order_as_java_does(arrow_type: pa.DataType, values: list[Any], offset: int) -> None:
    places = np.random.default_rng(5).permutation(len(values) * 3) % len(values)
    padding = [values[0]] * offset
    array = pa.array(padding + [values[i] for i in places], arrow_type).slice(offset)
    column = key_column(array)
    order, borders = sort_rows(column.digits())
    assert list(places[order]) == sorted(places)
    assert borders.sum() == len(values)
    if not pa.types.is_fixed_size_binary(arrow_type) or pa.types.is_decimal(arrow_type):
        ordered = [column.value(int(i)) for i in order]
        assert ordered == sorted(ordered)


@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()])
def test_zeros_are_one_value_unless_signed(arrow_type: pa.DataType) -> None:
    array = pa.array([-1e-40, -0.0, 0.0, 1e-40, math.nan], arrow_type)
    digits = list(key_column(array).digits()[0](None))
    assert digits[1] == digits[2]
    digits = list(key_column(array, signed_zeros=True).digits()[0](None))
    assert digits == sorted(set(digits))


def test_a_key_type_says_whether_zeros_are_signed() -> None:
    double = atomic(TypeRoot.DOUBLE, nullable=False)
    for signed in (False, True):
        key = KeyType(fields=row_type(k=double).fields, signed_zeros=signed)
        low, high = (stored_key(encode_row([v], [double]), key) for v in (-0.0, 0.0))
        assert (low < high) == signed
        assert (low == high) != signed
        view = KeyView(kv_batch([Record(0, 0, {"k": -0.0})], key), key)
        assert view.at(0) == low


def test_a_known_prefix_is_skipped() -> None:
    values = [f"some/long/prefix/{i:03d}" for i in (3, 1, 2)]
    order, _ = sort_rows(key_column(pa.array(values)).digits(skip=17))
    assert list(order) == [1, 2, 0]


def test_values_under_nulls_do_not_matter() -> None:
    array = pa.array([5, None, 7, None], pa.int32())
    assert list(key_column(array).digits()[0](None)) == [5, 0, 7, 0]
    assert list(valid_rows(array)) == [True, False, True, False]
    assert list(valid_rows(array.slice(1))) == [False, True, False]


def test_booleans_of_a_slice() -> None:
    array = pa.array([i % 3 == 0 for i in range(40)])
    assert list(bool_values(array.slice(13, 20))) == [i % 3 == 0 for i in range(13, 33)]


def test_types_without_order_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="list"):
        key_column(pa.array([[1]]))


@pytest.mark.parametrize("kind", KEY_VALUES)
@given(data=st.data())
@settings(max_examples=examples(10), deadline=None)
def test_stored_keys_compare_with_keys_of_batches(kind: str, data: st.DataObject) -> None:
    data_type, strategy = KEY_VALUES[kind]
    fields = row_type(k=data_type)
    value = data.draw(strategy)
    view = KeyView(kv_batch([Record(0, 0, {"k": value})], fields), fields)
    assert view.at(0) == stored_key(encode_row([value], [data_type]), fields)
    assert view.at(0) == (comparable(value, data_type),)


def test_lower_bound() -> None:
    fields = row_type(a=atomic(TypeRoot.INT, nullable=False), b=atomic(TypeRoot.INT))
    rows = [Record(0, 0, {"a": a, "b": b}) for a, b in [(1, None), (1, 4), (2, 0), (2, 5)]]
    view = KeyView(kv_batch(rows, fields), fields)
    assert view.lower_bound((1, ())) == 0
    assert view.lower_bound((1, (0,))) == 1
    assert view.lower_bound((2, (1,))) == 3
    assert view.lower_bound((2, (9,)), 1) == 4
