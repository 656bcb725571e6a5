"""The data and changelog files that references need, as columns, for tables of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_core.manifest.entries.columns import Column, EntryColumns, name_array
from paimon_core.manifest.merge_columns import name_hashes
from paimon_core.types.buffers import binary_array, fixed_values, index_array
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.references import Reference
from paimon_maintenance.verify.required_file import RequiredFile

_TOGETHER: Final = 50_000
"""Arrays of this many rows are large enough to go back to the system when they are freed."""
_SHARE_OF_KNOWN: Final = 32
_UNKNOWN: Final = -1
_BUCKET_BITS: Final = 32
_ROW: Final = np.dtype(
    [("place", "i4"), ("size", "i8"), ("rows", "i8"), ("reference", "i4"), ("problem", "i1")]
)
_PROBLEMS: Final = tuple(Problem)
_CODES: Final = {problem: code for code, problem in enumerate(_PROBLEMS)}


class _Place(NamedTuple):
    partition: bytes
    bucket: int
    folder: str


@dataclass(frozen=True, slots=True)
class FilesOfFolders:
    """All required files of some folders, folder by folder; `sizes` are -1 if no metadata has them.

    `folders` says where the files of each folder are.
    """

    folders: Mapping[str, slice]
    names: Any
    _numbers: Column
    _places: list[_Place]
    _references: list[Reference]

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def sizes(self) -> Column:
        sizes: Column = self._numbers["size"]
        return sizes

    def files(self, positions: Column) -> Iterator[RequiredFile]:
        """Yield the files at these positions as objects."""
        names = self.names.take(index_array(positions)).to_pylist()
        for name, row in zip(names, self._numbers[positions].tolist(), strict=True):
            number, size, rows, reference, problem = row
            place = self._places[number]
            yield RequiredFile(
                f"{place.folder}/{name.decode()}",
                self._references[reference],
                _PROBLEMS[problem],
                place.partition,
                place.bucket,
                size=None if size == _UNKNOWN else size,
                rows=None if rows == _UNKNOWN else rows,
            )


@dataclass(slots=True)
class RequiredColumns:
    """Required files, each path once, with the first reference that needs it.

    A path is known by a hash of 64 bits: of two files with the same hash,
    only the first is checked.
    """

    _references: list[Reference] = field(default_factory=list)
    _places: list[_Place] = field(default_factory=list)
    _seeds: Column = field(default_factory=lambda: np.zeros(0, np.uint64))
    """A hash of the folder of each place."""
    _buckets: dict[tuple[int, int], int] = field(default_factory=dict)
    """The place of each bucket (partition number and bucket in one), by the paths of its branch."""
    _others: dict[_Place, int] = field(default_factory=dict)
    """The places of single files, which may be among those of buckets, too."""
    _paths: list[object] = field(default_factory=list)
    _pending: list[tuple[Column, pa.Array]] = field(default_factory=list)
    _waiting: int = 0
    _known: Column = field(default_factory=lambda: np.zeros(0, np.uint64))
    _numbers: list[Column] = field(default_factory=list)
    _names: list[pa.Array] = field(default_factory=list)

    def add(self, file: RequiredFile) -> None:
        """Add a file, unless its path was added before; index files and slices are left out."""
        folder, _, name = file.path.rpartition("/")
        row = np.zeros(1, _ROW)
        place = _Place(file.partition, file.bucket, folder)
        number = self._others.setdefault(place, len(self._places))
        if number == len(self._places):
            self._places.append(place)
        row["place"] = number
        row["size"] = _UNKNOWN if file.size is None else file.size
        row["rows"] = _UNKNOWN if file.rows is None else file.rows
        row["reference"] = self._reference(file.reference)
        row["problem"] = _CODES[file.missing]
        self._wait(row, name_array([name]))

    def add_columns(self, reference: Reference, files: EntryColumns, missing: Problem) -> None:
        """Add files in the folders of their buckets, as `add` does."""
        if not len(files):
            return
        rows = np.empty(len(files), _ROW)
        rows["place"] = self._places_of(reference, files)
        rows["size"] = files.numbers["file_size"]
        rows["rows"] = files.numbers["row_count"]
        rows["reference"] = self._reference(reference)
        rows["problem"] = _CODES[missing]
        names = files.names
        for chunk in names.chunks if isinstance(names, pa.ChunkedArray) else [names]:
            self._wait(rows[: len(chunk)], chunk)
            rows = rows[len(chunk) :]

    def by_folder(self, together: int) -> Iterator[FilesOfFolders]:
        """Yield the files of some folders, about `together` of them.

        Nothing can be added afterwards.
        """
        self._flush()
        if not self._numbers:
            return
        self._known = np.zeros(0, np.uint64)
        numbers = _joined(self._numbers)
        self._numbers = [numbers]
        names = _joined_names(self._names)
        self._names = [names]
        sorted_folders = sorted({place.folder for place in self._places})
        ranks = {folder: i for i, folder in enumerate(sorted_folders)}
        rank_of = np.array([ranks[place.folder] for place in self._places], np.int32)
        of_file = rank_of[numbers["place"]]
        order = np.argsort(of_file, kind="stable")
        start = 0
        while start < len(order):
            end = min(start + together, len(order))
            last = of_file[order[end - 1]]
            while end < len(order) and of_file[order[end]] == last:
                end += 1  # all files of a folder come together
            chosen = order[start:end]
            here = of_file[chosen]
            begins = np.flatnonzero(np.append(True, here[1:] != here[:-1]))
            bounds = zip(begins.tolist(), [*begins[1:].tolist(), len(here)], strict=True)
            yield FilesOfFolders(
                {sorted_folders[here[a]]: slice(a, b) for a, b in bounds},
                names.take(index_array(chosen)),
                numbers[chosen],
                self._places,
                self._references,
            )
            start = end

    def _reference(self, reference: Reference) -> int:
        if not self._references or self._references[-1] is not reference:
            self._references.append(reference)
        return len(self._references) - 1

    def _places_of(self, reference: Reference, files: EntryColumns) -> Column:
        paths = reference.table.paths
        if paths not in self._paths:
            self._paths.append(paths)
        branch = self._paths.index(paths)
        buckets = (files.partition.astype(np.int64) << _BUCKET_BITS) | files.bucket.astype(
            np.uint32
        )
        unique, inverse = np.unique(buckets, return_inverse=True)
        rows = files.partitions.rows
        found = []
        for key in unique.tolist():
            place = self._buckets.get((branch, key))
            if place is None:
                partition = rows[key >> _BUCKET_BITS]
                bucket = int(np.uint32(key & 0xFFFFFFFF).astype(np.int32))
                place = self._buckets[branch, key] = len(self._places)
                folder = paths.bucket_dir(partition, bucket)
                self._places.append(_Place(partition, bucket, folder))
            found.append(place)
        numbers: Column = np.array(found, np.int32)[inverse]
        return numbers

    def _wait(self, rows: Column, names: pa.Array) -> None:
        self._pending.append((rows, names))
        self._waiting += len(rows)
        if self._waiting >= max(_TOGETHER, len(self._known) // _SHARE_OF_KNOWN):
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = np.concatenate([r for r, _ in self._pending])
        names = pa.concat_arrays([n for _, n in self._pending])
        self._pending, self._waiting = [], 0
        new_folders = name_array(p.folder for p in self._places[len(self._seeds) :])
        self._seeds = np.append(self._seeds, name_hashes(new_folders))
        hashes = name_hashes(names, self._seeds[rows["place"]])
        first = np.sort(np.unique(hashes, return_index=True)[1])
        at = np.searchsorted(self._known, hashes[first])
        new = first
        if len(self._known):
            at[at == len(self._known)] = 0
            new = first[self._known[at] != hashes[first]]
        # Two sorted parts, which a stable sort merges.
        both = np.concatenate([self._known, np.sort(hashes[new])])
        self._known = np.sort(both, kind="stable")
        self._numbers.append(rows[new])
        self._names.append(names.take(index_array(new)))


def _joined(parts: list[Column]) -> Column:
    """The rows of all parts, which are taken from the list one by one to free their memory."""
    rows = np.empty(sum(map(len, parts)), _ROW)
    end = len(rows)
    while parts:
        part = parts.pop()
        rows[end - len(part) : end] = part
        end -= len(part)
    return rows


def _joined_names(parts: list[pa.Array]) -> pa.Array:
    """The names of all parts, which are taken from the list one by one, too."""
    sizes = np.empty(sum(map(len, parts)), np.int64)
    bounds = [fixed_values(part, np.int64, extra=1) for part in parts]
    content = np.empty(sum(int(b[-1] - b[0]) for b in bounds), np.uint8)
    end, last = len(sizes), len(content)
    while parts:
        part, offsets = parts.pop(), bounds.pop()
        sizes[end - len(part) : end] = np.diff(offsets)
        end -= len(part)
        data = np.frombuffer(part.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
        content[last - len(data) : last] = data
        last -= len(data)
    return binary_array(sizes, content)
