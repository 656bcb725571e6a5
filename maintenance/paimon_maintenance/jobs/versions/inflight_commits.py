"""Waiting for commits that are in flight before and after history is removed at its end."""

from __future__ import annotations

from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Snapshot

ACTIVE_MILLIS: Final = 600_000
"""A table whose newest snapshot is younger may have a writer with a commit in flight."""
LOCAL_MILLIS = 1_000
REMOTE_MILLIS = 5_000


def wait_for_inflight_commits(table: FileStoreTable, latest: Snapshot, env: Environment) -> None:
    """Wait until a commit that began before the removal of `latest` has probably ended.

    A commit reads the newest snapshot, writes manifests, and then makes its own snapshot.  Nothing
    can stop a Java writer in between; but one that lands before files are deleted is found, and
    its base is put back.
    """
    if env.now_millis() - latest.time_millis < ACTIVE_MILLIS:
        env.sleep_millis(REMOTE_MILLIS if table.io.parallelism > 1 else LOCAL_MILLIS)


def check_no_new_commits(table: FileStoreTable, latest: Snapshot, env: Environment) -> None:
    """StalePlan if somebody commits to the table right now.

    What a writer commits while snapshots are removed builds on one that goes, so a table with a
    busy writer is left alone.
    """
    wait_for_inflight_commits(table, latest, env)
    now = table.snapshots.latest()
    if now is None or now.identity != latest.identity:
        raise StalePlan(
            f"table {table.name} got snapshot {now.id if now else None} since the plan was made "
            f"from {latest.id}",
            table=table.name,
            next_step="stop the writers, then make a new plan",
        )
