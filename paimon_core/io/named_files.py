"""Metadata files that are found by their names: snapshots, changelogs, schemas, tags, consumers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from paimon_core.errors import BrokenLink, CorruptTable
from paimon_core.io.file_io import FileIO, FileStat, map_parallel
from paimon_core.names import name_number

N = TypeVar("N")
T = TypeVar("T")
_WAITS_MILLIS: Final = (20, 100, 300)


def files_named(io: FileIO, folder: str, prefix: str) -> list[FileStat]:
    """Return the content of the folder whose names start with the prefix, folders too."""
    return [f for f in io.list_dir(folder) if f.name.startswith(prefix)]


def numbers_named(io: FileIO, folder: str, prefix: str, table: str | None = None) -> list[int]:
    """Return the numbers behind the prefix, sorted.

    CorruptTable if a folder or broken link has one.  Other names that start
    with the prefix are ignored.
    """
    numbers = []
    for found in files_named(io, folder, prefix):
        number = name_number(found.name.removeprefix(prefix))
        if number is not None:
            check_is_file(found, table)
            numbers.append(number)
    return sorted(numbers)


def read_listed(
    io: FileIO, table: str, listed: Callable[[], Mapping[str, N]], read: Callable[[N], T | None]
) -> list[T]:
    """Read all that a listing names, by name; `read` returns None for a missing file.

    A store may say for a moment that a file is missing, and all that it keeps would count as
    garbage.  So another listing decides whether it was deleted.  CorruptTable for one that is
    listed, but missing.
    """
    left, found = listed(), []
    for wait in (*_WAITS_MILLIS, 0):
        now = map_parallel(io, read, left.values())
        found += [value for value in now if value is not None]
        missing = {name for name, value in zip(left, now, strict=True) if value is None}
        if not missing:
            return found
        left = {name: value for name, value in listed().items() if name in missing}
        if not left:
            return found
        time.sleep(wait / 1000)
    raise CorruptTable(
        f"the listing of table {table} names {min(left)}, but the store says that it is missing",
        table=table,
        next_step="run again; if this persists, ask the operator of the store",
    )


def check_is_file(found: FileStat, table: str | None) -> None:
    """Raise CorruptTable for a folder or a link to nothing.

    What the file in its place held, and kept, is unknown.
    """
    if found.is_dir:
        raise _in_its_place(found, "a folder, where Paimon has a file", table)
    _check_leads_somewhere(found, table)


def check_is_folder(found: FileStat, table: str | None) -> None:
    """Raise CorruptTable for a file or a link to nothing, as `check_is_file`."""
    _check_leads_somewhere(found, table)
    if not found.is_dir:
        raise _in_its_place(found, "a file, where Paimon has a folder", table)


def _check_leads_somewhere(found: FileStat, table: str | None) -> None:
    if found.is_to_nothing:
        raise CorruptTable(
            f"{found.path} is a symbolic link to nothing",
            table=table,
            file=found.path,
            next_step=BrokenLink.default_next_step,
        )


def _in_its_place(found: FileStat, what: str, table: str | None) -> CorruptTable:
    return CorruptTable(
        f"{found.path} is {what}",
        table=table,
        file=found.path,
        next_step="find out who made it, and move it out of the table",
    )
