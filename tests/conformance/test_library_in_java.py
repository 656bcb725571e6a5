"""What the public API writes, Java reads; what Java writes, the API reads and goes on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from iceberg_reader import iceberg_rows, unreferenced

from oracle import Oracle
from paimon_core import Catalog, Schema, Table, open_catalog

COLUMNS = {"k": "INT", "v": "STRING", "dt": "STRING"}
TABLES: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {}),
    "append_vectors": ([], {"deletion-vectors.enabled": "true"}),
    "append_buckets": (
        [],
        {"bucket": "2", "bucket-key": "k", "deletion-vectors.enabled": "true"},
    ),
    "keyed": (["dt", "k"], {"bucket": "2", "changelog-producer": "input"}),
}


@pytest.fixture
def catalog(oracle: Oracle, tmp_path: Path) -> Catalog:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    made = open_catalog(str(tmp_path))
    made.create_database("db")
    return made


def rows(*keys: int) -> list[dict[str, Any]]:
    return [{"k": k, "v": f"v{k}", "dt": "ab"[k % 2]} for k in keys]


def ours(table: Table) -> list[list[Any]]:
    return sorted(list(r.values()) for r in table.to_dicts())


def theirs(oracle: Oracle) -> list[list[Any]]:
    return sorted(row[1:] for row in oracle.rows())


@pytest.mark.parametrize("kind", TABLES)
def test_both_read_what_either_writes(catalog: Catalog, oracle: Oracle, kind: str) -> None:
    keys, options = TABLES[kind]
    schema = Schema.of(COLUMNS, partition_keys=["dt"], primary_keys=keys, options=options)
    table = catalog.create_table("db.t", schema)
    table.append(rows(*range(10)))
    oracle([{"op": "write", "rows": [[k, "java", "ab"[k % 2]] for k in range(10, 20)]}])
    assert ours(table) == theirs(oracle)
    assert len(ours(table)) == 20

    assert table.delete("k >= 5 AND k < 13 AND dt = 'a'").rows == 4
    assert table.delete("k = 3").rows == 1
    assert ours(table) == theirs(oracle)
    assert len(ours(table)) == 15

    table.overwrite(rows(100), {"dt": "a"})
    assert ours(table) == theirs(oracle)
    oracle([{"op": "write", "rows": [[7, "again", "b"]]}])
    table.compact(full=True)
    assert ours(table) == theirs(oracle)
    table.truncate({"dt": "b"})
    assert theirs(oracle) == [[100, "v100", "a"]]


@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_catalogs_that_take_part_in_commits(
    kind: str,
    oracle_1_4_2: Oracle,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if kind == "rest":
        options = request.getfixturevalue("start_rest_server")().options
    else:
        options = {
            "metastore": "jdbc",
            "uri": f"jdbc:sqlite:{tmp_path / 'catalog.db'}?journal_mode=WAL",
            "warehouse": str(tmp_path / "lake"),
        }
    made = open_catalog(options)
    made.create_database("db")
    retain = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table_options = {"bucket": "1", "metadata.iceberg.storage": "table-location"} | retain
    schema = Schema.of(COLUMNS, primary_keys=["k"], options=table_options)
    table = made.create_table("db.t", schema)
    oracle_1_4_2.defaults(catalog=options, database="db", table="t")
    for k in range(3):
        result = table.upsert(rows(k, 10))
        assert result.maintained is not None
        assert result.maintained.failure is None
    assert [s.id for s in table.snapshots()] == [2, 3]
    assert table.delete("k = 1").rows == 1
    oracle_1_4_2([{"op": "write", "rows": [[20, "java", "a"]]}])
    assert ours(table) == theirs(oracle_1_4_2)
    assert [row[0] for row in ours(table)] == [0, 2, 10, 20]
    table.compact(full=True)
    folder = Path(table.core.root.removeprefix("file:")) / "metadata"
    assert sorted(list(row) for row in iceberg_rows(folder)) == ours(table)
    assert unreferenced(folder) == set()
    made.drop_database("db", cascade=True)
    assert made.list_databases() == []
