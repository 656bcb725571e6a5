"""Types as SQL strings and as the JSON of schema files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_files import GOLDEN, VERSIONS

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.data_types import MAX_LENGTH, AtomicType, DataField, RowType, TypeRoot
from paimon_core.types.sql import (
    field_from_json,
    field_to_json,
    parse_type,
    type_from_json,
    type_to_json,
    type_to_sql,
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("decimal(10,2) not null", "DECIMAL(10, 2) NOT NULL"),
        ("numeric", "DECIMAL(10, 0)"),
        ("dec(5)", "DECIMAL(5, 0)"),
        ("integer null", "INT"),
        ("varchar", "VARCHAR(1)"),
        ("varchar(2147483647)", "STRING"),
        ("varbinary(2147483647) not null", "BYTES NOT NULL"),
        ("string", "STRING"),
        ("double precision", "DOUBLE"),
        ("time", "TIME(0)"),
        ("timestamp", "TIMESTAMP(6)"),
        ("timestamp(3) without time zone", "TIMESTAMP(3)"),
        (
            "timestamp(3) with local time zone not null",
            "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
        ),
        ("timestamp_ltz(0)", "TIMESTAMP(0) WITH LOCAL TIME ZONE"),
        ("int not null array not null", "ARRAY<INT NOT NULL> NOT NULL"),
        ("int multiset", "MULTISET<INT>"),
        ("map<string , array<int>>", "MAP<STRING, ARRAY<INT>>"),
        ("vector<float not null, 8>", "VECTOR<FLOAT NOT NULL, 8>"),
        ("variant", "VARIANT"),
        ("blob not null", "BLOB NOT NULL"),
        ("row<>", "ROW<>"),
        (
            "row<a int, `b ``c` row<d time(3)> not null comment 'it''s' default f(1, 2), e date>",
            "ROW<`a` INT, `b ``c` ROW<`d` TIME(3)> NOT NULL COMMENT 'it''s' DEFAULT f(1, 2), `e` DATE>",
        ),
    ],
)
def test_reads_and_prints_as_java_does(text: str, printed: str) -> None:
    parsed = parse_type(text)
    assert type_to_sql(parsed) == printed
    assert parse_type(printed) == parsed


@pytest.mark.parametrize(
    "text",
    [
        *("", "STRNG", "INT INT", "DECIMAL(39)", "DECIMAL(5, 6)", "CHAR(0)", "TIME(10)"),
        *("TIMESTAMP(3) WITH TIME ZONE", "ARRAY<INT", "MAP<INT>", "VARCHAR(2147483648)", "ROW<a>"),
        *("CHAR(x)", "ROW<a INT 'open", "VECTOR<FLOAT, 0>", "INTERVAL"),
    ],
)
def test_refuses_what_is_no_type(text: str) -> None:
    with pytest.raises(InvalidArgument, match="type"):
        parse_type(text)


def test_field_ids_count_outer_fields_before_inner_ones() -> None:
    parsed = parse_type("ROW<a ROW<b INT>, c INT>")
    assert isinstance(parsed, RowType)
    outer, last = parsed.fields
    assert (outer.id, outer.type.fields[0].id, last.id) == (0, 1, 2)  # type: ignore[attr-defined]


def test_nested_types_are_objects_in_json() -> None:
    parsed = parse_type("MAP<INT NOT NULL, ARRAY<ROW<x VECTOR<FLOAT, 3>>>> NOT NULL")
    assert type_to_json(parsed) == {
        "type": "MAP NOT NULL",
        "key": "INT NOT NULL",
        "value": {
            "type": "ARRAY",
            "element": {
                "type": "ROW",
                "fields": [
                    {
                        "id": 0,
                        "name": "x",
                        "type": {"type": "VECTOR", "element": "FLOAT", "length": 3},
                    }
                ],
            },
        },
    }


@pytest.mark.parametrize(
    "obj",
    ["GEOMETRY", {"type": "UNION"}, {"type": "ARRAY"}, 7, {"type": "VECTOR", "element": "INT"}],
)
def test_a_type_that_is_not_known_is_refused_by_its_name(obj: Any) -> None:
    with pytest.raises(UnsupportedFeature, match="data type"):
        type_from_json(obj)


def test_string_is_the_longest_varchar() -> None:
    assert parse_type("STRING") == AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_of_the_golden_schemas_survives(version: str) -> None:
    paths = sorted((GOLDEN / version).glob("*/warehouse/db.db/t/schema/schema-*"))
    assert len(paths) > 50
    for path in paths:
        for field in json.loads(path.read_text(encoding="utf-8"))["fields"]:
            assert field_to_json(field_from_json(field)) == field
            assert json.dumps(field_to_json(field_from_json(field))) == json.dumps(field)


@pytest.mark.parametrize(
    "make",
    [
        lambda: parse_type("ROW<a INT, a STRING>"),
        lambda: parse_type("ARRAY<ROW<b INT, `b` INT>>"),
        lambda: RowType(fields=(DataField(id=0, name="a", type=parse_type("INT")),) * 2),
    ],
)
def test_fields_of_a_row_have_different_names(make) -> None:
    """Java: `RowType.validateFields`."""
    with pytest.raises(InvalidArgument, match=r"several columns have the name '[ab]'"):
        make()


def test_a_schema_file_with_a_repeated_nested_name_is_refused() -> None:
    field = {"id": 1, "name": "a", "type": "INT"}
    with pytest.raises(UnsupportedFeature):
        type_from_json({"type": "ROW", "fields": [field, field]})
