"""Maps whose keys share columns beside Java 2.0.0: read and compacted, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from replay import run_step
from sql_sessions import Sql

from oracle import Oracle

TYPES = {
    "k": "INT NOT NULL",
    "m": "MAP<STRING NOT NULL, BIGINT>",
    "r": "MAP<STRING NOT NULL, ROW<a INT, b ARRAY<STRING>>>",
    "d": "MAP<STRING NOT NULL, DECIMAL(20, 3)>",
    "t": "MAP<STRING NOT NULL, TIMESTAMP(9)>",
}
COLUMNS = [{"name": name, "type": t} for name, t in TYPES.items()]
MAPS = [name for name in TYPES if name != "k"]
VALUES: dict[str, list[Any]] = {
    "m": [1, 2**60, None, -5],
    "r": [[1, ["x", None]], [None, None], None, [2, []]],
    "d": ["1.500", "-12345678901234567.125", None, "0.000"],
    "t": ["1970-01-01 00:00:00.000000001", None, "2026-11-27 12:00:00", "1999-12-31 23:59:59.999"],
}
KEYS = ["a", "b", "é\U0001f600", "", "long" * 20, 'q"uote']
LAYOUTS = {
    "lru": {"max-columns": "2"},
    "plain": {"max-columns": "3", "column-placement-policy": "plain"},
    "sequential": {"max-columns": "1", "column-placement-policy": "sequential"},
    "wide": {},
}


def rows_from(first: int) -> list[list[Any]]:
    """Rows with no map, empty maps, and maps of one key up to all."""
    rows: list[list[Any]] = []
    for i in range(first, first + 12):
        row: list[Any] = [i]
        for at, name in enumerate(MAPS):
            keys = [KEYS[(i + at + j) % len(KEYS)] for j in range((i + at) % (len(KEYS) + 1))]
            values = VALUES[name]
            row.append([[key, values[(i + j) % len(values)]] for j, key in enumerate(keys)])
        if i % 5 == 0:
            row[1 + i % len(MAPS)] = None
        rows.append(row)
    return rows


def stored(warehouse: Path, file_format: str) -> list[str]:
    """The types of column `m` in the data files."""
    files = sorted(warehouse.rglob(f"data-*.{file_format}"))
    if file_format == "orc":
        return [str(orc.ORCFile(f).schema.field("m").type) for f in files]
    return [str(pq.ParquetFile(f).schema_arrow.field("m").type) for f in files]


def sorted_maps(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows with the keys of each map in order: how Java places them decides theirs."""
    return [[sorted(v) if isinstance(v, list) else v for v in row] for row in rows]


@pytest.mark.sampled(one_of=12)
@pytest.mark.parametrize("keys", [[], ["k"]], ids=["append", "keys"])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_and_we_read_the_same_before_and_after_compaction(
    layout: str,
    compression: str,
    file_format: str,
    keys: list[str],
    oracle_2_0_0: Oracle,
    tmp_path: Path,
) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    java = oracle_2_0_0.defaults(**at)
    options = {"bucket": "1" if keys else "-1", "write-only": "true"}
    options |= {"file.format": file_format, "file.compression": compression}
    options |= {"compaction.min.file-num": "2"}
    for name in MAPS:
        options[f"fields.{name}.map.storage-layout"] = "shared-shredding"
        for key, value in LAYOUTS[layout].items():
            options[f"fields.{name}.map.shared-shredding.{key}"] = value
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, primary_keys=keys, options=options)
    for first in (0, 12):
        java.one("write", rows=rows_from(first))
    assert all("__field_mapping" in t for t in stored(tmp_path, file_format))
    theirs = java.rows()
    ours = run_step({"op": "read", **at})["rows"]
    assert ours == theirs
    compacted = run_step({"op": "compact", **at, "full": True})
    assert "error" not in compacted, compacted
    assert run_step({"op": "read", **at})["rows"] == theirs
    assert java.rows() == theirs
    if keys:
        Sql(tmp_path)("CALL sys.rescale('db.t', 2)")
        assert java.rows() == theirs
    written = run_step({"op": "write", **at, "rows": rows_from(20)})
    assert "error" not in written, written
    theirs = java.rows()
    assert run_step({"op": "read", **at})["rows"] == theirs
    java.one("compact")
    after = java.rows()
    assert sorted_maps(after) == sorted_maps(theirs)
    assert run_step({"op": "read", **at})["rows"] == after
