"""Moves a folder of an object store: copies all objects below it, then deletes the originals.

All copies are made before the first deletion, so that one of the two folders is complete at any
time.  Readers take a folder with schemas for a table: so schemas are copied last, and deleted
first.

A move that was interrupted is continued by the next call: then one folder holds nothing but files
of the other one, with the same sizes, and schemas, which hold the time of their creation, are the
same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from paimon_core.errors import StorageError
from paimon_core.io.file_io import join

_SCHEMA: Final = "/schema/"
_HINTS: Final = ("/LATEST", "/EARLIEST")


def move_objects(fs: Any, src: str, dst: str) -> bool:
    """Move the folder; False, and nothing moved, if `dst` holds anything else than a part of it."""
    here, there = _sizes(fs, src), _sizes(fs, dst)
    copied = _holds_all(there, here)
    if there or _exists(fs, dst):
        is_part = copied or _holds_all(here, there)
        if not is_part or not _have_same_schemas(fs, src, dst, here.keys() & there.keys()):
            return False
    if not copied:
        _check_complete(fs, src, here)
    for name in () if copied else sorted(here, key=_is_schema):
        fs.cp_file(join(src, name), join(dst, name))
    for name in sorted(here, key=_is_schema, reverse=True):
        fs.rm_file(join(src, name))
    return True


def _check_complete(fs: Any, src: str, names: Collection[str]) -> None:
    """StorageError if the listing lacks the newest snapshot, which would be left behind.

    A store with stale listings, or a commit that has just landed: the hint tells its number.
    """
    for hint in (n for n in names if f"/{n}".endswith("/snapshot/LATEST")):
        number = fs.cat_file(join(src, hint)).decode(errors="replace").strip()
        newest = f"{hint.removesuffix('LATEST')}snapshot-{number}"
        if number.isdecimal() and newest not in names and _exists(fs, join(src, newest)):
            raise StorageError(
                f"{src} was not moved: the store does not list {newest}, which exists",
                file=join(src, newest),
                next_step="run again when nobody writes; if that fails too, the listings of the store or "
                "gateway are stale",
            )


def _sizes(fs: Any, folder: str) -> dict[str, int]:
    """Return the sizes of the files below a folder, by their paths in it."""
    prefix = fs._strip_protocol(folder).rstrip("/") + "/"  # noqa: SLF001 - public in all but name
    found = fs.find(folder, detail=True).items()
    return {n[len(prefix) :]: int(i["size"] or 0) for n, i in found if n.startswith(prefix)}


def _exists(fs: Any, path: str) -> bool:
    try:
        fs.info(path)
    except FileNotFoundError:
        return False
    return True


def _holds_all(folder: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Return whether a folder holds all files of the other one with their sizes, hints aside."""
    return bool(other) and all(
        folder.get(name) == size for name, size in other.items() if not name.endswith(_HINTS)
    )


def _have_same_schemas(fs: Any, src: str, dst: str, names: set[str]) -> bool:
    return all(
        fs.cat_file(join(src, name)) == fs.cat_file(join(dst, name))
        for name in names
        if _is_schema(name)
    )


def _is_schema(name: str) -> bool:
    return _SCHEMA in f"/{name}"
