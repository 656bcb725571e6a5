"""Comments that make columns BLOBs and VECTORs: SQL and Java 2.0.0 make the same schema of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import PaimonError
from paimon_core.types.sql import type_to_sql

EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
BYTES, ARRAY, MAP = "BYTES", "ARRAY<BYTES>", "MAP<STRING, BYTES>"
GOOD = [
    (BYTES, "__BLOB_FIELD"),
    (BYTES, " __BLOB_FIELD; a picture "),
    (ARRAY, "__BLOB_FIELD;"),
    (MAP, "__BLOB_FIELD;with; more"),
    (BYTES, "__BLOB_DESCRIPTOR_FIELD; d"),
    (BYTES, "__BLOB_VIEW_FIELD"),
    ("ARRAY<FLOAT>", "__VECTOR_FIELD;3"),
    ("ARRAY<INT>", "__VECTOR_FIELD; 3 ; numbers"),
    (BYTES, "a __BLOB_FIELD"),
]
BAD = [
    (BYTES, "__BLOB_X"),
    (BYTES, "__BLOB_FIELDS"),
    ("STRING", "__BLOB_FIELD"),
    ("ARRAY<STRING>", "__BLOB_FIELD"),
    (ARRAY, "__BLOB_DESCRIPTOR_FIELD"),
    (MAP, "__BLOB_VIEW_FIELD"),
    ("ARRAY<FLOAT>", "__VECTOR_FIELD"),
    ("ARRAY<FLOAT>", "__VECTOR_FIELD;x"),
    ("ARRAY<FLOAT>", "__VECTOR_FIELD;0"),
    ("FLOAT", "__VECTOR_FIELD;2"),
    ("ARRAY<FLOAT>", "__VECTORS;2"),
]


class Both:
    """The same table in SQL and in Java, each in a warehouse of its own."""

    def __init__(self, java: Oracle, lake: Path) -> None:
        self.sql = Sql(lake / "ours")
        self.java = java.defaults(warehouse=lake / "theirs", database="default")
        self.java.one("create_database")

    def create(self, name: str, columns: list[tuple[str, str]]) -> bool:
        """Whether both create it."""
        named = [(f"c{i}", t, comment) for i, (t, comment) in enumerate(columns)]
        properties = ", ".join(f"'{k}' = '{v}'" for k, v in EVOLUTION.items())
        sql = ", ".join(f"{c} {t} COMMENT '{comment}'" for c, t, comment in named)
        try:
            self.sql(f"CREATE TABLE {name} (id INT, {sql}) TBLPROPERTIES ({properties})")
            ours = True
        except PaimonError:
            ours = False
        theirs = [
            # Spark's maps have no NULL as a key.
            {"name": c, "type": t.replace("MAP<STRING", "MAP<STRING NOT NULL"), "comment": comment}
            for c, t, comment in named
        ]
        step = {"op": "create_table", "table": name, "options": EVOLUTION}
        step["columns"] = [{"name": "id", "type": "INT"}, *theirs]
        (answer,) = self.java([step], check=False)
        assert ours == ("error" not in answer), (columns, answer)
        return ours

    def change(self, name: str, statement: str, change: dict[str, Any]) -> None:
        self.sql(f"ALTER TABLE {name} {statement}")
        self.java.one("alter_table", table=name, changes=[change])

    def check(self, name: str) -> None:
        """The newest schema is the same."""
        ours = self.sql.session.catalog.get_table(f"default.{name}").schema
        theirs = self.java.one("schemas", table=name)["schemas"]
        theirs = max(theirs, key=lambda schema: int(schema["id"]))
        fields = [(f["name"], f["type"], f.get("description")) for f in theirs["fields"]]
        assert [(f.name, _text(type_to_sql(f.type)), f.description) for f in ours.fields] == [
            (n, _text(_java_text(t)), d) for n, t, d in fields
        ]
        options = dict(ours.options)
        for key in ("path", "owner"):
            options.pop(key, None)
        theirs["options"].pop("path", None)
        assert options == theirs["options"]


def _java_text(data_type: Any) -> str:
    if isinstance(data_type, str):
        return data_type
    kind = data_type["type"].split(" ")[0]
    parts = [_java_text(data_type[p]) for p in ("key", "value", "element") if p in data_type]
    if "length" in data_type:
        parts.append(str(data_type["length"]))
    return f"{kind}<{', '.join(parts)}>"


def _text(sql: str) -> str:
    return sql.replace("VARBINARY(2147483647)", "BYTES").replace("VARCHAR(2147483647)", "STRING")


def test_directives_make_the_columns_of_java(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    both = Both(oracle_2_0_0, tmp_path)
    assert both.create("t", GOOD)
    both.check("t")
    for number, (data_type, comment) in enumerate(BAD):
        assert not both.create(f"bad{number}", [(data_type, comment)])
    for name, data_type, comment in (
        ("x", BYTES, "__BLOB_DESCRIPTOR_FIELD; added"),
        ("y", ARRAY, "__BLOB_FIELD"),
        ("z", "ARRAY<DOUBLE>", "__VECTOR_FIELD;4; added"),
    ):
        change = {"change": "add_column", "name": name, "type": data_type, "comment": comment}
        both.change("t", f"ADD COLUMN {name} {data_type} COMMENT '{comment}'", change)
        both.check("t")
    for name in ("c0", "c4", "c5", "x", "z"):
        both.change("t", f"DROP COLUMN {name}", {"change": "drop_column", "name": name})
        both.check("t")
    for statement in ("RENAME COLUMN y TO q", "ALTER COLUMN c2 TYPE BINARY"):
        with pytest.raises(PaimonError):
            both.sql(f"ALTER TABLE t {statement}")
