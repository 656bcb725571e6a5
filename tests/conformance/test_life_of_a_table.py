"""The life of one table, with its figures: ours from the first commit to the last file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from disk import assert_no_leftovers, on_disk
from replay import run_step

COLUMNS = [
    {"name": "id", "type": "INT NOT NULL"},
    {"name": "code", "type": "INT"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
DAYS = [f"202301{day:02}" for day in range(1, 11)]


def row(number: int, day: str, kind: str = "+I") -> dict[str, Any]:
    return {"kind": kind, "values": [number, number * 10, day]}


def test_the_life_of_a_table(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    root = tmp_path / "db.db" / "t"

    def do(op: str, **fields: Any) -> dict[str, Any]:
        result = run_step({"op": op, **at, **fields})
        assert "error" not in result, result
        return result

    do(
        "create_table",
        columns=COLUMNS,
        partition_keys=["dt"],
        primary_keys=["id", "dt"],
        options={"bucket": "1", "write-only": "true"},
    )
    do("write", rows=[row(1, DAYS[0])])
    do("write", rows=[row(number + 2, day) for number, day in enumerate(DAYS)])
    do("write", rows=[row(number + 4, day, "-D") for number, day in enumerate(DAYS[2:])])
    do("compact", full=True)
    latest = do("snapshots")["snapshots"][-1]
    assert (latest["id"], latest["commitKind"]) == (4, "COMPACT")
    delta = do("manifests")["delta"]["manifests"]
    assert sum(m["deleted"] for m in delta) == 19
    assert sum(m["added"] for m in delta) == 2

    options = {
        "snapshot.time-retained": "1 m",
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
    }
    before = on_disk(root)
    do(
        "alter_table",
        changes=[{"change": "set_option", "key": k, "value": v} for k, v in options.items()],
    )
    assert len(do("schemas")["schemas"]) > 1
    assert on_disk(root) == before, "options alone delete nothing"
    do("write", rows=[row(20, "20230111")])
    before = on_disk(root)
    assert do("expire_snapshots")["expired"] == 4
    assert [s["id"] for s in do("snapshots")["snapshots"]] == [5]
    assert len(list((root / "manifest").iterdir())) == 7
    assert {p.name for p in root.glob("dt=*")} == {f"dt={d}" for d in [*DAYS, "20230111"]}
    assert {p.parent.parent.name for p in root.rglob("bucket-0/*")} == {
        "dt=20230101",
        "dt=20230102",
        "dt=20230111",
    }
    assert len(list(root.rglob("bucket-0/*"))) == 3
    assert len(before - on_disk(root)) > 20
    assert (root / "snapshot" / "EARLIEST").read_text() == "5"
    assert_no_leftovers(tmp_path)
    assert do("expire_snapshots")["expired"] == 0


def test_empty_folders_go_if_the_table_says_so(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    root = tmp_path / "db.db" / "t"
    for step in (
        {
            "op": "create_table",
            "columns": COLUMNS,
            "partition_keys": ["dt"],
            "primary_keys": ["id", "dt"],
            "options": {"bucket": "1", "snapshot.clean-empty-directories": "true"},
        },
        {"op": "write", "rows": [row(1, "a"), row(2, "b")]},
        {"op": "drop_partition", "partitions": [{"dt": "a"}]},
        {"op": "expire_snapshots", "retain_max": 1, "retain_min": 1},
    ):
        result = run_step({**at, **step})
        assert "error" not in result, result
    assert {p.name for p in root.glob("dt=*")} == {"dt=b"}
    assert_no_leftovers(tmp_path)
