"""The attempts of one commit, until it is won or refused, or its outcome stays unknown.

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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from paimon_core.commit.base_check import is_final, is_replaced
from paimon_core.commit.changed_rows import check_rows_unchanged
from paimon_core.commit.conflict import check_conflicts
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.partition_statistics import partition_statistics
from paimon_core.commit.prepare import PreparedManifests, prepare_snapshot
from paimon_core.commit.request import CommitRequest
from paimon_core.commit.rewritten_schemas import check_replacement_finished, check_rewritten_schemas
from paimon_core.commit.row_group_conflict import (
    check_indexed_columns,
    check_merged_groups,
    check_row_groups,
)
from paimon_core.commit.same_table import check_same_table
from paimon_core.commit.strict_mode import check_strict_mode
from paimon_core.commit.unknown_metadata import with_unknown_fields
from paimon_core.commit.vector_conflict import check_vectors
from paimon_core.environment import Environment, local_clock
from paimon_core.errors import (
    CatalogError,
    CommitConflict,
    CommitObstructed,
    CommitStateUnknown,
    CorruptTable,
    InvalidArgument,
    NotFound,
    OutsideTable,
    StorageAccessDenied,
    UnsupportedFeature,
)
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
from paimon_core.scan.key_bounds import is_clustered
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.line import wrote_since
from paimon_core.snapshot.snapshot import CommitKind, Snapshot

log = logging.getLogger(__name__)

Provide = Callable[[Snapshot | None], ManifestChanges]
"""The changes for the snapshot that an attempt builds on (None: a table without snapshots)."""


@dataclass(slots=True)
class Attempts:
    """The attempts of one commit.

    `_number` counts them from 0.  `_base` is the snapshot that the last one was built on.  `_doubt`
    is set while an attempt may have made a snapshot whose reply was lost.
    """

    table: FileStoreTable
    provide: Provide
    request: CommitRequest
    env: Environment
    _number: int = 0
    _base: Snapshot | None = None
    _doubt: _Doubt | None = None
    _manifests: PreparedManifests = field(default_factory=PreparedManifests)
    _started: int = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.env.now_millis()

    def run(self) -> Snapshot:
        """Return the snapshot of the commit; errors as in `committer.commit`."""
        while True:
            latest: Snapshot | None = None
            try:
                latest, own = self._look()
                if own is not None:
                    log.info("table=%s snapshot=%d own commit found", self.table.name, own.id)
                    return own
                changes, snapshot = self._prepare(latest)
            except (CommitConflict, CommitStateUnknown):
                raise
            except Exception as e:
                if self._doubt is not None:
                    raise self._unknown(e) from e
                if not isinstance(e, CorruptTable) or self._are_over() or self._is_newest(latest):
                    raise
                # A rollback, or an expiry after other commits, deletes what it was to build on.
                log.info("table=%s tries again on a newer snapshot: %s", self.table.name, e)
                self._wait()
                continue
            if self._create(snapshot, latest, changes):
                log.info(
                    "table=%s snapshot=%d kind=%s committed",
                    self.table.name,
                    snapshot.id,
                    snapshot.commit_kind,
                )
                return snapshot
            if self._are_over():
                return self._give_up(snapshot)
            self._wait()

    def _look(self) -> tuple[Snapshot | None, Snapshot | None]:
        """Return the newest snapshot, and that of an earlier attempt if it was made after all."""
        latest = self.table.snapshots.latest()
        own = _find_own(self.table, self.request, self._base, latest) if self._number else None
        if own is not None and is_final(self.table, self._base, own):
            return latest, own
        if own is not None:
            latest, self._doubt = self.table.snapshots.latest(), None  # it was reverted
        if self._doubt is not None:
            self._check_base()
        if self._doubt is not None and latest is not None and latest.id >= self._doubt.snapshot:
            self._doubt = None  # the id is taken by another commit
        return latest, None

    def _prepare(self, latest: Snapshot | None) -> tuple[ManifestChanges, Snapshot]:
        """Return the checked changes and the snapshot to create, whose manifests are written."""
        table, request = self.table, self.request
        changes = self.provide(latest)
        if _may_be_of_old_table(table, changes, latest, request, self.env):
            check_same_table(table)
        if latest is not None and request.kind is CommitKind.APPEND:
            check_replacement_finished(table, latest, changes.files)
        check_strict_mode(table, latest, changes, request)
        if request.rewrites:
            check_rewritten_schemas(table, changes.files)
        if request.rows_at is not None:
            check_rows_unchanged(table, latest, request.rows_at, changes.files, request)
        if latest is not None and (request.check or _is_outdated(table, latest, request)):
            changes = _checked(table, latest, changes, request)
        snapshot = prepare_snapshot(table, latest, changes, request, self._manifests, env=self.env)
        return changes, snapshot

    def _create(
        self, snapshot: Snapshot, latest: Snapshot | None, changes: ManifestChanges
    ) -> bool:
        """Create the snapshot on top of `latest`; return whether the commit is won."""
        won = self._try(snapshot, latest, changes)
        is_taken_back = False
        try:
            is_taken_back = won and not is_final(self.table, latest, snapshot)
        except (CommitStateUnknown, NotFound):
            raise
        except Exception as e:  # noqa: BLE001 - it is there, but for how long is unknown
            log.warning("table=%s snapshot=%d base unknown: %s", self.table.name, snapshot.id, e)
            won, self._doubt = False, _Doubt(snapshot.id, e)
        if won and not is_taken_back:
            return True
        # Others have the numbers after a base of which nothing is left.
        self._base = self.table.snapshots.latest() if is_taken_back else latest
        return False

    def _try(self, snapshot: Snapshot, latest: Snapshot | None, changes: ManifestChanges) -> bool:
        """Return whether the snapshot was created; if nobody knows, it is in doubt."""
        try:
            return self.table.snapshots.try_commit(
                snapshot,
                base=latest,
                statistics=partition_statistics(self.table, changes.files, env=self.env),
            )
        except (
            CatalogError,
            InvalidArgument,
            OutsideTable,
            StorageAccessDenied,
            UnsupportedFeature,
        ) as e:
            # Nothing was created, and another attempt would be refused as well.
            if self._doubt is None:
                raise
            raise self._unknown(e) from e
        except Exception as e:  # noqa: BLE001 - whatever it was, the outcome is unknown
            log.warning("table=%s snapshot=%d outcome unknown: %s", self.table.name, snapshot.id, e)
            self._doubt = _Doubt(snapshot.id, e)
            return False

    def _is_newest(self, base: Snapshot | None) -> bool:
        if base is None:
            return True
        newest = self.table.snapshots.latest()
        return newest is None or newest.identity == base.identity

    def _are_over(self) -> bool:
        options = self.table.options
        timeout = options.value(COMMIT_TIMEOUT)
        waited = self.env.now_millis() - self._started
        return self._number >= options.value(COMMIT_MAX_RETRIES) or (
            timeout is not None and waited > timeout
        )

    def _wait(self) -> None:
        options = self.table.options
        self.env.sleep_millis(
            backoff_millis(
                self._number,
                least=options.value(COMMIT_MIN_RETRY_WAIT),
                most=options.value(COMMIT_MAX_RETRY_WAIT),
                jitter=self.env.jitter(),
            )
        )
        self._number += 1

    def _check_base(self) -> None:
        """Raise CommitStateUnknown if a rollback removed the base, and perhaps the snapshot too.

        Its files may be deleted then, or kept by a safety tag: they must be neither committed again
        nor deleted here.
        """
        base = self._base
        if base is not None and is_replaced(self.table, base):
            raise self._unknown(f"snapshot {base.id}, its base, was removed")

    def _unknown(self, reason: object) -> CommitStateUnknown:
        assert self._doubt is not None
        return CommitStateUnknown(
            f"the outcome of snapshot {self._doubt.snapshot} of table {self.table.name} by user "
            f"{self.request.user} is unknown after {self._number + 1} attempts: {reason}",
            table=self.table.name,
            snapshot=self._doubt.snapshot,
        )

    def _give_up(self, tried: Snapshot) -> Snapshot:
        """Return the snapshot of an attempt that is there after all; raise what happened if not."""
        table = self.table
        try:
            latest = table.snapshots.latest()
            own = _find_own(table, self.request, self._base, latest)
            if own is None and self._doubt is not None:
                self._check_base()
        except CommitStateUnknown:
            raise
        except Exception as e:
            self._doubt = self._doubt or _Doubt(tried.id, e)
            raise self._unknown(self._doubt.cause) from e
        if own is not None and is_final(table, self._base, own):
            return own
        taken = latest is not None and latest.id >= tried.id
        if self._doubt is not None and not taken:
            raise self._unknown(self._doubt.cause) from self._doubt.cause
        if not taken:
            raise _in_the_way(table, table.paths.snapshot(tried.id), tried.id, self._number + 1)
        raise CommitConflict(
            f"gave up committing to table {table.name} after {self._number + 1} attempts: other "
            "commits were first in every attempt",
            table=table.name,
            snapshot=tried.id,
            next_step="raise commit.max-retries or commit less often, then run again",
        )


@dataclass(frozen=True, slots=True)
class _Doubt:
    """The id of a snapshot that an attempt may have made, and how its reply was lost."""

    snapshot: int
    cause: Exception


def _in_the_way(table: FileStoreTable, path: str, number: int, attempt: int) -> CommitObstructed:
    return CommitObstructed(
        f"gave up committing to table {table.name} after {attempt} attempts: {path} is in the "
        "way, and is not a snapshot",
        table=table.name,
        file=path,
        snapshot=number,
        next_step="find out what it is, move it out of the table, then run again",
    )


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
    """Return whether partitions may have got another number of buckets since the writer looked.

    A rescale changes the schema, and snapshots have the newest schema of their time, so those of
    writers with an older one look alike.  Whoever has the first schema meets no such writer.  In a
    table that postpones the choice, any commit may choose the number.
    """
    mode, at = table.bucket_mode, request.buckets_at
    if request.kind is not CommitKind.APPEND or mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
        return False
    if mode is BucketMode.POSTPONE:
        return at is not None and latest.identity != at
    if latest.schema_id != table.schema.id:
        return True
    return table.schema.id > 0 and (
        at is None or wrote_since(table.snapshots, at, latest, request.user)
    )


def _checked(
    table: FileStoreTable,
    latest: Snapshot,
    changes: ManifestChanges,
    request: CommitRequest,
) -> ManifestChanges:
    """Return the changes with all fields of their files; CommitConflict if they conflict."""
    partitions = changes.partitions()
    base = scan_files(table, latest, partitions=partitions, exact=True) if partitions else []
    by_key = table.has_primary_key and not is_clustered(table)
    sort_key = partial(stored_key, key=table.schema.key_type) if by_key else None
    check_conflicts(
        table=table.name,
        latest=latest,
        base=base,
        delta=changes.files,
        kind=request.kind,
        sort_key=sort_key,
        exact=request.exact,
    )
    index_files = table.index_entries(latest)
    if request.row_groups:
        check_row_groups(table=table.name, latest=latest, base=base, groups=request.row_groups)
        check_indexed_columns(table, latest=latest, index_files=index_files, changes=changes)
    if request.kind is CommitKind.COMPACT and has_data_evolution(table):
        check_merged_groups(table, latest=latest, base=base, delta=changes.files)
    if changes.index_files or latest.index_manifest is not None:
        check_vectors(
            table=table.name,
            latest=latest,
            base=base,
            index_files=index_files,
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
