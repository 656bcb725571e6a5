"""Merges entries in columns into live entries, as `merge_entries` merges objects.

Nearly all files occur once.  So entries are first grouped by a hash of their identity: an entry
alone in its group stays.  In a group of an ADD and the DELETE after it, the identities are compared
column by column.  The few entries of all other groups are merged as objects would be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import FileIdentity, FileKind
from paimon_core.manifest.entries.columns import (
    NOTHING_RARE,
    Column,
    ColumnsBuilder,
    EntryColumns,
    Partitions,
    as_flags,
)
from paimon_core.types.buffers import take_values

_Hashes = npt.NDArray[np.uint64]
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)
_WORD: Final = 8
_PAIR: Final = 2
_HASHED_TOGETHER: Final = 65_536


def live_columns(
    parts: Iterable[EntryColumns], partitions: Partitions, *, expected: int = 0
) -> EntryColumns:
    """Return the live files of entries that come in parts; errors as in `live_entries`.

    `expected` is about how many entries there are.
    """
    builder = ColumnsBuilder(partitions)
    hashes = np.empty(expected, np.uint64)
    for part in parts:
        end = builder.size + len(part)
        if end > len(hashes):
            hashes = np.resize(hashes, max(end, 2 * len(hashes)))
        hashes[builder.size : end] = identity_hashes(part)
        builder.add(part, expected=expected)
    columns = builder.columns()
    left = merged_positions(columns, hashes[: builder.size])
    del hashes
    deleted = left[columns.kind[left] == FileKind.DELETE]
    if len(deleted):
        name = columns.name(int(deleted[0]))
        raise CorruptTable(f"file {name} is deleted but was never added", file=name)
    del columns
    builder.keep(left)
    return builder.columns()


def merged_positions(columns: EntryColumns, hashes: _Hashes) -> Column:
    """Return the positions of the entries that remain after each DELETE removes its ADD, ascending.

    `hashes` are those of `identity_hashes`.  A DELETE without its ADD remains.  Raises CorruptTable
    if a file is added twice.
    """
    candidates = _repeated(hashes)
    if not len(candidates):
        return np.arange(len(columns))
    order = candidates[np.argsort(hashes[candidates], kind="stable")]
    found = hashes[order]
    starts = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
    sizes = np.diff(np.append(starts, len(order)))
    gone = np.zeros(len(columns), bool)
    pairs = starts[sizes == _PAIR]
    first, second = order[pairs], order[pairs + 1]
    matching = _is_deletion_of(columns, first, second)
    gone[first[matching]] = True
    gone[second[matching]] = True
    others = sizes != _PAIR
    others[sizes == _PAIR] = ~matching
    for start, size in zip(starts[others].tolist(), sizes[others].tolist(), strict=True):
        group = order[start : start + size]
        gone[group] = True
        gone[_merged_group(columns, group.tolist())] = False
    return np.flatnonzero(~gone)


def changed_partitions(before: EntryColumns, after: EntryColumns) -> set[int]:
    """Return the numbers of the partitions whose files differ, by identity; each file occurs once.

    Both have the same `partitions`.
    """
    count = len(before.partitions.rows)
    differs = np.bincount(before.partition, minlength=count) != np.bincount(
        after.partition, minlength=count
    )
    first, second = _in_order(before, differs), _in_order(after, differs)
    # Files of the same identity have the same place, unless two hashes are equal: then a partition
    # may count as changed although it is not.
    same = before.partition[first] == after.partition[second]
    for mine, theirs in ((before.bucket, after.bucket), (before.level, after.level)):
        same &= mine[first] == theirs[second]
    if len(first):
        names = take_values(before.names, first), take_values(after.names, second)
        same &= _equal(*names)
    if before.rare or after.rare:
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        same &= np.array(
            [before.rare.get(i, NOTHING_RARE) == after.rare.get(j, NOTHING_RARE) for i, j in pairs],
            bool,
        )
    differs[before.partition[first[~same]]] = True
    return set(np.flatnonzero(differs).tolist())


def _in_order(columns: EntryColumns, left_out: Column) -> Column:
    """Return the positions of the entries of all other partitions, by partition and hash."""
    order = np.lexsort((identity_hashes(columns), columns.partition))
    found: Column = order[~left_out[columns.partition[order]]]
    return found


def _repeated(hashes: _Hashes) -> Column:
    """Return the positions of the hashes that occur more than once."""
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return np.zeros(0, np.int64)
    at = np.searchsorted(repeated, hashes)
    at[at == len(repeated)] = 0
    return np.flatnonzero(repeated[at] == hashes)


def _merged_group(columns: EntryColumns, positions: list[int]) -> list[int]:
    """Return which of these entries remain, by the rules of `merge_entries`."""
    left: dict[FileIdentity, int] = {}
    for position in positions:
        identity = columns.identity(position)
        if identity not in left:
            left[identity] = position
        elif columns.kind[position] == FileKind.ADD:
            name = identity.file_name
            raise CorruptTable(f"file {name} is added twice", file=name)
        else:
            del left[identity]
    return list(left.values())


def _is_deletion_of(columns: EntryColumns, first: Column, second: Column) -> npt.NDArray[Any]:
    """Return for each pair whether the first is an ADD and the second a DELETE of the same file."""
    result: Column = (columns.kind[first] == FileKind.ADD) & (
        columns.kind[second] == FileKind.DELETE
    )
    for column in (columns.partition, columns.bucket, columns.level):
        result &= column[first] == column[second]
    if len(first):
        result &= _equal(take_values(columns.names, first), take_values(columns.names, second))
    if columns.rare:
        rare = np.fromiter(columns.rare, np.int64, len(columns.rare))
        result &= ~(np.isin(first, rare) | np.isin(second, rare))
    return result


def _equal(first: Any, second: Any) -> npt.NDArray[Any]:
    """Return for each pair of two Arrow arrays whether its values are equal."""
    import pyarrow.compute as pc  # noqa: PLC0415 - fast start

    flags: Column = as_flags(pc.equal(first, second))
    return flags


def identity_hashes(columns: EntryColumns) -> _Hashes:
    """Return a hash of each entry's partition, bucket, level and name."""
    return _mixed(columns, columns.bucket, columns.level)


def place_hashes(columns: EntryColumns) -> _Hashes:
    """Return a hash of each entry's partition, bucket and name."""
    return _mixed(columns, columns.bucket)


def _mixed(columns: EntryColumns, *numbers: Column) -> _Hashes:
    hashes = columns.partition.astype(np.uint64)
    for column in numbers:
        hashes = hashes * _FACTOR + column.astype(np.int64).view(np.uint64)
    return name_hashes(columns.names, hashes * _FACTOR)


def name_hashes(names: pa.Array | pa.ChunkedArray, seed: _Hashes | None = None) -> _Hashes:
    """Return a hash of each name, and of its seed."""
    if isinstance(names, pa.ChunkedArray):
        found, start = np.empty(len(names), np.uint64), 0
        for chunk in names.chunks:
            end = start + len(chunk)
            found[start:end] = name_hashes(chunk, None if seed is None else seed[start:end])
            start = end
        return found
    count = len(names)
    if count > _HASHED_TOGETHER:  # the work takes some times the memory of the names
        starts = range(0, count, _HASHED_TOGETHER)
        parts = [names.slice(start, _HASHED_TOGETHER) for start in starts]
        return name_hashes(pa.chunked_array(parts), seed)
    _, offsets_buffer, content = names.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, count + 1, names.offset * _WORD)
    hashes = np.zeros(count, np.uint64) if seed is None else seed.copy()
    if content is None or not count:
        return hashes
    first, end = int(offsets[0]), int(offsets[-1])
    offsets = offsets - first
    padded = np.zeros(end - first + _WORD, np.uint8)
    padded[: end - first] = np.frombuffer(content, np.uint8, end - first, first)
    words: npt.NDArray[np.uint64] = np.ndarray(len(padded) - _WORD + 1, "<u8", padded.data, 0, (1,))
    sizes = np.diff(offsets)
    hashes += sizes.view(np.uint64)
    for start in range(0, int(sizes.max()), _WORD):
        left = sizes - start
        chosen: Any = slice(None) if left.min() > 0 else np.flatnonzero(left > 0)
        word = words[offsets[:-1][chosen] + start]
        # The last word of a name also holds bytes of the next one.
        bits = np.maximum(_WORD - left[chosen], 0).astype(np.uint64) * np.uint64(8)
        word = (word << bits) >> bits
        mixed = (hashes[chosen] ^ word) * _FACTOR
        hashes[chosen] = mixed ^ (mixed >> _SHIFT)
    return hashes
