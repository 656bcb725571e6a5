"""Paimon tables in and around a folder whose files are about to be deleted.

Whoever overwrites a folder by its path, or drops the table in it, deletes all files in it, also
those of tables that only another catalog knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from paimon_core.errors import OutsideTable
from paimon_core.io.file_io import FileIO, FileStat, join, map_parallel, parent
from paimon_core.paths import BUCKET_PREFIX, is_table_folder

_METADATA: Final = re.compile(r"(.*)/(?:schema/schema|snapshot/snapshot)-\d+", re.DOTALL)
"""Files that only the folders of Paimon tables have."""
_OF_TABLE: Final = re.compile("branch-[^/]+|[^/=]+=[^/]+", re.DOTALL)
"""Branches and partitions, which are folders inside of a Paimon table, as its own folders are."""


def table_of_file(path: str) -> str | None:
    """Return the folder of the Paimon table whose metadata the file is; None for other files."""
    found = _METADATA.fullmatch(path)
    return None if found is None else found[1]


def table_around(io: FileIO, folder: str) -> str | None:
    """Return the folder of the Paimon table whose bucket, partition or metadata a folder is."""
    while _is_of_table(folder.rpartition("/")[2]):
        folder = parent(folder)
        if any(table_of_file(s.path) for s in io.list_dir(join(folder, "schema"))):
            return folder
    return None


def _is_of_table(name: str) -> bool:
    return is_table_folder(name) or _OF_TABLE.fullmatch(name) is not None


def table_within(io: FileIO, folder: str) -> str | None:
    """Return the folder of a Paimon table in a folder, at any depth, or of the one around it."""
    return _table_below(io, folder, _is_real) or table_around(io, folder)


def other_table(io: FileIO, root: str) -> str | None:
    """Return the folder of another Paimon table inside of that of a table, or around it.

    The table's own metadata folders and buckets are not looked into.
    """
    below = io.list_below(root)
    if below is not None:
        start = f"{root}/"
        theirs = (f for f in below if not f.is_dir and not _is_own(f.path[len(start) :]))
        found = next(filter(None, (table_of_file(f.path) for f in theirs)), None)
        return found or table_around(io, root)
    found = _table_below(io, root, partial(_may_hold_tables, root))
    return found or table_around(io, root)


def _table_below(io: FileIO, root: str, enters: Callable[[FileStat], bool]) -> str | None:
    """Return the folder of a table whose metadata is below a folder, where the walk `enters`."""
    folders = [root]
    while folders:
        listed = [s for part in map_parallel(io, io.list_dir, folders) for s in part]
        found = next(filter(None, (table_of_file(s.path) for s in listed if not s.is_dir)), None)
        if found is not None:
            return found
        folders = [s.path for s in listed if enters(s)]
    return None


def _is_real(found: FileStat) -> bool:
    """Whether this is a folder, and no link to one."""
    return found.is_dir and not found.is_link


def _is_own(path: str) -> bool:
    """Whether a path below the table's folder begins with one of the table's own folders."""
    return is_table_folder(path.partition("/")[0])


def _may_hold_tables(root: str, found: FileStat) -> bool:
    if not _is_real(found) or found.name.startswith(BUCKET_PREFIX):
        return False
    return parent(found.path) != root or not is_table_folder(found.name)


def refused(what: str, theirs: str, *, table: str | None = None) -> OutsideTable:
    """Return the error for files of `what` in the folder of a Paimon table."""
    return OutsideTable(
        f"the files of {what} would be deleted, but {theirs} is the folder of a Paimon table; "
        "nothing was changed",
        table=table,
        file=theirs,
        next_step="use another folder for one of the two",
    )
