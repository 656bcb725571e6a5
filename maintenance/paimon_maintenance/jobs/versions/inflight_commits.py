"""Waits for commits in flight, before and after a job removes the newest snapshots."""

from __future__ import annotations

from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import Snapshot

ACTIVE_MILLIS: Final = 600_000
"""If the newest snapshot is younger, a writer may have a commit in flight."""
LOCAL_MILLIS = 1_000
REMOTE_MILLIS = 5_000


def wait_for_inflight_commits(table: FileStoreTable, latest: Snapshot, env: Environment) -> None:
    """Wait until commits that started before the removal of `latest` have probably ended.

    A commit reads the newest snapshot, writes manifests, and then creates its own snapshot.  A Java
    writer cannot be stopped in between.  A commit that lands before files are deleted is detected,
    and its base is restored.
    """
    if env.now_millis() - latest.time_millis < ACTIVE_MILLIS:
        env.sleep_millis(REMOTE_MILLIS if table.io.parallelism > 1 else LOCAL_MILLIS)


def check_no_new_commits(table: FileStoreTable, latest: Snapshot, env: Environment) -> None:
    """StalePlan if there is a new commit after the wait.

    A concurrent commit builds on a snapshot that the job removes, so the job does not change a
    table with an active writer.
    """
    wait_for_inflight_commits(table, latest, env)
    now = table.snapshots.latest()
    if now is None or now.identity != latest.identity:
        raise StalePlan(
            f"table {table.name} has a new snapshot {now.id if now else None} since the plan "
            f"from {latest.id}",
            table=table.name,
            next_step="stop the writers, then run the job again",
        )
