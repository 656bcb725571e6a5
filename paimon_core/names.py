"""Validates names, numbers and paths from metadata.

Anyone with write access to the table can write a metadata file, so the names in it are checked
before they become paths:

- A *file name* (`checked_name`) names one file in the folder of its kind.  It is not empty,
  contains no separator or NUL, and is neither "." nor "..".
- An *external path* (`checked_external_path`) is a full path.  It contains no "." or "..", and must
  be under the table's root or a folder that the table declares (`Boundary`).

The decoders of snapshots, manifest lists, manifests and index manifests call these functions for
every field that names a file.  They raise ValueError, which the readers convert to CorruptTable
with the metadata file's path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from paimon_core.errors import CorruptTable
from paimon_core.options import DATA_FILE_EXTERNAL_PATHS, GLOBAL_INDEX_EXTERNAL_PATH, Options

LARGEST_LONG: Final = 2**63 - 1
EARLIEST_MILLIS: Final = -62_135_510_400_000
LATEST_MILLIS: Final = 253_402_214_400_000
"""The times that Python supports in every time zone: years 1 to 9999, less one day."""
_LONGEST_NAME: Final = 1024
"""The maximum key length in bytes over all object stores; local file systems allow less."""
_NAME: Final = re.compile(rf"[^/\\\x00]{{1,{_LONGEST_NAME}}}")
_LOCATION: Final = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(//[^/]*)?(/?.*)", re.DOTALL)
_SAME_STORE: Final = {"s3a": "s3", "s3n": "s3"}
_SHOWN: Final = 200

Location = tuple[str, tuple[str, ...]]
"""A store, and the folders of a path in it."""


def is_file_name(text: str) -> bool:
    """Return whether the text is a valid file name."""
    return _NAME.fullmatch(text) is not None and text not in (".", "..")


def checked_name(value: object, field_name: str) -> str:
    """Return the value of a field that names a file; ValueError if it is not a file name."""
    if isinstance(value, str) and _NAME.fullmatch(value) and value not in (".", ".."):
        return value
    raise ValueError(f"{field_name} does not name a file in its folder: {shown(value)}")


def checked_external_path(value: object, field_name: str) -> str:
    """Return the value of a field that holds a full path; ValueError if it is not one."""
    if isinstance(value, str) and location(value) is not None:
        return value
    raise ValueError(f"{field_name} is not the path of a file: {shown(value)}")


def file_number(text: str) -> int | None:
    """Parse the number in a file name or hint; None if it is not a non-negative Java long."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(LARGEST_LONG)):
        return None
    number = int(text)
    return number if number <= LARGEST_LONG else None


def name_number(text: str) -> int | None:
    """Parse the number at the end of a file name; None for text such as "05".

    Files are read by the name that is made of a number, so a file with leading zeros is never read.
    """
    number = file_number(text)
    return number if number is not None and str(number) == text else None


def checked_long(value: object, field_name: str) -> int:
    """Return the value of a field that holds a Java long; TypeError or ValueError if it is not."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{field_name} is not an integer: {shown(value)}")
    if -LARGEST_LONG - 1 <= value <= LARGEST_LONG:
        return value
    raise ValueError(f"{field_name} is not a number of 64 bits")


def checked_text(value: object, field_name: str) -> str:
    """Return the value of a field that holds text; TypeError if it is none."""
    if isinstance(value, str):
        return value
    raise TypeError(f"{field_name} is not text: {shown(value)}")


def optional_text(value: object, field_name: str) -> str | None:
    """Return the value of a field that may be missing; TypeError if it is no text."""
    return None if value is None else checked_text(value, field_name)


def checked_texts(value: object, field_name: str) -> dict[str, str]:
    """Return an object of texts, as Java does: other scalars become text.

    Null is an empty object, and its entries that are null are left out.  TypeError for anything
    else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(f"{field_name} is not an object: {shown(value)}")
    return {k: _scalar(v, f"{field_name}.{k}") for k, v in value.items() if v is not None}


def _scalar(value: object, field_name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return str(value)
    return checked_text(value, field_name)


def checked_millis(value: int, field_name: str) -> int:
    """Return milliseconds since the epoch; ValueError if they are outside the calendar."""
    if EARLIEST_MILLIS <= value <= LATEST_MILLIS:
        return value
    raise ValueError(f"{field_name} is not a time between the years 1 and 9999: {value}")


def shown(value: object) -> str:
    """Return the value for a message, shortened."""
    text = repr(value[:_SHOWN] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 2 * _SHOWN else f"{text[:_SHOWN]}..."


def location(path: str) -> Location | None:
    """Return the location of a path; None for a path that is empty or contains NUL or "..".

    "file:/w", "file:///w" and "/w" are one location, and so are "s3://b/k" and "s3a://b/k".
    """
    found = _LOCATION.fullmatch(path)
    if found is None or "\0" in path:
        return None
    scheme = (found.group(1) or "file").lower()
    authority = found.group(2) or "//"
    folders = tuple(part for part in found.group(3).split("/") if part)
    if not folders or "." in folders or ".." in folders:
        return None
    return f"{_SAME_STORE.get(scheme, scheme)}:{authority}", folders


def lies_under(path: Location, root: Location) -> bool:
    """Return whether a path is below a root, at any depth."""
    depth = len(root[1])
    return path[0] == root[0] and len(path[1]) > depth and path[1][:depth] == root[1]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The folders that belong to one table: its root, and those that its options declare.

    `declared` holds the folders of the current options.  `earlier` returns those of all schemas of
    all branches, because files do not move when the option changes.  It reads schema files, and is
    called only for a path outside `root` and `declared`.
    """

    root: str
    declared: tuple[str, ...] = ()
    earlier: Callable[[], Iterable[str]] | None = field(default=None, compare=False, repr=False)
    _found: set[str] = field(default_factory=set, compare=False, repr=False)

    def known_roots(self) -> tuple[str, ...]:
        """Return the roots that are known without reading schema files."""
        return (self.root, *self.declared, *sorted(self._found))

    def holds(self, path: str) -> bool:
        """Return whether the path is below one of the table's folders, by its text alone."""
        place = location(path)
        if place is None:
            return False
        if _any_holds(place, self.known_roots()):
            return True
        if self.earlier is None:
            return False
        self._found.update(self.earlier())
        return _any_holds(place, self._found)

    def checked(self, path: str) -> str:
        """Return the path; CorruptTable if it is outside the table's folders."""
        if self.holds(path):
            return path
        raise CorruptTable(
            f"{shown(path)} lies outside the table's folder {self.root} and outside the folders "
            "that its option data-file.external-paths names",
            file=path[:_LONGEST_NAME],
            next_step="nothing was read, written or deleted there; if the file belongs to the "
            "table, add its folder to data-file.external-paths",
        )


def declared_roots(options: Options) -> tuple[str, ...]:
    """Return the external folders that these options declare."""
    index_root = options.value(GLOBAL_INDEX_EXTERNAL_PATH)
    return (*options.value(DATA_FILE_EXTERNAL_PATHS), *((index_root,) if index_root else ()))


def _any_holds(place: Location, roots: Iterable[str]) -> bool:
    return any(lies_under(place, root) for root in map(location, roots) if root is not None)
