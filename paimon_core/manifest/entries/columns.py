"""Manifest entries as columns, for tables whose entries are too many to be objects.

An entry takes some hundred bytes here and a kilobyte as `ManifestEntry`, and a fifteenth of the
time.  A caller names the columns that it needs; the others are not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import FileIdentity, FileKind, ManifestEntry
from paimon_core.manifest.unknown_fields import UnknownFields
from paimon_core.types.buffers import binary_array, bool_values, index_array, take_values

Column = npt.NDArray[Any]
NULL: Final = -(2**63)
"""Stands for null in a column of optional numbers; Java never writes it there."""
NUMBERS: Final = frozenset(
    {
        "file_size",
        "row_count",
        "min_sequence_number",
        "max_sequence_number",
        "schema_id",
        "creation_time",
        "delete_row_count",
        "file_source",
        "first_row_id",
    }
)
"""The attributes of `DataFileMeta` that callers may ask for as columns of 64-bit numbers."""
KEYS: Final = frozenset({"min_key", "max_key"})
"""The attributes that callers may ask for as columns of stored row bytes."""


_NAMES: Final = "names"
_MOST_CHUNKS: Final = 64
_PLAIN: Final = ("manifest", "partition", "kind", "bucket", "total_buckets", "level")


class Rare(NamedTuple):
    """What few files have."""

    extra_files: tuple[str, ...]
    embedded_index: bytes | None
    external_path: str | None


class Located(NamedTuple):
    """What the paths of a data file and its extra files depend on."""

    partition: bytes
    bucket: int
    file_name: str
    external_path: str | None
    extra_files: tuple[str, ...]


NOTHING_RARE: Final = Rare((), None, None)


class Partitions:
    """Numbers partitions (stored row bytes) in the order in which they are first seen."""

    __slots__ = ("_codes", "rows")

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self._codes: dict[bytes, int] = {}

    def code(self, row: bytes) -> int:
        """Return the number of a partition, a new one for a new partition."""
        code = self._codes.get(row)
        if code is None:
            code = self._codes[row] = len(self.rows)
            self.rows.append(row)
        return code

    def find(self, row: bytes) -> int | None:
        """Return the number of a partition; None if it was never seen."""
        return self._codes.get(row)


@dataclass(frozen=True, slots=True, eq=False)
class EntryColumns:
    """Entries in order: one value for each in every array.

    `manifest` is the number of the manifest among those that were read, `partition` a number in
    `partitions`.  `names` are file names in UTF-8.  `numbers` holds the wanted columns of
    `NUMBERS`, with `NULL` for null, `keys` those of `KEYS`.  `rare` and `unknown` (fields of newer
    versions, of the file and of the entry) hold only entries that have any, by position.
    """

    partitions: Partitions
    manifest: Column
    partition: Column
    kind: Column
    bucket: Column
    total_buckets: Column
    level: Column
    names: pa.Array | pa.ChunkedArray
    numbers: Mapping[str, Column]
    keys: Mapping[str, pa.Array | pa.ChunkedArray] = field(default_factory=dict)
    rare: Mapping[int, Rare] = field(default_factory=dict)
    unknown: Mapping[int, tuple[UnknownFields, UnknownFields]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def added(self) -> Column:
        """Whether each entry adds its file."""
        added: Column = self.kind == FileKind.ADD
        return added

    def name(self, position: int) -> str:
        """Return the file name of one entry."""
        return str(self.names[position].as_py().decode())

    def identity(self, position: int) -> FileIdentity:
        """Return the identity of one entry's file."""
        return FileIdentity(
            self.partitions.rows[self.partition[position]],
            int(self.bucket[position]),
            int(self.level[position]),
            self.name(position),
            *self.rare.get(position, NOTHING_RARE),
        )

    def located(self, position: int) -> Located:
        """Return what the paths of one entry's files depend on."""
        rare = self.rare.get(position, NOTHING_RARE)
        return Located(
            self.partitions.rows[self.partition[position]],
            int(self.bucket[position]),
            self.name(position),
            rare.external_path,
            rare.extra_files,
        )

    def take(self, positions: Column) -> EntryColumns:
        """Return the entries at these positions (ascending)."""
        places = np.asarray(positions, np.int64)
        return replace(
            self,
            manifest=self.manifest[places],
            partition=self.partition[places],
            kind=self.kind[places],
            bucket=self.bucket[places],
            total_buckets=self.total_buckets[places],
            level=self.level[places],
            names=take_values(self.names, places),
            numbers={name: column[places] for name, column in self.numbers.items()},
            keys={name: take_values(column, places) for name, column in self.keys.items()},
            rare=_moved(self.rare, places),
            unknown=_moved(self.unknown, places),
        )

    def group(self) -> tuple[Column, Column, Column]:
        """Return the buckets: partition numbers, bucket numbers, and each entry's bucket.

        Buckets are in the order of partition number and bucket.
        """
        lowest = int(self.bucket.min(initial=0))
        width = int(self.bucket.max(initial=0)) - lowest + 1
        key = self.partition.astype(np.int64) * width + (self.bucket.astype(np.int64) - lowest)
        unique, inverse = np.unique(key, return_inverse=True)
        return unique // width, unique % width + lowest, inverse


def _moved(values: Mapping[int, Any], places: Column) -> dict[int, Any]:
    if not values:
        return {}
    old = np.fromiter(values, np.int64, len(values))
    at = np.searchsorted(places, old)
    at[at == len(places)] = 0
    found = places[at] == old if len(places) else np.zeros(len(old), bool)
    return {
        int(new): values[key]
        for key, new, hit in zip(old.tolist(), at.tolist(), found.tolist(), strict=True)
        if hit
    }


def as_flags(found: Any) -> Column:
    """Return an Arrow array of booleans, in chunks or not, for numpy."""
    chunks = found.chunks if _is_chunked(found) else [found]
    return np.concatenate([np.zeros(0, bool), *(bool_values(c) for c in chunks)])


def name_array(names: Iterable[str]) -> pa.Array:
    """Return file names as an Arrow array; `pa.array` would import pandas."""
    return _binary_column([name.encode() for name in names])


def _binary_column(values: Sequence[bytes]) -> pa.Array:
    return binary_array(_int_column(map(len, values), np.int64), b"".join(values))


class ColumnsBuilder:
    """Puts parts together.  Holds each column once, so that a million entries stay small."""

    __slots__ = ("_chunks", "_columns", "_joined", "_partitions", "_rare", "_unknown", "size")

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._columns: dict[str, Column] = {}
        self._chunks: dict[str, list[pa.Array]] = {_NAMES: []}
        self._joined: dict[str, int] = {}
        self._rare: dict[int, Rare] = {}
        self._unknown: dict[int, tuple[UnknownFields, UnknownFields]] = {}
        self.size = 0

    def add(self, part: EntryColumns, *, expected: int = 0) -> None:
        """Append a part; `expected` is about how many entries there are in all."""
        end = self.size + len(part)
        plain = {name: getattr(part, name) for name in _PLAIN}
        for name, values in {**plain, **part.numbers}.items():
            column = self._columns.get(name)
            if column is None or len(column) < end:
                larger = np.empty(max(end, expected, 2 * self.size), values.dtype)
                if column is not None:
                    larger[: self.size] = column[: self.size]
                column = self._columns[name] = larger
            column[self.size : end] = values
        for name, strings in {_NAMES: part.names, **part.keys}.items():
            chunks = strings.chunks if _is_chunked(strings) else [strings]
            self._chunks.setdefault(name, []).extend(chunks)
            self._join(name)
        self._rare.update((self.size + i, value) for i, value in part.rare.items())
        self._unknown.update((self.size + i, value) for i, value in part.unknown.items())
        self.size = end

    def _join(self, name: str) -> None:
        """Make one chunk of the last ones: very many small buffers leave holes in the heap."""
        chunks, start = self._chunks[name], self._joined.get(name, 0)
        if len(chunks) - start >= _MOST_CHUNKS:
            chunks[start:] = [pa.concat_arrays(chunks[start:])]
            self._joined[name] = start + 1

    def keep(self, positions: Column) -> None:
        """Keep only the entries at these positions (ascending)."""
        if len(positions) == self.size:
            return
        chosen = np.zeros(self.size, bool)
        chosen[positions] = True
        # One column after the other, so that only one of them is in memory twice.
        for name, column in self._columns.items():
            self._columns[name] = column[: self.size][chosen]
        for chunks in self._chunks.values():
            start = 0
            for i, chunk in enumerate(chunks):
                here = chosen[start : start + len(chunk)]
                start += len(chunk)
                if not here.all():
                    chunks[i] = chunk.take(index_array(np.flatnonzero(here)))
        self._rare = _moved(self._rare, positions)
        self._unknown = _moved(self._unknown, positions)
        self.size = len(positions)

    def columns(self) -> EntryColumns:
        """Return the entries so far, without a copy."""
        if not self._columns:
            return columns_of((), self._partitions, ())
        found = {name: column[: self.size] for name, column in self._columns.items()}
        return EntryColumns(
            partitions=self._partitions,
            **{name: found.pop(name) for name in _PLAIN},
            names=_chunked(self._chunks[_NAMES]),
            numbers=found,
            keys={n: _chunked(c) for n, c in self._chunks.items() if n != _NAMES},
            rare=self._rare,
            unknown=self._unknown,
        )


def _chunked(chunks: list[pa.Array]) -> pa.ChunkedArray:
    return pa.chunked_array(chunks, pa.large_binary())


def _is_chunked(names: Any) -> bool:
    return isinstance(names, pa.ChunkedArray)


def columns_of(
    entries: Iterable[ManifestEntry],
    partitions: Partitions,
    numbers: Iterable[str],
    manifest: int = 0,
) -> EntryColumns:
    """Return the entries of a manifest that exist as objects as columns.

    Raises CorruptTable for a number that does not fit its column, thus not Java's type.
    """
    found = list(entries)
    try:
        return _columns_of(found, partitions, numbers, manifest)
    except OverflowError as e:
        names = ", ".join(f.file.file_name for f in found[:3])
        raise CorruptTable(
            f"the manifest of {names} has a number that is too large: {e}",
            file=found[0].file.file_name,
        ) from e


def _columns_of(
    found: Sequence[ManifestEntry], partitions: Partitions, numbers: Iterable[str], manifest: int
) -> EntryColumns:
    files = [e.file for e in found]
    rare = {
        i: Rare(f.extra_files, f.embedded_index, f.external_path)
        for i, f in enumerate(files)
        if f.extra_files or f.embedded_index is not None or f.external_path is not None
    }
    wanted = tuple(numbers)
    return EntryColumns(
        partitions=partitions,
        manifest=np.full(len(found), manifest, np.int32),
        partition=_int_column((partitions.code(e.partition) for e in found), np.int32),
        kind=_int_column((e.kind for e in found), np.int8),
        bucket=_int_column((e.bucket for e in found), np.int32),
        total_buckets=_int_column((e.total_buckets for e in found), np.int32),
        level=_int_column((f.level for f in files), np.int32),
        names=name_array(f.file_name for f in files),
        numbers={
            name: _int_column(
                (NULL if v is None else int(v) for v in (getattr(f, name) for f in files)),
                np.int64,
            )
            for name in wanted
            if name not in KEYS
        },
        keys={
            name: _binary_column([getattr(f, name) for f in files])
            for name in wanted
            if name in KEYS
        },
        rare=rare,
        unknown={
            i: (e.file.unknown, e.unknown)
            for i, e in enumerate(found)
            if e.file.unknown or e.unknown
        },
    )


def no_columns(numbers: Iterable[str] = NUMBERS) -> EntryColumns:
    """Return columns without entries."""
    return columns_of((), Partitions(), numbers)


def distinct(values: Column) -> Column:
    """Return the different values, ascending.

    numpy's `unique` is slow for some numbers: it hashes them by their low bits.
    """
    ordered = np.sort(values)
    if not len(ordered):
        return ordered
    found: Column = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def sums(groups: Column, values: Column, count: int) -> Column:
    """Return the sums of the values of each group, exactly; `groups` are numbers below `count`."""
    found = np.zeros(count, np.int64)
    np.add.at(found, groups, values)
    return found


def _int_column(values: Iterator[int] | Iterable[int], dtype: Any) -> Column:
    return np.fromiter(values, dtype)
