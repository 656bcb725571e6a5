"""Global indexes: Java finds rows by ours, and they go where Java's would."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker

from oracle import FlinkSql, Oracle, OracleError
from paimon_core.predicate import parse_where
from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_tasks import plan_snapshot
from paimon_maintenance.job.exit_codes import ExitCode

OPTIONS = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None, True],
    "TINYINT": [-128, 7, None, 127],
    "SMALLINT": [-300, 7, None, 300],
    "INT": [-70000, 7, None, 70000],
    "BIGINT": [-(2**40), 7, None, 2**62],
    "FLOAT": [-0.5, 0.0, None, 1.5],
    "DOUBLE": [-1e300, 0.0, None, 1e300],
    "DECIMAL(10, 2)": ["-12345.67", "0.07", None, "99999999.99"],
    "DECIMAL(30, 2)": ["-1234567890123456789012.67", "0.07", None, "256.00"],
    "DATE": ["1969-12-31", "2024-01-31", None, "9999-12-31"],
    "TIMESTAMP(0)": ["1969-12-31T23:59:58", "2024-01-31T12:00:00", None, "2524-01-01T00:00:00"],
    "TIMESTAMP(3)": [
        "1969-12-31T23:59:59.999",
        "2024-01-31T12:00:00.001",
        None,
        "2524-01-01T00:00:00.000",
    ],
    "TIMESTAMP(6)": [
        "1969-12-31T23:59:59.999999",
        "2024-01-31T12:00:00.001001",
        None,
        "2524-01-01T00:00:00.000000",
    ],
    "STRING": ["", "Zürich", None, "żółw 東京"],
    "VARCHAR(9)": ["A", "Zürich", None, "żółw 東京"],
    "CHAR(3)": ["abc", "abd", None, "zzz"],
}
"""Values of each type that Java can index, some of them twice among the rows."""


def _make(oracle: Oracle, warehouse: Path, types: list[str], **more: Any) -> None:
    oracle.defaults(warehouse=warehouse, database="db", table="t")
    oracle.one("create_database")
    columns = [{"name": f"c{i}", "type": t} for i, t in enumerate(types)]
    oracle.one(
        "create_table",
        columns=[{"name": "id", "type": "INT"}, *columns],
        options=OPTIONS | more.pop("options", {}),
        **more,
    )


def _index(warehouse: Path, column: str, *words: object) -> dict[str, Any]:
    ran = caretaker(
        *("run", "create_global_index", "db.t", "-w", warehouse, "--index-column", column),
        *("--json", *words),
    )
    assert ran.code == ExitCode.SUCCESS, ran.err
    return ran.json


def _filters(values: list[Any]) -> list[dict[str, Any]]:
    low, middle, _, high = values
    return [
        *({"op": "=", "value": v} for v in (low, middle, high)),
        {"op": "in", "value": [low, high]},
        {"op": "between", "value": [low, middle]},
        {"op": ">", "value": middle},
        {"op": "<>", "value": middle},
        {"op": "isNull"},
        {"op": "isNotNull"},
    ]


def test_java_finds_rows_of_every_type(oracle: Oracle, tmp_path: Path) -> None:
    types = [t for t in VALUES if t != "STRING" or oracle.version != "1.4.2"]
    # Java 1.4.2 takes a key without bytes, which is that of an empty text, for none, and fails.
    _make(oracle, tmp_path, types)
    for first in range(0, 12, 4):
        rows = [[first + i, *(VALUES[t][(first + i) % 4] for t in types)] for i in range(4)]
        oracle.one("write", rows=rows)
    for number, name in enumerate(types):
        _index(tmp_path, f"c{number}")
        for condition in _filters(VALUES[name]):
            asked = {"field": f"c{number}", **condition}
            with_index = oracle.one("read", filter=asked)["rows"]
            without = oracle.one("read", filter=asked, options={"global-index.enabled": "false"})
            assert with_index == without["rows"], asked


def test_java_reads_the_index_file(oracle: Oracle, tmp_path: Path) -> None:
    _make(oracle, tmp_path, ["STRING"])
    oracle.one("write", rows=[[i, f"v{i % 3}"] for i in range(9)])
    _index(tmp_path, "c0")
    (file,) = (tmp_path / "db.db" / "t" / "index").iterdir()
    file.unlink()
    with pytest.raises(OracleError):
        oracle.one("read", filter={"field": "c0", "op": "=", "value": "v1"})


def test_new_rows_are_indexed_by_the_next_run(oracle: Oracle, tmp_path: Path) -> None:
    _make(oracle, tmp_path, ["INT"], partition_keys=["c0"])
    oracle.one("write", rows=[[i, i % 2] for i in range(6)])
    assert _index(tmp_path, "id")["details"]["index_files"] == 2
    asked = {"field": "id", "op": ">=", "value": 4}
    oracle.one("write", rows=[[7, 0], [8, 1]])
    # As Java does by default, it leaves out rows that the index does not cover.
    assert oracle.rows(filter=asked) == [["+I", 4, 0], ["+I", 5, 1]]
    again = _index(tmp_path, "id", "--where", "c0 = 1")
    assert again["details"]["rows"] == 1
    assert oracle.rows(filter=asked) == [["+I", 4, 0], ["+I", 5, 1], ["+I", 8, 1]]
    assert _index(tmp_path, "id")["details"]["rows"] == 1
    nothing = caretaker(
        *("run", "create_global_index", "db.t", "-w", tmp_path, "--index-column", "id")
    )
    assert nothing.code == ExitCode.NOTHING_TO_DO, nothing.err
    every = [["+I", 4, 0], ["+I", 5, 1], ["+I", 7, 0], ["+I", 8, 1]]
    assert oracle.rows(filter=asked) == every
    files = oracle.one("files")["index_files"]
    assert {f["type"] for f in files} == {"btree"}


def test_small_files_and_a_compression(oracle: Oracle, tmp_path: Path) -> None:
    _make(oracle, tmp_path, ["STRING", "BIGINT"])
    for commit in range(5):
        rows = [[i, f"name {i % 70:02}", i % 7] for i in range(commit * 200, commit * 200 + 200)]
        oracle.one("write", rows=rows)
    options = {
        "sorted-index.records-per-range": "400",
        "btree-index.block-size": "512 b",
        "btree-index.compression": "zstd",
    }
    words = [w for key, value in options.items() for w in ("--option", f"{key}={value}")]
    for column in ("c0", "c1"):
        report = _index(tmp_path, column, *words)
        assert report["details"]["index_files"] == 3
    for asked in (
        {"field": "c0", "op": "=", "value": "name 33"},
        {"field": "c0", "op": "startsWith", "value": "name 6"},
        {"field": "c1", "op": "in", "value": [1, 6]},
        {
            "and": [
                {"field": "c0", "op": ">", "value": "name 50"},
                {"field": "c1", "op": "<=", "value": 2},
            ]
        },
    ):
        found = oracle.rows(filter=asked)
        assert found == oracle.rows(filter=asked, options={"global-index.enabled": "false"})
        assert found


def test_index_files_in_an_external_folder(oracle: Oracle, tmp_path: Path) -> None:
    outside, lake = tmp_path / "outside", tmp_path / "lake"
    options = {"global-index.external-path": f"file://{outside}"}
    _make(oracle, lake, ["STRING"], options=options)
    oracle.one("write", rows=[[i, f"v{i % 3}"] for i in range(9)])
    _index(lake, "c0")
    (file,) = outside.iterdir()
    old = time.time() - 9 * 86_400
    os.utime(file, (old, old))
    swept = caretaker("run", "remove_orphan_files", "db.t", "-w", lake)
    assert swept.code == ExitCode.NOTHING_TO_DO, swept.err
    assert file.exists()
    assert len(oracle.rows(filter={"field": "c0", "op": "=", "value": "v1"})) == 3
    words = ("db.t", "-w", lake, "--index-column", "c0")
    assert caretaker("run", "drop_global_index", *words).code == ExitCode.SUCCESS
    expired = caretaker(
        *("run", "expire_snapshots", "db.t", "-w", lake, "--retain-max", 1, "--retain-min", 1),
        *("--older-than", "2100-01-01 00:00:00"),
    )
    assert expired.code == ExitCode.SUCCESS, expired.err
    assert not file.exists()


def test_a_dropped_index_is_gone_with_its_snapshots(oracle: Oracle, tmp_path: Path) -> None:
    _make(oracle, tmp_path, ["STRING"])
    oracle.one("write", rows=[[i, f"v{i % 3}"] for i in range(9)])
    _index(tmp_path, "c0")
    _index(tmp_path, "id")
    words = ("db.t", "-w", tmp_path, "--index-column", "c0", "--json")
    dropped = caretaker("run", "drop_global_index", *words)
    assert dropped.code == ExitCode.SUCCESS, dropped.err
    assert len(oracle.one("files")["index_files"]) == 1
    expired = caretaker(
        *("run", "expire_snapshots", "db.t", "-w", tmp_path, "--retain-max", 1, "--retain-min", 1),
        *("--older-than", "2100-01-01 00:00:00"),
    )
    assert expired.code == ExitCode.SUCCESS, expired.err
    (left,) = (tmp_path / "db.db" / "t" / "index").iterdir()
    assert left.name == oracle.one("files")["index_files"][0]["file"]
    assert len(oracle.rows(filter={"field": "id", "op": "<", "value": 5})) == 5
    assert len(oracle.rows(filter={"field": "c0", "op": "=", "value": "v1"})) == 3


@pytest.mark.long
def test_ours_uses_the_index_of_flink(flink_sql: FlinkSql, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    inserts = "".join(
        f"INSERT INTO t SELECT CAST(i * 7 AS INT), 'n' || CAST(MOD(i, 5) AS STRING), "
        f"CASE WHEN i = {first} THEN NULL ELSE i / 4.0E0 END FROM (VALUES "
        f"{', '.join(f'({i})' for i in range(first, first + 10))}) AS v(i);\n"
        for first in (0, 10, 20)
    )
    options = ", ".join(f"'{k}' = '{v}'" for k, v in OPTIONS.items())
    flink_sql(
        f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{lake}');\n"
        "USE CATALOG c;\nCREATE DATABASE db;\nUSE db;\n"
        "SET 'table.dml-sync' = 'true';\nSET 'execution.runtime-mode' = 'batch';\n"
        f"CREATE TABLE t (a INT, b STRING, d DOUBLE) WITH ({options});\n"
        f"{inserts}"
        + "".join(
            f"CALL sys.create_global_index(`table` => 'db.t', index_column => '{column}', "
            "index_type => 'btree');\n"
            for column in "abd"
        )
    )
    table = open_table(str(lake), "db.t")
    without = open_table(str(lake), "db.t", dynamic_options={"global-index.enabled": "false"})
    snapshot = table.latest_or_not_found()
    assert len(table.index_entries(snapshot)) == 3
    for where, files in {
        "a = 14": 1,
        "a = 15": 0,
        "a IN (0, 203)": 2,
        "a BETWEEN 64 AND 69": 0,
        "a >= 140 OR a < 7": 2,
        "b = 'n3'": 3,
        "b = 'n7'": 0,
        "b LIKE 'n%'": 3,
        "b LIKE 'm%'": 0,
        "d = 1.25": 1,
        "d = 1.3": 0,
        "d IS NULL": 3,
        "d > 7.2 AND b = 'n4'": 1,
        "d <> 7": 3,
    }.items():
        predicate = parse_where(where, table.schema.row_type)
        assert len(plan_snapshot(table, snapshot, predicate=predicate)) == files, where
        found, every = (
            [r for b in read_table(t, snapshot, predicate=predicate) for r in b.to_pylist()]
            for t in (table, without)
        )
        assert found == every, where
