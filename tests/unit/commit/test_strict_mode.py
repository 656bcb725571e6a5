"""Commits with `commit.strict-mode.last-safe-snapshot` (Java: `StrictModeChecker`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_core import Schema, open_catalog
from paimon_core.errors import CommitObstructed

SAFE = "commit.strict-mode.last-safe-snapshot"


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Two snapshots of the partitions a and b."""
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db")
    options = {"bucket": "1", "write-only": "true"}
    schema = Schema.of(
        {"k": "INT", "dt": "STRING"},
        partition_keys=["dt"],
        primary_keys=["k", "dt"],
        options=options,
    )
    catalog.create_table("db.t", schema)
    found = catalog.get_table("db.t")
    for key in (1, 2):
        write(found, key, "a", "b")
    return found


def write(table: Any, key: int, *partitions: str, overwrite: bool = False) -> None:
    keys = pa.array([key] * len(partitions), pa.int32())
    rows = pa.table({"k": keys, "dt": list(partitions)})
    builder = table.new_batch_write_builder()
    if overwrite:
        builder = builder.overwrite({"dt": partitions[0]})
    with builder.new_write() as writer, builder.new_commit() as commit:
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("other", ["append", "overwrite", "compact"])
@pytest.mark.parametrize("partition", ["a", "b"])
def test_what_others_did_to_the_same_partition(
    table: Any, other: str, partition: str, *, overwrite: bool
) -> None:
    match other:
        case "append":
            write(table, 3, "a")
        case "overwrite":
            write(table, 3, "a", overwrite=True)
        case _:
            table.compact(full=True)
    strict = table.copy({SAFE: "2"})
    # A compaction is of both partitions; an append only counts for what replaces its files.
    meets = partition == "a" or other == "compact"
    if meets and (other != "append" or overwrite):
        with pytest.raises(CommitObstructed, match="snapshot 3 may have changed"):
            write(strict, 4, partition, overwrite=overwrite)
        assert table.latest_snapshot().id == 3
        strict = table.copy({SAFE: "3"})
    write(strict, 4, partition, overwrite=overwrite)
    assert table.latest_snapshot().id == 4


def test_a_writer_checks_from_its_own_commit_on(table: Any) -> None:
    builder = table.copy({SAFE: "-1"}).new_stream_write_builder()
    table.compact(full=True)
    with builder.new_write() as writer, builder.new_commit() as commit:
        for identifier in (1, 2):
            writer.write_arrow(pa.table({"k": pa.array([5], pa.int32()), "dt": ["a"]}))
            commit.commit(writer.prepare_commit(), identifier)
        table.compact(full=True)
        writer.write_arrow(pa.table({"k": pa.array([6], pa.int32()), "dt": ["a"]}))
        with pytest.raises(CommitObstructed):
            commit.commit(writer.prepare_commit(), 3)


def test_a_snapshot_that_expired_may_have_changed_anything(table: Any) -> None:
    retained = {"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"}
    for key in (3, 4):
        write(table, key, "b")
    table.copy({**retained, "snapshot.time-retained": "1 ms"}).maintain()
    with pytest.raises(CommitObstructed, match="it expired"):
        write(table.copy({SAFE: "2"}), 5, "a")
