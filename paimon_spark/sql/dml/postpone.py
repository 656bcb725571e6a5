"""Commits of rows that go to real buckets at once although the table has bucket = -2."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Identity
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.real_buckets import RealBuckets, with_real_buckets
from paimon_core.table.sink.write_session import commit_overwrite, commit_write, new_writer
from paimon_core.write.incoming_rows import Kinds
from paimon_core.write.on_failure import aborted_on_failure
from paimon_core.write.row_writer import RowWriter


def prepare_in_buckets(
    table: FileStoreTable,
    rows: pa.Table,
    kinds: Kinds | None,
    buckets: RealBuckets,
    *,
    env: Environment,
    user: str,
    overwrite: bool,
) -> list[CommitMessage]:
    """Write the rows for a commit of this user; after a failure no file is left."""
    writers: list[RowWriter] = []
    with aborted_on_failure(writers):
        for number, places in buckets.split(table, rows):
            fixed = with_real_buckets(table, number)
            writers.append(new_writer(fixed, env=env, user=user, overwrite=overwrite))
            writers[-1].write(rows.take(pa.array(places)), None if kinds is None else kinds[places])
        return [m for writer in writers for m in writer.prepare_commit()]


def write_to_buckets(
    table: FileStoreTable,
    rows: pa.Table,
    kinds: Kinds | None,
    buckets: RealBuckets,
    *,
    env: Environment,
    partition: Mapping[str, object] | None = None,
    rows_at: Identity | None = None,
) -> None:
    """Commit the rows; `partition` makes it an overwrite, `rows_at` as in `commit_write`."""
    user, after = new_commit_user(table, env), AfterCommit(table, env=env, of_engine=True)
    overwrite = partition is not None
    messages = prepare_in_buckets(
        table, rows, kinds, buckets, env=env, user=user, overwrite=overwrite
    )
    if partition is None:
        commit_write(table, messages, env=env, user=user, after=after, rows_at=rows_at)
    else:
        commit_overwrite(
            table,
            messages,
            env=env,
            user=user,
            partition=partition,
            after=after,
            rows_at=rows_at,
        )
