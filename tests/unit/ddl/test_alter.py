"""Rules that the comparison with Java (tests/conformance/test_schema_rules.py) does not reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_core.ddl.alter import apply_changes
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import (
    AddColumn,
    DropPrimaryKey,
    MoveColumn,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    change_from_object,
)
from paimon_core.ddl.validation import check_fallback_branch
from paimon_core.errors import InvalidArgument, PaimonError, SchemaError, UnsupportedFeature
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.sql import parse_type


def _schema(**options: str) -> TableSchema:
    return create_schema(
        [
            Column("k", "INT"),
            Column("v", parse_type("STRING"), "the value"),
            Column("r", "ROW<a INT, b ROW<c INT>>"),
        ],
        now_millis=7,
        primary_keys=["k"],
        options={"bucket": "1", **options},
    )


def _apply(schema: TableSchema, *changes: SchemaChange, filled: bool = False) -> TableSchema:
    return apply_changes(schema, changes, now_millis=9, has_snapshots=filled)


def test_ids_are_given_columns_first_and_inner_fields_before_outer_ones() -> None:
    schema = _schema()
    assert [f.id for f in schema.fields] == [0, 1, 2]
    row = schema.fields[2].type
    assert [(f.name, f.id) for f in row.fields] == [("a", 3), ("b", 5)]
    assert [(f.name, f.id) for f in row.fields[1].type.fields] == [("c", 4)]
    assert (schema.highest_field_id, schema.time_millis, schema.id) == (5, 7, 0)
    changed = _apply(schema, AddColumn(("x",), parse_type("ROW<p INT>")))
    assert changed.row_type.get("x").id == 6
    assert (changed.highest_field_id, changed.time_millis, changed.id) == (7, 9, 1)


def test_ids_of_dropped_columns_are_not_given_again() -> None:
    schema = _apply(_schema(), AddColumn(("x",), parse_type("INT")))
    dropped = _apply(schema, change_from_object({"change": "drop_column", "name": "x"}))
    again = _apply(dropped, AddColumn(("x",), parse_type("INT")))
    assert [again.row_type.get("x").id, schema.row_type.get("x").id] == [7, 6]


def test_unknown_fields_of_a_schema_file_are_carried_on() -> None:
    schema = _schema()
    object.__setattr__(schema, "extra", {"later": 1})
    assert _apply(schema, SetOption("a", "b")).extra == {"later": 1}


def test_positions() -> None:
    schema = _schema()
    for position, names in (
        (Position(Place.FIRST), ["v", "k", "r"]),
        (Position(Place.LAST), ["k", "r", "v"]),
        (Position(Place.AFTER, "r"), ["k", "r", "v"]),
        (Position(Place.BEFORE, "k"), ["v", "k", "r"]),
    ):
        assert list(_apply(schema, MoveColumn("v", position)).names) == names
        added = _apply(schema, AddColumn(("x",), parse_type("INT"), None, position))
        assert [n if n != "x" else "v" for n in added.names if n != "v"] == names


def test_positions_in_structs() -> None:
    schema = _schema()
    schema = _apply(schema, AddColumn(("s",), parse_type("ARRAY<ROW<a INT, b INT, c INT>>")))
    moved = _apply(schema, MoveColumn("c", Position(Place.AFTER, "a"), ("s", "element")))
    before, after = (s.row_type.get("s").type.element for s in (schema, moved))
    assert [f.name for f in after.fields] == ["a", "c", "b"]
    assert {f.name: f.id for f in after.fields} == {f.name: f.id for f in before.fields}
    for name, reference in (("c", "c"), ("a", "nope"), ("nope", "a")):
        with pytest.raises(PaimonError):
            _apply(schema, MoveColumn(name, Position(Place.AFTER, reference), ("s", "element")))


def test_renaming_reaches_keys_and_options() -> None:
    schema = _schema(**{"fields.v.ignore-retract": "true", "sequence.field": "v"})
    changed = _apply(schema, RenameColumn(("k",), "key"), RenameColumn(("v",), "w"))
    assert changed.primary_keys == ("key",)
    assert changed.options["sequence.field"] == "w"
    assert changed.options["fields.w.ignore-retract"] == "true"
    assert "fields.v.ignore-retract" not in changed.options


def test_renaming_a_nested_column_leaves_options_alone() -> None:
    """Java puts the new name of `r.a` in every option that names `r`."""
    schema = _schema(**{"fields.r.ignore-retract": "true"})
    changed = _apply(schema, RenameColumn(("r", "a"), "z"))
    assert changed.options == schema.options


def test_a_primary_key_can_be_dropped_while_the_table_is_empty() -> None:
    schema = _schema()
    with pytest.raises(SchemaError, match="non-empty table"):
        _apply(schema, DropPrimaryKey(), filled=True)
    dropped = _apply(schema, DropPrimaryKey(), SetOption("bucket-key", "k"))
    assert dropped.primary_keys == ()


def test_whether_there_are_snapshots_is_asked_only_when_it_matters() -> None:
    def fail() -> bool:
        raise AssertionError

    apply_changes(
        _schema(), [AddColumn(("x",), parse_type("INT"))], now_millis=1, has_snapshots=fail
    )
    with pytest.raises(SchemaError, match="merge-engine"):
        apply_changes(
            _schema(),
            [SetOption("merge-engine", "first-row")],
            now_millis=1,
            has_snapshots=lambda: True,
        )


@pytest.mark.parametrize(
    "options",
    [
        {"type": "format-table"},
        {"file.format": "csv"},
    ],
)
def test_what_only_java_maintains_is_refused_by_name(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeature) as refused:
        _schema(**options)
    assert next(iter(options)) in refused.value.feature


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"row-tracking.enabled": "true", "clustering.incremental": "true"},
    ],
)
def test_data_evolution_needs_row_tracking_alone(others: dict[str, str]) -> None:
    with pytest.raises(SchemaError, match="Data evolution"):
        create_schema(
            [Column("k", "INT")],
            now_millis=1,
            options={"data-evolution.enabled": "true", **others},
        )


def test_the_path_stays() -> None:
    with pytest.raises(SchemaError, match="path"):
        _apply(_schema(), SetOption("path", "/elsewhere"))


def test_fallback_branches_must_exist() -> None:
    check_fallback_branch({"scan.fallback-branch": "b"}, lambda name: name == "b")
    with pytest.raises(SchemaError, match="does not exist"):
        check_fallback_branch({"scan.primary-branch": "c"}, lambda name: name == "b")
    with pytest.raises(SchemaError, match="both"):
        check_fallback_branch(
            {"scan.primary-branch": "b", "scan.fallback-branch": "b"}, lambda name: True
        )


@pytest.mark.parametrize(
    "obj",
    [
        {"change": "explode"},
        {},
        {"change": "set_option", "key": "a"},
        {"change": "update_position", "name": "a"},
    ],
)
def test_unreadable_changes_are_the_callers_mistake(obj: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        change_from_object(obj)


@pytest.mark.parametrize("stated", [-1, 0, 5])
def test_a_schema_that_states_too_low_an_id_gives_none_twice(stated: int) -> None:
    lying = replace(_schema(), highest_field_id=stated)
    changed = _apply(lying, AddColumn(("x",), parse_type("ROW<p INT>")))
    assert (changed.row_type.get("x").id, changed.highest_field_id) == (6, 7)


def test_no_column_gets_an_id_of_paimons_own() -> None:
    lying = replace(_schema(), highest_field_id=2**31 - 1)
    with pytest.raises(SchemaError, match="cannot have an id"):
        _apply(lying, AddColumn(("x",), parse_type("INT")))


@pytest.mark.parametrize("path", ["a.element", "m.value", "m.value.element", "r.b.z.element"])
def test_an_element_is_no_column_to_drop_or_rename(path: str) -> None:
    """Java drops and renames the whole column, or fails with an index that is out of bounds."""
    schema = create_schema(
        [
            Column("a", "ARRAY<INT>"),
            Column("m", "MAP<STRING, ARRAY<INT>>"),
            Column("r", "ROW<b ROW<z ARRAY<INT>>>"),
        ],
        now_millis=1,
    )
    for change in (
        {"change": "drop_column"},
        {"change": "rename_column", "to": "n"},
        {"change": "add_column", "type": "INT"},
    ):
        with pytest.raises(SchemaError, match="is not a column, but a part of"):
            _apply(schema, change_from_object({**change, "name": path}))


def test_a_blank_name_is_refused_at_any_depth() -> None:
    schema = _schema()
    for change in (
        AddColumn(("",), parse_type("INT")),
        AddColumn(("r", "b", " \t"), parse_type("INT")),
        AddColumn(("x",), parse_type("ARRAY<MAP<STRING, ROW<`` INT>>>")),
        RenameColumn(("v",), " "),
    ):
        with pytest.raises(SchemaError, match="must not be blank"):
            _apply(schema, change)
    with pytest.raises(SchemaError, match="must not be blank"):
        create_schema([Column("", "INT")], now_millis=1)
    assert _apply(schema, RenameColumn(("v",), "\u00a0")).names[1] == "\u00a0"


def test_the_type_of_a_table_stays() -> None:
    for change in (SetOption("type", "materialized-table"), RemoveOption("type")):
        with pytest.raises(SchemaError, match="type of a table cannot be changed"):
            _apply(_schema(), change)
    for same in (_schema(), _schema(type="table")):
        assert _apply(same, SetOption("type", "table")).options["type"] == "table"


def test_manifests_keep_their_format() -> None:
    """Java reads all of them in the one that the option names, and breaks when it is changed."""
    orc = SetOption("manifest.format", "orc")
    changed = _apply(_schema(), orc)
    with pytest.raises(SchemaError, match="could not read the manifests"):
        _apply(_schema(), orc, filled=True)
    with pytest.raises(SchemaError, match="from orc to avro"):
        _apply(changed, RemoveOption("manifest.format"), filled=True)
    assert _apply(_schema(), SetOption("manifest.format", "avro"), filled=True)
