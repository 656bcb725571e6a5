"""A lease on a table: jobs that remove history or files run one at a time.

::

    caretaker/leases/0191...c7.json    {"job": "rollback", "run_id": ..., "host": ..., "pid": ...}

A job creates its own file and then lists the folder: it holds the lease if there is no other live
file.  If two jobs do this at the same time, at least one sees the other; if both do, both withdraw.
A holder renews its file.  A file is stale if it was not renewed for `LIFETIME_MILLIS`, or if its
process on this host has ended.  A job that finds a stale file deletes it.  A job that continues
after a long pause finds its own file missing: `Lease.check`, called before each change, stops it.

Ages are differences between file times, which all come from the clock of the store.

Java and Flink do not use this lease.  It is an addition to the checks in `paimon_core`, which are
sufficient without it (docs/decisions/0022-shortening-history.md).
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
from typing import Any, Final

from paimon_core.environment import Environment
from paimon_core.errors import LeaseHeld, LeaseLost
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO, FileStat, parent
from paimon_core.io.fresh_listing import listed_file
from paimon_core.io.json_text import parse_json_object
from paimon_core.io.read_retry import read_whole
from paimon_core.process_identity import has_ended, process_identity

log = logging.getLogger(__name__)

LEASES: Final = "caretaker/leases"
LIFETIME_MILLIS: Final = 60_000
_SUFFIX: Final = ".json"
_RENEW_SECONDS: Final = 10.0
_LEAST_WAIT_MILLIS: Final = 50
_MOST_WAIT_MILLIS: Final = 2_000

_held: set[str] = set()
"""The lease files that this process holds; its other files are left over from failed runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The holder of a lease; `process` distinguishes processes that have the same pid."""

    job: str
    run_id: str
    host: str
    pid: int
    process: str
    since_millis: int

    @property
    def label(self) -> str:
        """As text: "rollback (run 0191..., process 12 on host a)"."""
        return f"{self.job} (run {self.run_id}, process {self.pid} on {self.host})"


@dataclass(frozen=True, slots=True)
class FoundLease:
    """A lease file in storage; `holder` is None if the file is unreadable."""

    stat: FileStat
    holder: Holder | None
    stale: bool


@dataclass(slots=True)
class Lease:
    """A lease that this process holds until it releases or loses it."""

    io: FileIO
    path: str
    content: bytes
    table: str
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def check(self) -> None:
        """LeaseLost if the lease is no longer held: the job must stop."""
        if not self.io.exists(self.path):
            raise LeaseLost(
                f"another job took over the lease on table {self.table}, because it was not renewed "
                f"for {LIFETIME_MILLIS // 1000} s",
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
                # Another job took over the lease if the file is gone: do not write it again.
                if not self.io.exists(self.path):
                    return
                self.io.overwrite(self.path, self.content)
            except OSError as e:
                log.warning("table=%s cannot renew the lease: %s", self.table, e)

    def release(self) -> None:
        """Release the lease; a file that cannot be deleted becomes stale."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        _held.discard(self.path)
        try:
            self.io.delete(self.path)
        except OSError as e:
            log.warning("table=%s cannot delete lease file=%s: %s", self.table, self.path, e)


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
    """The lease on the table, and whether another job held it first: then a plan is out of date.

    Calls `waiting` once with the holder.  LeaseHeld if another job still
    holds it after `wait_millis`.
    """
    lease, waited = _acquire(table, job, run_id, env, wait_millis, waiting)
    lease.keep()
    try:
        yield lease, waited
    finally:
        lease.release()


def leases_of(table: FileStoreTable, *, now: FileStat | None = None) -> list[FoundLease]:
    """The lease files of a table, oldest first.

    `now` is a file just written, as the reference for ages.  Without it, only leases of ended
    processes count as stale.
    """
    listed = table.io.list_dir(f"{table.root}/{LEASES}")
    found: list[FoundLease] = []
    for stat in sorted(listed, key=lambda f: (f.modified_millis, f.name)):
        if stat.is_dir or not stat.name.endswith(_SUFFIX):
            continue
        try:
            content = read_whole(table.io, stat.path, table=table.name)
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
            other = _other_holder(table, path)
        except FileNotFoundError as e:
            _withdraw(io, path)
            raise LeaseLost(
                f"the lease on table {table.name} was deleted as soon as it was written",
                table=table.name,
                file=path,
            ) from e
        except BaseException:
            _withdraw(io, path)
            raise
        if other is None:
            return Lease(io, path, content, table.name), attempt > 0
        _withdraw(io, path)
        if waited >= wait_millis:
            who = "another job" if other.holder is None else other.holder.label
            raise LeaseHeld(
                f"table {table.name} is leased by {who}, which also removes history or files",
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


def _other_holder(table: FileStoreTable, path: str) -> FoundLease | None:
    """The live lease of another job than that of `path`; deletes stale leases.

    FileNotFoundError if `path` was deleted, UnsupportedFeature if the store does not list it.
    """
    listed = table.io.list_dir(parent(path))
    own = listed_file(table.io, listed, path, table=table.name)
    for file in listed:
        # Partial files of killed processes.
        aged = own.modified_millis - file.modified_millis > LIFETIME_MILLIS
        if aged and not file.name.endswith(_SUFFIX):
            table.io.delete(file.path)
    for found in leases_of(table, now=own):
        if found.stat.path == own.path:
            continue
        if not found.stale:
            return found
        who = "unknown" if found.holder is None else found.holder.label
        log.warning("table=%s took over the stale lease of %s", table.name, who)
        table.io.delete(found.stat.path)
    return None


def _withdraw(io: FileIO, path: str) -> None:
    _held.discard(path)
    with suppress(OSError):
        io.delete(path)


def _parsed(content: bytes) -> Holder | None:
    try:
        value: Any = parse_json_object(content)
        return Holder(
            job=str(value["job"]),
            run_id=str(value["run_id"]),
            host=str(value["host"]),
            pid=int(value["pid"]),
            process=str(value["process"]),
            since_millis=int(value["since_millis"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _has_ended(holder: Holder, path: str) -> bool:
    """Whether the process of the holder ran on this host and has ended."""
    own = process_identity(os.getpid())
    if holder.pid == os.getpid() and own and holder.process == own:
        return holder.host == socket.gethostname() and path not in _held
    return has_ended(host=holder.host, pid=holder.pid, identity=holder.process) is True


def is_held(table: FileStoreTable) -> bool:
    """Whether a job that removes history or files holds a lease."""
    return any(not found.stale for found in leases_of(table))
