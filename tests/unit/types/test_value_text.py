"""Values as JSON, and partition values as names of folders."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.arrow import arrow_schema, column_from_internal
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.json_columns import batch_to_json_rows, json_column
from paimon_core.types.json_values import from_json_value, json_value
from paimon_core.types.partition_text import parse_partition_text, partition_text
from paimon_core.types.sql import parse_type

JSON_CASES = [
    ("BOOLEAN", True, True),
    ("BIGINT", -(2**63), -(2**63)),
    ("FLOAT", 0.10000000149011612, 0.1),
    ("DOUBLE", -0.0, -0.0),
    ("DOUBLE", math.inf, "Infinity"),
    ("DECIMAL(38, 10)", Decimal("0E-10"), "0.0000000000"),
    ("DECIMAL(9, 2)", Decimal("-1.20"), "-1.20"),
    ("STRING", "日本", "日本"),
    ("BYTES", b"\x00\xff", "00ff"),
    ("DATE", 19_753, "2024-01-31"),
    ("DATE", -719_529, "-0001-12-31"),
    ("DATE", 2_932_897, "+10000-01-01"),
    ("TIME(0)", 45_296_789, "12:34:56.789"),
    ("TIMESTAMP(0)", -1_000_000_000, "1969-12-31T23:59:59"),
    ("TIMESTAMP(2)", 10_000_000, "1970-01-01T00:00:00.01"),
    ("TIMESTAMP(9)", -1, "1969-12-31T23:59:59.999999999"),
    ("TIMESTAMP_LTZ(6)", 1_000, "1970-01-01T00:00:00.000001Z"),
    ("ARRAY<DATE>", [0, None], ["1970-01-01", None]),
    ("MAP<STRING, INT>", [("b", 1), ("a", None)], [["a", None], ["b", 1]]),
    ("MAP<INT, INT>", [(2, 1), (12, 1), (1, 0)], [[1, 0], [12, 1], [2, 1]]),
    ("MULTISET<STRING>", [("x", 3)], [["x", 3]]),
    ("ROW<a INT, b BYTES>", (None, b"a"), {"a": None, "b": "61"}),
]


@pytest.mark.parametrize(("text", "value", "expected"), JSON_CASES)
def test_json_of_single_values_and_of_columns(text: str, value: Any, expected: Any) -> None:
    data_type = parse_type(text)
    assert json.dumps(json_value(value, data_type)) == json.dumps(expected)
    column = column_from_internal([value, None], data_type)
    assert json.dumps(json_column(column, data_type)) == json.dumps([expected, None])


@pytest.mark.parametrize(("text", "value", "expected"), JSON_CASES)
def test_json_reads_back(text: str, value: Any, expected: Any) -> None:
    data_type = parse_type(text)
    again = from_json_value(expected, data_type)
    if text.startswith("M"):
        again, value = dict(again), dict(value)
    assert again == value


def test_nan() -> None:
    assert json_value(math.nan, parse_type("DOUBLE")) == "NaN"
    assert math.isnan(from_json_value("NaN", parse_type("FLOAT")))
    assert json_column(pa.array([math.nan, 1.5]), parse_type("DOUBLE")) == ["NaN", 1.5]


def test_pairs_are_sorted_by_utf16_as_in_java() -> None:
    # U+1D11E is a surrogate pair in UTF-16 and sorts before U+FF5E there.
    pairs = [("\uff5e", 1), ("\U0001d11e", 2)]
    assert json_value(pairs, parse_type("MAP<STRING, INT>"))[0][0] == "\U0001d11e"


def test_map_keys_of_floats_sort_by_javas_text() -> None:
    pairs = [(1e10, 1), (2.0, 2)]
    assert json_value(pairs, parse_type("MAP<DOUBLE, INT>")) == [[1e10, 1], [2.0, 2]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("INT", 2**31),
        ("INT", "x"),
        ("DATE", "2024-02-30"),
        ("TIMESTAMP(3)", "2024-01-31"),
        ("DECIMAL(3, 2)", "10.00"),
        ("BYTES", "0"),
        ("ROW<a INT>", [1, 2]),
        ("ARRAY<INT>", 5),
    ],
)
def test_json_of_another_type_is_refused(text: str, value: Any) -> None:
    with pytest.raises(InvalidArgument):
        from_json_value(value, parse_type(text))


def test_rows_of_a_batch() -> None:
    row = RowType(
        fields=(
            DataField(id=0, name="a", type=parse_type("INT")),
            DataField(id=1, name="b", type=parse_type("TIMESTAMP(3)")),
        )
    )
    columns = [pa.array([1, None], pa.int32()), column_from_internal([0, None], row.fields[1].type)]
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(row))
    expected = [[1, "1970-01-01T00:00:00.000"], [None, None]]
    assert list(batch_to_json_rows(batch, row)) == expected
    assert list(batch_to_json_rows(pa.Table.from_batches([batch, batch]), row)) == expected * 2
    assert list(batch_to_json_rows(batch, row.project(["b"]))) == [[r[1]] for r in expected]
    assert list(batch_to_json_rows(batch, RowType())) == [[], []]


PARTITIONS = [
    ("STRING", "a b", "a b", "a b"),
    ("INT", -5, "-5", "-5"),
    ("BOOLEAN", True, "true", "true"),
    ("DATE", 19_723, "19723", "2024-01-01"),
    ("TIME(3)", 45_296_780, "45296780", "12:34:56.78"),
    ("TIMESTAMP(3)", 0, "1970-01-01T00:00", "1970-01-01 00:00:00.000"),
    ("TIMESTAMP(6)", 1_123_456_000, "1970-01-01T00:00:01.123456", "1970-01-01 00:00:01.123456"),
    ("TIMESTAMP(0)", 60_000_000_000, "1970-01-01T00:01", "1970-01-01 00:01:00"),
    ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
    ("FLOAT", 0.10000000149011612, "0.1", "0.1"),
    ("DECIMAL(9, 2)", Decimal("1.20"), "1.20", "1.20"),
]


@pytest.mark.parametrize(("text", "value", "legacy", "new"), PARTITIONS)
def test_partition_names(text: str, value: Any, legacy: str, new: str) -> None:
    data_type = parse_type(text)
    assert partition_text(value, data_type, legacy_name=True) == legacy
    assert partition_text(value, data_type, legacy_name=False) == new


@pytest.mark.parametrize(("text", "value", "legacy", "new"), PARTITIONS)
def test_partition_names_of_both_kinds_read_back(
    text: str, value: Any, legacy: str, new: str
) -> None:
    data_type = parse_type(text)
    assert parse_partition_text(new, data_type) == value
    assert parse_partition_text(legacy, data_type) == value


@pytest.mark.parametrize("value", [None, "", "  \t", "\u3000"])
def test_null_and_blank_have_no_name_of_their_own(value: str | None) -> None:
    assert partition_text(value, parse_type("STRING"), legacy_name=True) is None


def test_a_no_break_space_is_a_name_in_java() -> None:
    assert partition_text("\u00a0", parse_type("STRING"), legacy_name=True) == "\u00a0"


def test_binary_partitions_have_names_only_in_the_new_style() -> None:
    assert partition_text(b"abc", parse_type("BYTES"), legacy_name=False) == "abc"
    with pytest.raises(UnsupportedFeature, match="partition columns of type BYTES"):
        partition_text(b"abc", parse_type("BYTES"), legacy_name=True)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("INT", t) for t in ("x", "2024_01_01", "1_0", " 1", "1 ", "", "+", "1.0", "2147483648")),
        *(("TINYINT", t) for t in ("128", "-129")),
        *(("DOUBLE", t) for t in ("nan", "inf", "-inf", "infinity", "1_0", "", "0x1")),
        *(("FLOAT", t) for t in ("nan", "inf", "1_0", "0.123456789012", "16777217")),
        *(("DECIMAL(9, 2)", t) for t in ("nan", "NaN", "inf", "1_0", " 1", "1e", ".", "99999999")),
        *(("DATE", t) for t in ("2024-13-01", "2024_01_01", "99999999999", "2024-01-\u00a01")),
        *(("TIME", t) for t in ("1_0", "99999999999", "x")),
        *(
            ("TIMESTAMP(3)", t)
            for t in ("2024_01_01", "9223372036854775808", "2024-01-01 25:00:00")
        ),
        ("BOOLEAN", "maybe"),
        ("VARCHAR(2)", "abc"),
        ("INT", "1" * 5000),
    ],
)
def test_a_name_of_another_type_is_refused(text: str, name: str) -> None:
    with pytest.raises(InvalidArgument, match="not a value of the type"):
        parse_partition_text(name, parse_type(text))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("INT", "+5", 5),
        ("INT", "007", 7),
        ("INT", "\u0661\u0662", 12),  # digits of other scripts, as Java's `Integer.valueOf`
        ("DOUBLE", " 1.5d ", 1.5),
        ("DOUBLE", "0x1p3", 8.0),
        ("DOUBLE", "-Infinity", float("-inf")),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("DECIMAL(9, 2)", "1e3", Decimal("1000.00")),
        ("DECIMAL(9, 2)", "1.005", Decimal("1.01")),
        ("DATE", "2024-1-5", 19_727),
        ("DATE", "19727", 19_727),
        ("TIME(3)", "1:2", 3_720_000),
    ],
)
def test_names_are_read_as_java_reads_them(text: str, name: str, value: Any) -> None:
    assert parse_partition_text(name, parse_type(text)) == value
