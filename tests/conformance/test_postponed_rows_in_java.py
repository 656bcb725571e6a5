"""Reads with `postpone.merge-on-read`: the same rows as in Flink with Java Paimon 2.0."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from oracle import FlinkSql, Oracle
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch

pytestmark = pytest.mark.flink

COLUMNS = [
    {"name": "dt", "type": "STRING NOT NULL"},
    {"name": "a", "type": "INT NOT NULL"},
    {"name": "b", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "w", "type": "STRING"},
    {"name": "s", "type": "INT"},
]
NO_DELETES = ("partial_update", "first_row")
TABLES: dict[str, dict[str, str]] = {
    "newest": {"bucket-key": "b"},
    "by_sequence": {"sequence.field": "s", "bucket-key": "a"},
    "descending": {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "partial_update": {"merge-engine": "partial-update", "sequence.field": "s"},
    "grouped": {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v",
        "ignore-delete": "true",
    },
    "removed": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "aggregated": {
        "merge-engine": "aggregation",
        "fields.s.aggregate-function": "sum",
        "fields.w.aggregate-function": "last_non_null_value",
    },
    "first_row": {"merge-engine": "first-row"},
}
CONDITIONS = ("", " WHERE dt <> 'x' AND a < 4 AND (v = 'new' OR s > 20)")


def rows_for(name: str, seed: str, texts: list[str | None]) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    rows = []
    for _ in range(40):
        values = [
            chance.choice("xyz"),
            chance.randint(0, 5),
            chance.randint(0, 3),
            chance.choice(texts),
            chance.choice([None, "w1", "w2"]),
            chance.randint(0, 40),
        ]
        delete = name not in NO_DELETES and chance.random() < 0.2
        rows.append({"kind": "-D" if delete else "+I", "values": values})
    return rows


def made_by_java(java: Oracle) -> None:
    """Real buckets of two levels in two partitions, and one commit of postponed rows in three."""
    for name, options in TABLES.items():
        told = {"bucket": "-2", "postpone.default-bucket-num": "2", **options}
        keys = ["dt", "a", "b"]
        steps: list[dict[str, Any]] = [
            {"op": "create_table", "columns": COLUMNS, "primary_keys": keys}
            | {"partition_keys": ["dt"], "options": told}
        ]
        for round_ in ("first", "second"):
            real = [r for r in rows_for(name, name + round_, ["old", None]) if r["values"][0] < "z"]
            steps += [{"op": "write", "rows": real}, {"op": "compact", "num_buckets": 2}]
        steps.append({"op": "write", "rows": rows_for(name, name, ["new", None])})
        for result in java([{**step, "table": name} for step in steps]):
            assert "error" not in result, result


def ours(place: Path, name: str, where: str) -> list[list[str]]:
    from paimon_core.predicate import parse_where

    options = {"postpone.merge-on-read": "true"}
    table = open_table(str(place), f"db.{name}", dynamic_options=options)
    predicate = parse_where(where.removeprefix(" WHERE "), table.schema.row_type) if where else None
    batches = read_batch(batch_scan_of(table), predicate=predicate)
    rows = (list(r.values())[1:] for b in batches for r in b.to_pylist())
    return sorted(["null" if v is None else str(v) for v in row] for row in rows)


@pytest.mark.long
def test_the_same_rows(oracle_2_0_0: Oracle, flink_sql: FlinkSql, tmp_path: Path) -> None:
    java = oracle_2_0_0.copy(warehouse=tmp_path, database="db")
    java.one("create_database")
    made_by_java(java)
    hint = "/*+ OPTIONS('postpone.merge-on-read' = 'true') */"
    script = f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}');\n"
    for i, where in enumerate(CONDITIONS):
        parts = (f"SELECT '{i}', '{n}', t.* FROM lake.db.{n} {hint} AS t{where}" for n in TABLES)
        script += " UNION ALL ".join(parts) + ";\n"
    theirs: dict[tuple[int, str], list[list[str]]] = defaultdict(list)
    for line in flink_sql(script):
        found = re.fullmatch(r"\+I\[(\d, .*)\]", line)
        if found:
            query, name, *row = found[1].split(", ")
            theirs[int(query), name].append(row)
    for i, where in enumerate(CONDITIONS):
        for name in TABLES:
            assert ours(tmp_path, name, where) == sorted(theirs[i, name]), (name, where)
    assert all(theirs[0, name] for name in TABLES)
