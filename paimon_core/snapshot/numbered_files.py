"""A folder of files `PREFIX<number>` with two hints beside them (Java: `utils/HintFileUtils`).

::

    snapshot/  snapshot-3 snapshot-4 snapshot-5  EARLIEST ("3")  LATEST ("5")

Hints spare a listing and may be stale, for they are written after the fact and by several
processes.  So LATEST = n holds only if n exists and n + 1 does not, EARLIEST = n only if n exists
and n - 1 does not; else the folder is listed.  (java-rules I1 asks for a little less: Java does not
look whether the snapshot of LATEST exists, and after a fast-forward it takes no notice of older
snapshots that came from the branch, because EARLIEST stands above them.)
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from paimon_core.io.file_io import FileIO
from paimon_core.names import file_number

log = logging.getLogger(__name__)

LATEST: Final = "LATEST"
EARLIEST: Final = "EARLIEST"


@dataclass(frozen=True, slots=True)
class NumberedFiles:
    """The numbered files of one folder; `prefix` is what their names begin with."""

    io: FileIO
    folder: str
    prefix: str

    def path(self, number: int) -> str:
        return f"{self.folder}/{self.prefix}{number}"

    def exists(self, number: int) -> bool:
        return self.io.exists(self.path(number))

    def numbers(self) -> list[int]:
        """All numbers, sorted, by listing the folder; other files in it are passed over."""
        start = len(self.prefix)
        names = (f.name for f in self.io.list_dir(self.folder) if not f.is_dir)
        numbers = (file_number(n[start:]) for n in names if n.startswith(self.prefix))
        return sorted(n for n in numbers if n is not None)

    def latest(self) -> int | None:
        """The greatest number, None if there is no file."""
        hint = self.hint(LATEST)
        if hint is not None and not self.exists(hint + 1) and self.exists(hint):
            return hint
        return max(self.numbers(), default=None)

    def earliest(self) -> int | None:
        """The smallest number, None if there is no file."""
        hint = self.hint(EARLIEST)
        if hint is not None and self.exists(hint) and (hint == 1 or not self.exists(hint - 1)):
            return hint
        return min(self.numbers(), default=None)

    def hint(self, name: str) -> int | None:
        """What the hint says; None if it is missing or unreadable, for then it is of no use."""
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
