"""Types and values survive every form in which Paimon holds them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from type_strategies import data_types, same, values

from paimon_core.types.arrow import arrow_type, column_from_internal, column_to_internal
from paimon_core.types.binary_row import decode_row, encode_row
from paimon_core.types.binary_rows import encode_rows
from paimon_core.types.data_types import DataType
from paimon_core.types.json_columns import json_column
from paimon_core.types.json_values import from_json_value, json_value
from paimon_core.types.row_hash import hash_rows, murmur_hash
from paimon_core.types.sql import parse_type, type_from_json, type_to_json, type_to_sql


@given(data_types())
def test_types_as_sql_and_json(data_type: DataType) -> None:
    assert type_from_json(json.loads(json.dumps(type_to_json(data_type)))) == data_type
    assert type_to_sql(parse_type(type_to_sql(data_type))) == type_to_sql(data_type)


@st.composite
def columns(draw: st.DrawFn) -> tuple[DataType, list[Any]]:
    data_type = draw(data_types(max_leaves=4))
    return data_type, draw(st.lists(values(data_type), min_size=1, max_size=6))


@given(columns())
def test_columns_in_arrow(column: tuple[DataType, list[Any]]) -> None:
    data_type, held = column
    array = column_from_internal(held, data_type)
    array.validate(full=True)
    assert array.type == arrow_type(data_type)
    assert same(column_to_internal(array, data_type), held)


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[DataType], list[list[Any]]]:
    types = draw(st.lists(data_types(max_leaves=3), min_size=1, max_size=8))
    return types, draw(st.lists(st.tuples(*map(values, types)).map(list), min_size=1, max_size=5))


@given(rows())
def test_binary_rows_by_rows_and_by_columns(held: tuple[list[DataType], list[list[Any]]]) -> None:
    types, table = held
    stored = [encode_row(row, types) for row in table]
    for row, data in zip(table, stored, strict=True):
        assert same(decode_row(data, types), tuple(row))
        assert len(data) % 8 == 4
    arrays = [column_from_internal([row[i] for row in table], t) for i, t in enumerate(types)]
    assert encode_rows(arrays, types) == stored
    assert hash_rows(arrays, types).tolist() == [murmur_hash(data[4:]) for data in stored]


@given(columns())
def test_json(column: tuple[DataType, list[Any]]) -> None:
    data_type, held = column
    one_by_one = [json_value(v, data_type) for v in held]
    at_once = json_column(column_from_internal(held, data_type), data_type)
    assert json.dumps(one_by_one) == json.dumps(at_once)
    again = [from_json_value(v, data_type) for v in json.loads(json.dumps(at_once))]
    assert json.dumps([json_value(v, data_type) for v in again]) == json.dumps(at_once)
