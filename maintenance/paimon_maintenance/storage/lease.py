"""A lease on a table, so that our own jobs that remove history or files run one after the other.

::

    caretaker/leases/0191...c7.json    {"job": "rollback", "run_id": ..., "host": ..., "pid": ...}

A job makes a file of its own and then lists the folder: it holds the lease if no other live file is
there.  Of two jobs that do this at once, at least one sees the other, and both withdraw if both do.
A holder renews its file; one that was not renewed for `LIFETIME_MILLIS` is stale, and so is one
whose process has ended on this host.  Whoever finds a stale file deletes it, and a job that comes
back after a long stall finds its own file gone: `Lease.check`, called before each change, stops it.

Ages are differences between times of files, which one clock made: the store's.

Java and Flink do not know this lease.  It comes on top of the proofs in `paimon_core`, which hold
without it (docs/decisions/0022-shortening-history.md).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import LeaseHeld, LeaseLost
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO, FileStat, parent
from paimon_maintenance.storage.process_identity import has_ended, process_identity

log = logging.getLogger(__name__)

LEASES: Final = "caretaker/leases"
LIFETIME_MILLIS: Final = 60_000
_SUFFIX: Final = ".json"
_RENEW_SECONDS: Final = 10.0
_LEAST_WAIT_MILLIS: Final = 50
_MOST_WAIT_MILLIS: Final = 2_000

_held: set[str] = set()
"""The files that this process holds: its other files are left over from a run that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a lease; `process` tells a process from a later one with its number."""

    job: str
    run_id: str
    host: str
    pid: int
    process: str
    since_millis: int

    @property
    def label(self) -> str:
        """For people: "rollback (run 0191..., process 12 on host a)"."""
        return f"{self.job} (run {self.run_id}, process {self.pid} on {self.host})"


@dataclass(frozen=True, slots=True)
class FoundLease:
    """A lease file as it was found; `holder` is None if it cannot be read."""

    stat: FileStat
    holder: Holder | None
    stale: bool


@dataclass(slots=True)
class Lease:
    """A lease that this process holds, until it is released or lost."""

    io: FileIO
    path: str
    content: bytes
    table: str
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def check(self) -> None:
        """LeaseLost unless the lease is still held: the job must not change anything more."""
        if not self.io.exists(self.path):
            raise LeaseLost(
                f"the lease on table {self.table} was taken over, because it was not renewed for "
                f"{LIFETIME_MILLIS // 1000} s",
                table=self.table,
                file=self.path,
            )

    def keep(self) -> None:
        """Renew the lease in a thread until `release`."""
        self._thread = threading.Thread(target=self._renew, name="table-lease", daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        while not self._stop.wait(_RENEW_SECONDS):
            try:
                # A file that is gone was taken over: writing it would take the lease back.
                if not self.io.exists(self.path):
                    return
                self.io.overwrite(self.path, self.content)
            except OSError as e:
                log.warning("table=%s lease not renewed: %s", self.table, e)

    def release(self) -> None:
        """Give the lease up; what cannot be deleted becomes stale."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        _held.discard(self.path)
        try:
            self.io.delete(self.path)
        except OSError as e:
            log.warning("table=%s lease file=%s left behind: %s", self.table, self.path, e)


@contextmanager
def hold_lease(
    table: FileStoreTable,
    *,
    job: str,
    run_id: str,
    env: Environment,
    wait_millis: int,
    waiting: Callable[[Holder | None], None] = lambda _: None,
) -> Iterator[tuple[Lease, bool]]:
    """The lease on the table, and whether another job held it before: then a plan is out of date.

    `waiting` is told once who holds it.  LeaseHeld if that goes on for `wait_millis`.
    """
    lease, waited = _acquire(table, job, run_id, env, wait_millis, waiting)
    lease.keep()
    try:
        yield lease, waited
    finally:
        lease.release()


def leases_of(table: FileStoreTable, *, now: FileStat | None = None) -> list[FoundLease]:
    """The lease files of a table, oldest first.

    `now`: a file that was just written, against whose time the others are held; without it only
    those are called stale whose process has ended.
    """
    listed = table.io.list_dir(f"{table.root}/{LEASES}")
    found: list[FoundLease] = []
    for stat in sorted(listed, key=lambda f: (f.modified_millis, f.name)):
        if stat.is_dir or not stat.name.endswith(_SUFFIX):
            continue
        try:
            content = table.io.read_bytes(stat.path)
        except FileNotFoundError:
            continue
        holder = _parsed(content)
        expired = now is not None and now.modified_millis - stat.modified_millis > LIFETIME_MILLIS
        ended = holder is not None and _has_ended(holder, stat.path)
        found.append(FoundLease(stat, holder, stale=expired or ended))
    return found


def _acquire(
    table: FileStoreTable,
    job: str,
    run_id: str,
    env: Environment,
    wait_millis: int,
    waiting: Callable[[Holder | None], None],
) -> tuple[Lease, bool]:
    io = table.io
    waited, attempt = 0, 0
    while True:
        holder = Holder(
            job=job,
            run_id=run_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            process=process_identity(os.getpid()),
            since_millis=env.now_millis(),
        )
        path = f"{table.root}/{LEASES}/{env.new_uuid()}{_SUFFIX}"
        content = json.dumps(asdict(holder)).encode()
        _held.add(path)
        try:
            io.overwrite(path, content)
            other = _other_holder(table, io.stat(path))
        except BaseException:
            _withdraw(io, path)
            raise
        if other is None:
            return Lease(io, path, content, table.name), attempt > 0
        _withdraw(io, path)
        if waited >= wait_millis:
            who = "another job" if other.holder is None else other.holder.label
            raise LeaseHeld(
                f"table {table.name} is in the hands of {who}, which removes history or files too",
                table=table.name,
                file=other.stat.path,
            )
        if attempt == 0:
            waiting(other.holder)
        most = min(_MOST_WAIT_MILLIS, _LEAST_WAIT_MILLIS << min(attempt, 10))
        pause = max(1, int(most * (0.5 + env.jitter() / 2)))
        env.sleep_millis(pause)
        waited += pause
        attempt += 1


def _other_holder(table: FileStoreTable, own: FileStat) -> FoundLease | None:
    """The live lease of somebody else; stale ones are deleted on the way."""
    for file in table.io.list_dir(parent(own.path)):
        # Half-written files of processes that were killed.
        aged = own.modified_millis - file.modified_millis > LIFETIME_MILLIS
        if aged and not file.name.endswith(_SUFFIX):
            table.io.delete(file.path)
    for found in leases_of(table, now=own):
        if found.stat.path == own.path:
            continue
        if not found.stale:
            return found
        who = "unknown" if found.holder is None else found.holder.label
        log.warning("table=%s stale lease of %s taken over", table.name, who)
        table.io.delete(found.stat.path)
    return None


def _withdraw(io: FileIO, path: str) -> None:
    _held.discard(path)
    with suppress(OSError):
        io.delete(path)


def _parsed(content: bytes) -> Holder | None:
    try:
        value = json.loads(content)
        return Holder(
            job=str(value["job"]),
            run_id=str(value["run_id"]),
            host=str(value["host"]),
            pid=int(value["pid"]),
            process=str(value["process"]),
            since_millis=int(value["since_millis"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _has_ended(holder: Holder, path: str) -> bool:
    """Whether the holder is certainly gone: its process ran here, and has ended."""
    own = process_identity(os.getpid())
    if holder.pid == os.getpid() and own and holder.process == own:
        return holder.host == socket.gethostname() and path not in _held
    return has_ended(host=holder.host, pid=holder.pid, identity=holder.process) is True


def is_held(table: FileStoreTable) -> bool:
    """Whether a job that removes history or files is at work, as far as its lease tells."""
    return any(not found.stale for found in leases_of(table))
