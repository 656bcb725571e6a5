"""The lock of a catalog around commits and changes of schemas (Java: `catalog/CatalogLock`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Protocol

from paimon_core.catalog.catalog import Watch
from paimon_core.errors import UnsupportedFeature
from paimon_core.io.conditional_put import COMMIT_BY_RENAME
from paimon_core.io.delegating import DelegatingFileIO
from paimon_core.io.file_io import FileIO, renames_atomically
from paimon_core.options import parse_bool, parse_duration_millis


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
            next_step=f"omit lock.type: the catalog's own lock is {own}",
        )
    given = options.get("lock.enabled")
    if given is not None:
        return parse_bool(given)
    return not renames_atomically(options.get("warehouse", ""))


def acquire_timeout_millis(options: Mapping[str, str]) -> int:
    """How long a client waits for the lock: the catalog option `lock-acquire-timeout`."""
    return parse_duration_millis(options.get("lock-acquire-timeout", "8 min"))


def longest_wait_millis(options: Mapping[str, str]) -> int:
    """The longest wait between two attempts: the catalog option `lock-check-max-sleep`."""
    return parse_duration_millis(options.get("lock-check-max-sleep", "8 s"))


TOLD_MILLIS: Final = 5_000
"""How long a client waits for the lock before it says so."""


def held(lock: CatalogLock | None) -> AbstractContextManager[None]:
    """The lock, for as long as the block; nothing without a lock."""
    return nullcontext() if lock is None else lock.held()


def file_options(options: Mapping[str, str], *, locked: bool) -> dict[str, str]:
    """The options of the store: under a lock, commits need no store with an exclusive create."""
    return {COMMIT_BY_RENAME: "true", **options} if locked else dict(options)


def under_lock(lock: CatalogLock | None, watch: Watch | None) -> Watch | None:
    """`watch` of a store whose exclusive creations hold the lock, if there is one."""
    if lock is None:
        return watch

    def watched(io: FileIO, folder: str) -> FileIO:
        locked = LockedFileIO(io, lock)
        return locked if watch is None else watch(locked, folder)

    return watched


@dataclass(frozen=True, slots=True)
class LockedFileIO(DelegatingFileIO):
    """`FileIO` that creates snapshots, schemas, tags and branches while it holds the table's lock.

    Java clients hold the lock for snapshots and schemas.
    """

    inner: FileIO
    lock: CatalogLock

    def create_if_absent(self, path: str, data: bytes) -> bool:
        with self.lock.held():
            return self.inner.create_if_absent(path, data)
