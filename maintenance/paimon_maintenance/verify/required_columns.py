"""The data and changelog files that references need, as columns, for tables of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.manifest.entries.columns import Column, name_array
from paimon_core.manifest.merge_columns import name_hashes
from paimon_core.types.buffers import index_array
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.references import Reference
from paimon_maintenance.verify.required_file import RequiredFile

_TOGETHER: Final = 20_000
_UNKNOWN: Final = -1
_ROW: Final = np.dtype(
    [("place", "i4"), ("size", "i8"), ("rows", "i8"), ("reference", "i4"), ("problem", "i1")]
)
_PROBLEMS: Final = tuple(Problem)
_CODES: Final = {problem: code for code, problem in enumerate(_PROBLEMS)}


@dataclass(slots=True)
class RequiredColumns:
    """Required files, each path once, with the first reference that needs it.

    A path is known by a hash of 64 bits: of two files with the same hash, only the first is checked.
    """

    _references: list[Reference] = field(default_factory=list)
    _places: dict[tuple[bytes, int, str], int] = field(default_factory=dict)
    _folders: list[str] = field(default_factory=list)
    """The folder of each of `_places`."""
    _rows: list[tuple[int, str, int, int, int, int]] = field(default_factory=list)
    _known: Column = field(default_factory=lambda: np.zeros(0, np.uint64))
    _numbers: list[Column] = field(default_factory=list)
    _names: list[pa.Array] = field(default_factory=list)

    def add(self, file: RequiredFile) -> None:
        """Add a file, unless its path was added before; index files and slices are left out."""
        if not self._references or self._references[-1] is not file.reference:
            self._references.append(file.reference)
        folder, _, name = file.path.rpartition("/")
        key = (file.partition, file.bucket, folder)
        place = self._places.setdefault(key, len(self._places))
        if place == len(self._folders):
            self._folders.append(folder)
        size = _UNKNOWN if file.size is None else file.size
        rows = _UNKNOWN if file.rows is None else file.rows
        reference = len(self._references) - 1
        self._rows.append((place, name, size, rows, reference, _CODES[file.missing]))
        if len(self._rows) == _TOGETHER:
            self._flush()

    def by_folder(self, together: int) -> Iterator[list[RequiredFile]]:
        """Yield the files of some folders, about `together` of them, folder by folder."""
        self._flush()
        if not self._numbers:
            return
        numbers = np.concatenate(self._numbers)
        self._numbers = [numbers]
        names = pa.chunked_array(self._names)
        places = list(self._places)
        folders = {folder: i for i, folder in enumerate(sorted(set(self._folders)))}
        folder_of = np.array([folders[folder] for folder in self._folders], np.int64)
        of_file = folder_of[numbers["place"]]
        order = np.argsort(of_file, kind="stable")
        ordered = of_file[order]
        start = 0
        while start < len(order):
            end = min(start + together, len(order))
            # All files of a folder come together.
            end = int(np.searchsorted(ordered, ordered[end - 1], side="right"))
            chosen = order[start:end]
            found = names.take(index_array(chosen)).to_pylist()
            yield [
                RequiredFile(
                    f"{places[place][2]}/{name.decode()}",
                    self._references[reference],
                    _PROBLEMS[problem],
                    places[place][0],
                    places[place][1],
                    size=None if size == _UNKNOWN else size,
                    rows=None if rows == _UNKNOWN else rows,
                )
                for name, (place, size, rows, reference, problem) in zip(
                    found, numbers[chosen].tolist(), strict=True
                )
            ]
            start = end

    def _flush(self) -> None:
        if not self._rows:
            return
        place, names, *numbers = zip(*self._rows, strict=True)
        self._rows = []
        array = name_array(names)
        hashes = name_hashes(array, name_hashes(name_array(self._folders[p] for p in place)))
        first = np.sort(np.unique(hashes, return_index=True)[1])
        at = np.searchsorted(self._known, hashes[first])
        new = first
        if len(self._known):
            at[at == len(self._known)] = 0
            new = first[self._known[at] != hashes[first]]
        self._known = np.sort(np.concatenate([self._known, hashes[new]]))
        self._numbers.append(np.array(list(zip(place, *numbers, strict=True)), _ROW)[new])
        self._names.append(array.take(index_array(new)))
