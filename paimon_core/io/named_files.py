"""Metadata files that are found by their names: snapshots, changelogs, schemas, tags, consumers."""

from __future__ import annotations

from paimon_core.errors import CorruptTable
from paimon_core.io.file_io import FileIO, FileStat
from paimon_core.names import name_number


def files_named(io: FileIO, folder: str, prefix: str) -> list[FileStat]:
    """Return the content of the folder whose names start with the prefix, folders too."""
    return [f for f in io.list_dir(folder) if f.name.startswith(prefix)]


def numbers_named(io: FileIO, folder: str, prefix: str, table: str | None = None) -> list[int]:
    """Return the numbers behind the prefix, sorted; CorruptTable if a folder has one.

    Other names that start with the prefix are ignored.
    """
    numbers = []
    for found in files_named(io, folder, prefix):
        number = name_number(found.name.removeprefix(prefix))
        if number is not None:
            check_is_file(found, table)
            numbers.append(number)
    return sorted(numbers)


def check_is_file(found: FileStat, table: str | None = None) -> None:
    """Raise CorruptTable for a folder: what the file in its place held, and kept, is unknown."""
    if found.is_dir:
        raise CorruptTable(
            f"{found.path} is a folder, where Paimon has a file",
            table=table,
            file=found.path,
            next_step="find out who made the folder, and move it out of the table",
        )
