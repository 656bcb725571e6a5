"""Streams that pause while commits, compaction and expiry go on.

One with a consumer never loses a file that it still needs, however long it pauses between planning
and reading; one without fails with an error, and never passes over rows in silence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from replay import rows_of, run_step

from oracle import Oracle
from paimon_core.errors import CorruptTable, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.stream import StreamPlan, StreamScan, read_plan
from paimon_core.table.open import open_table

COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
TABLES: dict[str, dict[str, Any]] = {
    "append": {"options": {"bucket": "-1"}},
    "append_bucketed": {"options": {"bucket": "1", "bucket-key": "k"}},
    "input": {"primary_keys": ["k"], "options": {"bucket": "1", "changelog-producer": "input"}},
    "none": {"primary_keys": ["k"], "options": {"bucket": "1"}},
    "decoupled": {
        "primary_keys": ["k"],
        "options": {
            "bucket": "1",
            "changelog-producer": "input",
            "changelog.num-retained.min": "20",
            "changelog.num-retained.max": "20",
            "consumer.changelog-only": "true",
        },
    },
}
ROUNDS = 6


class Table:
    def __init__(self, warehouse: Path, kind: str) -> None:
        self.warehouse = warehouse
        self.at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
        self.count = 0
        table = TABLES[kind]
        options = {"write-only": "true", **table["options"]}
        self.do({"op": "create_table", "columns": COLUMNS, **table, "options": options})

    def do(self, step: dict[str, Any]) -> dict[str, Any]:
        result = run_step({**self.at, **step})
        assert "error" not in result, result
        return result

    def go_on(self) -> None:
        """Three commits, a compaction, and the strictest expiry there is."""
        for _ in range(3):
            self.do({"op": "write", "rows": [[self.count, f"v{self.count}"]]})
            self.count += 1
        options = {"compaction.min.file-num": "2"}
        self.do({"op": "compact", "full": True, "options": options})
        # Options, and no arguments, so that changelogs stay where they are kept longer.
        keep = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
        self.do({"op": "expire_snapshots", "options": keep})

    def handle(self) -> FileStoreTable:
        return open_table(str(self.warehouse), "db.t")

    def read(self, plan: StreamPlan) -> list[int]:
        table = self.handle()
        return [r[1] for r in rows_of(read_plan(table, plan), table.schema.row_type, bits=False)]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", TABLES)
def test_a_consumer_keeps_what_its_reader_needs(kind: str, tmp_path: Path) -> None:
    table = Table(tmp_path, kind)
    table.do({"op": "write", "rows": [[-1, "first"]]})
    store = table.handle().consumers
    # Where consumers keep changelogs alone, a first plan of the whole table is not safe.
    scan = StreamScan(table=table.handle(), next_snapshot=1 if kind == "decoupled" else None)
    seen: list[int] = []
    store.set("reader", 1)
    for _ in range(ROUNDS):
        while not (plan := scan.plan()).is_empty:
            if table.count < 3 * ROUNDS:
                table.go_on()
            seen += table.read(plan)
            store.set("reader", plan.next_snapshot or 1)
    assert seen == [-1, *range(3 * ROUNDS)]
    store.delete("reader")
    table.go_on()
    assert len(table.handle().snapshots.ids()) == 1, "nothing is held back any more"


@pytest.mark.parametrize("kind", ["append", "input", "none"])
def test_without_a_consumer_it_fails_loudly(kind: str, tmp_path: Path) -> None:
    table = Table(tmp_path, kind)
    table.do({"op": "write", "rows": [[-1, "first"]]})
    scan = StreamScan(table=table.handle())
    seen = table.read(scan.plan())
    table.go_on()
    with pytest.raises((NotFound, CorruptTable, FileNotFoundError)):  # noqa: PT012 - any of them
        while not (plan := scan.plan()).is_empty:
            table.go_on()
            seen += table.read(plan)
    assert seen == [-1, *range(len(seen) - 1)], "rows were lost in silence"


@pytest.mark.parametrize("kind", ["append", "input", "decoupled"])
def test_a_reader_of_java_with_a_consumer(kind: str, tmp_path: Path, oracle: Oracle) -> None:
    table = Table(tmp_path, kind)
    table.do({"op": "write", "rows": [[-1, "first"]]})
    seen: list[int] = []
    read = {"op": "stream_read", "options": {"consumer-id": "java"}, "ack": True, "max_plans": 2}
    for _ in range(40):
        plans = oracle([{**table.at, **read}])[0]["plans"]
        rows = [r[1] for plan in plans for r in plan["rows"]]
        seen += rows
        if table.count < 9:
            table.go_on()
        elif not rows:
            break
    assert seen == [-1, *range(9)]
