"""The option `fields.COLUMN.map.storage-layout` in CREATE and ALTER TABLE, as in Java 2.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import DropColumn, RenameColumn, SchemaChange, SetOption
from paimon_core.errors import SchemaError
from paimon_core.schema.table_schema import TableSchema

LAYOUT = "fields.m.map.storage-layout"
MOST = "fields.m.map.shared-shredding.max-columns"
SHARED = {LAYOUT: "shared-shredding"}


def schema(map_type: str = "MAP<STRING NOT NULL, INT>", **options: str) -> TableSchema:
    columns = [Column("k", "INT"), Column("m", map_type), Column("v", "VARIANT")]
    beside = options.pop("beside", None)
    found = {key.replace("__", "-"): value for key, value in options.items()}
    return create_schema(
        columns if beside else columns[:2],
        now_millis=0,
        primary_keys=["k"],
        options={"bucket": "1", **SHARED, **found},
    )


def test_a_map_of_strings_may_share_columns() -> None:
    assert schema(**{MOST: "8"}).options[LAYOUT] == "shared-shredding"


@pytest.mark.parametrize(
    ("map_type", "options", "why"),
    [
        ("INT", {}, "no MAP"),
        ("MAP<INT NOT NULL, INT>", {}, "MAP<STRING NOT NULL"),
        ("MAP<STRING, INT>", {}, "MAP<STRING NOT NULL"),
        ("MAP<STRING NOT NULL, VECTOR<FLOAT, 2>>", {}, "VECTOR"),
        (
            "MAP<STRING NOT NULL, INT>",
            {"fields.x.map.storage-layout": "default"},
            "'x', which is not a column",
        ),
        ("MAP<STRING NOT NULL, INT>", {LAYOUT: "later"}, "must be one of"),
        ("MAP<STRING NOT NULL, INT>", {MOST: "0"}, "above 0"),
        (
            "MAP<STRING NOT NULL, INT>",
            {"fields.m.map.shared-shredding.column-placement-policy": "x"},
            "must be one of",
        ),
        ("MAP<STRING NOT NULL, INT>", {"file.format": "avro"}, "avro"),
        ("MAP<STRING NOT NULL, INT>", {"file.compression": "snappy"}, "snappy"),
        ("MAP<STRING NOT NULL, INT>", {"bucket": "-2"}, "bucket=-2"),
        ("MAP<STRING NOT NULL, INT>", {"beside": "yes"}, "VARIANT"),
    ],
)
def test_what_java_refuses(map_type: str, options: dict[str, str], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        schema(map_type, **options)


def changed(tmp_path: Path, *changes: SchemaChange) -> dict[str, str]:
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    catalog.create_table("db.t", schema(**{MOST: "8"}))
    catalog.alter_table("db.t", changes, now_millis=0)
    return dict(catalog.get_table("db.t").schema.options)


def test_the_options_go_with_a_renamed_column(tmp_path: Path) -> None:
    options = changed(tmp_path, RenameColumn(("m",), "n"))
    assert options["fields.n.map.storage-layout"] == "shared-shredding"
    assert options["fields.n.map.shared-shredding.max-columns"] == "8"
    assert LAYOUT not in options


def test_the_options_go_with_a_dropped_column(tmp_path: Path) -> None:
    assert not {LAYOUT, MOST} & changed(tmp_path, DropColumn(("m",))).keys()


def test_the_layout_can_change(tmp_path: Path) -> None:
    assert changed(tmp_path, SetOption(LAYOUT, "default"))[LAYOUT] == "default"
