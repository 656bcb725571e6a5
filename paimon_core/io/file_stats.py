"""The files of a listing as columns: a file takes about a hundred bytes, and 400 as `FileStat`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.io.file_io import IS_DIR, IS_LINK, FileStat, FolderNames
from paimon_core.types.buffers import binary_array, fixed_values, take_values

Column = npt.NDArray[Any]
_TOGETHER: Final = 20_000
NO_SIZE: Final = -1
"""The size of a file of which only the name was listed; its time is 0."""


@dataclass(frozen=True, slots=True, eq=False)
class FileStats(Sequence[FileStat]):
    """A list of files.  An item is created on access.

    `folder` is a number in `folders`.  `names` are UTF-8.  Sizes are bytes or `NO_SIZE`, times
    milliseconds, kinds sums of `IS_DIR` and `IS_LINK`.
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
            is_dir=bool(kind & IS_DIR),
            is_link=bool(kind & IS_LINK),
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
                yield FileStat(path, size, time, bool(kind & IS_DIR), bool(kind & IS_LINK))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list

    @property
    def is_file(self) -> Column:
        """Whether each is a file, neither a folder nor a link."""
        found: Column = self.kinds == 0
        return found

    @property
    def without_state(self) -> Column:
        """Whether only the name of each is known."""
        found: Column = self.sizes == NO_SIZE
        return found

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

    def counts(self) -> Column:
        """Return the number of files in each folder of `folders`."""
        return np.bincount(self.folder, minlength=len(self.folders))

    def folder_totals(self) -> tuple[Column, Column]:
        """Return the number of files in each folder of `folders`, and their bytes."""
        sizes = np.zeros(len(self.folders), np.int64)
        np.add.at(sizes, self.folder, self.sizes)
        return self.counts(), sizes

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
    _codes: list[int] = field(default_factory=list)
    _names: list[bytes] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    _kinds: bytearray = field(default_factory=bytearray)
    _small: list[FileStats] = field(default_factory=list)
    """Parts that are joined once they are many: very many small arrays take time and memory."""
    _parts: list[FileStats] = field(default_factory=list)

    def folder(self, path: str) -> int:
        """Return the number of a folder in `FileStats.folders`."""
        return self._folders.setdefault(path, len(self._folders))

    def add(self, file: FileStat) -> None:
        """Append one file."""
        self.extend((file,))

    def extend(self, files: Iterable[FileStat]) -> None:
        """Append files; those of one folder in a row cost less."""
        before, code = None, 0
        for file in files:
            folder = file.path.rpartition("/")[0]
            if folder != before:
                before, code = folder, self.folder(folder)
            self._append(code, file)

    def add_folder(self, folder: str, content: FolderNames | list[FileStat]) -> None:
        """Append the content of a folder, which may be empty."""
        code = self.folder(folder)
        if isinstance(content, list):
            for file in content:
                self._append(code, file)
            return
        count = len(content.names)
        self._codes += [code] * count
        self._names += map(_encoded, content.names)
        self._sizes += [NO_SIZE] * count
        self._times += [0] * count
        self._kinds += content.kinds
        if len(self._codes) >= _TOGETHER:
            self._flush()

    def add_part(self, files: FileStats) -> None:
        """Append the files of another list."""
        self._flush()
        codes = np.fromiter(map(self.folder, files.folders), np.int32, len(files.folders))
        self._add(replace(files, folders=(), folder=codes[files.folder]))

    def finish(self) -> FileStats:
        """Return the files so far."""
        self._flush()
        self._join()
        found = replace(_joined(self._parts), folders=list(self._folders))
        self._parts = []
        return found

    def _append(self, folder: int, file: FileStat) -> None:
        self._codes.append(folder)
        self._names.append(_encoded(file.name))
        self._sizes.append(file.size)
        self._times.append(file.modified_millis)
        self._kinds.append(file.is_dir * IS_DIR + file.is_link * IS_LINK)
        if len(self._codes) >= _TOGETHER:
            self._flush()

    def _flush(self) -> None:
        names = binary_array(np.fromiter(map(len, self._names), np.int64), b"".join(self._names))
        self._add(
            FileStats(
                (),
                np.array(self._codes, np.int32),
                pa.chunked_array([names]),
                np.array(self._sizes, np.int64),
                np.array(self._times, np.int64),
                np.frombuffer(bytes(self._kinds), np.uint8),
            )
        )
        self._codes, self._names, self._sizes, self._times = [], [], [], []
        self._kinds = bytearray()

    def _add(self, part: FileStats) -> None:
        if len(part):
            self._small.append(part)
        if sum(map(len, self._small)) >= _TOGETHER:
            self._join()

    def _join(self) -> None:
        if self._small:
            part = _joined(self._small)
            self._small = []
            chunks = part.names.chunks
            names = pa.chunked_array([pa.concat_arrays(chunks)] if chunks else [], part.names.type)
            self._parts.append(replace(part, names=names))


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")  # a local name need not be UTF-8


def _joined(parts: Sequence[FileStats]) -> FileStats:
    return FileStats(
        (),
        _column((p.folder for p in parts), np.int32),
        pa.chunked_array([c for p in parts for c in p.names.chunks], pa.large_binary()),
        _column((p.sizes for p in parts), np.int64),
        _column((p.times for p in parts), np.int64),
        _column((p.kinds for p in parts), np.uint8),
    )


def _column(parts: Iterable[Column], dtype: Any) -> Column:
    return np.concatenate([np.zeros(0, dtype), *parts])
