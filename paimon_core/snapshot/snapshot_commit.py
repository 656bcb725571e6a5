"""Who makes a snapshot part of a table (Java: `catalog/SnapshotCommit`).

A commit is the creation of `snapshot/snapshot-N`; a catalog's lock around it is the store's
business (`catalog/lock`).  Some catalogs make the commit themselves and know which snapshot is the
newest (REST).  A snapshot file that such a catalog does not know is invisible to every other
client, so nothing here may create one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from paimon_core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """What a partition holds, or what a commit adds to it (Java: `partition/PartitionStatistics`).

    `spec` maps partition keys to texts and is empty for an unpartitioned table.  `file_size` is in
    bytes, `last_file_creation_millis` in milliseconds since the epoch.  Deleted files count
    negatively in a commit.
    """

    spec: Mapping[str, str]
    record_count: int
    file_size: int
    file_count: int
    last_file_creation_millis: int
    total_buckets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """A snapshot that is to follow `base` in `branch`, with what it changes in each partition."""

    branch: str
    base: Snapshot | None
    snapshot: Snapshot
    statistics: Sequence[PartitionStatistics] = ()


class SnapshotCommit(Protocol):
    """How a table's catalog takes part in its commits.  Picklable."""

    @property
    def owner(self) -> str | None:
        """The catalog that makes the commits; None if snapshot files decide."""

    @property
    def accepts_partition_statistics(self) -> bool:
        """Whether `commit` passes the partition statistics on, so that they are worth computing."""

    def latest(self, branch: str) -> Snapshot | None:
        """The newest snapshot of the branch as the owner knows it, None if there is none."""

    def check_same_table(self) -> None:
        """Raise TableGone if the owner has no such table any more, or another one of its name."""

    def commit(self, attempt: CommitAttempt, create_file: Callable[[], bool]) -> bool:
        """Whether the snapshot was committed; False if its id is taken.

        `create_file` creates the snapshot's file; an owner never calls it.  CatalogError,
        InvalidArgument, StorageAccessDenied and UnsupportedFeature mean that nothing was committed;
        any other error that the outcome is unknown.
        """
