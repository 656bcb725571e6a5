"""The file operations that tables need, and the guarantees of each (Java: `fs/FileIO`).

Stores differ in what they can do atomically.  The safety of commits depends on one operation:
`create_if_absent`.  All other operations either write names that no other process uses (data files,
manifests) or can be repeated safely (hints).

========================  =======================================================================
`create_if_absent`        snapshots, schemas, tags: all or nothing, and only one creator wins
`overwrite`               hints and consumers: readers see all of the old or the new content
`write_bytes`             manifests; `open_output` data files: names used only once
`delete`, `delete_many`   a missing file is not an error, as for `delete_dir` a missing folder
========================  =======================================================================

Errors are OSError and its subclasses: FileNotFoundError for missing files, FileExistsError for
files that must not exist.  Paths are absolute, in the form of the table's root ("/w/db.db/t",
"s3://bucket/w/db.db/t"); writing a file creates missing folders.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from paimon_core.io.store_retries import ContextPool

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")
DISK_THREADS: Final = 8
"""Number of threads that read local files side by side."""
_FILES_A_CALL: Final = 16
_PROBED: Final = 32
"""Number of files after which it is decided anew whether threads read the next ones."""
_AT_ONCE: Final = 2_048
_WAITS: Final = 4.0
"""Seconds to processor seconds from which reading waits for a disk."""
IS_DIR, IS_LINK = 1, 2


@dataclass(frozen=True, slots=True)
class FileStat:
    """A file or folder: size in bytes, last change in milliseconds since the epoch.

    Folders have size 0, and time 0 on object stores.  For a symbolic link, a listing returns the
    values of its target and sets `is_link`; searches for files to delete skip links.  A link
    `is_to_nothing` if it has no target: then what it stands for is unknown, not missing.
    """

    path: str
    size: int
    modified_millis: int
    is_dir: bool = False
    is_link: bool = False
    is_to_nothing: bool = False

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class FolderNames:
    """The names in a folder, and for each the sum of `IS_DIR` and `IS_LINK` that apply."""

    names: list[str]
    kinds: bytes


class FileIO(Protocol):
    """One kind of storage.  Picklable, and safe to share between threads."""

    @property
    def parallelism(self) -> int:
        """The useful number of concurrent requests; 1 where latency does not matter."""

    @property
    def deletes_at_once(self) -> int:
        """The number of files that one request deletes (`delete_many`)."""

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content; OSError other than FileNotFoundError for a link to nothing.

        For metadata and indexes: OSError for a local file that is too large to be one.
        """

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """Open a seekable file for reading.

        FileNotFoundError is raised here, not on the first read.  With `size`, the file's size in
        bytes as metadata holds it, an object store is not asked for it: then a missing file may
        also be raised by the first read, and a wrong size damages what is read.
        """

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; readers may see it half-written until it is closed.

        Only for names that are used once.  Raises FileExistsError if a local file exists.
        """

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file under a name that is used once; FileExistsError as in `open_output`."""

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file if it does not exist; return whether this call created it.

        Of any number of concurrent processes, exactly one gets True, and readers never see part of
        the content, not even after a crash.  An existing file stays untouched.  OSError means that
        the outcome is unknown; UnsupportedFeature that the store has no such operation.  A store
        may also return True when the file already holds exactly `data`, because it cannot tell a
        retry of its own request from another process's request.  Callers that must know who won put
        something unique into the content, as snapshots do.
        """

    def overwrite(self, path: str, data: bytes) -> None:
        """Create or replace a file; readers see the old or the new content, never a part."""

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists; any failure other than "not found" is raised.

        That holds for a link to nothing, too.
        """

    def stat(self, path: str) -> FileStat:
        """Return the size and time of a file or folder; for a link as a listing does.

        FileNotFoundError for a link to nothing, too.
        """

    def list_dir(self, path: str) -> list[FileStat]:
        """Return the folder's content in no particular order; empty for a missing folder.

        Any other failure is raised, so an incomplete listing is never mistaken for a complete one:
        a folder that is a link to nothing is a failure.  Files deleted during the call may be
        missing.
        """

    def list_names(self, path: str) -> FolderNames | None:
        """Return the names in a folder without sizes and times; empty for a missing folder.

        None where `list_dir` takes no more calls.  Failures as there.  A link
        to nothing is listed, too.
        """

    def list_below(self, path: str) -> list[FileStat] | None:
        """Return all files and empty folders below a folder, at any depth, in no particular order.

        None where this takes no fewer requests than `list_dir` of each folder.  Failures as there.
        """

    def delete(self, path: str) -> bool:
        """Delete a file; return False if it was missing (object stores cannot tell)."""

    def delete_many(self, paths: Sequence[str]) -> list[bool]:
        """Delete at most `deletes_at_once` files; return what `delete` returns for each.

        The first failure is raised after all other files were tried.
        """

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        """Delete a folder (only an empty one unless `recursive`); return whether it was deleted."""

    def rename(self, src: str, dst: str) -> bool:
        """Move a file or folder; False, and nothing moved, if `dst` exists.

        Atomic on local and distributed file systems; a copy followed by a delete on object stores,
        where a move of a folder that was interrupted is continued by the next call.
        """

    def make_dirs(self, path: str) -> None:
        """Create the folder and its parents.

        S3, Google and Azure mark it by an empty object; other object stores do nothing.
        """


def map_parallel(io: FileIO, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Apply `function` to the items concurrently and return the results in the order of the items.

    The first failure is raised after the running calls have ended.
    """
    todo = list(items)
    workers = min(io.parallelism, len(todo))
    if workers <= 1:
        return [function(item) for item in todo]
    with ContextPool(workers, thread_name_prefix="file-io") as pool:
        return list(pool.map(function, todo))


def read_parallel(io: FileIO, read: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """As `map_parallel`, for many small reads: several threads serve them where a disk is slow.

    Where it does not, because the system has the files in memory, threads only wait for each other.
    """
    todo = list(items)
    if io.parallelism > 1:
        return map_parallel(io, read, todo)
    found: list[T] = []
    while len(found) < len(todo):
        started, cpu_started = time.perf_counter(), time.thread_time()
        found += map(read, todo[len(found) : len(found) + _PROBED])
        if time.perf_counter() - started > _WAITS * (time.thread_time() - cpu_started):
            found += _by_threads(read, todo[len(found) : len(found) + _AT_ONCE])
    return found


def _by_threads(read: Callable[[S], T], todo: Sequence[S]) -> Iterator[T]:
    parts = [todo[i : i + _FILES_A_CALL] for i in range(0, len(todo), _FILES_A_CALL)]
    with ContextPool(DISK_THREADS, thread_name_prefix="file-io") as pool:
        for found in pool.map(lambda part: list(map(read, part)), parts):
            yield from found


def delete_files(io: FileIO, paths: Iterable[str]) -> list[bool]:
    """Delete the files, several at a time; return what `FileIO.delete` returns for each.

    The first failure is raised after the running requests have ended.
    """
    todo = list(paths)
    at_once = io.deletes_at_once
    if at_once <= 1:
        return map_parallel(io, io.delete, todo)
    pieces = [todo[i : i + at_once] for i in range(0, len(todo), at_once)]
    return [gone for piece in map_parallel(io, io.delete_many, pieces) for gone in piece]


def delete_abandoned(io: FileIO, paths: Iterable[str]) -> None:
    """Delete the files of failed work that no metadata will ever name.

    For clean-up after a failure that the caller reports: files that cannot be deleted are logged
    and become orphans.  They were never part of the table, so a storage that records the table's
    changes is bypassed through its attribute `unrecorded`.
    """
    io = getattr(io, "unrecorded", io)

    def delete(path: str) -> None:
        try:
            io.delete(path)
        except OSError as e:
            log.warning("file=%s left behind: %s", path, e)

    map_parallel(io, delete, paths)


def renames_atomically(path: str) -> bool:
    """Return whether `FileIO.rename` of this file is atomic: not on object stores."""
    scheme, separator, _ = path.partition("://")
    return not separator or scheme in ("file", "hdfs", "viewfs")


def join(folder: str, name: str) -> str:
    """Return the path of `name` inside `folder`."""
    return f"{folder.rstrip('/')}/{name}"


def parent(path: str) -> str:
    """Return the folder that holds `path`."""
    return path.rstrip("/").rsplit("/", 1)[0]


@contextmanager
def named_in_errors(path: str) -> Iterator[None]:
    """Add the path to errors of writing the file inside of the block.

    Arrow knows only a descriptor of it, and names no file when the disk is full.
    """
    try:
        yield
    except OSError as e:
        if e.filename is None:
            e.filename = path
        raise
