"""Random tables and random lives, as steps that the oracle and `replay.py` both understand.

Everything follows from a seed, so a failure is repeated by its number.  What Java leaves
undefined is not drawn (versions of a key with equal sequence numbers, sums that overflow), nor
what 1.4 and 2.0 merge differently (`listagg`: tables written here follow 1.4).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from paimon_core.types.data_types import ArrayType, DataType, MapType, MultisetType, RowType
from paimon_core.types.sql import parse_type, type_to_sql

Step = dict[str, Any]

KEY_TYPES = ("INT", "BIGINT", "STRING", "DATE", "DECIMAL(10, 2)", "TIMESTAMP(3)", "SMALLINT")
VALUE_TYPES = (
    *KEY_TYPES,
    "TINYINT",
    "DOUBLE",
    "FLOAT",
    "BOOLEAN",
    "DECIMAL(25, 5)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIME(3)",
    "VARCHAR(12)",
    "BYTES",
    "ARRAY<INT>",
    "MAP<STRING, INT>",
    "ROW<a INT, b STRING>",
    "ROW<a INT NOT NULL, b ROW<c STRING NOT NULL, d TIMESTAMP(6) NOT NULL>>",
    "ROW<a INT NOT NULL, b ROW<c INT NOT NULL> NOT NULL, m MAP<STRING, INT NOT NULL>>",
    "ARRAY<ROW<x INT NOT NULL, y ARRAY<STRING NOT NULL> NOT NULL>>",
    "MAP<STRING, ROW<n DECIMAL(25, 5) NOT NULL>>",
    "MULTISET<STRING>",
)
ORDERED_TYPES = ("INT", "BIGINT", "TIMESTAMP(3)", "DATE", "DECIMAL(10, 2)")
_EPOCH = datetime.fromisoformat("2024-01-01")


@dataclass(slots=True)
class RandomTable:
    """One table and its life: `build` makes it, a read after each step is the caller's affair."""

    seed: int
    version: str
    columns: list[Step] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    partitions: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    build: list[Step] = field(default_factory=list)
    tick: int = 0
    """Values of sequence fields never repeat."""

    def __str__(self) -> str:
        return f"seed {self.seed} on {self.version}: {self.keys} {self.options}"


def random_table(seed: int, version: str) -> RandomTable:
    """The table of a seed."""
    rng = random.Random(seed)
    table = RandomTable(seed, version)
    keyed = rng.random() < 0.7
    if rng.random() < 0.5:
        table.partitions = ["pt"]
        table.columns.append({"name": "pt", "type": rng.choice(("STRING", "INT", "DATE"))})
    if keyed:
        table.keys = [f"k{i}" for i in range(rng.choice((1, 1, 2)))]
        table.columns += [
            {"name": k, "type": f"{rng.choice(KEY_TYPES)} NOT NULL"} for k in table.keys
        ]
    table.columns += [
        {"name": f"v{i}", "type": rng.choice(VALUE_TYPES)} for i in range(rng.randint(2, 5))
    ]
    if keyed:
        table.columns += [{"name": f"g{i}", "type": rng.choice(ORDERED_TYPES)} for i in (1, 2)]
        table.keys = [*table.partitions, *table.keys]
        for column in table.columns:
            if column["name"] == "pt":
                column["type"] += " NOT NULL"
    _common_options(table, rng, keyed=keyed)
    if keyed:
        _merge_options(table, rng)
    elif rng.random() < 0.4:
        table.options |= {"bucket": str(rng.randint(1, 3)), "bucket-key": table.columns[-1]["name"]}
        table.columns[-1]["type"] = rng.choice(KEY_TYPES)
    table.build = list(_life(table, rng, keyed=keyed))
    return table


def _common_options(table: RandomTable, rng: random.Random, *, keyed: bool) -> None:
    options = table.options
    options["file.format"] = rng.choice(("parquet", "parquet", "orc", "avro"))
    if options["file.format"] == "avro" and any("(9)" in c["type"] for c in table.columns):
        options["file.format"] = "parquet"
    if rng.random() < 0.8:
        options["write-only"] = "true"
    if rng.random() < 0.3:
        options["metadata.stats-mode"] = rng.choice(("none", "counts", "full", "truncate(4)"))
    if rng.random() < 0.2:
        options["manifest.format"] = "avro"
        options["manifest.compression"] = rng.choice(("zstd", "snappy", "deflate"))
    if keyed and rng.random() < 0.2:
        options["data-file.thin-mode"] = "true"
    if keyed and rng.random() < 0.2:
        options["num-levels"] = str(rng.randint(3, 6))
    if rng.random() < 0.2:
        options["num-sorted-run.compaction-trigger"] = str(rng.randint(2, 4))


def _merge_options(table: RandomTable, rng: random.Random) -> None:
    options = table.options
    # Without a number of buckets they are dynamic: rows are looked up in a hash index.
    options["bucket"] = str(rng.choice((1, 2, 3, -1)))
    engine = rng.choice(
        ("deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
    )
    options["merge-engine"] = engine
    values = [c for c in table.columns if c["name"][0] == "v"]
    if engine == "partial-update":
        style = rng.randrange(4)
        if style == 0:
            options["ignore-delete"] = "true"
        elif style == 1:
            options["partial-update.remove-record-on-delete"] = "true"
        else:
            for group, members in (("g1", values[::2]), ("g2", values[1::2])):
                names = ",".join(c["name"] for c in members)
                options[f"fields.{group}.sequence-group"] = names
            if style == 3:
                for c in values[::2]:
                    options[f"fields.{c['name']}.aggregate-function"] = _function(c["type"], rng)
    elif engine == "aggregation":
        for c in (*values, *(c for c in table.columns if c["name"][0] == "g")):
            options[f"fields.{c['name']}.aggregate-function"] = _function(c["type"], rng)
            options[f"fields.{c['name']}.ignore-retract"] = "true"
    elif engine == "deduplicate":
        if rng.random() < 0.4:
            options["sequence.field"] = rng.choice(("g1", "g2", "g1,g2"))
        if rng.random() < 0.2:
            options["ignore-delete"] = "true"
    producer = rng.random()
    if producer < 0.15 and engine == "deduplicate":
        options["changelog-producer"] = "input"
    elif producer < 0.4:
        options["changelog-producer"] = rng.choice(("lookup", "full-compaction"))
        if engine == "first-row":
            options["changelog-producer"] = "lookup"
        if engine != "first-row" and rng.random() < 0.5:
            options["changelog-producer.row-deduplicate"] = "true"
    elif producer < 0.6 and engine != "first-row":
        options["deletion-vectors.enabled"] = "true"
        if rng.random() < 0.5:
            options["deletion-vectors.bitmap64"] = "true"


def _function(kind: str, rng: random.Random) -> str:
    functions = ["last_value", "last_non_null_value", "first_value", "first_non_null_value"]
    root = kind.split("(", maxsplit=1)[0].split("<", maxsplit=1)[0]
    if root in ("INT", "BIGINT", "DECIMAL"):
        functions.append("sum")
    if root in ("INT", "BIGINT", "SMALLINT", "TINYINT", "DECIMAL", "STRING", "DATE", "DOUBLE"):
        functions += ["max", "min"]
    if root == "BOOLEAN":
        functions += ["bool_and", "bool_or"]
    return rng.choice(functions)


def _life(table: RandomTable, rng: random.Random, *, keyed: bool) -> Any:
    names = [c["name"] for c in table.columns]
    yield {"op": "create_database"}
    yield {
        "op": "create_table",
        "columns": [dict(c) for c in table.columns],
        "primary_keys": table.keys,
        "partition_keys": table.partitions,
        "options": table.options,
    }
    added = 0
    for _ in range(rng.randint(4, 9)):
        draw = rng.random()
        if draw < 0.62:
            yield {"op": "write", "rows": _rows(table, rng, keyed=keyed)}
        elif draw < 0.84:
            yield {"op": "compact", "full": rng.random() < 0.6}
        elif draw < 0.9 and _may_overwrite(table):
            rows = _rows(table, rng, keyed=keyed, inserts=True)
            yield {"op": "overwrite", "partition": {}, "rows": rows}
        elif draw < 0.95:
            added += 1
            name = f"a{added}"
            kind = rng.choice(("INT", "STRING", "DOUBLE"))
            change = {"change": "add_column", "name": name, "type": kind}
            if table.options.get("merge-engine") == "aggregation":
                yield {"op": "write", "rows": _rows(table, rng, keyed=keyed)}
                continue
            table.columns.append({"name": name, "type": kind})
            yield {"op": "alter_table", "changes": [change]}
        elif draw < 0.97:
            altered = _nested_change(table, rng)
            if altered is not None:
                yield {"op": "alter_table", "changes": [altered]}
        else:
            plain = [n for n in names if n[0] == "v" and _renamable(table, n)]
            if not plain:
                continue
            old = rng.choice(plain)
            new = f"r{old}{rng.randint(0, 999)}"
            names[names.index(old)] = new
            for column in table.columns:
                if column["name"] == old:
                    column["name"] = new
            yield {
                "op": "alter_table",
                "changes": [{"change": "rename_column", "name": old, "to": new}],
            }
    yield {"op": "write", "rows": _rows(table, rng, keyed=keyed)}
    if rng.random() < 0.5:
        yield {"op": "compact", "full": True}


def _nested_change(table: RandomTable, rng: random.Random) -> Step | None:
    """A field more in a ROW column, or another type for its field `a`; None without such columns.

    Not where rows are kept while others are read: Java's readers of older schemas hand out the same
    nested row again and again, and its merge functions then hold a later row's value.
    """
    if table.options.get("merge-engine") in ("partial-update", "aggregation"):
        return None
    rows = [c for c in table.columns if c["type"].startswith("ROW<")]
    if not rows:
        return None
    column = rng.choice(rows)
    if " a INT" in column["type"].replace("<", " ") and rng.random() < 0.5:
        column["type"] = column["type"].replace("<a INT", "<a BIGINT", 1)
        return {"change": "update_type", "name": f"{column['name']}.a", "type": "BIGINT"}
    name = f"e{rng.randint(0, 10**6)}"
    kind = rng.choice(("INT", "ROW<z STRING NOT NULL>"))
    column["type"] = f"{column['type'][:-1]}, {name} {kind}>"
    return {"change": "add_column", "name": f"{column['name']}.{name}", "type": kind}


def _may_overwrite(table: RandomTable) -> bool:
    return not {"changelog-producer", "deletion-vectors.enabled"} & set(table.options)


def _renamable(table: RandomTable, name: str) -> bool:
    return not any(name in f"{k}={v}" for k, v in table.options.items())


def _rows(table: RandomTable, rng: random.Random, *, keyed: bool, inserts: bool = False) -> Any:
    engine = table.options.get("merge-engine")
    deletes = keyed and not inserts
    if engine == "first-row" or (engine == "aggregation" and rng.random() < 0.5):
        deletes = False
    if engine == "partial-update":
        deletes = deletes and not any("aggregate-function" in o for o in table.options)
        deletes = deletes and (
            "ignore-delete" in table.options
            or "partial-update.remove-record-on-delete" in table.options
        )
    rows = []
    seen: set[str] = set()
    for _ in range(rng.choice((1, 3, 10, 40))):
        values = [_value(table, c, rng) for c in table.columns]
        key = str(
            [v for v, c in zip(values, table.columns, strict=True) if c["name"] in table.keys]
        )
        if keyed and "sequence.field" in table.options and key in seen:
            continue  # versions of Java differ in what a write buffer leaves of several rows
        seen.add(key)
        kind = rng.choices(("+I", "+U", "-D"), (6, 2, 2))[0] if deletes else "+I"
        rows.append({"kind": kind, "values": values})
    return rows


def _value(table: RandomTable, column: Step, rng: random.Random) -> Any:
    name, kind = column["name"], column["type"].removesuffix(" NOT NULL")
    if name == "pt":
        return _small(kind, rng.randint(1, 3))
    if name[0] == "k":
        return _small(kind, rng.randint(0, 25))
    if name[0] == "g":
        table.tick += 1
        # A later row may be older: ticks are spread, and never equal.
        return _small(kind, table.tick + rng.choice((0, 0, 0, -40_000)), wide=True)
    return None if rng.random() < 0.2 else _any_value(kind, rng)


def _small(kind: str, n: int, *, wide: bool = False) -> Any:
    if kind == "STRING":
        return f"k{n}"
    if kind == "DATE":
        days = n + 60_000 if wide else n
        return (date(1950 if wide else 2024, 1, 1) + timedelta(days=days)).isoformat()
    if kind.startswith("DECIMAL"):
        return f"{n}.25"
    if kind.startswith("TIMESTAMP"):
        return (_EPOCH + timedelta(seconds=n)).isoformat(timespec="milliseconds")
    return n


def _any_value(kind: str, rng: random.Random) -> Any:
    root = kind.split("(", maxsplit=1)[0].split("<", maxsplit=1)[0]
    match root:
        case "INT" | "BIGINT" | "SMALLINT" | "TINYINT":
            return rng.randint(-100, 100)
        case "STRING" | "VARCHAR":
            return "".join(rng.choices("abcäé日😀 ,", k=rng.randint(0, 8)))
        case "DOUBLE" | "FLOAT":
            return rng.choice((0.5, 0.0, 1.25, -3.0, 1e10))
        case "BOOLEAN":
            return rng.random() < 0.5
        case "DECIMAL":
            scale = int(kind[:-1].split(",")[1])
            return f"{rng.randint(-9999, 9999)}.{'123456789'[:scale]}"
        case "DATE":
            return (date(1960, 1, 1) + timedelta(days=rng.randint(0, 40_000))).isoformat()
        case "TIME":
            return f"{rng.randint(0, 23):02}:10:59.{rng.randint(0, 999):03}"
        case "TIMESTAMP":
            return _timestamp(kind, rng)
        case "BYTES":
            return rng.randbytes(rng.randint(0, 6)).hex()
        case "ARRAY" | "MAP" | "MULTISET" | "ROW":
            return _nested(parse_type(kind), rng)
    raise AssertionError(kind)


def _nested(kind: DataType, rng: random.Random) -> Any:
    """A value of this type; parts that are not NOT NULL are null now and then."""

    def part(t: DataType) -> Any:
        return None if t.nullable and rng.random() < 0.3 else _nested(t, rng)

    match kind:
        case ArrayType():
            return [part(kind.element) for _ in range(rng.randint(0, 3))]
        case MapType():
            return [[k, part(kind.value)] for k in "xyz"[: rng.randint(0, 3)]]
        case MultisetType():
            return [[k, rng.randint(1, 3)] for k in "xyz"[: rng.randint(0, 3)]]
        case RowType():
            return {f.name: part(f.type) for f in kind.fields}
    return _any_value(type_to_sql(kind.with_nullable(True)), rng)


def _timestamp(kind: str, rng: random.Random) -> str:
    digits = int(kind[10])
    moment = _EPOCH + timedelta(seconds=rng.randint(-2_000_000_000, 900_000_000))
    fraction = f"{rng.randint(0, 999_999_999):09}"[:digits]
    zone = "Z" if "LOCAL" in kind else ""
    return f"{moment.isoformat(timespec='seconds')}.{fraction}{zone}"
