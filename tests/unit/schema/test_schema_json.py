from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_core.errors import UnsupportedFeature
from paimon_core.schema.schema_json import schema_from_json, schema_to_json

GOLDEN = Path(__file__).parents[2] / "golden"
TEXT = """{
  "version" : 3,
  "id" : 1,
  "fields" : [ {
    "id" : 0,
    "name" : "k",
    "type" : "INT NOT NULL",
    "description" : "the \\"key\\"",
    "defaultValue" : "7"
  } ],
  "highestFieldId" : 4,
  "partitionKeys" : [ ],
  "primaryKeys" : [ "k" ],
  "options" : { },
  "comment" : "orders",
  "timeMillis" : 5
}"""


def test_schemas_of_java_are_printed_as_they_were() -> None:
    files = list(GOLDEN.glob("*/*/warehouse/db.db/t/**/schema/schema-*"))
    assert len(files) > 140
    for file in files:
        text = file.read_bytes().decode()
        assert schema_to_json(schema_from_json(text)) == text, file


def test_every_part_is_read() -> None:
    schema = schema_from_json(TEXT)
    assert (schema.id, schema.highest_field_id, schema.comment, schema.time_millis) == (
        1,
        4,
        "orders",
        5,
    )
    assert schema.primary_keys == ("k",)
    assert schema.fields[0].description == 'the "key"'
    assert schema.fields[0].default_value == "7"
    assert schema_to_json(schema) == TEXT


def test_unknown_fields_are_kept() -> None:
    text = TEXT.replace('"timeMillis" : 5', '"timeMillis" : 5,\n  "later" : [ 1, 2 ]')
    assert schema_from_json(text).extra == {"later": [1, 2]}
    assert schema_to_json(schema_from_json(text)) == text


def test_old_schemas_have_the_defaults_of_their_time() -> None:
    old = json.loads(TEXT)
    del old["version"]
    del old["timeMillis"]
    schema = schema_from_json(json.dumps(old))
    assert dict(schema.options) == {"bucket": "1", "file.format": "orc"}
    assert schema.version == 1
    assert schema.time_millis is None
    old["version"] = 2
    assert dict(schema_from_json(json.dumps(old)).options) == {"file.format": "orc"}


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"version" : 3', '"version" : 4', UnsupportedFeature),
        ('"INT NOT NULL"', '"GEOMETRY"', UnsupportedFeature),
        ('"options" : { },', "", KeyError),
        ('"options" : { }', '"options" : [ ]', TypeError),
        ('"id" : 1', '"id" : "1"', TypeError),
        ('"primaryKeys" : [ "k" ]', '"primaryKeys" : "k"', TypeError),
        ('"primaryKeys" : [ "k" ]', '"primaryKeys" : [ "k", "k" ]', ValueError),
        ("{", "", ValueError),
        (
            '"fields" : [ {',
            '"fields" : [ { "id" : 9, "name" : "k", "type" : "INT" }, {',
            ValueError,
        ),
    ],
)
def test_what_is_no_schema_is_refused(old: str, new: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        schema_from_json(TEXT.replace(old, new, 1))
