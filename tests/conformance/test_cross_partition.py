"""Tables whose keys move between partitions: written by us, by the model; read and compacted by Java."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from replay import ENV, run_step

from oracle import Oracle
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import new_writer, write_rows
from paimon_core.types.arrow import arrow_schema
from paimon_core.write.row_writer import RowWriter

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "a", "type": "STRING"},
    {"name": "b", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
Row = list[Any]


def apply(engine: str, rows: dict[int, Row], kind: str, row: Row) -> None:
    """What one written row does, by the rules of Java's `ExistingProcessor`."""
    key, old = row[0], rows.get(row[0])
    if kind == "-D":
        rows.pop(key, None)
    elif engine == "deduplicate" or old is None:
        rows[key] = row
    elif engine == "partial-update":
        rows[key] = [new if new is not None else was for new, was in zip(row, old, strict=True)]
        rows[key][3] = old[3]


def step(engine: str, rng: random.Random, rows: dict[int, Row]) -> dict[str, Any]:
    written = []
    for _ in range(rng.randint(5, 40)):
        values = [rng.choice([None, f"v{rng.random():.6f}"]) for _ in range(2)]
        row = [rng.randint(0, 25), *values, rng.choice(["x", "y", "z"])]
        kind = "-D" if engine == "deduplicate" and rng.random() < 0.15 else "+I"
        apply(engine, rows, kind, row)
        written.append({"kind": kind, "values": row})
    return {"op": "write", "rows": written}


def values(result: dict[str, Any]) -> list[Row]:
    assert "error" not in result, result
    return sorted((row[1:] for row in result["rows"]), key=lambda row: int(row[0]))


@pytest.mark.sampled
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
def test_keys_move_between_partitions(engine: str, oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    create = {
        "op": "create_table",
        "columns": COLUMNS,
        "primary_keys": ["k"],
        "partition_keys": ["dt"],
        "options": {
            "bucket": "-1",
            "dynamic-bucket.target-row-num": "4",
            "merge-engine": engine,
        },
    }
    assert "error" not in run_step({**create, **at})
    rng, rows = random.Random(engine + oracle.version), dict[int, Row]()
    for turn in range(6):
        result = run_step({**step(engine, rng, rows), **at})
        assert "error" not in result, result
        expected = [rows[k] for k in sorted(rows)]
        if turn in (2, 5):
            read = {"op": "read"}
            assert values(oracle.one("read")) == values(run_step({**at, **read})) == expected
            if turn == 2:
                oracle([{"op": "compact", "full": True}])
            else:
                assert "error" not in run_step({"op": "compact", **at})
            assert values(oracle.one("read")) == values(run_step({**at, **read})) == expected
    files = run_step({"op": "files", **at})["files"]
    assert len({f["bucket"] for f in files}) > 1  # four keys a bucket


def test_an_overwrite_of_the_whole_table(oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    create = {
        "op": "create_table",
        "columns": COLUMNS,
        "primary_keys": ["k"],
        "partition_keys": ["dt"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "4"},
    }
    assert "error" not in run_step({**create, **at})
    rng, rows = random.Random(1), dict[int, Row]()
    assert "error" not in run_step({**step("deduplicate", rng, rows), **at})
    static = {"dynamic-partition-overwrite": "false"}
    table = open_table(str(tmp_path), "db.t", dynamic_options=static)
    new = [[k, f"new {k}", None, "xyz"[k % 3]] for k in range(3, 20)]
    columns = {c["name"]: [row[i] for row in new] for i, c in enumerate(COLUMNS)}
    schema = arrow_schema(table.schema.row_type)
    write_rows(table, pa.table(columns, schema=schema), env=ENV, partition={})
    assert values(oracle.one("read")) == values(run_step({**at, "op": "read"})) == new
    rows = {row[0]: row for row in new}
    assert "error" not in run_step({**step("deduplicate", rng, rows), **at})
    expected = [rows[k] for k in sorted(rows)]
    assert values(oracle.one("read")) == values(run_step({**at, "op": "read"})) == expected


def test_what_such_a_table_refuses(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    create = {
        "op": "create_table",
        "columns": COLUMNS,
        "primary_keys": ["k"],
        "partition_keys": ["dt"],
        "options": {"bucket": "-1"},
    }
    assert "error" not in run_step({**create, **at})
    table = open_table(str(tmp_path), "db.t")
    with pytest.raises(InvalidArgument, match="needs a global index"):
        RowWriter(table, env=ENV)
    with pytest.raises(UnsupportedFeature, match="only the whole table can be"):
        new_writer(table, env=ENV, overwrite=True)
    options = {"dynamic-partition-overwrite": "false"}
    static = open_table(str(tmp_path), "db.t", dynamic_options=options)
    rows = pa.table({"k": pa.array([1], pa.int32()), "dt": ["x"]})
    with pytest.raises(InvalidArgument, match="only the whole table can be"):
        write_rows(static, rows, env=ENV, partition={"dt": "x"})
    assert table.snapshots.latest() is None
    assert not list(tmp_path.glob("db.db/t/**/*.parquet"))
    writer = new_writer(table, env=ENV)
    writer.write(pa.table({"k": pa.array([], pa.int32()), "dt": pa.array([], pa.string())}))
    assert writer.prepare_commit() == []
