"""The snapshots of one branch of a table (Java: `utils/SnapshotManager`).

Nothing is cached: a rollback reuses snapshot ids, so the same id may refer to another snapshot
later (compare `Snapshot.identity`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from paimon_core.errors import NotFound, OutsideTable, UnsupportedFeature
from paimon_core.io.file_io import FileIO, read_parallel, renames_atomically
from paimon_core.paths import CARETAKER_DIR, SNAPSHOT_PREFIX, TablePaths
from paimon_core.snapshot.numbered_files import (
    LATEST,
    NumberedFiles,
    NumberedStore,
    read_numbered,
)
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_commit import (
    CommitAttempt,
    PartitionStatistics,
    SnapshotCommit,
)
from paimon_core.snapshot.snapshot_json import snapshot_to_json

log = logging.getLogger(__name__)

_LOOKS = 3
"""The number of retries when a snapshot vanishes right after it was found."""


@dataclass(frozen=True, slots=True)
class SnapshotStore(NumberedStore):
    """Reads, creates and deletes `snapshot/snapshot-N`; `table` is the name for messages.

    `snapshot_commit` is the part that the table's catalog takes in commits; None: it takes none.
    A catalog that owns the commits also says which snapshot is the newest; the others are still
    read from their files, as in Java.
    """

    io: FileIO
    paths: TablePaths
    table: str
    snapshot_commit: SnapshotCommit | None = field(default=None, compare=False, repr=False)

    def of_branch(self, branch: str) -> SnapshotStore:
        """The snapshots of another branch."""
        return replace(self, paths=self.paths.of_branch(branch))

    @property
    def owner(self) -> str | None:
        """The catalog that makes the commits of this table; None if snapshot files decide."""
        return None if self.snapshot_commit is None else self.snapshot_commit.owner

    @property
    def _files(self) -> NumberedFiles:
        return NumberedFiles(self.io, self.paths.snapshot_dir, SNAPSHOT_PREFIX)

    def latest(self) -> Snapshot | None:
        """The newest snapshot, None if there is none."""
        if self.snapshot_commit is not None and self.snapshot_commit.owner is not None:
            return self.snapshot_commit.latest(self.paths.branch)
        files = self._files
        for _ in range(_LOOKS):
            hint = files.hint(LATEST)
            if hint is not None and not files.exists(hint + 1):
                found = self.get_or_none(hint)
                if found is not None:
                    return found
            newest = max(files.numbers(), default=None)
            if newest is None:
                return None
            found = self.get_or_none(newest)
            if found is not None:
                return found
        raise _vanished(self.table)

    def latest_id(self) -> int | None:
        """The greatest id, None if there is no snapshot."""
        if self.owner is None:
            return self._files.latest()
        newest = self.latest()
        return None if newest is None else newest.id

    def earliest(self) -> Snapshot | None:
        """Return the oldest snapshot; None if there is none."""
        for _ in range(_LOOKS):
            oldest = self.earliest_id()
            if oldest is None:
                return None
            found = self.get_or_none(oldest)
            if found is not None:
                return found
        raise _vanished(self.table)

    def get(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot; NotFound if it does not exist, CorruptTable if it is unreadable."""
        found = self.get_or_none(snapshot_id)
        if found is None:
            raise NotFound(
                f"snapshot {snapshot_id} of table {self.table} does not exist",
                table=self.table,
                snapshot=snapshot_id,
                next_step="it never existed, or it expired; `caretaker inspect` lists the existing ones",
            )
        return found

    def get_or_none(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot or None if it does not exist; CorruptTable if it is unreadable."""
        found = self.read(snapshot_id)
        return None if found is None else found[1]

    def read(self, snapshot_id: int) -> tuple[bytes, Snapshot] | None:
        """Return the stored bytes and the decoded snapshot; None and errors as in `get_or_none`."""
        return read_numbered(self._files, snapshot_id, self.table)

    def all(self) -> list[Snapshot]:
        """Return all snapshots, sorted by id.

        One that vanishes during the call is left out only if it is older than the oldest remaining
        one, because then it expired.  Raises NotFound if another one vanished: the table was rolled
        back.
        """
        return self.get_many(self.ids())

    def get_many(self, ids: Iterable[int]) -> list[Snapshot]:
        """Return the snapshots of these ids in order, without those that expired meanwhile."""
        wanted = list(ids)
        found = read_parallel(self.io, self.get_or_none, wanted)
        missing = [i for i, s in zip(wanted, found, strict=True) if s is None]
        if missing:
            left = self.ids()
            for snapshot_id in missing:
                if left and snapshot_id >= left[0]:
                    raise NotFound(
                        f"snapshot {snapshot_id} of table {self.table} disappeared while it was read, "
                        "although older ones still exist",
                        table=self.table,
                        snapshot=snapshot_id,
                        next_step="the table was rolled back or repaired meanwhile; run again",
                    )
        return [s for s in found if s is not None]

    def at_or_after_time(self, millis: int) -> Snapshot | None:
        """Return the oldest snapshot committed at `millis` or after; None if all are older."""
        return self._around(millis - 1)[1]

    def create(self, snapshot: Snapshot) -> bool:
        """Make the snapshot's file and no hint; False if its id is taken, OSError: unknown.

        UnsupportedFeature if a catalog owns the commits.
        """
        if self.owner is not None:
            raise self._owned(snapshot.id)
        content = snapshot_to_json(snapshot).encode()
        return self.io.create_if_absent(self.paths.snapshot(snapshot.id), content)

    def replace(self, snapshot: Snapshot) -> None:
        """Overwrite the file of the snapshot's id.

        UnsupportedFeature if a catalog owns the commits.
        """
        if self.owner is not None:
            raise self._owned(snapshot.id)
        content = snapshot_to_json(snapshot).encode()
        self.io.overwrite(self.paths.snapshot(snapshot.id), content)

    def try_commit(
        self,
        snapshot: Snapshot,
        *,
        base: Snapshot | None = None,
        statistics: Sequence[PartitionStatistics] = (),
    ) -> bool:
        """Whether the snapshot was made; False if its id is taken.

        `base` is the snapshot that it follows, `statistics` what it changes in each partition: a
        catalog that owns the commits gets both.  OSError means that the outcome is unknown.  Once
        the file is there, the commit is done: a hint that cannot be written changes nothing.
        """
        if self.snapshot_commit is None:
            return self._create_with_hint(snapshot)
        attempt = CommitAttempt(
            branch=self.paths.branch, base=base, snapshot=snapshot, statistics=statistics
        )
        return self.snapshot_commit.commit(attempt, lambda: self._create_with_hint(snapshot))

    def _create_with_hint(self, snapshot: Snapshot) -> bool:
        if self.owner is not None:
            raise self._owned(snapshot.id)
        path = self.paths.snapshot(snapshot.id)
        content = snapshot_to_json(snapshot).encode()
        if not self.io.create_if_absent(path, content):
            return False
        try:
            self._files.write_hint(LATEST, snapshot.id)
        except (OSError, OutsideTable) as e:
            log.warning("table=%s snapshot=%d hint not written: %s", self.table, snapshot.id, e)
        return self._still_ours(path, content, snapshot.id)

    def _owned(self, snapshot_id: int) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"snapshot file of a table of {self.owner}",
            f"snapshot {snapshot_id} of table {self.table} is not created: {self.owner} makes the "
            "commits of this table",
            table=self.table,
            snapshot=snapshot_id,
        )

    def _still_ours(self, path: str, content: bytes, snapshot_id: int) -> bool:
        # Java checks and then renames: a Java writer that checked before we created the file
        # replaces it right after.  Then its commit is the valid one, and ours must be retried.
        try:
            if self.io.read_bytes(path) == content:
                return True
        except FileNotFoundError:
            # Already rolled back: a hint that names it would make the table unreadable for Java.
            self.delete_latest_hint()
            return True
        except OSError as e:
            log.debug("table=%s snapshot=%d not read back: %s", self.table, snapshot_id, e)
            return True
        log.warning(
            "table=%s snapshot=%d was replaced by another writer's commit", self.table, snapshot_id
        )
        return False

    def delete(self, snapshot_id: int) -> bool:
        """Delete only the snapshot's file.

        Return False if it was missing (object stores cannot tell).
        """
        return self.io.delete(self.paths.snapshot(snapshot_id))

    def delete_unchanged(self, snapshot_id: int, content: bytes) -> bool:
        """Delete the snapshot's file.

        False, with the file in its place, if it holds another commit.  True if it was missing.
        Another job may replace the snapshot between a look at the file and its deletion, which may
        be a long pause.  So where a rename is atomic, the file is moved aside, read there, and
        moved back if it is another one.  Object stores cannot do that, and a catalog that owns the
        commits keeps others from doing it.
        """
        path = self.paths.snapshot(snapshot_id)
        if self.owner is not None or not renames_atomically(path):
            self.io.delete(path)
            return True
        # The same name in every run, so that the next one deletes what a killed one left.
        name = f".{SNAPSHOT_PREFIX}{snapshot_id}.{sha256(content).hexdigest()[:32]}.tmp"
        aside = f"{self.paths.root}/{CARETAKER_DIR}/{name}"
        try:
            if not self.io.rename(path, aside):
                self.io.delete(aside)
                if not self.io.rename(path, aside):
                    return False
        except FileNotFoundError:
            return True
        try:
            found = self.io.read_bytes(aside)
        except FileNotFoundError:
            return True  # the orphan job takes it for what a killed run left
        if found == content:
            self.io.delete(aside)
            return True
        if not self.io.rename(aside, path):
            log.warning("table=%s snapshot=%d kept as %s", self.table, snapshot_id, aside)
        return False

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Set LATEST unless the snapshot is gone: Java cannot read a table with a wrong hint."""
        self._files.write_hint(LATEST, snapshot_id)
        if not self.exists(snapshot_id):
            self.delete_latest_hint()


def _vanished(table: str) -> NotFound:
    return NotFound(
        f"snapshots of table {table} disappear while they are read",
        table=table,
        next_step="another job is expiring or rolling back; run again when it is done",
    )
