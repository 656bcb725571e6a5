"""Reads small files that other programs may overwrite in place.

Java Paimon writes tags, consumers and changelogs in place, so on a file system a reader may briefly
see an empty or half-written file. (Java's own readers retry as well.)
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Final, TypeVar

from paimon_core.errors import UNREADABLE, CorruptTable, InvalidArgument, PaimonError
from paimon_core.io.file_io import FileIO

T = TypeVar("T")
WAITS_MILLIS: Final = (10, 40, 100, 250)
LARGEST_TEXT: Final = 1 << 26
"""The size in bytes of the largest text that is parsed, of a table with
thousands of columns, say."""
_OTHERS: Final = {
    errno.EINVAL: "a pipe or device",
    errno.ENXIO: "a socket or device",
    errno.ELOOP: "a symbolic link to nothing",
    errno.EFBIG: "too large to be one that Paimon wrote",
}


def read_whole(io: FileIO, path: str, *, table: str | None = None) -> bytes:
    """Return the content of a metadata file.

    Raises FileNotFoundError if it does not exist, and CorruptTable if there is a folder, a pipe, a
    link to nothing or a file of many gigabytes in its place, or a file in place of its folder.
    """
    try:
        return io.read_bytes(path)
    except (IsADirectoryError, NotADirectoryError) as e:
        raise not_a_file(path, e, table=table) from e
    except OSError as e:
        if e.errno not in _OTHERS or not e.filename:
            raise
        raise not_a_file(path, e, table=table) from e


def not_a_file(path: str, error: OSError, *, table: str | None = None) -> CorruptTable:
    """Return the error for what is no file, or for a file in place of its folder."""
    where = "a folder" if isinstance(error, IsADirectoryError) else "below another file"
    if error.errno in _OTHERS:
        where = _OTHERS[error.errno]
    return CorruptTable(
        f"{path} should be a file but is {where}",
        table=table,
        file=path,
        next_step="nothing was changed; move away what should not be there, then run "
        "`caretaker verify`",
    )


def read_with_retries(
    io: FileIO,
    path: str,
    parse: Callable[[bytes], T],
    *,
    table: str,
    most: int = LARGEST_TEXT,
) -> T:
    """Return the parsed file; read it again a few times while it cannot be parsed.

    `parse` raises one of `UNREADABLE` for content that it cannot read; if that persists,
    CorruptTable names the file.  Raises FileNotFoundError if the file does not exist, CorruptTable
    if it is a folder, or has more than `most` bytes, which would take many times as much memory.
    """
    content = read_whole(io, path, table=table)
    if len(content) > most:
        raise not_a_file(path, OSError(errno.EFBIG, ""), table=table)
    for wait in WAITS_MILLIS:
        try:
            return _parsed(content, parse, path, table)
        except UNREADABLE:
            time.sleep(wait / 1000)
        content = read_whole(io, path, table=table)
    try:
        return _parsed(content, parse, path, table)
    except UNREADABLE as e:
        cause = f"it is empty ({len(content)} bytes)" if not content.strip() else _described(e)
        raise CorruptTable(
            f"cannot read {path} of table {table}: {cause}", table=table, file=path
        ) from e


def _parsed(content: bytes, parse: Callable[[bytes], T], path: str, table: str) -> T:
    """Return the parsed content; its errors, except InvalidArgument, name the file."""
    try:
        return parse(content)
    except InvalidArgument as e:
        raise ValueError(e.message) from e
    except PaimonError as e:
        e.file, e.table = e.file or path, e.table or table
        raise


def _described(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    if isinstance(error, ValueError):
        return str(error)
    return f"{type(error).__name__}: {error}"
