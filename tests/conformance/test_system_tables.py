"""System tables as Java has them: columns, types and rows, over tables that Java wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from oracle import Oracle
from paimon_core.errors import InvalidArgument
from paimon_core.table.open import open_table
from paimon_core.table.system.read import SYSTEM_TABLES, VIEWS, read_system_table
from paimon_core.types.data_types import RowType
from paimon_core.types.json_columns import batch_to_json_rows
from paimon_core.types.sql import type_to_sql

GOLDEN = Path(__file__).parent.parent / "golden"
NAMES = (*SYSTEM_TABLES, *VIEWS)

TABLES = (
    "tags_branches",
    "sequence_group_agg",
    "partitions_null",
    "partitions_date",
    "schema_evolution_pk_compacted",
    "deletion_vectors",
    "types_append_parquet",
    "changelog_full_compaction",
    "postpone",
    "stats_not_dense",
    "row_tracking",
)


def ours(warehouse: Path, name: str) -> tuple[list[str], list[str], list[list[Any]]]:
    table = open_table(str(warehouse), "db.t")
    row_type, batches = read_system_table(table, name, table.snapshots.latest())
    rows = [row for b in batches for row in json_rows(b, row_type)]
    return list(row_type.names), [type_to_sql(t) for t in row_type.types], rows


def json_rows(batch: Any, row_type: RowType) -> list[list[Any]]:
    values = batch_to_json_rows(batch.select(list(row_type.names)), row_type)
    return [["+I", *row] for row in values]


def comparable(name: str, rows: list[list[Any]]) -> list[str]:
    """Rows in one order; Java keeps options in a hash map, and prints addresses of byte arrays."""
    result = []
    for row in rows:
        cells = list(row)
        if name == "schemas":
            cells[5] = json.loads(cells[5])
        if name == "files":
            cells[12:14] = [without_bytes(c) for c in cells[12:14]]
        result.append(json.dumps(cells, sort_keys=True))
    return sorted(result)


def test_row_tracking_of_plain_tables_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="does not support row tracking"):
        ours(GOLDEN / "2.0.0" / "postpone" / "warehouse", "row_tracking")


def without_bytes(text: str) -> str:
    parts = text.strip("{}").split(", ")
    return ", ".join(p for p in parts if not p.startswith(("c_bin", "c_varbin", "c_bytes")))


@pytest.mark.parametrize("folder", TABLES)
def test_every_system_table_is_javas(folder: str, oracle: Oracle, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(GOLDEN / oracle.version / folder / "warehouse", warehouse)
    oracle.defaults(warehouse=warehouse, database="db", table="t")
    names = [n for n in NAMES if n != "row_tracking" or folder == "row_tracking"]
    answers = oracle([{"op": "read", "system": n} for n in names])
    for name, java in zip(names, answers, strict=True):
        columns, types, rows = ours(warehouse, name)
        assert columns == java["columns"], name
        assert types == java["types"], name
        assert comparable(name, rows) == comparable(name, java["rows"]), name


def test_blank_partitions_bear_the_default_name(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    columns = [{"name": "p", "type": "STRING"}, {"name": "d", "type": "DATE"}]
    options = {"bucket": "-1", "partition.default-name": "none"}
    oracle.one("create_table", columns=columns, partition_keys=["p", "d"], options=options)
    day = "2024-02-29"
    oracle.one("write", rows=[["", day], ["  ", day], [None, day], ["none", None], ["a b", day]])
    (java,) = oracle([{"op": "read", "system": "partitions"}])
    _, _, rows = ours(tmp_path, "partitions")
    assert comparable("partitions", rows) == comparable("partitions", java["rows"])
