"""Paimon's types in Arrow, and columns to and from internal values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_core.errors import InvalidArgument
from paimon_core.types.arrow import (
    arrow_field,
    arrow_schema,
    arrow_type,
    column_from_internal,
    column_to_internal,
)
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CHAR(5)", pa.string()),
        ("BYTES", pa.binary()),
        ("TINYINT", pa.int8()),
        ("FLOAT", pa.float32()),
        ("DECIMAL(20, 3)", pa.decimal128(20, 3)),
        ("DATE", pa.date32()),
        ("TIME(9)", pa.time32("ms")),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP(4)", pa.timestamp("us")),
        ("TIMESTAMP(7)", pa.timestamp("ns")),
        ("TIMESTAMP_LTZ(3)", pa.timestamp("ms", tz="UTC")),
        ("BLOB", pa.binary()),
        ("ARRAY<INT>", pa.list_(pa.int32())),
        ("ARRAY<BLOB>", pa.list_(pa.binary())),
        ("MAP<STRING, INT>", pa.map_(pa.string(), pa.int32())),
        ("MULTISET<STRING>", pa.map_(pa.string(), pa.int32())),
        ("ROW<a INT NOT NULL> NOT NULL", pa.struct([("a", pa.int32())])),
        ("ROW<a INT, b STRING>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ],
)
def test_types(text: str, expected: pa.DataType) -> None:
    assert arrow_type(parse_type(text)) == expected


def test_field_ids_as_java_writes_them_to_parquet() -> None:
    data_type = parse_type("ARRAY<MAP<STRING, ROW<x INT>>>")
    field = arrow_field(DataField(id=3, name="a", type=data_type))
    base = (2**31 - 1) // 4
    ids = [field.metadata]
    element = field.type.value_field
    ids += [element.metadata, element.type.key_field.metadata, element.type.item_field.metadata]
    ids.append(element.type.item_type.field(0).metadata)
    assert [int(i[b"PARQUET:field_id"]) for i in ids] == [
        *(3, base + 3 * 1024 + 1, base - 3 * 1024 - 2, base + 3 * 1024 + 2, 0)
    ]


def test_schema_keeps_names_and_nullability() -> None:
    row = RowType(
        fields=(
            DataField(id=0, name="k", type=parse_type("INT NOT NULL")),
            DataField(id=1, name="v", type=parse_type("STRING")),
        )
    )
    schema = arrow_schema(row)
    assert schema.names == ["k", "v"]
    assert [f.nullable for f in schema] == [False, True]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("TIMESTAMP(3)", [0, -1_000_000, None, 253_402_300_799_999_000_000]),
        ("TIMESTAMP(6)", [-1_000, None]),
        ("TIMESTAMP(9)", [-1, 2**63 - 1]),
        ("DATE", [-719_162, None, 2**31 - 1]),
        ("TIME(3)", [0, 86_399_999]),
        ("ARRAY<ARRAY<INT>>", [[[1, None], None, []], None, []]),
        ("MAP<INT, STRING>", [[(1, "a"), (2, None)], None, []]),
        ("ROW<a INT, b ROW<c DATE>>", [(1, (3,)), (None, None), None]),
        ("ROW<>", [(), None]),
    ],
)
def test_columns_round_trip_whole_and_sliced(text: str, values: list[Any]) -> None:
    data_type = parse_type(text)
    column = column_from_internal(values, data_type)
    assert column.type == arrow_type(data_type)
    assert column_to_internal(column, data_type) == values
    assert column_to_internal(column.slice(1), data_type) == values[1:]
    assert column_to_internal(pa.chunked_array([column, column]), data_type) == values * 2


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="TINYINT"):
        column_from_internal([300], parse_type("TINYINT"))
    with pytest.raises(InvalidArgument, match=r"TIMESTAMP\(9\)"):
        column_from_internal([2**63], parse_type("TIMESTAMP(9)"))


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    import pyarrow.compute as pc

    raw = pa.array([b"\xffa", None])
    options = pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True)
    assert column_to_internal(raw.cast(options=options), parse_type("STRING")) == ["\ufffda", None]
