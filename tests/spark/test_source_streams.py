"""`format("paimon")` in streams: Java's changes are read, micro-batches are written exactly once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lakes import Lake
from spark_rows import frame_values, spark_values

from oracle import Oracle
from paimon_spark.source import shuffled

pytestmark = pytest.mark.spark

FROM_THE_START = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}


def follow(session: Any, root: object, **options: str) -> Any:
    return session.readStream.format("paimon").options(**options).load(str(root))


def run(stream: Any, sink: Any, checkpoint: Path, **options: str) -> Any:
    query = (
        stream.writeStream.format("paimon")
        .options(**{"checkpointLocation": str(checkpoint), **options})
        .trigger(availableNow=True)
        .start(str(sink))
    )
    query.awaitTermination()
    assert query.exception() is None
    return query


def in_memory(session: Any, stream: Any, name: str) -> Any:
    query = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return session.table(name)


def test_java_s_changes_are_read(session: Any, golden: Any) -> None:
    table = golden("changelog_lookup")
    plans: list[Mapping[str, Any]] = table.expected["stream"]["from-1"]["plans"]
    rows = [row for plan in plans for row in plan["rows"]]
    options = {**FROM_THE_START, "read.changelog": "true"}
    frame = in_memory(session, follow(session, table.root, **options), "changes")
    types = ["STRING", *plans[0]["types"]]
    assert frame.columns == ["rowkind", *plans[0]["columns"]]
    assert frame_values(frame) == spark_values([["+I", *row] for row in rows], types)


@pytest.mark.oracle
def test_a_stream_into_a_table_through_a_lost_commit(
    session: Any, oracle_1_4_2: Oracle, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    lake.log("db.t")
    lake.primary_key("db.out", buckets=2)
    lake.fill(4)
    source, sink, checkpoint = (tmp_path / "db.db" / n for n in ("t", "out", "../checkpoint"))
    rate = {**FROM_THE_START, "read.stream.maxFilesPerTrigger": "2", "consumer-id": "copy"}

    def copy() -> None:
        rows = shuffled(follow(session, source, **rate), {"path": str(sink)})
        run(rows, sink, checkpoint, **{"write.shuffled": "true"})

    copy()
    table = lake.table("db.out")
    assert [s.commit_identifier for s in table.snapshots.all()] == [0, 1]
    # Spark dies after the commit of the last micro-batch, before it has noted that.
    for note in (checkpoint / "commits").glob("*1*"):
        note.unlink()
    lake.append({"k": [3, 77], "v": ["newer", "new"]})
    copy()
    found = list(table.snapshots.all())
    assert [s.commit_identifier for s in found] == [0, 1, 2]
    assert len({s.commit_user for s in found}) == 1
    assert lake.on_disk("db.out") == lake.referenced("db.out")
    # Ten keys in each of the first two; rows of one key in a micro-batch are merged.
    assert [s.delta_record_count for s in found] == [10, 10, 2]
    assert lake.table().consumers.get("copy").next_snapshot == 6
    oracle_1_4_2.defaults(warehouse=tmp_path, database="db", table="out")
    rows = {r[1]: r[2] for r in oracle_1_4_2.rows()}
    assert len(rows) == 11
    assert rows[3] == "newer"
    assert rows[0] == "v30"


def test_a_new_checkpoint_in_the_same_folder_begins_again(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log("db.t")
    lake.log("db.out")
    lake.fill(1)
    source, sink, checkpoint = (tmp_path / "db.db" / n for n in ("t", "out", "../checkpoint"))
    for _ in range(2):
        run(follow(session, source), sink, checkpoint)
        shutil.rmtree(checkpoint)
    found = list(lake.table("db.out").snapshots.all())
    assert [(s.commit_identifier, s.delta_record_count) for s in found] == [(0, 10), (0, 10)]
    assert len({s.commit_user for s in found}) == 1


def test_latest_begins_with_the_changes_of_the_newest_snapshot(
    session: Any, tmp_path: Path
) -> None:
    """Java: PaimonSourceTest, "latest and latest-full scan mode"; Flink begins after them."""
    lake = Lake(tmp_path)
    lake.log("db.t")
    lake.append({"k": [1], "v": ["old"]})
    lake.append({"k": [2], "v": ["newest"]})
    root = tmp_path / "db.db" / "t"
    rows = in_memory(session, follow(session, root, **{"scan.mode": "latest"}), "latest")
    assert [tuple(r) for r in rows.collect()] == [(2, "newest")]


def test_young_snapshots_wait(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log("db.t")
    lake.append({"k": [1], "v": ["a"]})
    root = tmp_path / "db.db" / "t"
    for delay, count in (("1 h", 0), ("1 ms", 1)):
        options = {**FROM_THE_START, "streaming.read.snapshot.delay": delay}
        rows = in_memory(session, follow(session, root, **options), f"waits_{count}")
        assert rows.count() == count
