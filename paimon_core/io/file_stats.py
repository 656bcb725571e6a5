"""The files of a listing as columns: a file takes about a hundred bytes, and 400 as `FileStat`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.io.file_io import FileStat
from paimon_core.types.buffers import binary_array, fixed_values, take_values

Column = npt.NDArray[Any]
_TOGETHER: Final = 20_000
_DIR, _LINK = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class FileStats(Sequence[FileStat]):
    """A list of files.  An item is created on access.

    `folder` is a number in `folders`.  `names` are UTF-8.  Sizes are bytes, times milliseconds.
    """

    folders: Sequence[str]
    folder: Column
    names: pa.ChunkedArray
    sizes: Column
    times: Column
    kinds: Column

    def __len__(self) -> int:
        return len(self.folder)

    @overload
    def __getitem__(self, index: int) -> FileStat: ...
    @overload
    def __getitem__(self, index: slice) -> FileStats: ...
    def __getitem__(self, index: int | slice) -> FileStat | FileStats:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        position = range(len(self))[index]
        name = self.names[position].as_py().decode("utf-8", "surrogateescape")
        kind = int(self.kinds[position])
        return FileStat(
            f"{self.folders[self.folder[position]]}/{name}",
            int(self.sizes[position]),
            int(self.times[position]),
            is_dir=bool(kind & _DIR),
            is_link=bool(kind & _LINK),
        )

    def __iter__(self) -> Iterator[FileStat]:
        for start in range(0, len(self), _TOGETHER):
            here = slice(start, start + _TOGETHER)
            rows = zip(
                self.folder[here].tolist(),
                self.names.slice(start, _TOGETHER).to_pylist(),
                self.sizes[here].tolist(),
                self.times[here].tolist(),
                self.kinds[here].tolist(),
                strict=True,
            )
            for folder, name, size, time, kind in rows:
                path = f"{self.folders[folder]}/{name.decode('utf-8', 'surrogateescape')}"
                yield FileStat(path, size, time, bool(kind & _DIR), bool(kind & _LINK))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list

    def take(self, positions: Column) -> FileStats:
        """Return the files at these positions, in their order."""
        return FileStats(
            self.folders,
            self.folder[positions],
            take_values(self.names, positions),
            self.sizes[positions],
            self.times[positions],
            self.kinds[positions],
        )

    def folder_totals(self) -> tuple[Column, Column]:
        """Return the number of files in each folder of `folders`, and their bytes."""
        counts = np.bincount(self.folder, minlength=len(self.folders))
        sizes = np.zeros(len(self.folders), np.int64)
        np.add.at(sizes, self.folder, self.sizes)
        return counts, sizes

    def by_folder(self) -> FileStats:
        """Return the files ordered by folder, then by name."""
        ranks = np.empty(len(self.folders), np.int64)
        ranks[sorted(range(len(self.folders)), key=self.folders.__getitem__)] = np.arange(
            len(ranks)
        )
        by_name = fixed_values(pc.sort_indices(self.names), np.uint64).astype(np.int64)
        positions = by_name[np.argsort(ranks[self.folder[by_name]], kind="stable")]
        return self.take(positions)

    def grouped(self) -> tuple[FileStats, dict[str, slice]]:
        """Return the files folder by folder, and where those of each folder are."""
        order = np.argsort(self.folder, kind="stable")
        ends = np.cumsum(np.bincount(self.folder, minlength=len(self.folders))).tolist()
        starts = [0, *ends[:-1]]
        return self.take(order), dict(zip(self.folders, map(slice, starts, ends), strict=True))


@dataclass(slots=True)
class FileStatsBuilder:
    """Collects the files of a listing."""

    _folders: dict[str, int] = field(default_factory=dict)
    _rows: list[tuple[int, bytes, int, int, int]] = field(default_factory=list)
    _parts: list[FileStats] = field(default_factory=list)

    def add(self, file: FileStat) -> None:
        """Append one file."""
        self.extend((file,))

    def extend(self, files: Iterable[FileStat]) -> None:
        """Append files; those of one folder in a row cost less."""
        before, code = None, 0
        for file in files:
            folder, _, name = file.path.rpartition("/")
            if folder != before:
                before, code = folder, self._folders.setdefault(folder, len(self._folders))
            kind = file.is_dir * _DIR + file.is_link * _LINK
            # A local name need not be UTF-8.
            encoded = name.encode("utf-8", "surrogateescape")
            self._rows.append((code, encoded, file.size, file.modified_millis, kind))
            if len(self._rows) == _TOGETHER:
                self._flush()

    def finish(self) -> FileStats:
        """Return the files so far."""
        self._flush()
        parts = self._parts
        chunks = [chunk for part in parts for chunk in part.names.chunks]
        found = FileStats(
            list(self._folders),
            _joined([p.folder for p in parts], np.int32),
            pa.chunked_array(chunks, pa.large_binary()),
            _joined([p.sizes for p in parts], np.int64),
            _joined([p.times for p in parts], np.int64),
            _joined([p.kinds for p in parts], np.uint8),
        )
        self._parts = []
        return found

    def _flush(self) -> None:
        if not self._rows:
            return
        folder, names, sizes, times, kinds = zip(*self._rows, strict=True)
        sizes_of_names = np.fromiter(map(len, names), np.int64)
        self._parts.append(
            FileStats(
                (),
                np.array(folder, np.int32),
                pa.chunked_array([binary_array(sizes_of_names, b"".join(names))]),
                np.array(sizes, np.int64),
                np.array(times, np.int64),
                np.array(kinds, np.uint8),
            )
        )
        self._rows = []


def _joined(parts: list[Column], dtype: Any) -> Column:
    return np.concatenate([np.zeros(0, dtype), *parts])
