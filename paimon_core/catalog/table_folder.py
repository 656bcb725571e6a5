"""Deletes the folder of a table, and tells what is in none."""

from __future__ import annotations

import logging
import re
from typing import Final
from uuid import uuid4

from paimon_core.errors import StorageError
from paimon_core.io.file_io import FileIO, FileStat, map_parallel, parent, renames_atomically
from paimon_core.paths import TablePaths, is_hidden, is_table_folder

log = logging.getLogger(__name__)

_DROPPED: Final = ".caretaker-dropped-"
_DROPPED_NAME: Final = re.compile(rf"{re.escape(_DROPPED)}[0-9a-f]{{32}}")


def drop_table_folder(io: FileIO, folder: str) -> bool:
    """Delete the folder of a table; return whether there was anything.

    Where a rename is atomic, the folder first gets a hidden name in its database.  So another
    client that renames the table finds all of it or nothing, and what a client that was killed has
    left belongs to no table; the next drop in the database deletes it.  Elsewhere as
    `delete_table_folder`.  StorageError if the table is gone, but not all of its files.
    """
    name = folder.rpartition("/")[2]
    database = parent(folder)
    found = next((f for f in io.list_dir(database) if f.name == name), None)
    if not renames_atomically(folder) or found is None or found.is_link or not found.is_dir:
        return delete_table_folder(io, folder)
    dropped = f"{database}/{_DROPPED}{uuid4().hex}"
    try:
        io.rename(folder, dropped)
    except FileNotFoundError:
        return False  # another client has dropped or renamed it meanwhile
    try:
        _delete_dropped(io, dropped)
    except OSError as e:
        raise StorageError(
            f"the table is dropped, but files of it could not be deleted: {e}",
            file=dropped,
            next_step="delete the folder, or drop another table of the database, which deletes it",
        ) from e
    try:
        delete_all_dropped(io, database)
    except OSError as e:
        log.warning("folder=%s left behind by a drop: %s", database, e)
    return True


def delete_all_dropped(io: FileIO, database: str) -> None:
    """Delete what clients that were killed have left of dropped tables in a database's folder."""
    for found in io.list_dir(database):
        if is_dropped(found.name) and found.is_dir and not found.is_link:
            _delete_dropped(io, found.path)


def _delete_dropped(io: FileIO, folder: str) -> None:
    """Delete the folder, its schemas first: Java takes a folder with schemas for a table."""
    io.delete_dir(TablePaths(root=folder).schema_dir)
    io.delete_dir(folder)


def is_dropped(name: str) -> bool:
    """Whether a folder of this name was a table until it was dropped."""
    return _DROPPED_NAME.fullmatch(name) is not None


def delete_table_folder(io: FileIO, folder: str) -> bool:
    """Delete the folder of a table, its schemas last; return whether there was anything.

    So a creation of the table is refused until the rest is gone, and the drop of a client that was
    killed can be repeated: it leaves no files that a new table of the name would take for its own.
    """
    schemas = TablePaths(root=folder).schema_dir
    below = io.list_below(folder)
    if below is None and is_link(io, folder):
        below = []  # `delete_dir` refuses it, and what it leads to is not looked at
    elif below is None:
        below = io.list_dir(folder)
        for found in below:
            if found.path != schemas:
                delete_entry(io, found)
    else:
        files = [f.path for f in below if not f.is_dir and not f.path.startswith(f"{schemas}/")]
        size = max(1, io.deletes_at_once)
        parts = [files[start : start + size] for start in range(0, len(files), size)]
        map_parallel(io, io.delete_many, parts)
    return io.delete_dir(folder) or bool(below)


def is_link(io: FileIO, folder: str) -> bool:
    """Whether the folder itself is a symbolic link."""
    parent, _, name = folder.rstrip("/").rpartition("/")
    return any(f.is_link and f.name == name for f in io.list_dir(parent or "/"))


def delete_entry(io: FileIO, found: FileStat) -> None:
    """Delete what a listing found, a folder with its content; of a symbolic link, only the link."""
    if found.is_dir and not found.is_link:
        io.delete_dir(found.path)
    else:
        io.delete(found.path)


def foreign_file(io: FileIO, folder: str) -> str | None:
    """Return a file in the folder, at any depth, that no table has left there; None without one.

    Hidden files are everybody's.
    """
    for found in io.list_dir(folder):
        if found.is_link or is_hidden(found.name):
            continue
        if not found.is_dir:
            return found.path
        theirs = None if is_table_folder(found.name) else foreign_file(io, found.path)
        if theirs is not None:
            return theirs
    return None
