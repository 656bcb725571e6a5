"""A commit whose reply is lost: it finds its own snapshot, or says that the outcome is unknown.

Nothing is ever doubled, nothing is deleted while the outcome is unknown, and a lost race is tried
again on top of the winner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failing_io import FailingFileIO, Injected, Trigger

from paimon_core.commit.committer import commit, filter_committed
from paimon_core.commit.message import CommitMessage
from paimon_core.environment import system_environment
from paimon_core.errors import CommitConflict, CommitStateUnknown
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.open import open_table, open_table_at
from paimon_core.types.arrow import arrow_type
from paimon_core.write.row_writer import RowWriter

ENV = replace(system_environment(), sleep_millis=lambda _: None)
NAME = "append_unaware"


def messages(table: FileStoreTable) -> list[CommitMessage]:
    writer = RowWriter(table, env=ENV)
    names = table.schema.names
    writer.write(pa.table({names[0]: pa.array([1], table_type(table))}))
    return writer.prepare_commit()


def table_type(table: FileStoreTable) -> pa.DataType:
    return arrow_type(table.schema.fields[0].type)


def failing(warehouse: Path, trigger: Trigger, **options: str) -> FileStoreTable:
    plain = open_table(str(warehouse), "db.t")
    return open_table_at(FailingFileIO(trigger), plain.root, "db.t", dynamic_options=options)


def live(table: FileStoreTable) -> set[str]:
    return {e.file.file_name for e in scan_files(table, table.latest_or_not_found())}


def written(parts: Sequence[CommitMessage]) -> set[str]:
    return {f.file_name for m in parts for f in m.written_files()}


def only_snapshots(monkeypatch: pytest.MonkeyPatch, when: str, times: int) -> list[str]:
    """The next `times` snapshot creations fail, `when` they took effect or before."""
    tries: list[str] = []
    original = FailingFileIO.create_if_absent

    def create(self: FailingFileIO, path: str, data: bytes) -> bool:
        if "/snapshot/" not in path:
            return original(self, path, data)
        tries.append(path)
        if len(tries) > times:
            return original(self, path, data)
        if when == "after":
            original(self, path, data)
        raise Injected(f"reply lost {when}")

    monkeypatch.setattr(FailingFileIO, "create_if_absent", create)
    return tries


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_reply_is_settled_by_looking(
    when: str, golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = golden(NAME, copy=True).warehouse
    table = failing(warehouse, Trigger())
    before = table.snapshots.latest_id() or 0
    parts = messages(table)
    tries = only_snapshots(monkeypatch, when, 1)
    (made,) = commit(table, parts, user="me", env=ENV)
    assert made.id == before + 1
    assert table.snapshots.latest_id() == made.id, "the commit was doubled"
    assert len(tries) == (1 if when == "after" else 2)
    assert written(parts) <= live(table)


def test_an_outcome_that_stays_unknown_deletes_nothing(
    golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = golden(NAME, copy=True).warehouse
    table = failing(warehouse, Trigger(), **{"commit.max-retries": "3"})
    parts = messages(table)
    tries = only_snapshots(monkeypatch, "before", 99)
    with pytest.raises(CommitStateUnknown) as caught:
        commit(table, parts, user="me", env=ENV)
    assert len(tries) == 4
    assert caught.value.snapshot == (table.snapshots.latest_id() or 0) + 1
    assert all(
        table.io.exists(table.paths.data_file(m.partition, m.bucket, f))
        for m in parts
        for f in m.written_files()
    )


@pytest.mark.parametrize("then", ["latest", "prepare"])
def test_a_store_that_fails_after_a_lost_reply_leaves_the_outcome_unknown(
    then: str, golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = failing(golden(NAME, copy=True).warehouse, Trigger())
    parts = messages(table)
    only_snapshots(monkeypatch, "before", 1)

    def down(*_: Any, **__: Any) -> Any:
        raise Injected("the store is down")

    def go_down(_: int) -> None:
        name = "read_bytes" if then == "latest" else "write_bytes"
        monkeypatch.setattr(FailingFileIO, name, down)
        monkeypatch.setattr(FailingFileIO, "list_dir", down)

    with pytest.raises(CommitStateUnknown, match="store is down"):
        commit(table, parts, user="me", env=replace(ENV, sleep_millis=go_down))


def test_a_lost_race_is_tried_on_top_of_the_winner(
    golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(str(golden(NAME, copy=True).warehouse), "db.t")
    theirs, ours = messages(table), messages(table)
    original = type(table.snapshots).try_commit
    raced: list[Snapshot] = []

    def race(self: Any, snapshot: Snapshot, **how: Any) -> bool:
        if not raced:
            raced.append(snapshot)
            commit(table, theirs, user="rival", env=ENV)
        return original(self, snapshot, **how)

    monkeypatch.setattr(type(table.snapshots), "try_commit", race)
    (made,) = commit(table, ours, user="me", env=ENV)
    assert made.id == raced[0].id + 1
    assert written(ours) | written(theirs) <= live(table)


def test_giving_up_is_a_conflict_when_others_took_the_number(
    golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(
        str(golden(NAME, copy=True).warehouse), "db.t", dynamic_options={"commit.max-retries": "2"}
    )
    ours = messages(table)
    original = type(table.snapshots).try_commit
    busy = [False]

    def race(self: Any, snapshot: Snapshot, **how: Any) -> bool:
        if not busy[0]:
            busy[0] = True
            commit(table, messages(table), user=ENV.new_uuid(), env=ENV)
            busy[0] = False
        return original(self, snapshot, **how)

    monkeypatch.setattr(type(table.snapshots), "try_commit", race)
    with pytest.raises(CommitConflict, match="3 attempts"):
        commit(table, ours, user="me", env=ENV)
    assert not written(ours) & live(table)


def test_replayed_identifiers_are_filtered(golden: Callable[..., Any]) -> None:
    table = open_table(str(golden(NAME, copy=True).warehouse), "db.t")
    assert filter_committed(table, [1, 2, 3], user="stream") == [1, 2, 3]
    for identifier in (1, 2):
        commit(table, messages(table), user="stream", env=ENV, identifier=identifier)
    commit(table, messages(table), user="somebody else", env=ENV, identifier=7)
    assert filter_committed(table, [1, 2, 3], user="stream") == [3]
    with pytest.raises(ValueError, match="ascending"):
        filter_committed(table, [3, 2], user="stream")
