"""Checks at the commit that keys are still in the partitions and buckets where they were found.

In a cross-partition table, the rows of a key may be in any partition; in a dynamic-bucket table, in
any bucket of its partition.  The writer read the locations before.  If another commit moved keys,
or a rollback removed a commit, a key could have rows in two places, and readers would return both.
Java does not check this: it allows only one writer at a time for such tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from paimon_core.commit.message import CommitMessage
from paimon_core.errors import CommitConflict, CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.hash_index import HASH_INDEX, read_hash_index
from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.snapshot.line import newest_first
from paimon_core.snapshot.snapshot import CommitKind, Identity, Snapshot


def check_keys_known(
    table: FileStoreTable, latest: Snapshot | None, messages: Sequence[CommitMessage], user: str
) -> None:
    """Raise CommitConflict if the messages cannot be committed after `latest`."""
    for keys_at, follows in {(m.keys_at, m.follows) for m in messages if m.keys_at is not None}:
        _check_table(table, latest, keys_at, follows, user)
    indexed = [m for m in messages if m.hash_indexes is not None]
    if indexed:
        _check_indexes(table, latest, indexed)


def _check_table(
    table: FileStoreTable,
    latest: Snapshot | None,
    keys_at: Identity,
    follows: int | None,
    user: str,
) -> None:
    """Raise CommitConflict if another user wrote rows after `keys_at` and the user's own commits.

    Also raises it if the snapshot that the writer read, or one of its own commits, no longer
    exists: a rollback removes snapshots, and later commits reuse their ids.
    """
    known = keys_at[0]
    later = () if latest is None else newest_first(table.snapshots, latest, down_to=known + 1)
    for number, snapshot in later:
        if snapshot is None:
            raise _keys_unknown(table, known, f"snapshot {number} no longer exists", number)
        if snapshot.commit_user == user:
            if follows is not None and snapshot.commit_identifier < follows:
                break
            return
        if snapshot.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE):
            raise _keys_unknown(
                table,
                known,
                f"snapshot {number} by user {snapshot.commit_user} may hold keys of the new rows in "
                "other partitions",
                number,
            )
    if follows is not None:
        why = f"the writer's own commit {follows} no longer exists"
        raise _keys_unknown(table, known, why, 0 if latest is None else latest.id)
    if known:
        there = table.snapshots.get_or_none(known)
        if there is None or there.identity != keys_at:
            why = "has expired or was removed" if there is None else "was replaced by another one"
            raise _keys_unknown(table, known, f"snapshot {known} {why}", known)


def _keys_unknown(table: FileStoreTable, known: int, why: str, number: int) -> CommitConflict:
    return CommitConflict(
        f"cannot commit to table {table.name}: {why}, and the writer read the locations of the keys "
        f"at snapshot {known}",
        table=table.name,
        snapshot=number,
        next_step="write the rows again; only one writer at a time can change a table whose "
        "keys may move between partitions",
    )


def _check_indexes(
    table: FileStoreTable, latest: Snapshot | None, messages: Sequence[CommitMessage]
) -> None:
    """Raise CommitConflict if keys are not, or may not be, where the writer's hash indexes say.

    Rows of known keys need them in the index of their bucket.  New keys rely on all indexes of the
    partition, as any of them could hold such a key by now.
    """
    found: dict[bytes, dict[int, IndexFileMeta]] = defaultdict(dict)
    for entry in () if latest is None else table.index_entries(latest):
        if entry.index_file.index_type == HASH_INDEX:
            found[entry.partition][entry.bucket] = entry.index_file
    with_new_keys = {m.partition for m in messages if m.new_index_files}
    # The messages of a partition share its indexes: of thousands of buckets, each is read once.
    relied_on: dict[tuple[bytes, int], dict[int, IndexFileMeta]] = {}
    for m in messages:
        key, now = (m.partition, id(m.hash_indexes)), found.get(m.partition, {})
        relied = relied_on.get(key)
        if relied is None:
            relied = relied_on[key] = dict(m.hash_indexes or ())
            if m.partition in with_new_keys and _names(relied) != _names(now):
                raise _moved(table, latest, m.partition)
        if m.partition not in with_new_keys:
            where = (m.partition, m.bucket)
            if not _still_holds(table, where, relied.get(m.bucket), now.get(m.bucket)):
                raise _moved(table, latest, m.partition)


def _moved(table: FileStoreTable, latest: Snapshot | None, partition: bytes) -> CommitConflict:
    path = table.paths.partition_path(partition)
    return CommitConflict(
        f"cannot commit to table {table.name}: another commit, or a rollback, changed which "
        f"keys are in the buckets of {f'partition {path}' if path else 'the table'}",
        table=table.name,
        snapshot=None if latest is None else latest.id,
        next_step="write the rows again with a new writer; only one writer at a time can "
        "add keys to a partition with dynamic buckets",
    )


def _names(indexes: Mapping[int, IndexFileMeta]) -> dict[int, str]:
    return {bucket: file.file_name for bucket, file in indexes.items()}


def _still_holds(
    table: FileStoreTable,
    where: tuple[bytes, int],
    relied: IndexFileMeta | None,
    now: IndexFileMeta | None,
) -> bool:
    """Return whether the index of a partition's bucket has all keys that the writer found there."""
    if relied is None or now is None:
        return relied is now
    if relied.file_name == now.file_name:
        return True
    hashes = read_hash_index(table.io, table.paths.index_file(*where, now), now)
    try:
        before = read_hash_index(table.io, table.paths.index_file(*where, relied), relied)
    except CorruptTable:
        return False  # it expired or was rolled back, so nothing tells what the writer found
    return bool(np.isin(before, hashes).all())
