"""Batch writers wait until queries see their rows, if the table asks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from lakes import ENV, Lake

from paimon_core.compaction.postpone import replay, replay_units
from paimon_core.errors import NotYetVisible
from paimon_core.scan.scan import scan_files
from paimon_core.table.sink.write_session import commit_write, new_writer, write_rows

ROWS = pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})
WAITS = {
    "visibility-callback.enabled": "true",
    "visibility-callback.timeout": "30 s",
    "visibility-callback.check-interval": "7 s",
}


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({"bucket": "-2"}, True),
        ({"bucket": "1", "deletion-vectors.enabled": "true"}, True),
        ({"bucket": "1"}, False),
        ({"bucket": "-2", "visibility-callback.enabled": "false"}, False),
    ],
)
def test_until_the_timeout(options: dict[str, str], waits: bool, tmp_path: Path) -> None:  # noqa: FBT001
    lake = Lake(tmp_path)
    lake.create(options={"write-only": "true", **WAITS, **options})
    slept: list[int] = []
    env = replace(ENV, sleep_millis=slept.append, now_millis=lambda: ENV.now_millis() + sum(slept))
    if not waits:
        write_rows(lake.table(), ROWS, env=env)
        assert slept == []
        return
    with pytest.raises(NotYetVisible, match=r"the rows are committed to table db\.t"):
        write_rows(lake.table(), ROWS, env=env)
    assert slept == [7000] * 5
    assert lake.table().latest_or_not_found().id == 1
    slept.clear()
    writer = new_writer(lake.table(), env=env, user="streams")
    writer.write(ROWS)
    commit_write(lake.table(), writer.prepare_commit(), env=env, user="streams", identifier=1)
    assert slept == []


def test_until_the_files_are_gone(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create(options={"bucket": "-2", "write-only": "true", **WAITS})
    waited: list[int] = []

    def compacts(millis: int) -> None:
        waited.append(millis)
        if len(waited) < 3:
            return
        table = lake.table()
        (unit,) = replay_units(table, scan_files(table, table.latest_or_not_found()))
        commit_write(table, replay(table, unit, env=ENV).to_messages(), env=ENV, user="compaction")

    write_rows(lake.table(), ROWS, env=replace(ENV, sleep_millis=compacts))
    assert waited == [7000] * 3
