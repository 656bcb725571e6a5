"""What errors of system calls on local paths mean, as errors that say what to do.

"Missing" is believed only where nothing is there by its name: files that are taken for missing may
cost what they refer to.
"""

# Paths are strings: see `local`.
from __future__ import annotations

import errno
import os
from typing import Final

from paimon_core.errors import BrokenLink, NotAFolder, StorageError

LEADS_NOWHERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What the system says about a link to nothing: its target is missing, below a
file, or a link to it."""
TO_NOTHING: Final = "a symbolic link to nothing"


class _AtPath:
    """A block of system calls on one path, whose errors a subclass translates."""

    __slots__ = ("_target",)

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> None:
        pass


class TooLongIsMissing(_AtPath):
    """Raises FileNotFoundError for a name that is too long for any file here to have.

    Metadata may name such a file, written by mistake or for a store that allows longer names.
    """

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise FileNotFoundError(
                errno.ENOENT, "no file can have such a long name", self._target
            ) from error


class Named(_AtPath):
    """Names the file in errors of system calls that know a descriptor only.

    One that says "missing" would be taken for a missing file: it becomes ESTALE, which is what a
    network file system means by it when the file is open already.
    """

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if not isinstance(error, OSError) or error.filename is not None:
            return
        if isinstance(error, FileNotFoundError):
            raise stale(self._target) from error
        error.filename = self._target


class NothingBelow(_AtPath):
    """Raises NotAFolder for what lies below a file, BrokenLink below a link in a circle.

    Nobody knows whether it exists, so it is not missing.
    """

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, NotADirectoryError):
            raise not_a_folder(self._target) from error
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise broken_link(_first_there(self._target)) from error


class CauseIsTold(_AtPath):
    """Says what to do where a new file would have a name that is too long, or lie below a file."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise StorageError(
                f"{self._target} was not made: a name in it is too long for the file system",
                file=self._target,
                next_step="choose a shorter name: while a file is written, its own is 42 bytes longer",
            ) from error
        if isinstance(error, NotADirectoryError):
            raise not_a_folder(self._target) from error


def lstat_or_none(target: str) -> os.stat_result | None:
    """Return what is at a path, a link itself; None if nothing is.

    Unlike the tests in `os.path`, which take every failure for "nothing is there".
    """
    try:
        with TooLongIsMissing(target):
            return os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        if e.errno == errno.ELOOP:  # a link above leads nowhere
            return None
        raise


def stale(target: str) -> OSError:
    """Return the error for what the system says is missing, although its name is there."""
    return OSError(errno.ESTALE, "said to be missing, but it is there", target)


def broken_link(target: str) -> BrokenLink:
    """Return the error for a link to nothing."""
    return BrokenLink(f"{target} is {TO_NOTHING}", file=target)


def not_a_folder(target: str) -> NotAFolder:
    """Return the error for a path at or below a file; it names the file."""
    place = _first_there(target)
    return NotAFolder(f"{place} is a file, but should be a folder", file=target)


def _first_there(target: str) -> str:
    """Return the path, or the first one above that is there."""
    while target and lstat_or_none(target) is None:  # what was there may be gone by now
        target = os.path.dirname(target)
    return target


def folder_in_place(target: str, done: str) -> StorageError:
    """Return the error for a folder where a file was to be `done`: overwritten, deleted."""
    return StorageError(
        f"{target} is a folder, not a file, and was not {done}",
        file=target,
        next_step="move the folder out of the table, then run again",
    )
