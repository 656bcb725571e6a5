"""A streaming writer that dies at any file operation and starts again: every row once.

With `dead` every later call fails too, as after a kill; the reply of the last call may be lost.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failing_io import FailingFileIO, Injected, Trigger, When
from lakes import Lake

from maintenance.environment import system_environment
from maintenance.jobs.verify.check import check_table
from maintenance.jobs.verify.findings import Severity
from paimon_core.errors import CommitStateUnknown
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table, open_table_at
from paimon_core.table.table_writer import StreamWriter, commit_write, replay_commits
from paimon_core.write.table_write import TableWriter

ENV = replace(system_environment(), sleep_millis=lambda _: None)
COMMITS = 3
KINDS: dict[str, dict[str, str]] = {
    "primary_key": {"bucket": "1", "num-sorted-run.compaction-trigger": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "write-only": "true"},
    "append": {"bucket": "-1"},
}


def made(kind: str, warehouse: Path) -> None:
    Lake(warehouse).create(primary_key=kind != "append", options=KINDS[kind])


def rows(number: int) -> pa.Table:
    """What commit `number` brings: keys of its own, and one that all commits write."""
    keys = [0, *range(10 * number, 10 * number + 4)]
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [f"v{number}"] * len(keys)})


def expected(kind: str) -> list[tuple[int, str]]:
    every = [(k, v) for n in range(1, COMMITS + 1) for k, v in zip(*rows(n), strict=True)]
    pairs = [(k.as_py(), v.as_py()) for k, v in every]
    return sorted(pairs) if kind == "append" else sorted(dict(pairs).items())


def found(table: FileStoreTable) -> list[tuple[int, str]]:
    batches = read_table(table, table.latest_or_not_found())
    return sorted((r["k"], r["v"]) for b in batches for r in b.to_pylist())


def stream(table: FileStoreTable) -> None:
    """The whole life of a writer: go on after what is committed, up to the last commit."""
    writer = StreamWriter(table, user="stream", env=ENV)
    done = writer.committed_up_to() or 0
    for number in range(done + 1, COMMITS + 1):
        writer.write(rows(number))
        writer.commit(number)


def failing(warehouse: Path, trigger: Trigger) -> FileStoreTable:
    plain = open_table(str(warehouse), "db.t")
    return open_table_at(FailingFileIO(trigger), plain.root, "db.t")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_dying_at_every_step(kind: str, when: When, tmp_path: Path) -> None:
    pristine = tmp_path / "pristine"
    made(kind, pristine)
    step = 2 if kind == "dynamic" else 1
    number = int(step > 1 and when == "after")
    while True:
        place = tmp_path / f"run-{number}"
        shutil.copytree(pristine, place)
        trigger = Trigger(at=number, when=when, dead=True)
        table = failing(place, trigger)
        try:
            stream(table)
        except (Injected, CommitStateUnknown):
            assert trigger.fired
        table = open_table(str(place), "db.t")
        stream(table)
        assert found(table) == expected(kind), f"operation {number}"
        by_identifier: dict[int, list[CommitKind]] = {}
        for snapshot in table.snapshots.all():
            by_identifier.setdefault(snapshot.commit_identifier, []).append(snapshot.commit_kind)
        assert sorted(by_identifier) == list(range(1, COMMITS + 1))
        for kinds in by_identifier.values():
            assert kinds in ([CommitKind.APPEND], [CommitKind.APPEND, CommitKind.COMPACT])
        errors = [f for f in check_table(table).findings if f.severity is Severity.ERROR]
        assert not errors
        shutil.rmtree(place)
        if not trigger.fired:
            break
        number += step
    assert number > 12


def prepared(table: FileStoreTable, number: int, **options: Any) -> list[Any]:
    writer = TableWriter(table, env=ENV, user="stream", **options)
    writer.write(rows(number))
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


def test_identifiers_must_grow(tmp_path: Path) -> None:
    made("append", tmp_path)
    table = open_table(str(tmp_path), "db.t")
    writer = StreamWriter(table, user="stream", env=ENV)
    writer.write(rows(1))
    writer.commit(5)
    with pytest.raises(Exception, match=r"commit identifier 5 .* is not greater than 5"):
        writer.commit(5)
    empty = writer.commit(6, watermark=17)
    assert [(s.commit_identifier, s.watermark) for s in empty] == [(6, 17)]
