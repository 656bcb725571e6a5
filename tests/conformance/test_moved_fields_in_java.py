"""Java reads and compacts tables whose structs have their fields in another order than before.

Java cannot move fields itself: its `Move` has one name, and moves the column that holds them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "s", "type": "ROW<a INT, b STRING, c ROW<x INT, y INT>>"},
    {"name": "l", "type": "ARRAY<ROW<a INT, b INT>>"},
    {"name": "m", "type": "MAP<STRING, ROW<a INT, b INT>>"},
]
MOVES = """
    ALTER TABLE t ALTER COLUMN s.b FIRST;
    ALTER TABLE t ALTER COLUMN s.a AFTER c;
    ALTER TABLE t ALTER COLUMN s.c.y FIRST;
    ALTER TABLE t ALTER COLUMN l.element.b FIRST;
    ALTER TABLE t ALTER COLUMN m.value.a AFTER b
"""


def row(k: int) -> list[Any]:
    inner = {"a": k + 1, "b": k + 2}
    s = {"a": k, "b": f"b{k}", "c": {"x": k * 10, "y": k * 100}}
    return [k, s, [inner, None, inner], [["m", inner], ["n", None]]]


@pytest.mark.sampled
@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("keyed", [True, False])
def test_moved_fields(
    version: str,
    file_format: str,
    keyed: bool,  # noqa: FBT001 - a parameter of the test
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    oracle: Oracle = request.getfixturevalue(f"oracle_{version.replace('.', '_')}")
    oracle.defaults(warehouse=tmp_path, database="default", table="t")
    options = {"bucket": "1" if keyed else "-1", "file.format": file_format, "write-only": "true"}
    create = {"op": "create_table", "columns": COLUMNS, "options": options}
    first = [row(1), row(2), [3, None, None, None]]
    oracle(
        [
            {"op": "create_database"},
            {**create, "primary_keys": ["k"] if keyed else []},
            {"op": "write", "rows": first},
        ]
    )
    sql = Sql(tmp_path)
    sql(MOVES)
    assert [r[1] for r in sql("DESCRIBE t")][1:] == [
        "struct<b:string,c:struct<y:int,x:int>,a:int>",
        "array<struct<b:int,a:int>>",
        "map<string,struct<b:int,a:int>>",
    ]
    # Rows by Java under the new order; it writes objects by their names.
    oracle([{"op": "write", "rows": [row(2), row(4)] if keyed else [row(4)]}])
    wanted = [row(1), row(2), [3, None, None, None], row(4)]
    assert sorted(r[1:] for r in oracle.rows()) == wanted
    assert ours(tmp_path) == wanted
    oracle([{"op": "compact", "full": True, "options": {"write-only": "false"}}])
    assert sorted(r[1:] for r in oracle.rows()) == wanted
    sql("CALL sys.compact(table => 'default.t', compact_strategy => 'full')")
    assert ours(tmp_path) == wanted
    assert sorted(r[1:] for r in oracle.rows()) == wanted


def ours(warehouse: Path) -> list[Any]:
    scan = batch_scan_of(open_table(str(warehouse), "default.t"))
    batches = read_batch(scan, columns=[c["name"] for c in COLUMNS])
    found = [r for b in batches for r in b.to_pylist()]
    rows = [
        [r["k"], r["s"], r["l"], None if r["m"] is None else [list(p) for p in r["m"]]]
        for r in found
    ]
    return sorted(rows)
