"""Partitions of another branch fill in what a table does not have, as in Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from replay import rows_of

from oracle import Oracle
from paimon_core.errors import InvalidArgument, PaimonError, UnsupportedFeature
from paimon_core.predicate import from_oracle_filter
from paimon_core.table.open import open_table
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]


def steps(key: list[str]) -> list[dict[str, Any]]:
    def options(keys: list[str]) -> dict[str, str]:
        return {"bucket": "2" if keys else "-1", "write-only": "true"}

    other = {"branch": "stream"}
    return [
        {"op": "create_database"},
        {
            "op": "create_table",
            "columns": COLUMNS,
            "partition_keys": ["dt"],
            "primary_keys": key,
            "options": options(key),
        },
        {"op": "write", "rows": [[1, "main", "a"], [2, "main", "b"]], "compact": False},
        {"op": "create_branch", "name": "stream"},
        {"op": "write", "rows": [[9, "other", "a"], [8, "other", "c"]], "compact": False, **other},
        {"op": "write", "rows": [[7, "other", "d"]], "compact": False, **other},
        {"op": "write", "rows": [[3, "main", "d"]], "compact": False},
        {
            "op": "alter_table",
            "changes": [{"change": "set_option", "key": "scan.fallback-branch", "value": "stream"}],
        },
    ]


READS: list[dict[str, Any]] = [
    {},
    {"snapshot": 1},
    {"snapshot": 2},
    {"filter": {"field": "dt", "op": "=", "value": "c"}},
    {"filter": {"field": "k", "op": "<", "value": 3}},
    {"filter": {"field": "v", "op": "=", "value": "other"}},
    {"options": {"scan.snapshot-id": "99"}},
    {"branch": "stream"},
]


def ours(warehouse: Path, read: dict[str, Any]) -> list[str] | str:
    options = dict(read.get("options", {}))
    if "snapshot" in read:
        options["scan.snapshot-id"] = str(read["snapshot"])
    try:
        table = open_table(
            str(warehouse), "db.t", branch=read.get("branch"), dynamic_options=options
        )
        batch = batch_scan_of(table)
        row_type = batch.table.schema.row_type
        told = read.get("filter")
        predicate = from_oracle_filter(told, row_type) if told else None
        rows = list(rows_of(read_batch(batch, predicate=predicate), row_type, bits=False))
    except PaimonError as e:
        return f"{type(e).__name__}: {e}"
    return sorted(map(json.dumps, rows))


@pytest.mark.parametrize("key", [["k", "dt"], []], ids=["keyed", "append"])
def test_reads_with_a_fallback_branch_are_javas(
    key: list[str], oracle: Oracle, tmp_path: Path
) -> None:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle(steps(key))
    answers = oracle([{"op": "read", **r} for r in READS], check=False)
    for read, java in zip(READS, answers, strict=True):
        mine = ours(tmp_path, read)
        if "error" in java:
            assert isinstance(mine, str), (read, java["error"], mine)
        else:
            assert mine == sorted(map(json.dumps, java["rows"])), read
    whole = ours(tmp_path, {})
    assert len(whole) == 4  # the other branch's "a" and "d" are hidden, its "c" is not


def test_what_goes_with_a_fallback_branch(oracle_1_4_2: Oracle, tmp_path: Path) -> None:
    oracle = oracle_1_4_2.defaults(warehouse=tmp_path, database="db", table="t")
    oracle(steps(["k", "dt"]))
    ran = caretaker("read", "db.t", "-w", tmp_path, "--columns", "k", "--where", "dt >= 'b'")
    assert sorted(row[1] for row in ran.rows) == [2, 3, 8]
    assert len(caretaker("read", "db.t", "-w", tmp_path, "--limit", 3).rows) == 3
    with pytest.raises(UnsupportedFeature, match="incremental"):
        batch_scan_of(
            open_table(str(tmp_path), "db.t", dynamic_options={"incremental-between": "1,2"})
        )
    # A branch that is not there is no reason to fail, in Java neither.
    nowhere = {"scan.fallback-branch": "nowhere"}
    assert batch_scan_of(open_table(str(tmp_path), "db.t", dynamic_options=nowhere)).then is None
    first = {"scan.fallback-branch": None, "scan.primary-branch": "stream"}
    table = open_table(str(tmp_path), "db.t", dynamic_options=first)
    rows = [r for b in read_batch(batch_scan_of(table)) for r in b.to_pylist()]
    assert sorted((r["k"], r["v"]) for r in rows) == [
        (2, "main"), (7, "other"), (8, "other"), (9, "other")
    ]  # fmt: skip
    change = {"change": "add_column", "name": "more", "type": "INT"}
    oracle.one("alter_table", changes=[change])
    with pytest.raises(InvalidArgument, match="same columns"):
        batch_scan_of(open_table(str(tmp_path), "db.t"))
