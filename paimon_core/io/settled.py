"""Reading small files that others may be writing in place.

Java Paimon writes tags, consumers and changelogs in place, so on a file system a reader may meet an
empty or half-written one for a moment.  (Java's own readers try again as well.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from paimon_core.errors import CorruptTable
from paimon_core.io.file_io import FileIO

T = TypeVar("T")
WAITS_MILLIS: Final = (10, 40, 100, 250)


def read_settled(io: FileIO, path: str, parse: Callable[[bytes], T], *, table: str) -> T:
    """What `parse` makes of the file, read again a few times while it cannot be parsed.

    `parse` raises ValueError, KeyError or TypeError for what it cannot read; if that lasts,
    CorruptTable names the file.  FileNotFoundError if there is none.
    """
    content = io.read_bytes(path)
    for wait in WAITS_MILLIS:
        try:
            return parse(content)
        except (ValueError, KeyError, TypeError):
            time.sleep(wait / 1000)
        content = io.read_bytes(path)
    try:
        return parse(content)
    except (ValueError, KeyError, TypeError) as e:
        cause = f"it is empty ({len(content)} bytes)" if not content.strip() else _described(e)
        raise CorruptTable(
            f"cannot read {path} of table {table}: {cause}", table=table, file=path
        ) from e


def _described(error: Exception) -> str:
    return f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
