"""The lock of a catalog around commits and changes of schemas (Java: `catalog/CatalogLock`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from paimon_core.errors import UnsupportedFeature
from paimon_core.options import parse_bool
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_commit import CommitAttempt


class CatalogLock(Protocol):
    """The lock of one table.  Picklable."""

    def held(self) -> AbstractContextManager[None]:
        """The lock, for as long as the block; CatalogLocked if others hold it for too long."""


def lock_enabled(options: Mapping[str, str], own: str) -> bool:
    """Whether commits hold the lock: the option `lock.enabled`, else on object stores only.

    UnsupportedFeature if `lock.type` names another lock than `own`, the catalog's.
    """
    lock_type = options.get("lock.type", own)
    if lock_type != own:
        raise UnsupportedFeature(
            f"lock.type={lock_type}",
            f"the lock.type {lock_type} is not supported for a catalog with metastore {own}",
            next_step=f"leave lock.type out: the catalog's own lock is {own}",
        )
    given = options.get("lock.enabled")
    if given is not None:
        return parse_bool(given)
    scheme, separator, _ = options.get("warehouse", "").partition("://")
    return bool(separator) and scheme not in ("file", "hdfs", "viewfs")


def held(lock: CatalogLock | None) -> AbstractContextManager[None]:
    """The lock, for as long as the block; nothing without a lock."""
    return nullcontext() if lock is None else lock.held()


@dataclass(frozen=True, slots=True)
class LockedCommit:
    """`SnapshotCommit` that creates the snapshot's file while it holds the table's lock."""

    lock: CatalogLock

    @property
    def owner(self) -> None:
        return None

    @property
    def accepts_partition_statistics(self) -> bool:
        return False

    def latest(self, branch: str) -> Snapshot | None:
        raise NotImplementedError(branch)  # asked of owners only

    def commit(
        self,
        attempt: CommitAttempt,  # noqa: ARG002 - as every SnapshotCommit
        create_file: Callable[[], bool],
    ) -> bool:
        with self.lock.held():
            return create_file()
