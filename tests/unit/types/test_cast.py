"""Casts, against what Java read after `ALTER TABLE` had changed the type of a column."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from cast_cases import FAILED, VALUES

from paimon_core.errors import SchemaError
from paimon_core.types.arrow import arrow_type, column_from_internal, column_to_internal
from paimon_core.types.cast import can_cast, can_evolve, cast_column, parse_default
from paimon_core.types.cast_rules import rule_for
from paimon_core.types.data_types import DataType
from paimon_core.types.json_columns import json_column
from paimon_core.types.json_values import from_json_value
from paimon_core.types.sql import parse_type, type_from_json

RECORDED = Path(__file__).with_name("java_casts.jsonl")

# Where this program ends and Java goes on: Arrow's nanoseconds, days of more than 32 bits.
BEYOND_ARROW = ("9999-12-31", "0001-01-01", "0001-01-01 00:00:00", "9223372036854775807")


@cache
def java_results() -> dict[tuple[str, str], Any]:
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return {(source, target): results for source, target, results in map(json.loads, lines)}


def cast(values: list[Any], source: DataType, target: DataType, **options: Any) -> list[Any]:
    column = column_from_internal([from_json_value(v, source) for v in values], source)
    result = cast_column(column, source, target, **options)
    # In full but for casts from bytes, which need not be UTF-8, and to times beyond a day.
    result.validate(full=target.root not in ("VARCHAR", "CHAR", "TIME"))
    assert result.type == arrow_type(target)
    return json_column(result, target)


def agrees(ours: Any, java: Any, target: str) -> bool:
    if target == "FLOAT" and isinstance(ours, float) and isinstance(java, float):
        return np.float32(ours) == np.float32(java)
    return json.dumps(ours) == json.dumps(java)


@pytest.mark.parametrize("source", VALUES)
def test_every_change_of_type_reads_as_in_java(source: str) -> None:
    compared = 0
    for (from_type, to_type), results in java_results().items():
        if from_type != source:
            continue
        s, t = parse_type(source), parse_type(to_type)
        assert can_evolve(s, t) == (results is not None), to_type
        for value, java in zip(VALUES[source], results or [], strict=False):
            try:
                (ours,) = cast([value], s, t)
            except SchemaError:
                assert java == FAILED or (value in BEYOND_ARROW and t.root == "TIMESTAMP"), (
                    to_type,
                    value,
                )
                continue
            if java == FAILED:
                # Java keeps times beyond a day too; only printing them fails.
                assert to_type.startswith("TIME("), (to_type, value, ours)
            elif value not in BEYOND_ARROW or not to_type.startswith("TIMESTAMP"):
                assert agrees(ours, java, to_type), (to_type, value, ours, java)
            compared += 1
    assert compared > 0 or source == "MULTISET<STRING>"


@pytest.mark.parametrize("source", [s for s in VALUES if s != "STRING"])
def test_columns_are_cast_as_their_values_are(source: str) -> None:
    for (from_type, to_type), results in java_results().items():
        if from_type == source and results is not None and FAILED not in results:
            s, t = parse_type(source), parse_type(to_type)
            values = [
                v for v in VALUES[source] if v not in BEYOND_ARROW or to_type != "TIMESTAMP(9)"
            ]
            values = [v for v in values if not (source == "BIGINT" and "TIMESTAMP" in to_type)]
            one_by_one = [cast([v], s, t)[0] for v in values]
            assert json.dumps(cast(values, s, t)) == json.dumps(one_by_one)


def test_nulls_stay_and_cost_nothing() -> None:
    s, t = parse_type("STRING"), parse_type("INT")
    assert cast([None, "5", None], s, t) == [None, 5, None]
    assert cast([None], s, t) == [None]
    assert cast([], s, t) == []


def test_what_lies_under_a_null_is_not_cast() -> None:
    s, t = parse_type("ROW<a STRING>"), parse_type("ROW<a INT>")
    hidden = pa.StructArray.from_arrays(
        [pa.array(["no number", "5"])], fields=list(arrow_type(s)), mask=pa.array([True, False])
    )
    assert column_to_internal(cast_column(hidden, s, t), t) == [None, (5,)]
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array(["no number", "5"]), mask=pa.array([True, False])
    )
    ints = cast_column(lists, parse_type("ARRAY<STRING>"), parse_type("ARRAY<INT>"))
    assert ints.to_pylist() == [None, [5]]


def row(*fields: tuple[int, str, str]) -> DataType:
    return type_from_json(
        {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in fields]}
    )


def test_fields_of_rows_are_matched_by_id() -> None:
    source = row((1, "a", "INT"), (2, "b", "STRING"), (3, "gone", "INT"))
    target = row((2, "renamed", "STRING"), (9, "added", "DATE"), (1, "a", "BIGINT"))
    column = column_from_internal([(1, "x", 5), None, (None, None, 6)], source)
    result = cast_column(column, source, target)
    assert column_to_internal(result, target) == [("x", None, 1), None, (None, None, None)]
    assert column_to_internal(cast_column(column.slice(1), source, target), target) == [
        None,
        (None, None, None),
    ]


@pytest.mark.parametrize(
    ("source", "target", "value", "expected"),
    [
        ("ARRAY<INT>", "ARRAY<BIGINT>", [1, None], [1, None]),
        ("ARRAY<ARRAY<STRING>>", "ARRAY<ARRAY<INT>>", [["1"], None, []], [[1], None, []]),
        ("MAP<STRING, INT>", "MAP<STRING, STRING>", [("k", 5)], [("k", "5")]),
        ("MAP<INT, ARRAY<INT>>", "MAP<INT, ARRAY<DOUBLE>>", [(1, [2])], [(1, [2.0])]),
        ("ROW<a ARRAY<ROW<b INT>>>", "ROW<a ARRAY<ROW<b STRING>>>", ([(1,)],), ([("1",)],)),
    ],
)
def test_nested_changes(source: str, target: str, value: Any, expected: Any) -> None:
    s, t = parse_type(source), parse_type(target)
    column = column_from_internal([None, value, value], s)
    for shown in (column, column.slice(1), pa.chunked_array([column, column])):
        wanted = [None if v is None else expected for v in column_to_internal(shown, s)]
        result = cast_column(shown, s, t)
        assert column_to_internal(result, t) == wanted
        assert result.type == arrow_type(t)


def test_keys_of_maps_cannot_change() -> None:
    s, t = parse_type("MAP<INT, INT>"), parse_type("MAP<BIGINT, BIGINT>")
    with pytest.raises(SchemaError, match="keys differ"):
        cast_column(column_from_internal([[(1, 1)]], s), s, t)


def test_no_way_and_no_number() -> None:
    with pytest.raises(SchemaError, match="no cast from INT to DATE"):
        cast([1], parse_type("INT"), parse_type("DATE"))
    with pytest.raises(SchemaError, match="'x'"):
        cast(["x"], parse_type("STRING"), parse_type("INT"))
    assert rule_for(parse_type("MULTISET<INT>"), parse_type("STRING")) is None


def test_local_time_zones_are_shown_on_the_clock_of_the_zone() -> None:
    ltz, plain, text = map(parse_type, ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3)", "STRING"))
    zone = ZoneInfo("Europe/Berlin")
    moment = ["2024-07-01T22:30:00.000Z"]
    assert cast(moment, ltz, plain, zone=zone) == ["2024-07-02T00:30:00.000"]
    assert cast(moment, ltz, text, zone=zone) == ["2024-07-02 00:30:00.000"]
    assert cast(moment, ltz, parse_type("DATE"), zone=zone) == ["2024-07-02"]
    assert cast(moment, ltz, parse_type("TIME(3)"), zone=zone) == ["00:30:00.000"]
    assert cast(["2024-07-02T00:30:00.000"], plain, ltz, zone=zone) == moment
    assert cast(["2024-07-02 00:30:00"], text, ltz, zone=zone) == moment
    assert cast(["2024-07-02"], parse_type("DATE"), ltz, zone=zone) == ["2024-07-01T22:00:00.000Z"]


@pytest.mark.parametrize(
    ("source", "target", "explicit", "implicit"),
    [
        ("INT", "BIGINT", True, True),
        ("BIGINT", "INT", True, False),
        ("INT", "STRING", True, False),
        ("INT", "BIGINT NOT NULL", True, False),
        ("INT NOT NULL", "BIGINT", True, True),
        ("TIMESTAMP(3)", "DATE", True, True),
        ("DATE", "TIMESTAMP(3)", True, False),
        ("STRING", "ARRAY<INT>", False, False),
        ("VARCHAR(5)", "VARCHAR(3)", True, True),
        ("BOOLEAN", "BYTES", False, False),
    ],
)
def test_allowed_casts(source: str, target: str, explicit: bool, implicit: bool) -> None:  # noqa: FBT001
    s, t = parse_type(source), parse_type(target)
    assert can_cast(s, t, explicit=True) is explicit
    assert can_cast(s, t, explicit=False) is implicit


def test_a_date_becomes_only_the_nullable_string() -> None:
    # Java registers the rule for STRING itself, and equality includes nullability.
    assert can_evolve(parse_type("DATE"), parse_type("STRING"))
    assert not can_evolve(parse_type("DATE NOT NULL"), parse_type("STRING NOT NULL"))
    assert not can_evolve(parse_type("DATE"), parse_type("VARCHAR(20)"))
    assert can_evolve(parse_type("INT NOT NULL"), parse_type("STRING NOT NULL"))


@pytest.mark.parametrize(
    ("text", "data_type", "expected"),
    [
        ("5", "INT", 5),
        ("'5'", "INT", 5),
        ("'a b'", "STRING", "a b"),
        ("a", "CHAR(3)", "a  "),
        ("[1, 2]", "ARRAY<INT>", [1, 2]),
        ("{1 -> x}", "MAP<INT, STRING>", [(1, "x")]),
        ("2024-01-31", "DATE", 19_753),
    ],
)
def test_default_values(text: str, data_type: str, expected: Any) -> None:
    assert parse_default(text, parse_type(data_type)) == expected


@pytest.mark.parametrize(("text", "data_type"), [("x", "INT"), ("1", "MULTISET<INT>")])
def test_default_values_that_are_none(text: str, data_type: str) -> None:
    with pytest.raises(SchemaError, match="default value"):
        parse_default(text, parse_type(data_type))
