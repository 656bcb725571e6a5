"""The same CREATE TABLE and ALTER TABLE by Java and by us: accepted or refused alike, same schema."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from oracle import Oracle
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import column_from_object, create_schema
from paimon_core.errors import PaimonError
from paimon_core.schema.schema_json import schema_to_object

Json = dict[str, Any]
COLUMNS: list[Json] = [
    {"name": "k", "type": "INT"},
    {"name": "pt", "type": "STRING"},
    {"name": "v", "type": "STRING", "comment": 'the "value"'},
    {"name": "n", "type": "INT", "default": "5"},
    {"name": "d", "type": "DECIMAL(10, 2)"},
    {"name": "ts", "type": "TIMESTAMP(3)"},
    {"name": "r", "type": "ROW<a INT, b ROW<c STRING, d DOUBLE> NOT NULL>"},
    {"name": "arr", "type": "ARRAY<ROW<x INT, y BIGINT>>"},
    {"name": "m", "type": "MAP<STRING, ARRAY<INT>>"},
]
PLAIN: Json = {"columns": COLUMNS}
KEYED: Json = {"columns": COLUMNS, "primary_keys": ["k"], "options": {"bucket": "2"}}
PARTITIONED: Json = {
    "columns": COLUMNS,
    "primary_keys": ["pt", "k"],
    "partition_keys": ["pt"],
    "options": {"bucket": "2"},
}


def _with(base: Json, **options: str) -> Json:
    dashed = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return {**base, "options": {**base.get("options", {}), **dashed}}


CREATIONS: dict[str, Json] = {
    "plain": PLAIN,
    "keyed": KEYED,
    "partitioned": PARTITIONED,
    "comment": {**PLAIN, "comment": "hello"},
    "keys in options": _with(PLAIN, primary_key="k", bucket="1"),
    "partition in options": _with(PLAIN, partition="pt, v"),
    "keys twice": _with(KEYED, primary_key="k"),
    "unknown key": {**PLAIN, "primary_keys": ["zz"]},
    "repeated key": {**PLAIN, "primary_keys": ["k", "k"]},
    "repeated column": {"columns": [*COLUMNS, {"name": "v", "type": "INT"}]},
    "unknown partition": {**PLAIN, "partition_keys": ["zz"]},
    "keys are partitions": {**PLAIN, "primary_keys": ["pt"], "partition_keys": ["pt"]},
    "nested key": {**PLAIN, "primary_keys": ["r"]},
    "nested partition": {**PLAIN, "partition_keys": ["arr"]},
    "bucket 0": _with(KEYED, bucket="0"),
    "bucket x": _with(KEYED, bucket="x"),
    "bucket -2 keyed": _with(KEYED, bucket="-2"),
    "bucket -2 append": _with(PLAIN, bucket="-2"),
    "bucket without key": _with(PLAIN, bucket="4"),
    "bucket key": _with(PLAIN, bucket="4", bucket_key="k,v"),
    "bucket key blank": _with(PLAIN, bucket="4", bucket_key="k, v"),
    "bucket key unknown": _with(PLAIN, bucket="4", bucket_key="zz"),
    "bucket key nested": _with(PLAIN, bucket="4", bucket_key="r"),
    "bucket key -1": _with(PLAIN, bucket_key="k"),
    "bucket key outside": _with(KEYED, bucket_key="v"),
    "bucket key in partition": _with(PARTITIONED, bucket_key="pt"),
    "bucket function": _with(KEYED, bucket_function__type="mod"),
    "system column": {"columns": [{"name": "_VALUE_KIND", "type": "INT"}]},
    "rowkind column": {"columns": [{"name": "rowkind", "type": "INT"}]},
    "key column": {"columns": [{"name": "_KEY_k", "type": "INT"}]},
    "sequence": _with(KEYED, sequence__field="n"),
    "sequence two": _with(KEYED, sequence__field="n, ts"),
    "sequence twice": _with(KEYED, sequence__field="n,n"),
    "sequence unknown": _with(KEYED, sequence__field="zz"),
    "sequence aggregated": _with(
        KEYED, merge_engine="aggregation", sequence__field="n", fields__n__aggregate_function="sum"
    ),
    "sequence first-row": _with(KEYED, merge_engine="first-row", sequence__field="n"),
    "sequence across": _with({**KEYED, "partition_keys": ["pt"]}, bucket="-1", sequence__field="n"),
    "merge engine": _with(KEYED, merge_engine="upsert"),
    "aggregation": _with(KEYED, merge_engine="aggregation", fields__n__aggregate_function="sum"),
    "aggregation unknown": _with(
        KEYED, merge_engine="aggregation", fields__n__aggregate_function="median"
    ),
    "aggregation of old name": _with(
        KEYED, merge_engine="aggregation", fields__n__aggregate_function="first_not_null_value"
    ),
    "aggregation default": _with(
        KEYED, merge_engine="aggregation", fields__default_aggregate_function="last_value"
    ),
    "field unknown": _with(KEYED, fields__zz__ignore_retract="true"),
    "groups": _with(KEYED, merge_engine="partial-update", fields__n__sequence_group="v,d"),
    "groups unknown": _with(KEYED, merge_engine="partial-update", fields__n__sequence_group="zz"),
    "groups twice": _with(
        KEYED,
        merge_engine="partial-update",
        fields__n__sequence_group="v",
        fields__ts__sequence_group="v",
    ),
    "groups aggregate": _with(
        KEYED,
        merge_engine="partial-update",
        fields__n__sequence_group="d",
        fields__d__aggregate_function="sum",
    ),
    "aggregate without group": _with(
        KEYED, merge_engine="partial-update", fields__d__aggregate_function="sum"
    ),
    "last value without group": _with(
        KEYED, merge_engine="partial-update", fields__d__aggregate_function="last_non_null_value"
    ),
    "remove and ignore": _with(
        KEYED,
        merge_engine="partial-update",
        ignore_delete="true",
        partial_update__remove_record_on_delete="true",
    ),
    "remove and groups": _with(
        KEYED,
        merge_engine="partial-update",
        fields__n__sequence_group="v",
        partial_update__remove_record_on_delete="true",
    ),
    "remove on group": _with(
        KEYED,
        merge_engine="partial-update",
        fields__n__sequence_group="v",
        partial_update__remove_record_on_sequence_group="n",
    ),
    "remove on no group": _with(
        KEYED,
        merge_engine="partial-update",
        fields__n__sequence_group="v",
        partial_update__remove_record_on_sequence_group="d",
    ),
    "changelog append": _with(PLAIN, changelog_producer="input"),
    "changelog unknown": _with(KEYED, changelog_producer="all"),
    "changelog first-row": _with(
        KEYED, merge_engine="first-row", changelog_producer="full-compaction"
    ),
    "overwrite lookup": _with(KEYED, changelog_producer="lookup", streaming_read_overwrite="true"),
    "overwrite append": _with(PLAIN, streaming_read_overwrite="true"),
    "retained 0": _with(KEYED, snapshot__num_retained__min="0"),
    "retained min > max": _with(
        KEYED, snapshot__num_retained__min="5", snapshot__num_retained__max="3"
    ),
    "retained max alone": _with(KEYED, snapshot__num_retained__max="3"),
    "changelog min > max": _with(
        KEYED, changelog__num_retained__min="5", changelog__num_retained__max="3"
    ),
    "expiration unpartitioned": _with(KEYED, partition__expiration_time="1 d"),
    "expiration": _with(PARTITIONED, partition__expiration_time="1 d"),
    "record level": _with(KEYED, record_level__expire_time="1 d", record_level__time_field="n"),
    "record level text": _with(
        KEYED, record_level__expire_time="1 d", record_level__time_field="v"
    ),
    "record level unknown": _with(KEYED, record_level__time_field="zz"),
    "rowkind field": _with(KEYED, rowkind__field="v"),
    "rowkind unknown": _with(KEYED, rowkind__field="zz"),
    "vectors": _with(KEYED, deletion_vectors__enabled="true"),
    "vectors full": _with(
        KEYED, deletion_vectors__enabled="true", changelog_producer="full-compaction"
    ),
    "vectors first-row": _with(KEYED, deletion_vectors__enabled="true", merge_engine="first-row"),
    "row tracking": _with(PLAIN, row_tracking__enabled="true"),
    "row tracking keyed": _with(KEYED, row_tracking__enabled="true", bucket="-1"),
    "row tracking bucket": _with(PLAIN, row_tracking__enabled="true", bucket="1", bucket_key="k"),
    "clustering keyed": _with(KEYED, clustering__incremental="true"),
    "sequence number append": _with(PLAIN, table_read__sequence_number__enabled="true"),
    "full compaction unaware": _with(PLAIN, full_compaction__delta_commits="3"),
    "default bad": {"columns": [{"name": "a", "type": "INT", "default": "x"}]},
    "default quoted": {"columns": [{"name": "a", "type": "STRING", "default": "'x'"}]},
    "default array": {"columns": [{"name": "a", "type": "ARRAY<INT>", "default": "[1, 2]"}]},
    "default date": {"columns": [{"name": "a", "type": "DATE", "default": "2024-02-30"}]},
    "scan timestamp": _with(PLAIN, scan__timestamp_millis="1"),
    "scan two": _with(PLAIN, scan__timestamp_millis="1", scan__snapshot_id="1"),
    "scan mode alone": _with(PLAIN, scan__mode="from-snapshot"),
    "scan mode latest": _with(PLAIN, scan__mode="latest", scan__snapshot_id="1"),
    "scan mode unknown": _with(PLAIN, scan__mode="somewhere"),
    "avro nanos": {
        "columns": [{"name": "a", "type": "TIMESTAMP(9)"}],
        "options": {"file.format": "avro"},
    },
    "avro micros": {
        "columns": [{"name": "a", "type": "TIMESTAMP(6)"}],
        "options": {"file.format": "avro"},
    },
    "auto-create": _with(PLAIN, auto_create="true"),
    "fallback": _with(PLAIN, scan__fallback_branch="nowhere"),
    "upsert key": _with(PLAIN, upsert_key="k"),
    "upsert key keyed": _with(KEYED, upsert_key="k"),
}


def _ask(oracle: Oracle, step: Json) -> Json:
    (answer,) = oracle([step], check=False)
    return answer


def _normal(schema: Json) -> Json:
    return {k: v for k, v in schema.items() if k != "timeMillis"}


def _ours(catalog: FileSystemCatalog, name: str, creation: Json) -> Json | None:
    """Our newest schema, None if the creation was refused."""
    try:
        schema = create_schema(
            [column_from_object(c) for c in creation["columns"]],
            now_millis=1,
            partition_keys=creation.get("partition_keys", ()),
            primary_keys=creation.get("primary_keys", ()),
            options=creation.get("options"),
            comment=creation.get("comment"),
        )
        catalog.create_table(name, schema)
    except PaimonError:
        return None
    return schema_to_object(schema)


def test_creation(oracle_1_4_2: Oracle, tmp_path: Path) -> None:
    catalog = FileSystemCatalog(str(tmp_path / "ours"))
    catalog.create_database("db")
    java = {"warehouse": str(tmp_path / "java"), "database": "db"}
    differences = []
    for i, (what, creation) in enumerate(CREATIONS.items()):
        table = {**java, "table": f"t{i}"}
        answer = _ask(oracle_1_4_2, {"op": "create_table", **table, **creation})
        theirs = None
        if "error" not in answer:
            (theirs,) = _ask(oracle_1_4_2, {"op": "schemas", **table})["schemas"]
        ours = _ours(catalog, f"db.t{i}", creation)
        if (ours and _normal(ours)) != (theirs and _normal(theirs)):
            differences.append((what, answer.get("error"), ours is not None, theirs))
    assert not differences, "\n".join(map(json.dumps, differences))


SET = [
    ("bucket", "4"),
    ("bucket", "-1"),
    ("merge-engine", "partial-update"),
    ("bucket-key", "k"),
    ("sequence.field", "n"),
    ("ignore-delete", "true"),
    ("ignore-delete", "false"),
    ("deletion-vectors.enabled", "true"),
    ("snapshot.num-retained.min", "3"),
    ("write-only", "true"),
    ("changelog-producer", "lookup"),
    ("file.format", "orc"),
    ("rowkind.field", "v"),
    ("partition", "pt"),
    ("row-tracking.enabled", "true"),
]
CHANGES: list[Json] = [
    *({"change": "set_option", "key": k, "value": v} for k, v in SET),
    {"change": "remove_option", "key": "bucket"},
    {"change": "remove_option", "key": "write-only"},
    {"change": "remove_option", "key": "merge-engine"},
    {"change": "update_table_comment", "comment": "new"},
    {"change": "add_column", "name": "x1", "type": "INT"},
    {"change": "add_column", "name": "x2", "type": "INT NOT NULL"},
    {
        "change": "add_column",
        "name": "x3",
        "type": "ROW<p INT, q ARRAY<ROW<z INT>>>",
        "comment": "c",
    },
    {"change": "add_column", "name": "x4", "type": "INT", "first": True},
    {"change": "add_column", "name": "x5", "type": "INT", "after": "k"},
    {"change": "add_column", "name": "x6", "type": "INT", "after": "zz"},
    {"change": "add_column", "name": "v", "type": "INT"},
    {"change": "add_column", "name": "r.e", "type": "INT"},
    {"change": "add_column", "name": "r.b.e", "type": "INT", "after": "c"},
    {"change": "add_column", "name": "r.a", "type": "INT"},
    {"change": "add_column", "name": "arr.element.z", "type": "INT"},
    {"change": "add_column", "name": "zz.e", "type": "INT"},
    {"change": "add_column", "name": "", "type": "INT"},
    {"change": "add_column", "name": "r.b. ", "type": "INT"},
    {"change": "add_column", "name": "x7", "type": "MAP<INT, ROW<`` INT>>"},
    {"change": "rename_column", "name": "v", "to": " "},
    {"change": "rename_column", "name": "v", "to": "\u00a0"},
    {"change": "drop_column", "name": "v"},
    {"change": "drop_column", "name": "k"},
    {"change": "drop_column", "name": "pt"},
    {"change": "drop_column", "name": "zz"},
    {"change": "drop_column", "name": "r.b.c"},
    {"change": "drop_column", "name": "arr.element.x"},
    {"change": "rename_column", "name": "v", "to": "w"},
    {"change": "rename_column", "name": "k", "to": "key"},
    {"change": "rename_column", "name": "pt", "to": "part"},
    {"change": "rename_column", "name": "v", "to": "k"},
    {"change": "rename_column", "name": "n", "to": "number"},
    {"change": "rename_column", "name": "r.b.c", "to": "cc"},
    {"change": "rename_column", "name": "r.b", "to": "a"},
    {"change": "update_type", "name": "n", "type": "BIGINT"},
    {"change": "update_type", "name": "n", "type": "STRING"},
    {"change": "update_type", "name": "n", "type": "DATE"},
    {"change": "update_type", "name": "n", "type": "BOOLEAN"},
    {"change": "update_type", "name": "v", "type": "INT"},
    {"change": "update_type", "name": "d", "type": "DECIMAL(5, 1)"},
    {"change": "update_type", "name": "d", "type": "INT"},
    {"change": "update_type", "name": "ts", "type": "DATE"},
    {"change": "update_type", "name": "ts", "type": "BIGINT"},
    {"change": "update_type", "name": "ts", "type": "STRING"},
    {"change": "update_type", "name": "n", "type": "BIGINT NOT NULL", "keep_nullability": False},
    {"change": "update_type", "name": "k", "type": "BIGINT"},
    {"change": "update_type", "name": "pt", "type": "INT"},
    {"change": "update_type", "name": "r.a", "type": "BIGINT"},
    {"change": "update_type", "name": "r.b.d", "type": "FLOAT"},
    {"change": "update_type", "name": "r", "type": "INT"},
    {"change": "update_type", "name": "r", "type": "STRING"},
    {"change": "update_type", "name": "arr.element.x", "type": "BIGINT"},
    {"change": "update_type", "name": "m.value.element", "type": "BIGINT"},
    {"change": "update_type", "name": "m.value", "type": "ARRAY<BIGINT>"},
    {"change": "update_type", "name": "arr", "type": "STRING"},
    {"change": "update_nullability", "name": "n", "nullable": False},
    {"change": "update_nullability", "name": "n", "nullable": True},
    {"change": "update_nullability", "name": "k", "nullable": True},
    {"change": "update_nullability", "name": "r.b", "nullable": True},
    {"change": "update_nullability", "name": "m.value.element", "nullable": True},
    {"change": "update_comment", "name": "v", "comment": "c"},
    {"change": "update_comment", "name": "r.b.c", "comment": "inner"},
    {"change": "update_comment", "name": "zz", "comment": "c"},
    {"change": "update_default", "name": "n", "default": "7"},
    {"change": "update_default", "name": "n", "default": "x"},
    {"change": "update_default", "name": "r.a", "default": "7"},
    {"change": "update_position", "name": "v", "first": True},
    {"change": "update_position", "name": "k", "first": True},
    {"change": "update_position", "name": "v", "after": "ts"},
    {"change": "update_position", "name": "ts", "after": "k"},
    {"change": "update_position", "name": "v", "after": "v"},
    {"change": "update_position", "name": "v", "after": "zz"},
    {"change": "update_position", "name": "zz", "first": True},
]
TABLES: dict[str, Json] = {
    "plain": PLAIN,
    "keyed": _with(KEYED, sequence__field="n", write_only="true"),
    "partitioned": PARTITIONED,
    "groups": _with(
        KEYED,
        merge_engine="partial-update",
        fields__n__sequence_group="v,d",
        fields__d__aggregate_function="sum",
        alter_column_null_to_not_null__disabled="false",
    ),
    "strict": _with(
        PLAIN, disable_explicit_type_casting="true", add_column_before_partition="true"
    ),
}
BATCHES: list[list[Json]] = [
    [
        {"change": "rename_column", "name": "v", "to": "w"},
        {"change": "add_column", "name": "v", "type": "INT"},
    ],
    [
        {"change": "drop_column", "name": "v"},
        {"change": "add_column", "name": "v", "type": "BIGINT"},
        {"change": "update_position", "name": "v", "first": True},
    ],
    [
        {"change": "add_column", "name": "a1", "type": "ROW<x INT>"},
        {"change": "add_column", "name": "a1.y", "type": "INT"},
        {"change": "set_option", "key": "write-only", "value": "false"},
    ],
]


@pytest.mark.sampled
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "with a snapshot"])
@pytest.mark.parametrize("kind", TABLES)
def test_changes(oracle_1_4_2: Oracle, tmp_path: Path, kind: str, filled: bool) -> None:  # noqa: FBT001
    """Each change on a fresh schema directory; Java's schemas are kept, so ours start from them."""
    java = str(tmp_path / "java")
    table = {"warehouse": java, "database": "db", "table": "t"}
    oracle_1_4_2([{"op": "create_table", **table, **TABLES[kind]}])
    if filled:
        row = [1, "p", "v", 1, "1.00", "2024-01-01T00:00:00.000", None, None, None]
        oracle_1_4_2([{"op": "write", **table, "rows": [row], "compact": False}])
    root = tmp_path / "java/db.db/t/schema"
    first = (root / "schema-0").read_text()
    differences = []
    catalog = FileSystemCatalog(java)
    for changes in itertools.chain(([c] for c in CHANGES), BATCHES):
        answer = _ask(oracle_1_4_2, {"op": "alter_table", **table, "changes": changes})
        theirs = None
        if "error" not in answer:
            schemas = _ask(oracle_1_4_2, {"op": "schemas", **table})["schemas"]
            theirs = _normal(max(schemas, key=lambda s: int(s["id"])))
            (root / "schema-1").unlink()
        assert (root / "schema-0").read_text() == first
        ours: Json | None = None
        try:
            ours = _normal(schema_to_object(catalog.alter_table("db.t", changes, now_millis=1)))
            (root / "schema-1").unlink()
        except PaimonError:
            pass
        if ours != theirs:
            differences.append((changes, answer.get("error"), ours, theirs))
    assert not differences, "\n".join(map(json.dumps, differences))


def test_a_path_is_refused_by_both(oracle: Oracle, tmp_path: Path) -> None:
    """A filesystem catalog says where its tables lie."""
    options = {"path": str(tmp_path / "elsewhere")}
    step = {"op": "create_table", **PLAIN, "options": options, "table": "t"}
    (java,) = oracle.defaults(warehouse=tmp_path / "java", database="db")([step], check=False)
    assert "does not support specifying the table path" in java["error"]
    catalog = FileSystemCatalog(str(tmp_path / "ours"))
    catalog.create_database("db")
    schema = create_schema([column_from_object(c) for c in COLUMNS], now_millis=0, options=options)
    with pytest.raises(PaimonError, match="cannot be created at"):
        catalog.create_table("db.t", schema)
    assert not (tmp_path / "elsewhere").exists()
