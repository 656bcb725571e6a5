"""Paimon tables in and around a folder whose files are about to be deleted.

Whoever overwrites a folder by its path deletes all files in it, also those of tables that only
another catalog knows.
"""

from __future__ import annotations

import re
from typing import Final

from paimon_core.errors import OutsideTable
from paimon_core.io.file_io import FileIO, join, map_parallel, parent

_METADATA: Final = re.compile(r"(.*)/(?:schema/schema|snapshot/snapshot)-\d+", re.DOTALL)
"""Files that only the folders of Paimon tables have."""
_OF_TABLE: Final = re.compile("bucket-[^/]+|[^/=]+=[^/]+")
"""Folders inside of a Paimon table."""


def table_of_file(path: str) -> str | None:
    """Return the folder of the Paimon table whose metadata the file is; None for other files."""
    found = _METADATA.fullmatch(path)
    return None if found is None else found[1]


def table_around(io: FileIO, folder: str) -> str | None:
    """Return the folder of the Paimon table of which a folder is a bucket or partition."""
    while _OF_TABLE.fullmatch(folder.rpartition("/")[2]):
        folder = parent(folder)
        if any(table_of_file(s.path) for s in io.list_dir(join(folder, "schema"))):
            return folder
    return None


def table_within(io: FileIO, folder: str) -> str | None:
    """Return the folder of a Paimon table in a folder, at any depth, or of the one around it."""
    folders = [folder]
    while folders:
        found = [s for part in map_parallel(io, io.list_dir, folders) for s in part]
        theirs = next(filter(None, (table_of_file(s.path) for s in found if not s.is_dir)), None)
        if theirs is not None:
            return theirs
        folders = [s.path for s in found if s.is_dir and not s.is_link]
    return table_around(io, folder)


def refused(what: str, theirs: str, *, table: str | None = None) -> OutsideTable:
    """Return the error for files of `what` in the folder of a Paimon table."""
    return OutsideTable(
        f"the files of {what} would be deleted, but {theirs} is the folder of a Paimon table; "
        "nothing was changed",
        table=table,
        file=theirs,
        next_step="use another folder for one of the two",
    )
