"""Our writer compacts fully when Java's does, and a stream over either table reads the same changes.

Java's core leaves the moment of full compactions to the engines, so its side compacts where Flink's
`GlobalFullCompactionSinkWrite` does: at the commits that `full-compaction.delta-commits` divides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oracle import Oracle
from paimon_core import Schema, Table, open_catalog
from paimon_core.table.sink.write_session import write_rows

COMMITS = 6
FULL = {"bucket": "2", "changelog-producer": "full-compaction"}
RETAIN = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}


def rows(number: int) -> list[dict[str, Any]]:
    return [{"k": k, "v": f"{number}"} for k in range(number, number + 4)]


def made(place: Path, options: dict[str, str]) -> Table:
    catalog = open_catalog(str(place))
    catalog.create_database("db")
    schema = Schema.of({"k": "INT", "v": "STRING"}, primary_keys=["k"], options=FULL | options)
    return catalog.create_table("db.t", schema)


def commit(table: Table, number: int) -> None:
    """As a writer that starts again for each commit: nothing is kept between them."""
    builder = table.new_stream_write_builder().with_commit_user("writer")
    with builder.new_write() as write, builder.new_commit() as one:
        write.write_dicts(rows(number))
        one.commit(write.prepare_commit(), number)


def changes(table: Table) -> list[list[tuple[Any, ...]]]:
    builder = table.copy({"scan.snapshot-id": "1"}).new_stream_read_builder()
    read = builder.with_include_row_kind().new_read()
    return [
        sorted(tuple(r.values()) for r in read.to_arrow(plan.splits()).to_pylist())
        for plan in builder.new_streaming_scan().available()
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("every", [None, 1, 3])
def test_streams(every: int | None, oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    options = {} if every is None else {"full-compaction.delta-commits": str(every)}
    java, ours = made(tmp_path / "java", options), made(tmp_path / "ours", options)
    oracle_2_0_0.defaults(warehouse=tmp_path / "java", database="db", table="t")
    for number in range(1, COMMITS + 1):
        commit(ours, number)
        values = [list(r.values()) for r in rows(number)]
        step = {"op": "write", "rows": values, "identifier": number, "compact": False}
        oracle_2_0_0([{**step, "commit_user": "writer"}])
        if number % (every or 1) == 0:
            oracle_2_0_0([{"op": "compact", "full": True}])
    kinds = [str(s.commit_kind) for s in ours.snapshots()]
    assert kinds == [str(s.commit_kind) for s in java.snapshots()]
    assert kinds.count("COMPACT") == COMMITS // (every or 1)
    assert changes(ours) == changes(java)
    assert len(changes(ours)) == COMMITS // (every or 1)


def test_the_snapshots_between_may_expire(tmp_path: Path) -> None:
    """What is compacted is found from the files, so that nothing is lost with the snapshots."""
    table = made(tmp_path, RETAIN | {"full-compaction.delta-commits": "3"})
    for number in (1, 2, 3):
        commit(table, number)
    assert [str(s.commit_kind) for s in table.snapshots()] == ["COMPACT"]
    levels = table.system_table("files")["level"].to_pylist()
    assert set(levels) == {5}


def test_batches_compact_each_time(tmp_path: Path) -> None:
    table = made(tmp_path, {"full-compaction.delta-commits": "3"})
    for number in (1, 2):
        table.upsert(rows(number))
    assert [str(s.commit_kind) for s in table.snapshots()] == ["APPEND", "COMPACT"] * 2
    assert [len(step) for step in changes(table)] == [4, 7]


def test_write_only_tables_wait_for_the_job(tmp_path: Path) -> None:
    table = made(tmp_path, {"write-only": "true"})
    write_rows(table.core, table.schema.empty_table(), env=table.context.env)
    table.upsert(rows(1))
    assert [str(s.commit_kind) for s in table.snapshots()] == ["APPEND"]
    assert changes(table) == []
