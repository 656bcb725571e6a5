"""Commits (Java: `operation/FileStoreCommitImpl`; java-rules A).

One attempt: read the newest snapshot, check the changes for conflicts, write manifests and manifest
lists, then create `snapshot/snapshot-N`, which must not exist yet.  Everything before the last step
leaves only garbage when it fails.  The last step has three outcomes:

- *won*: the commit exists;
- *lost*: another commit took the number; the same changes are retried on top of it;
- *unknown*: the reply was lost.  The next attempt first looks for its own snapshot (by user,
  identifier and kind, after the base of the attempt), and nothing is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from paimon_core.commit.base import is_final, is_replaced
from paimon_core.commit.conflict import SortKey, check_conflicts
from paimon_core.commit.iceberg.publish import publish_commit
from paimon_core.commit.known_keys import check_keys_known
from paimon_core.commit.manifest_changes import ManifestChanges, append_changes, compact_changes
from paimon_core.commit.message import CommitMessage
from paimon_core.commit.partition_statistics import partition_statistics
from paimon_core.commit.prepare import PreparedManifests, prepare_snapshot
from paimon_core.commit.registered_partitions import add_partitions
from paimon_core.commit.request import CommitRequest, Origin
from paimon_core.commit.row_group_conflict import (
    RowGroup,
    check_indexed_columns,
    check_merged_groups,
    check_row_groups,
)
from paimon_core.commit.same_table import check_same_table
from paimon_core.commit.unknown_metadata import with_unknown_fields
from paimon_core.commit.vector_conflict import check_vectors
from paimon_core.environment import Environment, local_clock
from paimon_core.errors import (
    CatalogError,
    CommitConflict,
    CommitStateUnknown,
    InvalidArgument,
    NotFound,
    OutsideTable,
    StorageAccessDenied,
    UnsupportedFeature,
)
from paimon_core.features import check_committable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.data_file import FileKind
from paimon_core.manifest.entries.columns import NULL
from paimon_core.options import (
    COMMIT_MAX_RETRIES,
    COMMIT_MAX_RETRY_WAIT,
    COMMIT_MIN_RETRY_WAIT,
    COMMIT_TIMEOUT,
)
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.retry import backoff_millis
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
)

log = logging.getLogger(__name__)

Provide = Callable[[Snapshot | None], ManifestChanges]


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
) -> tuple[Snapshot, ...]:
    """Commit the messages and return the snapshots: APPEND for new files, then COMPACT.

    Without changes no snapshot is created, unless `ignore_empty` is False (a streaming commit that
    only advances identifier and watermark).  An append that deletes files or carries deletion
    vectors becomes an OVERWRITE and is checked for conflicts; so are new columns for `row_groups`,
    the files that were read for them.  Raises CommitConflict (nothing was committed; the caller may
    delete the files of the messages), CommitStateUnknown (delete nothing; also if only the APPEND
    was made) or UnsupportedFeature.
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
        try:
            made.append(commit_changes(table, lambda _: compacted, request, env=env))
        except CommitConflict as e:
            if not made:
                raise
            raise CommitStateUnknown(
                f"the new rows of user {user} are snapshot {made[-1].id} of table {table.name}, but "
                f"their compaction was refused: {e.message}",
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
    """Return the newest snapshot that passes the test, or None."""
    for snapshot_id in sorted(table.snapshots.ids(), reverse=True):
        try:
            snapshot = table.snapshots.get(snapshot_id)
        except NotFound:
            return None  # expired during the search, as have all older ones
        if test(snapshot):
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

    snapshot = _commit_changes(table, remembered, request, env=env)
    add_partitions(table, tried[snapshot.id].files)
    publish_commit(table, snapshot, tried[snapshot.id], env)
    return snapshot


def _commit_changes(
    table: FileStoreTable, provide: Provide, request: CommitRequest, *, env: Environment
) -> Snapshot:
    options = table.options
    timeout = options.value(COMMIT_TIMEOUT)
    started = env.now_millis()
    attempt = 0
    base: Snapshot | None = None
    doubt: _Doubt | None = None
    manifests = PreparedManifests()
    sort_key = partial(stored_key, key=table.schema.key_type) if table.has_primary_key else None
    while True:
        try:
            latest = table.snapshots.latest()
            own = _find_own(table, request, base, latest) if attempt else None
            if own is not None and is_final(table, base, own):
                log.info("table=%s snapshot=%d own commit found", table.name, own.id)
                return own
            if own is not None:
                latest, doubt = table.snapshots.latest(), None  # it was reverted
            if doubt is not None:
                doubt.check_base(table, request, attempt, base)
            if doubt is not None and latest is not None and latest.id >= doubt.snapshot:
                doubt = None  # the id is taken by another commit
            changes = provide(latest)
            if _may_be_of_old_table(table, changes, latest, request, env):
                check_same_table(table)
            if latest is not None and (request.check or _is_outdated(table, latest, request)):
                changes = _checked(table, latest, changes, request, sort_key)
            snapshot = prepare_snapshot(table, latest, changes, request, manifests, env=env)
        except (CommitConflict, CommitStateUnknown):
            raise
        except Exception as e:
            if doubt is None:
                raise
            raise doubt.error(table, request, attempt, e) from e
        try:
            won = table.snapshots.try_commit(
                snapshot,
                base=latest,
                statistics=partition_statistics(table, changes.files, env=env),
            )
        except (
            CatalogError,
            InvalidArgument,
            OutsideTable,
            StorageAccessDenied,
            UnsupportedFeature,
        ) as e:
            # Nothing was created, and another attempt would be refused as well.
            if doubt is None:
                raise
            raise doubt.error(table, request, attempt, e) from e
        except Exception as e:  # noqa: BLE001 - whatever it was, the outcome is unknown
            log.warning("table=%s snapshot=%d outcome unknown: %s", table.name, snapshot.id, e)
            won, doubt = False, _Doubt(snapshot.id, e)
        taken_back = False
        try:
            taken_back = won and not is_final(table, latest, snapshot)
            won = won and not taken_back
        except (CommitStateUnknown, NotFound):
            raise
        except Exception as e:  # noqa: BLE001 - it is there, but for how long is unknown
            log.warning("table=%s snapshot=%d base unknown: %s", table.name, snapshot.id, e)
            won, doubt = False, _Doubt(snapshot.id, e)
        if won:
            log.info(
                "table=%s snapshot=%d kind=%s committed",
                table.name,
                snapshot.id,
                snapshot.commit_kind,
            )
            return snapshot
        # Others have the numbers after a base of which nothing is left.
        base = table.snapshots.latest() if taken_back else latest
        waited = env.now_millis() - started
        if attempt >= options.value(COMMIT_MAX_RETRIES) or (
            timeout is not None and waited > timeout
        ):
            return _give_up(table, request, base, snapshot, attempt, doubt)
        env.sleep_millis(
            backoff_millis(
                attempt,
                least=options.value(COMMIT_MIN_RETRY_WAIT),
                most=options.value(COMMIT_MAX_RETRY_WAIT),
                jitter=env.jitter(),
            )
        )
        attempt += 1


def _in_the_way(table: FileStoreTable, path: str, number: int, attempt: int) -> CommitConflict:
    return CommitConflict(
        f"gave up committing to table {table.name} after {attempt} attempts: {path} is in the "
        "way, and is not a snapshot",
        table=table.name,
        file=path,
        snapshot=number,
        next_step="find out what it is, move it out of the table, then run again",
    )


@dataclass(frozen=True, slots=True)
class _Doubt:
    """The id of a snapshot that an attempt may have made, and how its reply was lost."""

    snapshot: int
    cause: Exception

    def error(
        self, table: FileStoreTable, request: CommitRequest, attempt: int, reason: object
    ) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"the outcome of snapshot {self.snapshot} of table {table.name} by user {request.user} "
            f"is unknown after {attempt + 1} attempts: {reason}",
            table=table.name,
            snapshot=self.snapshot,
        )

    def check_base(
        self, table: FileStoreTable, request: CommitRequest, attempt: int, base: Snapshot | None
    ) -> None:
        """CommitStateUnknown if a rollback removed the base, and perhaps the snapshot with it.

        Its files may be deleted then, or kept by a safety tag: they must be neither committed again
        nor deleted here.
        """
        if base is not None and is_replaced(table, base):
            raise self.error(table, request, attempt, f"snapshot {base.id}, its base, was removed")


def _may_be_of_old_table(
    table: FileStoreTable,
    changes: ManifestChanges,
    latest: Snapshot | None,
    request: CommitRequest,
    env: Environment,
) -> bool:
    """Return whether the changes may be for a table that was replaced since.

    It was dropped and created again, or a fast-forward replaced the schema of the changes.

    Fast-forwards keep the first schema only, and the snapshots that they bring may be of any age.
    Under the first schema, new files that are newer than a snapshot show that it is of the table
    that they were written to.  A compaction deletes files that a new table does not have.  A
    catalog that makes the commits checks it, and without a snapshot, `is_final` does.  Nothing
    tells how old statistics are, or the choice of partitions that go.
    """
    if latest is None or table.snapshots.owner is not None:
        return False
    if table.schema.id:
        return True
    times = [e.file.creation_time for e in changes.files if e.kind is FileKind.ADD]
    if request.kind is CommitKind.COMPACT and len(times) < len(changes.files):
        return False
    if request.statistics is not None or not times:
        return True
    oldest = min(NULL if time is None else time for time in times)
    return oldest <= local_clock(latest.time_millis, env)


def _is_outdated(table: FileStoreTable, latest: Snapshot, request: CommitRequest) -> bool:
    """Return whether rows were put into buckets before the schema changed, perhaps by a rescale."""
    return (
        request.kind is CommitKind.APPEND
        and table.bucket_mode is BucketMode.FIXED
        and latest.schema_id != table.schema.id
    )


def _checked(
    table: FileStoreTable,
    latest: Snapshot,
    changes: ManifestChanges,
    request: CommitRequest,
    sort_key: SortKey | None,
) -> ManifestChanges:
    """Return the changes with all fields of their files; CommitConflict if they conflict."""
    partitions = changes.partitions()
    base = list(scan_files(table, latest, partitions=partitions)) if partitions else []
    check_conflicts(
        table=table.name,
        latest=latest,
        base=base,
        delta=changes.files,
        kind=request.kind,
        sort_key=sort_key,
        exact=request.exact,
    )
    if request.row_groups:
        check_row_groups(table=table.name, latest=latest, base=base, groups=request.row_groups)
        check_indexed_columns(table, latest=latest, changes=changes)
    if request.kind is CommitKind.COMPACT and has_data_evolution(table):
        check_merged_groups(table, latest=latest, base=base, delta=changes.files)
    if changes.index_files or latest.index_manifest is not None:
        check_vectors(
            table=table.name,
            latest=latest,
            base=base,
            index_files=table.index_entries(latest),
            changes=changes,
            bucket_unaware=table.bucket_mode is BucketMode.UNAWARE,
        )
    return with_unknown_fields(changes, base, request, table=table.name, latest=latest)


def _find_own(
    table: FileStoreTable, request: CommitRequest, base: Snapshot | None, latest: Snapshot | None
) -> Snapshot | None:
    """Return this request's snapshot after `base`, or None if it certainly does not exist."""
    first = 1 if base is None else base.id + 1
    last = 0 if latest is None else latest.id
    for snapshot_id in range(first, last + 1):
        try:
            snapshot = table.snapshots.get(snapshot_id)
        except NotFound as e:
            if base is None and snapshot_id < (table.snapshots.earliest_id() or 1):
                continue
            raise CommitStateUnknown(
                f"cannot tell whether a commit to table {table.name} happened: snapshot "
                f"{snapshot_id} expired before it was checked",
                table=table.name,
                snapshot=snapshot_id,
            ) from e
        if (
            snapshot.commit_user == request.user
            and snapshot.commit_identifier == request.identifier
            and snapshot.commit_kind == request.kind
        ):
            return snapshot
    return None


def _give_up(
    table: FileStoreTable,
    request: CommitRequest,
    base: Snapshot | None,
    tried: Snapshot,
    attempt: int,
    doubt: _Doubt | None,
) -> Snapshot:
    try:
        latest = table.snapshots.latest()
        own = _find_own(table, request, base, latest)
        if own is None and doubt is not None:
            doubt.check_base(table, request, attempt, base)
    except CommitStateUnknown:
        raise
    except Exception as e:
        doubt = doubt or _Doubt(tried.id, e)
        raise doubt.error(table, request, attempt, doubt.cause) from e
    if own is not None and is_final(table, base, own):
        return own
    taken = latest is not None and latest.id >= tried.id
    if doubt is not None and not taken:
        raise doubt.error(table, request, attempt, doubt.cause) from doubt.cause
    if not taken:
        raise _in_the_way(table, table.paths.snapshot(tried.id), tried.id, attempt + 1)
    raise CommitConflict(
        f"gave up committing to table {table.name} after {attempt + 1} attempts: other commits "
        f"were first in every attempt",
        table=table.name,
        snapshot=tried.id,
        next_step="raise commit.max-retries or commit less often, then run again",
    )
