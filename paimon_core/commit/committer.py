"""Commits: of what writers and compactions return, and of any other changes to a table.

Java: `operation/FileStoreCommitImpl`; java-rules A.  `attempts` makes the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from paimon_core.commit.attempts import Attempts, Provide
from paimon_core.commit.iceberg.publish import publish_commit
from paimon_core.commit.known_keys import check_keys_known
from paimon_core.commit.manifest_changes import ManifestChanges, append_changes, compact_changes
from paimon_core.commit.message import CommitMessage, buckets_known_at
from paimon_core.commit.registered_partitions import add_partitions
from paimon_core.commit.request import CommitRequest, Origin
from paimon_core.commit.row_group_conflict import RowGroup, without_indexes_of_lost_ids
from paimon_core.environment import Environment
from paimon_core.errors import CommitStateUnknown
from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Identity, Snapshot


def commit(
    table: FileStoreTable,
    messages: Sequence[CommitMessage],
    *,
    user: str,
    env: Environment,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    ignore_empty: bool = True,
    check_append: bool = False,
    row_groups: Sequence[RowGroup] = (),
    rows_at: Identity | None = None,
) -> tuple[Snapshot, ...]:
    """Commit the messages and return the snapshots: APPEND for new files, then COMPACT.

    Without changes no snapshot is created, unless `ignore_empty` is False (a streaming commit that
    only advances identifier and watermark).  An append that deletes files or carries deletion
    vectors becomes an OVERWRITE and is checked for conflicts; so are new columns for `row_groups`,
    the files that were read for them.  `rows_at` as in `CommitRequest`.  Raises CommitConflict
    (nothing was committed; the caller may delete the files of the messages), CommitStateUnknown
    (delete nothing; also if only the APPEND was made) or UnsupportedFeature.
    """
    check_committable(table)
    made: list[Snapshot] = []
    appended = append_changes(messages)

    def provide(latest: Snapshot | None) -> ManifestChanges:
        check_keys_known(table, latest, messages, user)
        return appended

    if not appended.is_empty or not ignore_empty:
        deletes = appended.deletes_something()
        made.append(
            commit_changes(
                table,
                provide,
                CommitRequest(
                    user=user,
                    kind=CommitKind.OVERWRITE if deletes else CommitKind.APPEND,
                    identifier=identifier,
                    watermark=watermark,
                    properties=properties,
                    check=deletes or check_append or bool(row_groups),
                    row_groups=row_groups,
                    buckets_at=buckets_known_at(messages),
                    rows_at=rows_at,
                    origin=Origin.ROWS,
                ),
                env=env,
            )
        )
    compacted = compact_changes(messages)
    if not compacted.is_empty:
        request = CommitRequest(
            user=user,
            kind=CommitKind.COMPACT,
            identifier=identifier,
            watermark=watermark,
            properties=properties,
        )
        provide_compacted = partial(without_indexes_of_lost_ids, table, changes=compacted)
        try:
            made.append(commit_changes(table, provide_compacted, request, env=env))
        except Exception as e:
            if not made:
                raise
            raise CommitStateUnknown(
                f"the new rows of user {user} are snapshot {made[-1].id} of table {table.name}, but "
                f"their compaction was not committed: {e}",
                table=table.name,
                snapshot=made[-1].id,
                next_step="do not commit the rows again; a later compaction does the rest",
            ) from e
    return tuple(made)


def filter_committed(table: FileStoreTable, identifiers: Sequence[int], *, user: str) -> list[int]:
    """Return the identifiers that `user` has not committed: those above its newest snapshot's.

    For a streaming writer that replays after a failure (java-rules A6).  The identifiers must be in
    ascending order without duplicates.
    """
    if any(a >= b for a, b in pairwise(identifiers)):
        raise ValueError("identifiers must be in ascending order")
    newest = latest_of_user(table, user)
    return [i for i in identifiers if newest is None or i > newest.commit_identifier]


def latest_of_user(table: FileStoreTable, user: str) -> Snapshot | None:
    """Return the newest snapshot that `user` committed, or None."""
    return latest_where(table, lambda snapshot: snapshot.commit_user == user)


def latest_where(table: FileStoreTable, test: Callable[[Snapshot], bool]) -> Snapshot | None:
    """Return the newest snapshot that passes the test, or None.

    Snapshots that go during the search are left out: old ones expire, and a rollback removes new
    ones although older ones stay.
    """
    for snapshot_id in sorted(table.snapshots.ids(), reverse=True):
        snapshot = table.snapshots.get_or_none(snapshot_id)
        if snapshot is not None and test(snapshot):
            return snapshot
    return None


def commit_changes(
    table: FileStoreTable, provide: Provide, request: CommitRequest, *, env: Environment
) -> Snapshot:
    """Commit the changes with as many attempts as the table's options allow; return the snapshot.

    `provide` returns the changes for the snapshot that an attempt builds on; it is called for each
    attempt (an overwrite deletes what exists *then*).
    """
    tried: dict[int, ManifestChanges] = {}

    def remembered(latest: Snapshot | None) -> ManifestChanges:
        changes = provide(latest)
        tried[1 if latest is None else latest.id + 1] = changes
        return changes

    snapshot = Attempts(table, remembered, request, env).run()
    add_partitions(table, tried[snapshot.id].files)
    publish_commit(table, snapshot, tried[snapshot.id], env)
    return snapshot
