"""Random tables of every merge engine, written by Java: what we merge is what Java reads."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_core.lsm.chosen_engine import merge_engine_of
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.read.section import SectionReader
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.types.json_columns import batch_to_json_rows

Value = Callable[[random.Random], Any]
COMMITS = 15


def maybe(value: Value) -> Value:
    return lambda r: None if r.random() < 0.25 else value(r)


def some(*values: Any) -> Value:
    return maybe(lambda r: r.choice(values))


def nested(r: random.Random) -> list[dict[str, Any]]:
    return [
        {"id": r.randint(0, 3), "n": r.choice([None, 1, 2]), "s": r.choice(["x", "y", None])}
        for _ in range(r.randint(0, 3))
    ]


def timed(r: random.Random) -> list[list[Any]]:
    keys = r.sample(["a", "b", "c"], r.randint(0, 3))
    return [
        [k, r.choice([None, {"n": r.randint(0, 9), "t": r.choice([None, "1", "2", "3"])}])]
        for k in keys
    ]


def entries(r: random.Random) -> list[list[Any]]:
    return [[k, r.randint(0, 9)] for k in r.sample(["a", "b", "c", "d"], r.randint(0, 3))]


def elements(r: random.Random) -> list[str]:
    return [r.choice(["x", "y", "z", "w"]) for _ in range(r.randint(0, 3))]


small = maybe(lambda r: r.randint(-3, 3))
texts = some("", "a", "ab", "ä", " ", "b;c", "b")
FIELDS: dict[str, tuple[str, Value]] = {
    "i": ("INT", small),
    "g": ("BIGINT", some(2, -7, 3)),  # 2.0 fails where a product overflows
    "t": ("TINYINT", small),
    "d": ("DOUBLE", some(0.1, -0.0, 0.0, 1.5, -2.25, 1e10)),
    "m": ("DECIMAL(5, 1)", maybe(lambda r: str(r.randint(-9999, 9999) / 10))),
    "w": ("DECIMAL(30, 2)", maybe(lambda r: f"{r.randint(-(10**27), 10**27)}.25")),
    "s": ("STRING", texts),
    "u": ("STRING", texts),
    "b": ("BOOLEAN", some(True, False)),
    "a": ("ARRAY<STRING>", maybe(elements)),
    "o": ("ARRAY<STRING>", maybe(elements)),
    "p": ("MAP<STRING, INT>", maybe(entries)),
    "q": ("MAP<STRING, ROW<n INT, t STRING>>", maybe(timed)),
    "n": ("ARRAY<ROW<id INT, n INT, s STRING>>", maybe(nested)),
    "e": ("ARRAY<ROW<id INT NOT NULL, n INT, s STRING>>", maybe(nested)),
}
ADDING = {
    "i": "max",
    "g": "product",
    "t": "first_value",
    "d": "min",
    "m": "max",
    "w": "sum",
    "s": "listagg",
    "u": "first_non_null_value",
    "b": "bool_and",
    "a": "collect",
    "o": "collect",
    "p": "merge_map",
    "q": "merge_map_with_keytime",
    "n": "nested_update",
    "e": "nested_partial_update",
}
RETRACTING = {
    "i": "sum",
    "g": "last_value",
    "t": "sum",
    "d": "sum",
    "m": "sum",
    "w": "sum",
    "s": "last_non_null_value",
    "u": "last_value",
    "b": "last_non_null_value",
    "a": "collect",
    "o": "collect",
    "p": "merge_map",
    "n": "nested_update",
}
MORE = {
    "fields.s.list-agg-delimiter": ";",
    "fields.o.distinct": "true",
    "fields.n.nested-key": "id",
    "fields.n.count-limit": "3",
    "fields.e.nested-key": "id,s",
}


def functions(chosen: dict[str, str]) -> dict[str, str]:
    return {f"fields.{n}.aggregate-function": f for n, f in chosen.items()} | {
        k: v for k, v in MORE.items() if k.split(".")[1] in chosen
    }


def grouped(chosen: dict[str, str]) -> dict[str, str]:
    return functions(chosen) | {"fields.g1,g2.sequence-group": ",".join(chosen)}


ANY = ["+I", "+I", "+U", "-U", "-D"]
# engine, options, fields beside the key, row kinds
TABLES: dict[str, tuple[str, dict[str, str], list[str], list[str]]] = {
    "adding": ("aggregation", functions(ADDING), [*ADDING], ["+I", "+U"]),
    "retracting": ("aggregation", functions(RETRACTING), [*RETRACTING], ANY),
    "removing": (
        "aggregation",
        functions(RETRACTING)
        | {"aggregation.remove-record-on-delete": "true", "fields.i.ignore-retract": "false"},
        [*RETRACTING],
        ANY,
    ),
    "partial": ("partial-update", {}, ["i", "s", "a"], ["+I", "+U"]),
    "partial_ignore": ("partial-update", {"ignore-delete": "true"}, ["i", "s", "d"], ANY),
    "partial_remove": (
        "partial-update",
        {"partial-update.remove-record-on-delete": "true"},
        ["i", "s", "d"],
        ANY,
    ),
    "groups": (
        "partial-update",
        {"fields.g1,g2.sequence-group": "i,s", "fields.u.sequence-group": "d"},
        ["i", "g2", "s", "g1", "b", "d", "u"],
        ANY,
    ),
    "groups_adding": ("partial-update", grouped(ADDING), ["g1", *ADDING, "g2"], ["+I", "+U"]),
    "groups_retracting": (
        "partial-update",
        grouped(RETRACTING),
        ["g1", *RETRACTING, "g2"],
        ANY,
    ),
    "groups_removing": (
        "partial-update",
        grouped(RETRACTING) | {"partial-update.remove-record-on-sequence-group": "g1"},
        [*RETRACTING, "g2", "g1"],
        ANY,
    ),
    "groups_lenient": (
        "partial-update",
        grouped(ADDING) | {f"fields.{n}.ignore-retract": "true" for n in ADDING},
        ["g2", "g1", *ADDING],
        ANY,
    ),
}
SEQUENCES: dict[str, tuple[str, Value]] = {"g1": ("INT", small), "g2": ("STRING", texts)}


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
@pytest.mark.parametrize("name", TABLES)
def test_merges_as_java(oracle: Any, tmp_path: Path, name: str, seed: int) -> None:
    engine, options, names, kinds = TABLES[name]
    r = random.Random(f"{name} {seed}")
    fields = {n: {**FIELDS, **SEQUENCES}[n] for n in names}
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle.one(
        "create_table",
        columns=[{"name": "k", "type": "INT NOT NULL"}]
        + [{"name": n, "type": t} for n, (t, _) in fields.items()],
        primary_keys=["k"],
        options={"bucket": "1", "write-only": "true", "merge-engine": engine, **options},
    )
    for _ in range(COMMITS):
        rows = [
            {"kind": r.choice(kinds), "values": [k, *(value(r) for _, value in fields.values())]}
            for k in r.sample(range(5), r.randint(1, 5))
        ]
        oracle.one("write", rows=rows)
    wanted = [row[1:] for row in oracle.rows()]
    rules = JavaRules.JAVA_2_0 if oracle.version.startswith("2") else JavaRules.JAVA_1_4
    table = open_table(str(tmp_path), "db.t")
    files = scan_files(table, table.latest_or_not_found())
    reader = SectionReader(
        table=table, partition=files[0].partition, bucket=0, read_type=table.schema.row_type
    )
    merged = [
        row
        for section in interval_partition([f.file for f in files], table.schema.key_type)
        for batch in reader.merged(
            section, merge_engine_of(table.schema, rules=rules).engine, drop_deletes=True
        )
        for row in batch_to_json_rows(batch.select(["k", *names]), table.schema.row_type)
    ]
    assert sorted(map(json.dumps, merged)) == sorted(map(json.dumps, wanted))
