"""Deletes the folder of a table, and tells what is in none."""

from __future__ import annotations

from paimon_core.io.file_io import FileIO, FileStat, map_parallel
from paimon_core.paths import TablePaths, is_hidden, is_table_folder


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
