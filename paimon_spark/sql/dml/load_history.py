"""The files that `COPY INTO` has loaded into a table, and the loads that are under way.

::

    copy-into/history/load-HASH-MILLIS      a file that was loaded (Java: `CopyLoadHistoryManager`)
    caretaker/copy-into/UUID.json           a statement that loads files: which, and since when

A file is recorded after the commit of its rows.  A statement that is killed in between must not let
the next one load the file again.  So each statement announces its files first, and the user of its
commit holds the UUID of the announcement.  A statement that finds an abandoned announcement looks
for this commit: if it exists, the files are recorded; if not, they can be loaded.

If two statements run at once, each announces its files, then looks for the other, and then reads
the history.  So at least one sees the other, and stops.  Java's statements announce nothing.

An announcement is renewed every ten seconds.  It is abandoned if its statement has ended in this
process, if its process on this host has ended, or if it was not renewed for a minute, by the clock
of the store.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, CorruptTable, PaimonError, StorageError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileStat
from paimon_core.io.fresh_listing import listed_file
from paimon_core.io.read_retry import read_with_retries
from paimon_core.options import COMMIT_USER_PREFIX
from paimon_core.paths import CARETAKER_DIR
from paimon_core.process_identity import has_ended, this_process
from paimon_core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

HISTORY: Final = "copy-into/history"
LOADS: Final = f"{CARETAKER_DIR}/copy-into"
LIFETIME_MILLIS: Final = 60_000
_RENEW_SECONDS: Final = 10.0
_SUFFIX: Final = ".json"

_running: set[str] = set()
"""The announcements of this process whose statements have not ended."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source folder: its name and path, bytes, and epoch milliseconds."""

    name: str
    path: str
    size: int
    modified: int

    @property
    def key(self) -> Key:
        """What the history knows it by."""
        return self.path, self.size, self.modified


Key = tuple[str, int, int]
"""Path, size and time of a file: with other content, it is another file."""


@dataclass(slots=True)
class Announcement:
    """The files that a statement loads into a branch of the table, with the numbers of their rows.

    `base` is the newest snapshot of the branch before the load.
    """

    table: FileStoreTable
    id: str
    base: int
    files: Sequence[tuple[SourceFile, int]]
    process: Mapping[str, object] = field(default_factory=this_process)
    commits: bool = False
    """Whether the commit may have begun."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> str:
        return f"{self.table.root}/{LOADS}/{self.id}{_SUFFIX}"

    def commit_options(self) -> dict[str, str]:
        """The dynamic options of the table that let others find the commit.

        CommitConflict if another statement considers this one dead.
        """
        self._check()
        self.commits = True
        prefix = self.table.options.value(COMMIT_USER_PREFIX)
        return {COMMIT_USER_PREFIX.key: self.id if prefix is None else f"{prefix}_{self.id}"}

    def write(self) -> None:
        """Write or renew the announcement."""
        with self._writing:  # a renewal must not bring older files back
            content = {
                "branch": self.table.branch,
                "base": self.base,
                "process": dict(self.process),
                "files": [[*astuple(file), rows] for file, rows in self.files],
            }
            self.table.io.overwrite(self.path, json.dumps(content).encode())

    def renew(self) -> None:
        """Renew it every few seconds, until the statement ends."""
        while not self._ended.wait(_RENEW_SECONDS):
            try:
                self._check()
                self.write()
            except CommitConflict:
                return
            except OSError as e:
                log.warning("table=%s cannot renew %s: %s", self.table.name, self.path, e)

    def end(self) -> None:
        """Renew it no more."""
        self._ended.set()

    def _check(self) -> None:
        if not self.table.io.exists(self.path):
            raise CommitConflict(
                f"COPY INTO table {self.table.name} has loaded nothing: another statement took over "
                f"its files, because {self.path} was not renewed for {LIFETIME_MILLIS // 1000} s",
                table=self.table.name,
                file=self.path,
                next_step="run again",
            )

    def snapshot(self) -> Snapshot | None:
        """The snapshot of the commit; None if there is none.

        CorruptTable if it may have expired.
        """
        snapshots = self.table.snapshots.of_branch(self.table.branch)
        later = [i for i in snapshots.ids() if i > self.base]
        for snapshot in snapshots.get_many(later):
            if self.id in snapshot.commit_user:
                return snapshot
        if later and later[0] > self.base + 1:
            raise CorruptTable(
                f"nobody knows whether an interrupted COPY INTO has loaded {self.names()} into table "
                f"{self.table.name}: snapshots {self.base + 1} to {later[0] - 1} have expired, and "
                "one of them may have been its commit",
                table=self.table.name,
                file=self.path,
                next_step="look for the rows of these source files: if they are in the table, move "
                f"the source files to another folder; if not, delete {self.path}; then run again",
            )
        return None

    def names(self, keys: Collection[Key] | None = None) -> str:
        """The names of the files, or of those with these keys."""
        return ", ".join(f.name for f, _ in self.files if keys is None or f.key in keys)


@contextmanager
def announced(
    table: FileStoreTable, files: Sequence[SourceFile], env: Environment
) -> Iterator[Announcement]:
    """Announce that these files are loaded, for as long as the block.

    After an error, the announcement of a commit that may have begun stays: the next statement looks
    for the commit.
    """
    own = Announcement(
        table,
        env.new_uuid(),
        base=table.snapshots.latest_id() or 0,
        files=[(file, 0) for file in files],
    )
    _running.add(own.path)
    thread = threading.Thread(target=own.renew, name="copy-into", daemon=True)
    try:
        own.write()
        thread.start()
        yield own
        own.commits = False
    finally:
        own.end()
        if thread.ident is not None:
            thread.join()
        _running.discard(own.path)
        if not own.commits:
            with suppress(OSError):
                table.io.delete(own.path)


def files_to_load(
    own: Announcement, env: Environment, *, force: bool = False
) -> Sequence[SourceFile]:
    """The announced files that are not loaded yet; with `force`, all of them.

    Records what interrupted statements have loaded.  CommitConflict if another statement loads one
    of these files now, CorruptTable if nobody knows whether one has loaded it.
    """
    table = own.table
    busy: list[tuple[Announcement, CorruptTable | None]] = []
    for other, is_abandoned in _others(own):
        if not is_abandoned:
            busy.append((other, None))
            continue
        try:
            _settle(other, env)
        except CorruptTable as e:
            busy.append((other, e))
    loaded = history(table)
    left = [file for file, _ in own.files if force or file.key not in loaded]
    wanted = {file.key for file in left}
    for other, problem in busy:
        both = {file.key for file, _ in other.files} & wanted
        if problem is not None and {f.key for f, _ in other.files} <= loaded:
            table.io.delete(other.path)  # they were loaded with FORCE since
        elif both and not force:
            raise problem or _is_loading(other, both)
    return left


def _is_loading(other: Announcement, files: Collection[Key]) -> CommitConflict:
    return CommitConflict(
        f"another COPY INTO table {other.table.name} loads {other.names(files)} now: process "
        f"{other.process.get('pid')} on {other.process.get('host')}",
        table=other.table.name,
        file=other.path,
        next_step="run again when it has ended",
    )


def _others(own: Announcement) -> Iterator[tuple[Announcement, bool]]:
    """The other announcements, and whether each is abandoned."""
    table = own.table
    listed = table.io.list_dir(f"{table.root}/{LOADS}")
    now = listed_file(table.io, listed, own.path, table=table.name).modified_millis
    for found in listed:
        if found.path == own.path or not found.name.endswith(_SUFFIX):
            continue
        with suppress(FileNotFoundError):  # its statement has just ended
            other = read_with_retries(
                table.io, found.path, partial(_parsed, table, found), table=table.name
            )
            yield other, _is_abandoned(other, found, now)


def _parsed(table: FileStoreTable, found: FileStat, content: bytes) -> Announcement:
    told = json.loads(content)
    process = dict(told["process"])
    return Announcement(
        replace(table, branch=str(told["branch"])),
        found.name.removesuffix(_SUFFIX),
        base=int(told["base"]),
        files=[
            (SourceFile(str(name), str(path), int(size), int(modified)), int(rows))
            for name, path, size, modified, rows in told["files"]
        ],
        process={**process, "pid": int(process["pid"])},
    )


def _is_abandoned(other: Announcement, found: FileStat, now: int) -> bool:
    if now - found.modified_millis > LIFETIME_MILLIS:
        return True
    host, pid, identity = (other.process.get(k) for k in ("host", "pid", "identity"))
    if host == socket.gethostname() and pid == os.getpid():
        return other.path not in _running
    return has_ended(host=str(host), pid=int(str(pid)), identity=str(identity)) is True


def _settle(other: Announcement, env: Environment) -> None:
    """Record the files of an interrupted statement if its commit exists, then forget it."""
    snapshot = other.snapshot()
    if snapshot is not None:
        log.warning(
            "table=%s snapshot=%d files that an interrupted COPY INTO has loaded are recorded: %s",
            other.table.name,
            snapshot.id,
            other.names(),
        )
        for file, rows in other.files:
            record(other.table, file, rows, snapshot.id, env)
    other.table.io.delete(other.path)


# --- the files that were loaded -----------------------------------------------------------------


def history(table: FileStoreTable) -> set[Key]:
    """The files that were loaded; a record that cannot be read is ignored."""
    found = set()
    for status in table.io.list_dir(f"{table.root}/{HISTORY}"):
        try:
            told = json.loads(table.io.read_bytes(status.path))
            found.add((told["filePath"], told["fileSize"], told["lastModified"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return found


def record_all(own: Announcement, env: Environment) -> None:
    """Record the announced files, whose rows are committed.

    StorageError if one cannot be recorded; the others are.
    """
    table, failed = own.table, dict[str, Exception]()
    snapshot = table.snapshots.latest_id() or 0
    for file, rows in own.files:
        try:
            record(table, file, rows, snapshot, env)
        except (OSError, PaimonError) as e:
            failed[file.name] = e
    if failed:
        raise StorageError(
            f"the rows of {', '.join(failed)} are committed to table {table.name}, but there is no "
            f"record that these files were loaded: {next(iter(failed.values()))}",
            table=table.name,
            file=own.path,
            next_step=f"run the statement again before snapshot {snapshot} expires: it finds the "
            "commit, and records the files instead of loading them",
        )


def record(
    table: FileStoreTable, file: SourceFile, rows: int, snapshot: int, env: Environment
) -> None:
    """Note that the file was loaded, as Java does."""
    now = env.now_millis()
    digest = hashlib.sha256(file.path.encode()).hexdigest()[:16]
    content = {
        "filePath": file.path,
        "fileSize": file.size,
        "lastModified": file.modified,
        "loadedAt": now,
        "snapshotId": snapshot,
        "rowsLoaded": rows,
    }
    path = f"{table.root}/{HISTORY}/load-{digest}-{now}"
    table.io.write_bytes(path, json.dumps(content).encode())
