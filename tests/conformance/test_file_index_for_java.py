"""File indexes of every kind and type, both ways: ours in Java, Java's here."""

from __future__ import annotations

import itertools
import uuid

import numpy as np
import pyarrow as pa
import pytest
from replay import run_step

from paimon_core.commit.committer import commit
from paimon_core.commit.message import CommitMessage
from paimon_core.environment import system_environment
from paimon_core.index.file_index.container import decode_indexes
from paimon_core.index.file_index.evaluate import rows_that_may_match
from paimon_core.index.file_index.writer import FileIndexWriter, indexed_columns
from paimon_core.manifest.data_file import FileSource
from paimon_core.paths import table_paths
from paimon_core.predicate.columns import evaluate
from paimon_core.predicate.nodes import Leaf, Op
from paimon_core.read.data_file import read_data_file
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.types.arrow import arrow_schema, column_from_internal, column_to_internal
from paimon_core.types.json_values import from_json_value
from paimon_core.write.data_file_writer import RollingAppendWriter

COLUMNS = {
    "k": "INT",
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i64": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "s": "STRING",
    "c": "CHAR(3)",
    "vb": "VARBINARY(9)",
    "dt": "DATE",
    "t3": "TIMESTAMP(3)",
    "t6": "TIMESTAMP(6)",
    "l6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "dec": "DECIMAL(18, 3)",
    "flag": "BOOLEAN",
    "m": "MAP<STRING, INT>",
}
KINDS = {
    "bloom-filter": "k,i8,i16,i64,f,d,s,c,vb,dt,t3,t6,l6,m[x]",
    "bitmap": "k,i8,i16,i64,f,d,s,c,dt,t3,t6,l6,flag",
    "bsi": "k,i8,i16,i64,dt,t3,t6,l6,dec",
    "range-bitmap": "k,i8,i16,i64,f,d,s,c,dt,t3,t6,l6,dec,flag",
}
SAME_BYTES = {"bloom-filter", "bsi", "range-bitmap"}
"""Java's bitmap index keeps the bitmaps in the order of a hash map."""


def row(i):
    if i % 11 == 5:
        return [i, *[None] * 15]
    return [
        i, i % 7 - 3, i % 1000 - 500, i * 7919 * (-1) ** i, (i % 40 - 20) / 4, i / 3, f"text {i % 90}",
        "abc"[: i % 4], f"{i % 50:06x}", f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}",
        f"19{i % 90 + 10}-01-01T00:00:00.{i % 1000:03}", f"2024-01-01T00:00:{i % 60:02}.{i:06}",
        f"2024-01-01T00:00:{i % 60:02}.{i % 7:06}Z", f"{i % 300 - 150}.{i % 10}00", i % 3 == 0,
        [["x", i % 20]] if i % 2 else [],
    ]  # fmt: skip


ROWS = [row(i) for i in range(700)]


def options(kind, threshold):
    names = KINDS[kind]
    found = {f"file-index.{kind}.columns": names, "file-index.in-manifest-threshold": threshold}
    if kind == "bloom-filter":
        found |= {f"file-index.{kind}.{n}.items": "800" for n in names.split(",") if "[" not in n}
        found[f"file-index.{kind}.m.items"] = "800"
    return found | {"bucket": "-1", "write-only": "true"}


def create(oracle, tmp_path, kind, threshold="10 mb"):
    oracle.defaults(warehouse=tmp_path, database="db")
    columns = [{"name": n, "type": t} for n, t in COLUMNS.items()]
    for name in ("java", "ours"):
        oracle.one("create_table", table=name, columns=columns, options=options(kind, threshold))


def batch_of(row_type, rows):
    arrays = [
        column_from_internal([from_json_value(r[i], f.type) for r in rows], f.type)
        for i, f in enumerate(row_type)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(row_type))


def conditions(batch, row_type):
    """Conditions with values that are there and values that are not."""
    for field in row_type.fields[:-1]:
        values = column_to_internal(batch.column(field.name), field.type)
        present = [v for v in values if v is not None]
        picked = [present[0], present[len(present) // 2], max(present), min(present)]
        for value, op in itertools.product(picked, (Op.EQ, Op.NE, Op.LT, Op.GE, Op.GT, Op.LE)):
            yield Leaf(op, field.name, (value,))
        yield Leaf(Op.IN, field.name, tuple(picked))
        yield Leaf(Op.BETWEEN, field.name, tuple(sorted(picked[:2])))
        yield Leaf(Op.IS_NULL, field.name)
        yield Leaf(Op.IS_NOT_NULL, field.name)


@pytest.mark.parametrize("kind", KINDS)
def test_we_use_javas_indexes(oracle, tmp_path, kind):
    create(oracle, tmp_path, kind)
    oracle.one("write", table="java", rows=ROWS)
    table = open_table(str(tmp_path), "db.java")
    row_type = table.schema.row_type
    (entry,) = scan_files(table, table.latest_or_not_found())
    index = entry.file.embedded_index
    batches = list(
        read_data_file(
            table.io, table.paths.data_file(entry.partition, entry.bucket, entry.file), entry.file,
            file_schema=table.schema, read_type=row_type, key_value=False,
        )
    )  # fmt: skip
    batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    ruled_out = 0
    for condition in conditions(batch, row_type):
        matching = set(np.flatnonzero(np.asarray(evaluate(condition, batch))).tolist())
        found = rows_that_may_match(index, condition, row_type)
        if found is not None:
            ruled_out += 1
            assert matching <= set(found), condition
            assert kind == "bloom-filter" or matching == set(found), condition
    assert ruled_out > 100 or kind == "bloom-filter"
    writer = FileIndexWriter(row_type, indexed_columns(table.options))
    for part in batches:
        writer.update(part.columns)
    if kind in SAME_BYTES:
        assert decode_indexes(writer.finish()) == decode_indexes(index)


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("threshold", ["10 mb", "1 b"])
@pytest.mark.parametrize("kind", KINDS)
def test_java_uses_our_indexes(oracle, tmp_path, kind, threshold):
    create(oracle, tmp_path, kind, threshold)
    env = system_environment()
    table = open_table(str(tmp_path), "db.ours")
    row_type = table.schema.row_type
    paths = table_paths(table.root, table.schema.partition_type, table.options)
    messages = []
    for start in range(0, len(ROWS), 350):
        writer = RollingAppendWriter(
            table.io, paths, bytes(12), 0, table.schema,
            file_source=FileSource.APPEND, env=env,
        )  # fmt: skip
        writer.write(batch_of(row_type, ROWS[start : start + 350]))
        messages += writer.close()
    message = CommitMessage(
        partition=bytes(12), bucket=0, total_buckets=-1, new_files=tuple(messages)
    )
    commit(table, [message], user=str(uuid.uuid4()), env=env)
    oracle.one("write", table="java", rows=ROWS)
    assert oracle.rows(table="ours") == oracle.rows(table="java")
    for i, name in enumerate(COLUMNS):
        if name in {"vb", "m"}:
            continue
        for op, source in (("=", 7), ("=", 399), (">=", 20), ("<", 640)):
            condition = {"field": name, "op": op, "value": ROWS[source][i]}
            plain = {"file-index.read.enabled": "false"}
            expected = oracle.rows(table="java", filter=condition, options=plain)
            assert oracle.rows(table="ours", filter=condition) == expected, condition
    absent = {"field": "k", "op": "=", "value": 10_000}
    assert oracle.rows(table="ours", filter=absent) == []


@pytest.mark.parametrize("kind", KINDS)
def test_types_without_such_an_index_are_refused(oracle_2_0_0, tmp_path, kind):
    """Where Java 1.4.2 fails at the first row, and Java 2.0 does not open the table."""
    types = ["INT", "DOUBLE", "STRING", "BYTES", "BOOLEAN", "DECIMAL(9, 2)", "TIME(3)"]
    types += ["TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "ARRAY<INT>", "MAP<STRING, INT>"]
    differences = []
    for at, data_type in enumerate(types):
        for name in ("c[x]", "c") if data_type.startswith("MAP") else ("c",):
            step = {
                "op": "create_table",
                "database": "db",
                "table": f"t{at}{len(name)}",
                "columns": [{"name": "k", "type": "INT"}, {"name": "c", "type": data_type}],
                "options": {f"file-index.{kind}.columns": name},
            }
            (java,) = oracle_2_0_0([{**step, "warehouse": str(tmp_path / "java")}], check=False)
            ours = run_step({**step, "warehouse": str(tmp_path / "ours")})
            if ("error" in java) != ("error" in ours):
                differences.append((name, data_type, java.get("error"), ours.get("error")))
    changes = [
        [{"change": "drop_column", "name": "c"}],
        [{"change": "rename_column", "name": "c", "to": "e"}],
        [{"change": "update_type", "name": "c", "type": "DECIMAL(9, 2)"}],
        [
            {"change": "rename_column", "name": "c", "to": "e"},
            {"change": "set_option", "key": f"file-index.{kind}.columns", "value": "e"},
        ],
    ]
    for change in changes:  # of t01, whose column c is an INT
        step = {"op": "alter_table", "database": "db", "table": "t01", "changes": change}
        (java,) = oracle_2_0_0([{**step, "warehouse": str(tmp_path / "java")}], check=False)
        ours = run_step({**step, "warehouse": str(tmp_path / "ours")})
        if ("error" in java) != ("error" in ours):
            differences.append((change, java.get("error"), ours.get("error")))
    assert not differences
