"""A streaming writer, in this process or in one that is killed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from failing_io import FailingFileIO, Trigger

from paimon_core.api.context import Context
from paimon_core.api.write import StreamWriteBuilder
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table, open_table_at

ENV = replace(system_environment(), sleep_millis=lambda _: None)
COMMITS = 3


def batch(number: int) -> pa.Table:
    """What commit `number` brings: keys of its own, and one that all commits write."""
    keys = [0, *range(10 * number, 10 * number + 4)]
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [f"v{number}"] * len(keys)})


def stream(table: FileStoreTable) -> None:
    """The whole life of a writer: go on after what is committed, up to the last commit."""
    builder = StreamWriteBuilder(table, Context(ENV)).with_commit_user("stream")
    with builder.new_write() as write, builder.new_commit() as commit:
        done = commit.last_committed_identifier() or 0
        for number in range(done + 1, COMMITS + 1):
            write.write(batch(number))
            commit.commit(write.prepare_commit(), number)


def stream_to_death(warehouse: Path, trigger: Trigger) -> list[str]:
    """The changes that a life without a failure makes."""
    plain = open_table(str(warehouse), "db.t")
    stream(open_table_at(FailingFileIO(trigger), plain.root, "db.t"))
    return trigger.calls
