"""The distributed lock of a JDBC catalog (Java: `jdbc/JdbcCatalogLock`, `*DistributedLockDialect`).

A lock is a row with the id `CATALOG_KEY.DATABASE.TABLE`; the client that inserts it holds the
lock.  It expires: a client that finds it held for longer than `lock-acquire-timeout` of its holder
deletes it. Ages are compared with the database's clock, in the time zone of the session, so all
clients of a PostgreSQL database must run in one time zone (Java's do, too).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from paimon_core.catalog.jdbc.database import LOCKS, JdbcDatabase
from paimon_core.catalog.lock import TOLD_MILLIS, acquire_timeout_millis, longest_wait_millis
from paimon_core.errors import CatalogLocked, PaimonError, StorageError
from paimon_core.io.commit_guard import guarded_by

log = logging.getLogger(__name__)

_FIRST_WAIT_MILLIS: Final = 50
_ACQUIRED_AT: Final = "CAST(acquired_at AS VARCHAR(40))"
"""As text: SQLite takes anything for a time."""
_EXPIRED: Final[Mapping[str, str]] = {
    "sqlite": "strftime('%s', 'now') - strftime('%s', acquired_at) > expire_time_seconds",
    "postgresql": "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at)) > expire_time_seconds",
}


@dataclass(frozen=True, slots=True)
class JdbcLock:
    """The lock of one table.  Picklable."""

    database: JdbcDatabase
    catalog_key: str
    identifier: str

    @property
    def lock_id(self) -> str:
        return f"{self.catalog_key}.{self.identifier}"

    @property
    def _timeout_millis(self) -> int:
        return acquire_timeout_millis(self.database.options)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The lock, for as long as the block; CatalogLocked if others hold it for too long."""
        acquired_at = self._acquire()
        since = time.monotonic()
        try:
            with guarded_by(partial(self._check_held, acquired_at, since)):
                yield
        finally:
            self._release(acquired_at, since)

    def _check_held(self, acquired_at: str, since: float) -> None:
        """CatalogLocked if the lock is lost, or may expire before a rename that begins now ends."""
        held = (time.monotonic() - since) * 1000
        if held < self._timeout_millis / 2 and self._acquired_at() == acquired_at:
            return
        raise CatalogLocked(
            f"the lock {self.lock_id} of the JDBC catalog was held for {held / 1000:.0f} s and may "
            "expire, or has; nothing was changed",
            table=self.identifier,
            next_step="run again; if the store is slow, raise the catalog option lock-acquire-timeout",
        )

    def _acquire(self) -> str:
        """Take the lock; when its row says that it was acquired."""
        most = longest_wait_millis(self.database.options)
        started = time.monotonic()
        wait = _FIRST_WAIT_MILLIS
        told = False
        while (acquired_at := self._insert()) is None:
            waited = (time.monotonic() - started) * 1000
            if waited > self._timeout_millis:
                raise CatalogLocked(
                    f"the lock {self.lock_id} of the JDBC catalog was held by another client for "
                    f"{waited / 1000:.0f} s{self._since()}; nothing was changed",
                    table=self.identifier,
                    next_step="run again when the holder has ended; if it died and its clock or time "
                    f"zone is not this client's, delete the row of this lock_id from {LOCKS}",
                )
            if waited > TOLD_MILLIS and not told:
                told = True
                log.warning(
                    "lock=%s is held by another client%s; waiting for it, at most %d s",
                    *(self.lock_id, self._since(), self._timeout_millis // 1000),
                )
            wait = min(2 * wait, most)
            time.sleep(wait / 1000)
        return acquired_at

    def _since(self) -> str:
        """When the lock was taken, as far as the database says so."""
        try:
            found = self._acquired_at()
        except PaimonError:
            return ""
        return f" (its row says since {found})" if found else ""

    def _acquired_at(self) -> str | None:
        """When the lock was taken, by its row; None if nobody holds it."""
        found = self.database.rows(
            f"SELECT {_ACQUIRED_AT} FROM {LOCKS} WHERE lock_id = :id", id=self.lock_id
        )
        return found[0][0] if found else None

    def _insert(self) -> str | None:
        """When the lock was taken, which tells its row from those of others; None if it is held.

        If the reply to the commit was lost, the row says whether it happened.
        """
        from sqlalchemy import text  # noqa: PLC0415 - an extra
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

        expired = _EXPIRED[self.database.dialect]
        values = {"id": self.lock_id, "seconds": self._timeout_millis // 1000}
        with self.database.transaction() as connection:
            gone = connection.execute(
                text(f"DELETE FROM {LOCKS} WHERE {expired} AND lock_id = :id"),
                {"id": self.lock_id},
            )
            if gone.rowcount:
                log.warning("lock=%s had expired and was deleted", self.lock_id)
        acquired_at: str | None = None
        try:
            with self.database.transaction() as connection:
                connection.execute(
                    text(
                        f"INSERT INTO {LOCKS} (lock_id, expire_time_seconds) VALUES (:id, :seconds)"
                    ),
                    values,
                )
                row = text(f"SELECT {_ACQUIRED_AT} FROM {LOCKS} WHERE lock_id = :id")
                acquired_at = str(connection.execute(row, {"id": self.lock_id}).scalar_one())
        except IntegrityError:
            return None
        except StorageError:
            if acquired_at is None or self._acquired_at() != acquired_at:
                raise
            log.warning("lock=%s was taken, although the reply to that was lost", self.lock_id)
        return acquired_at

    def _release(self, acquired_at: str, since: float) -> None:
        from sqlalchemy import text  # noqa: PLC0415 - an extra

        if (time.monotonic() - since) * 1000 >= self._timeout_millis:
            # It has expired: the row may be another client's by now.
            log.warning("lock=%s was held until it expired; it is not released", self.lock_id)
            return
        for again in (True, False):
            try:
                with self.database.transaction() as connection:
                    connection.execute(
                        text(f"DELETE FROM {LOCKS} WHERE lock_id = :id AND {_ACQUIRED_AT} = :at"),
                        {"id": self.lock_id, "at": acquired_at},
                    )
            except PaimonError as e:
                if again and isinstance(e, StorageError):
                    continue
                # What was done under the lock is done; others wait until the lock expires.
                log.warning("lock=%s could not be released: %s", self.lock_id, e)
            return
