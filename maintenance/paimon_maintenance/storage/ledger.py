"""Records the changes of a run at the storage of the table, which every change passes.

The report of a failed run lists the changes before the failure.  A job that raises returns nothing,
so the runner opens the table on a `LedgerFileIO`, which records each file that is created,
replaced, moved or deleted.  The ledger keeps net changes.  It ignores files that the run created
and deleted again, unreferenced new files (data files and manifests before their commit), hints,
journals and Iceberg metadata, which commits write again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from errno import EROFS
from typing import TYPE_CHECKING, Any, Final

from paimon_core.errors import CatalogLocked
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.delegating import DelegatingFileIO
from paimon_core.io.file_io import FileIO
from paimon_core.snapshot.snapshot_commit import CommitAttempt, SnapshotCommit
from paimon_maintenance.job.changes import Changes

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_core.file_store_table import FileStoreTable
    from paimon_core.schema.schema_commit import SchemaCommit
    from paimon_core.schema.store import SchemaStore
    from paimon_core.schema.table_schema import TableSchema
    from paimon_core.snapshot.snapshot import Snapshot
    from paimon_core.snapshot.store import SnapshotStore

_REFERENCE: Final = re.compile(
    r"(?:branch/branch-(?P<branch>[^/]+)/)?"
    r"(?P<folder>snapshot|schema|tag|changelog|consumer)/(?P=folder)-(?P<name>[^/]+)"
)
_FOLDER: Final = re.compile(
    r"branch/branch-(?P<branch>[^/]+)/(?P<kind>snapshot|schema|tag|changelog|consumer)"
)
_BRANCH: Final = re.compile(r"branch/branch-([^/]+)")
_HINT: Final = re.compile(
    r"(?:branch/branch-[^/]+/)?(?:snapshot|changelog)/(?:LATEST|EARLIEST)|caretaker/(?!quarantine/).*"
    r"|(?:.*/)?metadata/(?:v\d+\.metadata\.json|version-hint\.text|snap-\d+-[^/]+|[^/]+-m\d+\.avro)"
)
_CERTAIN: Final = (FileNotFoundError, FileExistsError, NotADirectoryError, CatalogLocked)
"""Errors after which the change certainly did not happen."""


class Ledger:
    """The changes of one run.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._root = ""
        self._branch = ""
        self._commits: dict[str, tuple[int, bytes]] = {}
        self._made: dict[str, str] = {}
        self._removed: dict[str, str] = {}
        self._fresh: set[str] = set()
        self._deleted = 0
        self._moved = 0
        self._unsure: dict[str, str] = {}

    def watch(self, io: FileIO, root: str, branch: str | None) -> FileIO:
        """The storage of the table in `root`; the ledger records every change to it."""
        self._root = root
        self._branch = "" if branch in (None, "main") else f"branch/branch-{branch}/"
        return LedgerFileIO(io, self)

    def watch_commits(self, table: FileStoreTable) -> FileStoreTable:
        """The table, with the commits and schemas that its catalog makes kept here too."""
        snapshot_commit = table.snapshots.snapshot_commit
        if snapshot_commit is None or snapshot_commit.owner is None:
            return table  # its snapshot and schema files are seen by the storage
        watched = LedgerSnapshotCommit(snapshot_commit, table.snapshots, self)
        table = replace(table, snapshots=replace(table.snapshots, snapshot_commit=watched))
        if table.schema_commit is None:
            return table
        return replace(table, schema_commit=LedgerSchemaCommit(table.schema_commit, self))

    def changes(self) -> Changes:
        """The changes so far."""
        with self._lock:
            return Changes(
                snapshots=tuple(number for number, _ in self._commits.values()),
                made=tuple(self._made.values()),
                removed=tuple(self._removed.values()),
                deleted_files=self._deleted,
                moved_files=self._moved,
                unsure=tuple(dict.fromkeys(self._unsure.values())),
            )

    # --- storage operations ---------------------------------------------------------------------

    @contextmanager
    def attempt(self, *paths: str) -> Iterator[None]:
        """A change of these paths; after an error with an unknown outcome they are unsure."""
        try:
            yield
        except _CERTAIN:
            raise
        except BaseException as e:
            if len(paths) == 1 and isinstance(e, OSError) and e.errno == EROFS:
                raise  # nothing changes on a disk that is mounted for reading only
            with self._lock:
                self._unsure.update({p: self._name(p) for p in paths if not self._is_hint(p)})
            raise
        with self._lock:
            for path in paths:
                self._unsure.pop(path, None)

    def written(self, path: str, content: bytes | None = None) -> None:
        """Record a file that is visible to readers; `content` if this call created it."""
        with self._lock:
            if self._is_hint(path):
                return
            self._removed.pop(path, None)
            number = self._commit_number(path)
            if number is not None and content is not None:
                self._commits[path] = (number, content)
            elif path not in self._commits:
                self._made[path] = self._name(path)

    def fresh(self, path: str) -> None:
        """Record a new file without references."""
        with self._lock:
            self._fresh.add(path)

    def deleted(self, path: str) -> None:
        """Record a deleted file."""
        with self._lock:
            if self._is_hint(path) or self._taken_back(path):
                return
            if _REFERENCE.fullmatch(self._relative(path)):
                self._removed[path] = self._name(path)
            else:
                self._deleted += 1

    def deleted_elsewhere(self, number: int, *, unsure: bool) -> None:
        """Record files deleted on executors; `unsure` if there may be more."""
        with self._lock:
            self._deleted += number
            if unsure:
                self._unsure["executors"] = "files that executors were deleting"

    def deleted_folder(self, path: str) -> None:
        """Record a deleted folder with its content."""
        with self._lock:
            for gone in [p for p in self._made if p.startswith(f"{path}/")]:
                del self._made[gone]
            self._removed[path] = self._name(path)

    def moved(self, source: str, target: str) -> None:
        """Record a moved file or folder."""
        with self._lock:
            if self._is_hint(source):
                self._removed.pop(target, None)  # moved aside, and back
                return
            if self._is_hint(target) and not self._taken_back(source):
                self._removed[source] = self._name(source)  # moved aside, to be deleted
                return
            names = self._relative(source), self._relative(target)
            if any(_REFERENCE.fullmatch(n) or _BRANCH.fullmatch(n) for n in names):
                self._removed[source] = self._name(source)
                self._made[target] = self._name(target)
            elif source in self._fresh:
                self._fresh.add(target)
            else:
                self._moved += 1

    def read(self, path: str, content: bytes) -> None:
        """Check a file that was read: drop a commit of this run if another writer replaced it."""
        with self._lock:
            commit = self._commits.get(path)
            if commit is not None and commit[1] != content:
                del self._commits[path]

    # --- names ----------------------------------------------------------------------------------

    def _taken_back(self, path: str) -> bool:
        if path in self._fresh:
            self._fresh.discard(path)
            return True
        return any(known.pop(path, None) is not None for known in (self._commits, self._made))

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self._root}/")

    def _is_hint(self, path: str) -> bool:
        return _HINT.fullmatch(self._relative(path)) is not None

    def _commit_number(self, path: str) -> int | None:
        """The id if this is the path of a snapshot in the branch of the run."""
        name = self._relative(path).removeprefix(f"{self._branch}snapshot/snapshot-")
        return int(name) if name.isdigit() else None

    def _name(self, path: str) -> str:
        relative = self._relative(path)
        found = _REFERENCE.fullmatch(relative)
        if found is not None:
            branch = found["branch"]
            name = f"{found['folder']} {found['name']}"
            return (
                name
                if branch is None or f"branch/branch-{branch}/" == self._branch
                else (f"{name} of branch {branch}")
            )
        folder = _FOLDER.fullmatch(relative)
        if folder is not None:
            return f"all {folder['kind']}s of branch {folder['branch']}"
        whole = _BRANCH.fullmatch(relative)
        return f"branch {whole[1]}" if whole is not None else relative


class LedgerSnapshotCommit:
    """The commits that a catalog makes, kept in a ledger.

    Pickled, it is the catalog's part alone.
    """

    def __init__(self, inner: SnapshotCommit, snapshots: SnapshotStore, ledger: Ledger) -> None:
        self._inner = inner
        self._snapshots = snapshots
        self._ledger = ledger

    def __reduce__(self) -> tuple[object, ...]:
        return (_itself, (self._inner,))

    @property
    def owner(self) -> str | None:
        return self._inner.owner

    @property
    def accepts_partition_statistics(self) -> bool:
        return self._inner.accepts_partition_statistics

    def latest(self, branch: str) -> Snapshot | None:
        return self._inner.latest(branch)

    def check_same_table(self) -> None:
        self._inner.check_same_table()

    def commit(self, attempt: CommitAttempt, create_file: Callable[[], bool]) -> bool:
        path = self._snapshots.paths.snapshot(attempt.snapshot.id)
        with self._ledger.attempt(path):
            made = self._inner.commit(attempt, create_file)
        if made:
            # The file as the catalog wrote it: a later read of other content means another commit.
            stored = self._snapshots.read(attempt.snapshot.id)
            if stored is not None:
                self._ledger.written(path, stored[0])
        return made


class LedgerSchemaCommit:
    """The schemas that a catalog makes, kept in a ledger.

    Pickled, it is the catalog's part alone.
    """

    def __init__(self, inner: SchemaCommit, ledger: Ledger) -> None:
        self._inner = inner
        self._ledger = ledger

    def __reduce__(self) -> tuple[object, ...]:
        return (_itself, (self._inner,))

    def commit(self, schemas: SchemaStore, changed: TableSchema) -> bool:
        path = schemas.paths.schema(changed.id)
        with self._ledger.attempt(path):
            made = self._inner.commit(schemas, changed)
        if made:
            self._ledger.written(path)
        return made

    def set_options(
        self, schemas: SchemaStore, changed: TableSchema, options: Mapping[str, str]
    ) -> bool:
        path = schemas.paths.schema(changed.id)
        with self._ledger.attempt(path):
            made = self._inner.set_options(schemas, changed, options)
        if made:
            self._ledger.written(path)
        return made


@dataclass(frozen=True, slots=True)
class LedgerFileIO(DelegatingFileIO):
    """A storage that records its changes in a ledger.

    Pickling for executors drops the ledger: executors write only new files, and the driver records
    their deletions.
    """

    inner: FileIO
    ledger: Ledger

    def __reduce__(self) -> tuple[object, ...]:
        return (_itself, (self.inner,))

    @property
    def unrecorded(self) -> FileIO:
        """The storage without the ledger."""
        return self.inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read_bytes(self, path: str) -> bytes:
        content = self.inner.read_bytes(path)
        self.ledger.read(path, content)
        return content

    def open_output(self, path: str) -> pa.NativeFile:
        self.ledger.fresh(path)
        return self.inner.open_output(path)

    def write_bytes(self, path: str, data: bytes) -> None:
        self.ledger.fresh(path)
        self.inner.write_bytes(path, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        with self.ledger.attempt(path):
            made = self.inner.create_if_absent(path, data)
        if made:
            self.ledger.written(path, data)
        return made

    def overwrite(self, path: str, data: bytes) -> None:
        with self.ledger.attempt(path):
            self.inner.overwrite(path, data)
        self.ledger.written(path)

    def delete(self, path: str) -> bool:
        with self.ledger.attempt(path):
            gone = self.inner.delete(path)
        if gone:
            self.ledger.deleted(path)
        return gone

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        with self.ledger.attempt(*paths):
            gone = self.inner.delete_many(paths)
        for path, deleted in zip(paths, gone, strict=True):
            if deleted:
                self.ledger.deleted(path)
        return gone

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        with self.ledger.attempt(*((path,) if recursive else ())):
            gone = self.inner.delete_dir(path, recursive=recursive)
        if gone and recursive:
            self.ledger.deleted_folder(path)
        return gone

    def rename(self, src: str, dst: str) -> bool:
        with self.ledger.attempt(src, dst):
            moved = self.inner.rename(src, dst)
        if moved:
            self.ledger.moved(src, dst)
        return moved


def _itself(io: FileIO) -> FileIO:
    return io


def without_ledger(io: FileIO) -> FileIO:
    """The storage without the ledger, for changes outside the table data; paths stay confined."""
    if isinstance(io, ConfinedFileIO):
        return replace(io, inner=without_ledger(io.inner))
    return io.unrecorded if isinstance(io, LedgerFileIO) else io
