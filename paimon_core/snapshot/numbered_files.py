"""A folder of files `PREFIX<number>` with two hint files (Java: `utils/HintFileUtils`).

::

    snapshot/  snapshot-3 snapshot-4 snapshot-5  EARLIEST ("3")  LATEST ("5")

Hints avoid a listing and may be stale, because several processes write them afterwards.  So LATEST
= n is valid only if n exists and n + 1 does not, EARLIEST = n only if n exists and n - 1 does not;
otherwise the folder is listed. (java-rules I1 is less strict: Java does not check whether the
snapshot of LATEST exists, and after a fast-forward it ignores older snapshots from the branch,
because EARLIEST is above them.)
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from paimon_core.errors import CorruptTable
from paimon_core.io.file_io import FileIO
from paimon_core.io.named_files import numbers_named
from paimon_core.io.read_retry import read_with_retries
from paimon_core.names import file_number
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_from_json

log = logging.getLogger(__name__)

LATEST: Final = "LATEST"
EARLIEST: Final = "EARLIEST"


@dataclass(frozen=True, slots=True)
class NumberedFiles:
    """The numbered files of one folder, whose names start with `prefix`."""

    io: FileIO
    folder: str
    prefix: str

    def path(self, number: int) -> str:
        return f"{self.folder}/{self.prefix}{number}"

    def exists(self, number: int) -> bool:
        if self.io.parallelism <= 1:
            return self.io.exists(self.path(number))
        # On an object store, `exists` also lists, in case that a missing name is a folder.
        try:
            self.io.read_bytes(self.path(number))
        except FileNotFoundError:
            return False
        return True

    def numbers(self) -> list[int]:
        """List the folder and return all numbers, sorted; other files are ignored.

        Raises CorruptTable if a folder has a number.
        """
        return numbers_named(self.io, self.folder, self.prefix)

    def latest(self) -> int | None:
        """Return the greatest number; None if there is no file."""
        hint = self.hint(LATEST)
        if hint is not None and not self.exists(hint + 1) and self.exists(hint):
            return hint
        return max(self.numbers(), default=None)

    def earliest(self) -> int | None:
        """Return the smallest number; None if there is no file."""
        hint = self.hint(EARLIEST)
        if hint is not None and self.exists(hint) and (hint == 1 or not self.exists(hint - 1)):
            return hint
        return min(self.numbers(), default=None)

    def hint(self, name: str) -> int | None:
        """Return the hint's number; None if it is missing or unreadable."""
        path = f"{self.folder}/{name}"
        try:
            text = self.io.read_bytes(path).decode().strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as e:
            log.debug("hint=%s unreadable: %s", path, e)
            return None
        return file_number(text) or None

    def write_hint(self, name: str, number: int) -> None:
        """Set the hint."""
        self.io.overwrite(f"{self.folder}/{name}", str(number).encode())

    def delete_hint(self, name: str) -> None:
        """Remove the hint, so that the next reader lists the folder."""
        self.io.delete(f"{self.folder}/{name}")


def read_numbered(files: NumberedFiles, number: int, table: str) -> tuple[bytes, Snapshot] | None:
    """Return the stored bytes of a snapshot or changelog and what they hold; None without the file.

    Raises CorruptTable if the file is unreadable or holds another id than its name.
    """
    path = files.path(number)
    try:
        content, found = read_with_retries(
            files.io, path, lambda data: (data, snapshot_from_json(data)), table=table
        )
    except FileNotFoundError:
        return None
    except CorruptTable as e:
        e.snapshot = number
        raise
    if found.id != number:
        raise CorruptTable(
            f"{path} of table {table} says that it is {files.prefix.rstrip('-')} {found.id}",
            table=table,
            file=path,
            snapshot=number,
        )
    return content, found


class NumberedStore(ABC):
    """Base of the snapshot and changelog stores: ids by hint or listing, and the hints."""

    __slots__ = ()

    @property
    @abstractmethod
    def _files(self) -> NumberedFiles:
        """The files of this store: their folder and prefix."""

    @abstractmethod
    def get_or_none(self, snapshot_id: int) -> Snapshot | None:
        """Return what is stored under this id, or None; CorruptTable if it is unreadable."""

    def latest_id(self) -> int | None:
        """Return the greatest id; None if the store is empty."""
        return self._files.latest()

    def earliest_id(self) -> int | None:
        """Return the smallest id; None if the store is empty."""
        return self._files.earliest()

    def ids(self) -> list[int]:
        """List all ids, sorted; there may be gaps."""
        return self._files.numbers()

    def exists(self, snapshot_id: int) -> bool:
        """Return whether the file of this id exists."""
        return self._files.exists(snapshot_id)

    def at_or_before_time(self, millis: int) -> Snapshot | None:
        """Return the newest snapshot committed at `millis` or before; None if all are newer.

        A binary search, as in Java, which assumes that commit times grow with the id.
        """
        return self._around(millis)[0]

    def _around(self, millis: int) -> tuple[Snapshot | None, Snapshot | None]:
        """Return the newest snapshot committed at `millis` or before, and the oldest after it."""
        early: Snapshot | None = None
        late: Snapshot | None = None
        ids = self.ids()
        low, high = 0, len(ids) - 1
        while low <= high:
            middle = (low + high) // 2
            snapshot = self.get_or_none(ids[middle])
            if snapshot is None or snapshot.time_millis <= millis:
                # One that expired meanwhile is older than all remaining ones.
                early = snapshot
                low = middle + 1
            else:
                late = snapshot
                high = middle - 1
        return early, late

    def hints(self) -> tuple[int | None, int | None]:
        """Return EARLIEST and LATEST as stored, even if stale; None if missing or unreadable."""
        files = self._files
        return files.hint(EARLIEST), files.hint(LATEST)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Set EARLIEST."""
        self._files.write_hint(EARLIEST, snapshot_id)

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Set LATEST."""
        self._files.write_hint(LATEST, snapshot_id)

    def delete_latest_hint(self) -> None:
        """Remove LATEST, so that the next reader lists the folder."""
        self._files.delete_hint(LATEST)

    def delete_hints(self) -> None:
        """Remove both hints: LATEST first, because readers follow it."""
        self.delete_latest_hint()
        self._files.delete_hint(EARLIEST)
