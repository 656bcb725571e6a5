"""The file operations that tables need, and what each promises (Java: `fs/FileIO`).

Stores differ in what they can do atomically, and the safety of commits rests on one operation:
`create_if_absent`.  Everything else either writes names that no other process uses (data files,
manifests) or may be repeated (hints).

========================  =======================================================================
`create_if_absent`        snapshots, schemas, tags: whole or not at all, for one creator only
`overwrite`               hints and consumers: readers see the old or the new content, whole
`write_bytes`             manifests; `open_output` data files: names that are used once
`delete`, `delete_dir`    gone afterwards; that it was gone already is no error
========================  =======================================================================

Errors are OSError and its kinds: FileNotFoundError for what does not exist, FileExistsError for
what must not.  Paths are absolute, in the form of the table's root ("/w/db.db/t",
"s3://bucket/w/db.db/t"); missing folders are made when a file is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileStat:
    """A file or folder: size in bytes, last change in milliseconds since the epoch.

    Folders have size 0, and on object stores no time (0).  A listing says of a symbolic link what
    is true of its target, and `is_link`: a search for files to delete skips it.
    """

    path: str
    size: int
    modified_millis: int
    is_dir: bool = False
    is_link: bool = False

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


class FileIO(Protocol):
    """One kind of storage.  Picklable, and safe to share between threads."""

    @property
    def parallelism(self) -> int:
        """How many requests are worth having under way at once; 1 where waiting is no issue."""

    def read_bytes(self, path: str) -> bytes:
        """The whole content."""

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, seekable, for reading; FileNotFoundError at once, not on the first read."""

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file for writing, which may be seen half-written until it is closed.

        Only for names that are used once.  FileExistsError if a local file is there already.
        """

    def write_bytes(self, path: str, data: bytes) -> None:
        """Make a file under a name that is used once; FileExistsError as in `open_output`."""

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Whether this call made the file.  False: it was there, and is untouched.

        However many processes try at once, one gets True, and no reader ever sees part of the
        content, not even after a crash.  OSError means that the outcome is not known.
        UnsupportedFeature if the store cannot do it.  A store may also answer True when it finds
        exactly `data` there, for it cannot tell its own repeated request from another's: callers
        who must know who won put something of their own into the content, as snapshots do.
        """

    def overwrite(self, path: str, data: bytes) -> None:
        """Make or replace a file; readers see the old or the new content, never a part."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder; any failure but "not found" is raised."""

    def stat(self, path: str) -> FileStat:
        """Size and time of a file or folder."""

    def list_dir(self, path: str) -> list[FileStat]:
        """What the folder holds, in no order, nothing for a missing folder.

        Any other failure is raised: an incomplete listing never passes for a complete one.  What
        is deleted meanwhile may be missing.
        """

    def delete(self, path: str) -> bool:
        """Delete a file; False if it is known to have been missing (object stores cannot tell)."""

    def delete_dir(self, path: str, *, recursive: bool = True) -> bool:
        """Delete a folder; not recursive: only if it is empty.  Whether anything was deleted."""

    def rename(self, src: str, dst: str) -> bool:
        """Move a file or folder; False, and nothing moved, if `dst` exists.

        Atomic on local and distributed file systems; on object stores it is copy, then delete.
        """

    def make_dirs(self, path: str) -> None:
        """Make the folder and those above it; object stores but S3 have none, and do nothing."""


def map_parallel(io: FileIO, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """The results of `function` in the order of the items, with several requests under way.

    The first failure is raised, after those under way have ended.
    """
    todo = list(items)
    workers = min(io.parallelism, len(todo))
    if workers <= 1:
        return [function(item) for item in todo]
    with ThreadPoolExecutor(workers, thread_name_prefix="file-io") as pool:
        return list(pool.map(function, todo))


def delete_abandoned(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files of failed work, which no metadata will ever name.

    For clean-up after a failure, which is what the caller has to report: what cannot be deleted is
    logged, and is an orphan.  Such files were never part of the table, so a storage that records
    changes of the table is asked for the one below it, its attribute `unrecorded`.
    """
    io = getattr(io, "unrecorded", io)

    def delete(path: str) -> None:
        try:
            io.delete(path)
        except OSError as e:
            log.warning("file=%s left behind: %s", path, e)

    map_parallel(io, delete, paths)


def join(folder: str, name: str) -> str:
    """The path of `name` inside `folder`."""
    return f"{folder.rstrip('/')}/{name}"


def parent(path: str) -> str:
    """The folder that holds `path`."""
    return path.rstrip("/").rsplit("/", 1)[0]
