"""The lock of a Hive metastore (Java: `hive/HiveCatalogLock`).

An exclusive lock on the table, as Hive's own writers take it.  The metastore keeps it until it is
released; the lock of a client that died expires after the metastore's `hive.txn.timeout`, if
something runs the metastore's housekeeper.  Otherwise it stops all commits, Java's too.  So a
client that waits releases the locks of processes of ours that have ended on its host.  If the reply
to a request gets lost, its lock is found among all locks by the text that it was requested with.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import uuid4

from paimon_core.catalog.lock import TOLD_MILLIS, acquire_timeout_millis, longest_wait_millis
from paimon_core.environment import user_name
from paimon_core.errors import CatalogLocked, PaimonError, StorageError
from paimon_core.io.commit_guard import guarded_by
from paimon_core.process_identity import has_ended, process_identity
from paimon_core.remote.hive_client import HiveClient
from paimon_core.remote.thrift_calls import (
    EXCLUSIVE_LOCK,
    LOCK_ACQUIRED,
    LOCK_WAITING,
    TABLE_LEVEL,
    LockComponent,
    LockId,
    LockRequest,
    LockResponse,
    ShowLocksRequest,
    ShowLocksResponse,
    ShownLock,
)

log = logging.getLogger(__name__)

_FIRST_WAIT_MILLIS: Final = 50
_ATTEMPTS: Final = 3
_AGENT: Final = "caretaker"
ENDED_MILLIS: Final = 5_000
"""How long a process has ended before its lock is released: its last request may be under way."""


@dataclass(frozen=True, slots=True)
class HiveLock:
    """The lock of one table.  Picklable."""

    client: HiveClient
    database: str
    table: str

    @contextmanager
    def held(self) -> Iterator[None]:
        """The lock, for as long as the block; CatalogLocked if others hold it for too long."""
        lock_id = self._acquire()
        try:
            with guarded_by(partial(self._check_held, lock_id)):
                yield
        finally:
            self._release(lock_id)

    def _check_held(self, lock_id: int) -> None:
        """CatalogLocked if the metastore has let the lock expire; else its time begins anew."""
        try:
            state = self.client.call("check_lock", LockId(lock_id=lock_id)).state
        except StorageError:
            raise
        except PaimonError:
            state = None  # there is no such lock any more
        if state != LOCK_ACQUIRED:
            raise CatalogLocked(
                f"the lock {lock_id} of table {self.database}.{self.table} in the Hive metastore has "
                "expired; nothing was changed",
                table=f"{self.database}.{self.table}",
                next_step="run again",
            )

    def _acquire(self) -> int:
        component = LockComponent(
            type=EXCLUSIVE_LOCK, level=TABLE_LEVEL, db_name=self.database, table_name=self.table
        )
        request = LockRequest(
            components=(component,),
            user=user_name(),
            host_name=socket.gethostname(),
            agent_info=f"{_AGENT} {uuid4().hex} {os.getpid()} {process_identity(os.getpid())}",
        )
        options = self.client.options
        most = longest_wait_millis(options)
        timeout = acquire_timeout_millis(options)
        started = time.monotonic()
        response = self._request(request)
        lock_id = response.lock_id or 0
        wait = _FIRST_WAIT_MILLIS
        ended: dict[int, float] = {}
        told = False
        try:
            while response.state == LOCK_WAITING and _millis_since(started) < timeout:
                if _millis_since(started) > TOLD_MILLIS and not told:
                    told = True
                    log.warning(
                        "table=%s.%s is locked by %s; waiting for it, at most %d s",
                        *(self.database, self.table, self._holder(), timeout // 1000),
                    )
                wait = min(2 * wait, most)
                time.sleep(wait / 1000)
                self._release_ended(ended)
                response = self.client.call("check_lock", LockId(lock_id=lock_id))
        finally:
            if response.state != LOCK_ACQUIRED:
                self._release(lock_id)
        if response.state != LOCK_ACQUIRED:
            raise CatalogLocked(
                f"the lock of table {self.database}.{self.table} in the Hive metastore was held by "
                f"{self._holder()} for {_millis_since(started) / 1000:.0f} s; nothing was changed",
                table=f"{self.database}.{self.table}",
                next_step="run again when the holder has ended; if it died, the metastore's "
                "housekeeper releases the lock after hive.txn.timeout, or a client of Caretaker's on its host",
            )
        return lock_id

    def _request(self, request: LockRequest) -> LockResponse:
        """The reply to the request, which is made again if it got lost."""
        for attempt in range(_ATTEMPTS):
            try:
                response: LockResponse = self.client.call("lock", request)
            except StorageError:
                # Others would wait for it, and so would this client.
                for lock in self._shown():
                    if lock.agent_info == request.agent_info and lock.lock_id is not None:
                        self._release(lock.lock_id)
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return response
        raise AssertionError(request)

    def _shown(self) -> Sequence[ShownLock]:
        """The locks of the table, as far as the metastore says so."""
        request = ShowLocksRequest(db_name=self.database, table_name=self.table)
        try:
            shown: ShowLocksResponse = self.client.call("show_locks", request)
        except PaimonError:
            return ()
        return shown.locks or ()

    def _release_ended(self, ended: dict[int, float]) -> None:
        """Release the locks of ended processes.

        `ended` holds since when they are known to have ended.
        """
        for lock in self._shown():
            if lock.lock_id is None or not _is_of_ended_process(lock):
                continue
            since = ended.setdefault(lock.lock_id, time.monotonic())
            if _millis_since(since) >= ENDED_MILLIS:
                log.warning(
                    "lock=%d of table=%s.%s released: its process has ended",
                    *(lock.lock_id, self.database, self.table),
                )
                self._release(lock.lock_id)

    def _holder(self) -> str:
        """Who holds the lock, as far as the metastore says so."""
        found = [lock for lock in self._shown() if lock.state == LOCK_ACQUIRED]
        if not found:
            return "another client"
        lock = found[0]
        since = datetime.fromtimestamp((lock.acquired_at or 0) // 1000, UTC)
        return (
            f"{lock.user}@{lock.host_name} (lock {lock.lock_id}, since {since:%Y-%m-%dT%H:%M:%SZ})"
        )

    def _release(self, lock_id: int) -> None:
        try:
            self.client.call("unlock", LockId(lock_id=lock_id))
        except PaimonError as e:
            # What was done under the lock is done; others wait until the lock expires.
            log.warning("lock=%d of table=%s.%s: %s", lock_id, self.database, self.table, e)


def _millis_since(started: float) -> float:
    return (time.monotonic() - started) * 1000


def _is_of_ended_process(lock: ShownLock) -> bool:
    """Whether a process of ours on this host requested the lock, and has ended."""
    agent, *text = (lock.agent_info or "").split(" ")
    if agent != _AGENT or len(text) != 3 or not text[1].isdigit():
        return False
    _, pid, identity = text
    return has_ended(host=lock.host_name or "", pid=int(pid), identity=identity) is True
