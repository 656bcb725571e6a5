"""Reading small files that others may be writing in place.

Java Paimon writes tags, consumers and changelogs in place, so on a file system a reader may meet an
empty or half-written one for a moment.  (Java's own readers try again as well.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from paimon_core.errors import UNREADABLE, CorruptTable, InvalidArgument, PaimonError
from paimon_core.io.file_io import FileIO

T = TypeVar("T")
WAITS_MILLIS: Final = (10, 40, 100, 250)


def read_whole(io: FileIO, path: str, *, table: str | None = None) -> bytes:
    """The content of a metadata file.

    FileNotFoundError if there is none; CorruptTable if a folder is where the file belongs, or a
    file where its folder belongs.
    """
    try:
        return io.read_bytes(path)
    except (IsADirectoryError, NotADirectoryError) as e:
        raise not_a_file(path, e, table=table) from e


def not_a_file(path: str, error: OSError, *, table: str | None = None) -> CorruptTable:
    """What says that a folder is where a file belongs, or a file where its folder belongs."""
    where = "a folder" if isinstance(error, IsADirectoryError) else "below another file"
    return CorruptTable(
        f"{path} should be a file but is {where}",
        table=table,
        file=path,
        next_step="nothing was changed; move away what should not be there, then run "
        "`caretaker verify`",
    )


def read_with_retries(io: FileIO, path: str, parse: Callable[[bytes], T], *, table: str) -> T:
    """What `parse` makes of the file, read again a few times while it cannot be parsed.

    `parse` raises one of `UNREADABLE` for what it cannot read; if that lasts, CorruptTable names
    the file.  FileNotFoundError if there is none, CorruptTable if it is a folder.
    """
    content = read_whole(io, path, table=table)
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
    """What `parse` makes of it; its own errors but InvalidArgument say which file they are about."""
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
