"""A streaming writer that is killed at any file operation and starts again: every row once.

A process of its own gets SIGKILL before each change, midway in each that writes, and after the last.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from disk import assert_whole
from failing_io import Trigger
from fork_server import ForkServer
from harness import kills
from lakes import Lake
from streams import COMMITS, ENV, batch, stream, stream_to_death

from paimon_core.api.context import Context
from paimon_core.api.write import StreamWriteBuilder
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import commit_write, replay_commits
from paimon_core.write.row_writer import RowWriter

KINDS: dict[str, dict[str, str]] = {
    "primary_key": {"bucket": "1", "num-sorted-run.compaction-trigger": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "write-only": "true"},
    "append": {"bucket": "-1"},
}


def made(kind: str, warehouse: Path) -> None:
    Lake(warehouse).create(primary_key=kind != "append", options=KINDS[kind])


def expected(kind: str) -> list[tuple[int, str]]:
    every = [(k, v) for n in range(1, COMMITS + 1) for k, v in zip(*batch(n), strict=True)]
    pairs = [(k.as_py(), v.as_py()) for k, v in every]
    return sorted(pairs) if kind == "append" else sorted(dict(pairs).items())


def found(table: FileStoreTable) -> list[tuple[int, str]]:
    batches = read_table(table, table.latest_or_not_found())
    return sorted((r["k"], r["v"]) for b in batches for r in b.to_pylist())


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("kind", KINDS)
def test_dying_at_every_step(kind: str, forks: ForkServer, tmp_path: Path) -> None:
    pristine = tmp_path / "pristine"
    made(kind, pristine)
    calls = stream_to_death(Path(shutil.copytree(pristine, tmp_path / "clean")), Trigger())
    assert len(calls) > 12
    for trigger in kills(calls):
        place = tmp_path / "killed"
        shutil.copytree(pristine, place)
        ended = forks.call("streams", "stream_to_death", place, trigger)
        assert ended.signal == signal.SIGKILL, (trigger, ended)
        table = open_table(str(place), "db.t")
        stream(table)
        assert found(table) == expected(kind), trigger
        by_identifier: dict[int, list[CommitKind]] = {}
        for snapshot in table.snapshots.all():
            by_identifier.setdefault(snapshot.commit_identifier, []).append(snapshot.commit_kind)
        assert sorted(by_identifier) == list(range(1, COMMITS + 1))
        for kinds in by_identifier.values():
            assert kinds in ([CommitKind.APPEND], [CommitKind.APPEND, CommitKind.COMPACT])
        assert_whole(place)
        shutil.rmtree(place)


def prepared(table: FileStoreTable, number: int, **options: Any) -> list[Any]:
    writer = RowWriter(table, env=ENV, user="stream", **options)
    writer.write(batch(number))
    return writer.prepare_commit()


def test_prepared_commits_are_replayed_once(tmp_path: Path) -> None:
    """What a job kept in its own state: some commits of it were made before it died."""
    made("append", tmp_path)
    table = open_table(str(tmp_path), "db.t")
    pending = {n: prepared(table, n) for n in (1, 2, 3)}
    commit_write(table, pending[1], env=ENV, user="stream", identifier=1)
    snapshots = replay_commits(table, pending, user="stream", env=ENV)
    assert [s.commit_identifier for s in snapshots] == [2, 3]
    assert replay_commits(table, pending, user="stream", env=ENV) == ()
    assert found(table) == expected("append")


def test_a_replay_without_its_files_commits_nothing(tmp_path: Path) -> None:
    made("append", tmp_path)
    table = open_table(str(tmp_path), "db.t")
    pending = {n: prepared(table, n) for n in (1, 2)}
    (message,) = pending[2]
    table.io.delete(table.paths.data_file(message.partition, 0, message.new_files[0]))
    with pytest.raises(Exception, match="commit 2 of user stream cannot be replayed"):
        replay_commits(table, pending, user="stream", env=ENV)
    assert table.snapshots.latest() is None


def test_a_commit_without_rows_is_made_too(tmp_path: Path) -> None:
    made("append", tmp_path)
    table = open_table(str(tmp_path), "db.t")
    with StreamWriteBuilder(table, Context(ENV)).new_commit() as commit:
        found = commit.commit([], 6, watermark=17).snapshots
    assert [(s.commit_identifier, s.watermark) for s in found] == [(6, 17)]
