"""Reads BLOBs out of files in batches of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.io.file_io import FileIO

BATCH_BYTES: Final = 64 * 1024 * 1024
_LARGEST: Final = 2**31 - 1
_OPEN_FILES: Final = 16


def batches_of(sizes: npt.NDArray[np.int64], batch_rows: int, file: str) -> Iterator[range]:
    """Yield ranges of rows with at most `batch_rows` rows and BATCH_BYTES, or one larger row.

    Raises UnsupportedFeature for values of 2 GiB and more, which Java cannot return either.
    """
    if len(sizes) and int(sizes.max()) > _LARGEST:
        raise UnsupportedFeature(f"a BLOB of {int(sizes.max()):,} bytes", file=file)
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        last = min(max(last, first + 1), first + batch_rows)
        yield range(first, last)
        first = last


class OpenFiles:
    """Files that stay open while rows alternate between them.

    The least recently used are closed.
    """

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._open: OrderedDict[str, pa.NativeFile] = OrderedDict()

    def __call__(self, path: str) -> pa.NativeFile:
        """Return the open file; FileNotFoundError if it is missing."""
        found = self._open.pop(path, None)
        if found is None:
            found = self._io.open_input(path)
            if len(self._open) >= _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
        self._open[path] = found
        return found

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
