"""Buffers the rows of one bucket in memory and on local disk.

Java: `mergetree/SortBufferWriteBuffer`, `disk/ExternalBuffer`.  With sort keys, spilled rows form
sorted runs; without, rows keep the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa

from paimon_core.io.arrow_files import SpillFile, read_spilled
from paimon_core.io.temporary import temporary_folder
from paimon_core.lsm.key_order import has_signed_zeros, key_digits, sort_rows
from paimon_core.types.data_types import RowType

MOST_RUNS: Final = 64
"""The maximum number of runs on disk, which are merged at once."""
_BATCH_ROWS: Final = 4096


class SpillFolder:
    """A local folder, created with the first file and deleted with this object or by `clear`."""

    def __init__(self, parent: str | None = None) -> None:
        self._parent = parent
        self._folder: TemporaryDirectory[str] | None = None
        self._made = 0

    def new_path(self) -> Path:
        """Return an unused path."""
        if self._folder is None:
            self._folder = temporary_folder("write-", self._parent)
        self._made += 1
        return Path(self._folder.name) / str(self._made)

    def clear(self) -> None:
        """Delete the folder and its content."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class RowBuffer:
    """Batches of one schema, sorted by `key` if there is one; `memory` and `disk` are bytes."""

    __slots__ = ("_folder", "_key", "_paths", "_waiting", "disk", "memory")

    def __init__(self, folder: SpillFolder, key: RowType | None = None) -> None:
        self._folder = folder
        self._key = key
        self._waiting: list[pa.RecordBatch] = []
        self._paths: list[Path] = []
        self.memory = 0
        self.disk = 0

    @property
    def is_empty(self) -> bool:
        return not (self._waiting or self._paths)

    @property
    def is_full(self) -> bool:
        """Return whether the number of runs on disk has reached its limit."""
        return len(self._paths) >= MOST_RUNS

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._waiting.append(batch)
        self.memory += batch.nbytes

    def spill(self) -> None:
        """Move the rows in memory to a run on disk."""
        batch = self._in_memory()
        if batch is None:
            return
        path = self._folder.new_path()
        with closing(SpillFile(path)) as file:
            file.write(batch, batch_rows=_BATCH_ROWS)
        self._paths.append(path)
        self.disk += path.stat().st_size
        self._waiting, self.memory = [], 0

    def runs(self) -> list[Iterator[pa.RecordBatch]]:
        """Return the rows, oldest run first; can be called again until `clear`."""
        batch = self._in_memory()
        runs = [read_spilled(path) for path in self._paths]
        return runs if batch is None else [*runs, iter([batch])]

    def clear(self) -> None:
        """Drop all rows and delete their files."""
        for path in self._paths:
            path.unlink(missing_ok=True)
        self._waiting, self._paths = [], []
        self.memory = self.disk = 0

    def _in_memory(self) -> pa.RecordBatch | None:
        """Return the rows in memory as one batch, sorted if there is a key."""
        if not self._waiting:
            return None
        if len(self._waiting) > 1 or self._key is not None:
            batch = pa.concat_batches(self._waiting)
            if self._key is not None:
                arrays = [batch.column(k) for k in self._key.names]
                digits = key_digits(arrays, signed_zeros=has_signed_zeros(self._key))
                order, _ = sort_rows(digits)
                batch = batch.take(pa.array(order))
            self._waiting = [batch]
        return self._waiting[0]
