"""Rules out rows by global indexes (Java: `globalindex/DataEvolutionGlobalIndexScanner`).

By default, Java's queries leave out rows that an index does not cover (`scalar-index.search-mode`).
Ours read them, so they need no index to be right.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from paimon_core.errors import UNREADABLE, CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.global_index import BTREE
from paimon_core.index.global_index.btree import BtreeReader, IndexMeta
from paimon_core.index.global_index.keys import KeyType
from paimon_core.index.global_index.records import Ints
from paimon_core.io.file_io import map_parallel
from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.manifest.entries.columns import EntryColumns
from paimon_core.options import (
    DATA_EVOLUTION_ENABLED,
    GLOBAL_INDEX_COLUMN_UPDATE_ACTION,
    GLOBAL_INDEX_ENABLED,
)
from paimon_core.predicate import And, Leaf, Op, Or, Predicate, fields_of
from paimon_core.scan.row_ranges import rows_of_columns
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.data_types import DataField

_ONE_SIDED: Final = (Op.LT, Op.LE, Op.GT, Op.GE)
_WILDCARD: Final = re.compile(r"[%_\\]")
DROPPED_BY_UPDATES: Final = "drop_partition_index"
"""The value of `global-index.column-update-action` by which updates drop indexes."""
IGNORED_UPDATES: Final = "ignore"
"""The value of it that leaves an index out of date."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """Ids of rows from `first` to `last`, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


def indexed_id(file: IndexFileMeta) -> object:
    """Return the id of the first column that a global index is of; None for another index file."""
    return None if file.global_index is None else file.global_index.get("_INDEX_FIELD_ID")


def is_index_of(file: IndexFileMeta, field_id: int) -> bool:
    """Return whether the file is a global index of this column, perhaps among others."""
    return indexed_id(file) == field_id


def index_range(file: IndexFileMeta) -> RowRange:
    """Return the ids of the rows that a global index covers; CorruptTable for no range."""
    meta = file.global_index or {}
    first, last = meta.get("_ROW_RANGE_START"), meta.get("_ROW_RANGE_END")
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last:
        raise CorruptTable(
            f"index file {file.file_name} covers rows {first} to {last}", file=file.file_name
        )
    return RowRange(first, last)


def merged(ranges: Iterable[RowRange]) -> list[RowRange]:
    """Return ranges of the same rows in order, none of which touches another."""
    found: list[RowRange] = []
    for one in sorted(ranges, key=lambda r: (r.first, r.last)):
        if found and one.first <= found[-1].last + 1:
            found[-1] = RowRange(found[-1].first, max(found[-1].last, one.last))
        else:
            found.append(one)
    return found


def without(rows: RowRange, covered: Sequence[RowRange]) -> Iterator[RowRange]:
    """Yield the parts of the range that none of the others covers; those are `merged`."""
    first = rows.first
    for other in covered[bisect_left(covered, first, key=lambda r: r.last) :]:
        if other.first > rows.last:
            break
        if other.first > first:
            yield RowRange(first, other.first - 1)
        first = other.last + 1
    if first <= rows.last:
        yield RowRange(first, rows.last)


def covered_shares(
    table: FileStoreTable, snapshot: Snapshot, live: EntryColumns
) -> dict[str, float]:
    """Return the share of the rows that the global index of each column covers.

    `live` are the files of the snapshot, as for `rows_of_columns`; columns without an index are
    left out.
    """
    ranges: dict[object, list[RowRange]] = defaultdict(list)
    if table.options.value(DATA_EVOLUTION_ENABLED):
        for entry in table.index_entries(snapshot):
            if entry.index_file.global_index is not None:
                ranges[indexed_id(entry.index_file)].append(index_range(entry.index_file))
    if not ranges:
        return {}
    rows = [RowRange(r.start, r.stop - 1) for r in rows_of_columns(live)]
    every = sum(map(len, rows))
    found: dict[str, float] = {}
    for field in table.schema.fields:
        if field.id in ranges:
            covered = merged(ranges[field.id])
            missing = sum(len(left) for one in rows for left in without(one, covered))
            found[field.name] = 1 - missing / every if every else 1.0
    return found


@dataclass(frozen=True, slots=True)
class _ColumnIndex:
    """The index of one column: its keys, and its files with their partitions."""

    keys: KeyType
    files: Sequence[tuple[bytes, IndexFileMeta]]


def matching_rows(
    table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None
) -> MatchingRows | None:
    """Return the rows that may match; None if no global index tells anything."""
    if (
        predicate is None
        or snapshot.index_manifest is None
        or not table.options.value(DATA_EVOLUTION_ENABLED)
        or not _is_used(table)
    ):
        return None
    found = MatchingRows(table, snapshot, predicate)
    return found if found.known else None


class MatchingRows:
    """Rows of a snapshot that may match a predicate, as far as its global indexes tell."""

    def __init__(self, table: FileStoreTable, snapshot: Snapshot, predicate: Predicate) -> None:
        """Read the entries of the indexes; index files are read when they are needed."""
        self._table = table
        self._predicate = predicate
        self._answers: dict[Leaf, _Answer | None] = {}
        self._indexes: dict[str, _ColumnIndex] = {}
        entries = [e for e in table.index_entries(snapshot) if e.index_file.index_type == BTREE]
        for field in table.schema.fields:
            if field.name not in fields_of(predicate):
                continue
            files = [
                (e.partition, e.index_file) for e in entries if is_index_of(e.index_file, field.id)
            ]
            if files and not has_other_types(table, field):
                self._indexes[field.name] = _ColumnIndex(KeyType(field.type, field.name), files)

    @property
    def known(self) -> bool:
        """Whether the columns of the predicate have an index."""
        return bool(self._indexes)

    def none_in(self, rows: RowRange) -> bool:
        """Return whether certainly none of these rows match."""
        return self._none_in(self._predicate, rows)

    def _none_in(self, predicate: Predicate, rows: RowRange) -> bool:
        match predicate:
            case And(children):
                return any(self._none_in(c, rows) for c in children)
            case Or(children):
                return all(self._none_in(c, rows) for c in children)
            case Leaf():
                if predicate not in self._answers:
                    self._answers[predicate] = self._answer(predicate)
                answer = self._answers[predicate]
                return answer is not None and answer.none_in(rows)

    def _answer(self, leaf: Leaf) -> _Answer | None:
        """Return what the indexes say about a condition; None if they say nothing."""
        index = self._indexes.get(leaf.field)
        if index is None:
            return None
        wanted = _key_ranges(leaf, index.keys)
        if wanted is None and leaf.op is not Op.IS_NULL:
            return None

        def look_up(file: tuple[bytes, IndexFileMeta]) -> Ints | None:
            return self._rows_in(*file, index.keys, wanted)

        found = map_parallel(self._table.io, look_up, index.files)
        ranges = [index_range(file) for _, file in index.files]
        # Several files may share a range; if one of them says nothing, its rows may be anywhere.
        unknown = {r for r, ids in zip(ranges, found, strict=True) if ids is None}
        ids = [r.first + ids for r, ids in zip(ranges, found, strict=True) if ids is not None]
        return _Answer(
            merged(r for r in ranges if r not in unknown),
            np.sort(np.concatenate(ids)) if ids else np.empty(0, np.int64),
        )

    def _rows_in(
        self,
        partition: bytes,
        file: IndexFileMeta,
        keys: KeyType,
        wanted: Sequence[tuple[Any, Any]] | None,
    ) -> Ints | None:
        """Return the rows with these keys, without a value if `wanted` is None.

        None if the file is missing, or the rows are too many to look up.
        """
        nothing = np.empty(0, np.int64)
        try:
            meta = IndexMeta.decode(_bytes(file))
            if wanted is not None:
                if meta.first_key is None or meta.last_key is None:
                    return nothing
                first, last = keys.decode(meta.first_key), keys.decode(meta.last_key)
                wanted = [
                    (low, high)
                    for low, high in wanted
                    if (low is None or low <= last) and (high is None or high >= first)
                ]
        except (struct.error, *UNREADABLE) as e:
            raise CorruptTable(
                f"the metadata of index file {file.file_name} cannot be decoded: {e}",
                table=self._table.name,
                file=file.file_name,
            ) from e
        if not wanted and not (wanted is None and meta.has_nulls):
            return nothing
        path = self._table.paths.index_file(partition, 0, file)
        try:
            with BtreeReader(self._table.io, path, keys) as reader:
                if wanted is None:
                    return reader.null_rows()
                found = [reader.rows_between(low, high) for low, high in wanted]
        except (FileNotFoundError, UnsupportedFeature):
            return None  # without an index, all rows are read; `verify` reports a missing one
        known = [ids for ids in found if ids is not None]
        return np.concatenate(known) if len(known) == len(found) else None


def _is_used(table: FileStoreTable) -> bool:
    """Return whether the indexes may be used, and cannot be out of date.

    Java may update an indexed column and leave its index as it is.
    """
    options = table.options
    action = options.value(GLOBAL_INDEX_COLUMN_UPDATE_ACTION)
    return options.value(GLOBAL_INDEX_ENABLED) and action != IGNORED_UPDATES


def has_other_types(table: FileStoreTable, field: DataField) -> bool:
    """Return whether the column has had another type, in whose form an index may be."""
    older = (table.schema_of(i) for i in table.schemas.ids() if i != table.schema.id)
    return any(
        f.id == field.id and f.type.with_nullable(True) != field.type.with_nullable(True)
        for schema in older
        for f in schema.fields
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    """The rows of `covered` that match a condition."""

    covered: Sequence[RowRange]
    ids: Ints

    def none_in(self, rows: RowRange) -> bool:
        if any(True for _ in without(rows, self.covered)):
            return False
        begin, end = np.searchsorted(self.ids, (rows.first, rows.last + 1))
        return bool(begin == end)


def _bytes(file: IndexFileMeta) -> bytes:
    meta = (file.global_index or {}).get("_INDEX_META")
    if not isinstance(meta, bytes):
        raise TypeError("there is none")
    return meta


def _key_ranges(leaf: Leaf, keys: KeyType) -> list[tuple[Any, Any]] | None:
    """Return ranges of keys outside of which no value matches; None if there are none.

    None as a bound: no limit.
    """
    literals = leaf.literals
    if leaf.op in (Op.EQ, Op.IN):
        bounds = (keys.bounds(v) for v in literals if v is not None)
        return [b for b in bounds if b is not None]
    if leaf.op not in (*_ONE_SIDED, Op.BETWEEN, Op.STARTS_WITH, Op.LIKE):
        return None
    if any(v is None for v in literals):
        return []
    if leaf.op in (Op.STARTS_WITH, Op.LIKE):
        if not keys.is_text:
            return None
        text = str(literals[0])
        prefix = (_WILDCARD.split(text)[0] if leaf.op is Op.LIKE else text).encode()
        return [(prefix, prefix[:-1] + bytes([prefix[-1] + 1]))] if prefix else None
    known = [keys.bounds(v) for v in literals]
    if any(b is None for b in known):
        return None  # the column has no such value, so its neighbours are not known
    low = None if leaf.op in (Op.LT, Op.LE) else known[0]
    high = None if leaf.op in (Op.GT, Op.GE) else known[-1]
    return [(None if low is None else low[0], None if high is None else high[1])]
