"""Stored files as columns: a file takes about a hundred bytes, and 400 as an object.

These are files that metadata names: each has a role, and its size may be unknown.  The files that a
listing finds are `paimon_core.io.file_stats.FileStats`: each has a time, and its name need not be
UTF-8.  The two classes share only how a list of columns is cut and iterated, not what its columns
are compared by, so they stay apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, overload

import numpy as np
import pyarrow as pa

from paimon_core.manifest.entries.columns import Column, name_array
from paimon_core.manifest.merge_columns import name_hashes
from paimon_core.reachability.files import Role, StoredFile
from paimon_core.types.buffers import take_values

_NO_SIZE: Final = -1
_ROLES: Final = tuple(Role)
_CODES: Final = {role: code for code, role in enumerate(_ROLES)}
_TOGETHER: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class StoredFiles(Sequence[StoredFile]):
    """A list of stored files.  An item is created on access.

    `folder` is a number in `folders`, `sizes` are bytes, `roles` positions in `Role`.
    """

    folders: Sequence[str]
    folder: Column
    names: pa.ChunkedArray
    sizes: Column
    roles: Column

    @staticmethod
    def of(files: Iterable[StoredFile]) -> StoredFiles:
        """Return these files."""
        builder = StoredFilesBuilder()
        for file in files:
            builder.add(file)
        return builder.finish()

    @staticmethod
    def joined(*parts: StoredFiles) -> StoredFiles:
        """Return the files of all parts."""
        builder = StoredFilesBuilder()
        for part in parts:
            builder.add_part(part)
        return builder.finish()

    def __len__(self) -> int:
        return len(self.folder)

    @overload
    def __getitem__(self, index: int) -> StoredFile: ...
    @overload
    def __getitem__(self, index: slice) -> StoredFiles: ...
    def __getitem__(self, index: int | slice) -> StoredFile | StoredFiles:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        position = range(len(self))[index]
        return next(iter(self.take(np.array([position]))))

    def __iter__(self) -> Iterator[StoredFile]:
        for start in range(0, len(self), _TOGETHER):
            here = slice(start, start + _TOGETHER)
            rows = zip(
                self.folder[here].tolist(),
                self.names.slice(start, _TOGETHER).to_pylist(),
                self.sizes[here].tolist(),
                self.roles[here].tolist(),
                strict=True,
            )
            for folder, name, size, role in rows:
                path = f"{self.folders[folder]}/{name.decode()}"
                yield StoredFile(path, _ROLES[role], None if size == _NO_SIZE else size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredFiles) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((len(self), self.bytes))

    def take(self, positions: Column) -> StoredFiles:
        """Return the files at these positions, in their order."""
        return StoredFiles(
            self.folders,
            self.folder[positions],
            take_values(self.names, positions),
            self.sizes[positions],
            self.roles[positions],
        )

    @property
    def bytes(self) -> int:
        """The total size in bytes, as far as metadata holds it."""
        return int(self.sizes[self.sizes != _NO_SIZE].sum())

    def counts(self) -> dict[str, int]:
        """Return the number of files by role, in the order in which the roles are first found."""
        roles, first = np.unique(self.roles, return_index=True)
        counts = np.bincount(self.roles, minlength=len(_ROLES))
        ordered = roles[np.argsort(first)].tolist()
        return dict(Counter({str(_ROLES[role]): int(counts[role]) for role in ordered}))

    def of_roles(self, *roles: Role) -> StoredFiles:
        """Return the files of these roles."""
        return self.take(self.positions(*roles))

    def positions(self, *roles: Role) -> Column:
        """Return where the files of these roles are."""
        return np.flatnonzero(self._has_role(*roles))

    def total(self, *roles: Role) -> tuple[int, int]:
        """Return the number of the files of these roles, and their bytes."""
        chosen = self._has_role(*roles)
        return int(chosen.sum()), int(self.sizes[chosen & (self.sizes != _NO_SIZE)].sum())

    def _has_role(self, *roles: Role) -> Column:
        return np.isin(self.roles, [_CODES[role] for role in roles])

    def one_of_each_folder(self) -> StoredFiles:
        """Return the first file of each folder."""
        return self.take(np.unique(self.folder, return_index=True)[1])

    def distinct(self) -> StoredFiles:
        """Return the files without duplicate paths.

        Paths are compared by hash.  If two paths have the same hash, the second file is left out
        and becomes an orphan.
        """
        first = np.unique(self._hashes(), return_index=True)[1]
        return self if len(first) == len(self) else self.take(np.sort(first))

    def planned(self) -> PlannedFiles:
        """Return the hashes by which `only` recognizes these files."""
        return PlannedFiles(np.unique(self._hashes()))

    def only(self, planned: PlannedFiles) -> StoredFiles:
        """Return the files that are in the plan, by the hashes of their paths."""
        mine = np.isin(self._hashes(), planned.hashes)
        return self if mine.all() else self.take(np.flatnonzero(mine))

    def _hashes(self) -> Column:
        return name_hashes(self.names, name_hashes(name_array(self.folders))[self.folder])


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFiles:
    """The files of a plan: ordered hashes of their paths, of eight bytes each.

    A plan stays in memory while garbage is searched again before the deletion, and paths would
    double the memory.  Hashes are sufficient, because the plan only limits the result of that
    search: a wrong match cannot delete a file that is needed.
    """

    hashes: Column

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlannedFiles) and np.array_equal(self.hashes, other.hashes)

    def __hash__(self) -> int:
        return hash(self.hashes.tobytes())


@dataclass(slots=True)
class StoredFilesBuilder:
    """Collects stored files, one by one or many of a folder list."""

    _folders: dict[str, int] = field(default_factory=dict)
    _rows: list[tuple[int, str, int, int]] = field(default_factory=list)
    _parts: list[StoredFiles] = field(default_factory=list)

    def add(self, file: StoredFile) -> None:
        """Append one file."""
        folder, _, name = file.path.rpartition("/")
        size = _NO_SIZE if file.size is None else file.size
        self._rows.append((self.folder(folder), name, size, _CODES[file.role]))
        if len(self._rows) == _TOGETHER:
            self._flush()

    def folder(self, path: str) -> int:
        """Return the number of a folder for `add_columns`."""
        return self._folders.setdefault(path, len(self._folders))

    def add_columns(
        self, folder: Column, names: pa.ChunkedArray, sizes: Column, role: Role
    ) -> None:
        """Append files of one role; `folder` are numbers of `folder`."""
        self._flush()
        roles = np.full(len(folder), _CODES[role], np.int8)
        self._parts.append(StoredFiles((), folder.astype(np.int32), names, sizes, roles))

    def add_part(self, files: StoredFiles) -> None:
        """Append the files of another list."""
        self._flush()
        codes = np.fromiter(map(self.folder, files.folders), np.int32, len(files.folders))
        self._parts.append(replace(files, folders=(), folder=codes[files.folder]))

    def finish(self) -> StoredFiles:
        """Return the files so far."""
        self._flush()
        parts = self._parts
        return StoredFiles(
            list(self._folders),
            np.concatenate([np.zeros(0, np.int32), *(p.folder for p in parts)]),
            pa.chunked_array([c for p in parts for c in p.names.chunks], pa.large_binary()),
            np.concatenate([np.zeros(0, np.int64), *(p.sizes for p in parts)]),
            np.concatenate([np.zeros(0, np.int8), *(p.roles for p in parts)]),
        )

    def _flush(self) -> None:
        if not self._rows:
            return
        folder, names, sizes, roles = zip(*self._rows, strict=True)
        self._rows = []
        self._parts.append(
            StoredFiles(
                (),
                np.array(folder, np.int32),
                pa.chunked_array([name_array(names)]),
                np.array(sizes, np.int64),
                np.array(roles, np.int8),
            )
        )


NO_FILES: Final = StoredFiles.of(())
NOTHING_PLANNED: Final = NO_FILES.planned()
