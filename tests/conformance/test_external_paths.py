"""Data files outside of the table's folder: both write them, each reads the other's."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from replay import run_step


def files_in(*folders: Path) -> set[str]:
    return {p.name for f in folders for p in f.rglob("data-*") if p.is_file()}


@pytest.mark.parametrize("strategy", ["round-robin", "entropy-inject"])
def test_both_write_and_compact(oracle, strategy, tmp_path: Path):
    a, b = tmp_path / "a", tmp_path / "b"
    place = {"warehouse": str(tmp_path / "lake"), "database": "db", "table": "t"}
    oracle.defaults(**place)
    create = {
        "op": "create_table",
        "columns": [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}],
        "primary_keys": ["k"],
        "options": {
            "bucket": "2",
            "write-only": "true",
            "data-file.external-paths": f"file://{a},file://{b}",
            "data-file.external-paths.strategy": strategy,
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "1 B",
        },
    }
    oracle([{"op": "create_database"}, create])
    for i in range(4):
        write = {"op": "write", "rows": [[k, f"v{i}"] for k in range(i, i + 10)]}
        oracle([write])
        assert "error" not in run_step({**place, **write})
    read = {"op": "read"}
    assert oracle.rows() == run_step({**place, **read})["rows"]
    ran = caretaker("run", "compact", "db.t", "-w", place["warehouse"], "--engine", "local")
    assert ran.code == 0, ran.err
    assert oracle.rows() == run_step({**place, **read})["rows"]
    expired = caretaker(
        *("run", "expire_snapshots", "db.t", "-w", place["warehouse"], "--retain-max", "1"),
        *("--retain-min", "1", "--older-than", "0 s", "--force"),
    )
    assert expired.code == 0, expired.err + expired.out
    live = caretaker("files", "db.t", "-w", place["warehouse"], "--json").json["files"]
    data = {f["file"] for f in live}
    assert {n for n in files_in(a, b) if not n.endswith(".index")} == data
    assert {n for n in files_in(a, b) if n.endswith(".index")} == {f"{n}.index" for n in data}
    assert files_in(tmp_path / "lake") == set()
    # Java goes on: it merges our file with its own.
    oracle([{"op": "write", "rows": [[1, "new"]]}, {"op": "compact"}])
    assert oracle.rows() == run_step({**place, **read})["rows"]
    assert caretaker("verify", "db.t", "-w", place["warehouse"]).code == 0
