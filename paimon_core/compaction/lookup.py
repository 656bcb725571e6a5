"""Looks up keys in the levels above a compaction's output (Java: `LookupLevels`, `LookupUtils`).

::

    asked     k2  k5  k9                     keys of one slice; the next slice asks for greater ones
    level 3   [k1..k4]   [k5..k7]            nearest level first: k5 is found here,
    level 5   [k1.........k9]                k2 and k9 here

Java copies each file into a local hash table the first time a key falls into it.  Here the keys
arrive in order, so every level is read once, forward, during the merge: a file is opened when a key
is within its range, batches (and row groups) that end below the next key are skipped, and only one
batch per level is in memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import CorruptTable
from paimon_core.format.row_groups import RowGroupEnds, row_group_ends
from paimon_core.index.deletion_vectors import NOTHING_DELETED, Positions, with_deleted_rows
from paimon_core.lsm.key_column import BoolArray, Rows
from paimon_core.lsm.key_order import Key, KeyView, has_signed_zeros, key_digits, sort_rows
from paimon_core.lsm.tree.sorted_run import KeyedFile, SortedRun
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.data_file import read_table_file
from paimon_core.read.section import MOST_ROWS, SectionReader, batch_rows
from paimon_core.schema.key_value import kv_schema
from paimon_core.types.buffers import index_array
from paimon_core.types.data_types import RowType

Keep = Callable[[pa.RecordBatch], BoolArray]
"""Returns a mask of the rows of a key-value batch that exist."""

_NO_ROWS: Final = np.zeros(0, np.int64)
_WORTH_SKIPPING: Final = 32_768
"""Rows: skipping fewer than this costs more than reading them."""


@dataclass(frozen=True, slots=True)
class Found:
    """The requested keys that exist, in order, each with its newest record.

    `keys` are row numbers of the requesting batch.  `files` are indexes into `KeyLookup.files`,
    `positions` row numbers in those files, counting deleted rows.
    """

    keys: Rows
    records: pa.RecordBatch
    files: npt.NDArray[np.int64]
    positions: Positions


class KeyLookup:
    """The records of keys in some levels of a bucket.

    `levels` are sorted runs, the nearest level first.  Records have the columns of
    `reader.read_type`, which holds the key; rows that `reader.vectors` deletes or `keep` rejects do
    not exist.  The reader's key range is ignored.
    """

    __slots__ = ("_levels", "_reader", "files")

    def __init__(
        self, reader: SectionReader, levels: Sequence[SortedRun], *, keep: Keep | None = None
    ) -> None:
        self._reader = reader
        self.files: tuple[DataFileMeta, ...] = tuple(f for run in levels for f in run.files)
        self._levels: list[_Level] = []
        first = 0
        for run in levels:
            self._levels.append(_Level(reader, run, first, keep))
            first += len(run.files)

    def find(self, keys: pa.RecordBatch) -> Found:
        """Find these keys: the table's key columns, ascending, without duplicates.

        All keys must be greater than those of earlier calls.  Raises CorruptTable if a file cannot
        be read.
        """
        hits: list[_Hit] = []
        left = np.arange(keys.num_rows)
        for level in self._levels:
            if len(left) == 0:
                break
            asked = keys if len(left) == keys.num_rows else keys.take(index_array(left))
            found = level.find(asked)
            if found:
                hits += [replace(h, asked=left[h.asked]) for h in found]
                there = np.zeros(len(left), np.bool_)
                for hit in found:
                    there[hit.asked] = True
                left = left[~there]
        return self._together(hits)

    def _together(self, hits: Sequence[_Hit]) -> Found:
        if not hits:
            return Found(_NO_ROWS, _no_records(self._reader.read_type), _NO_ROWS, _NO_ROWS)
        asked = np.concatenate([h.asked for h in hits])
        files = np.repeat([h.file for h in hits], [len(h.asked) for h in hits])
        positions = np.concatenate([h.positions for h in hits])
        records = hits[0].records
        if len(hits) > 1:
            records = pa.concat_batches([h.records for h in hits])
        order = np.argsort(asked, kind="stable")
        if np.any(order[1:] < order[:-1]):
            records = records.take(index_array(order))
        return Found(asked[order], records, files[order], positions[order])


@dataclass(frozen=True, slots=True)
class _Hit:
    """Keys found in one batch of one file."""

    asked: Rows
    records: pa.RecordBatch
    file: int
    positions: Positions


class _Level:
    """One sorted run, read forward up to the requested keys."""

    __slots__ = (
        "_batches",
        "_ends",
        "_files",
        "_first_file",
        "_highs",
        "_keep",
        "_key",
        "_last",
        "_next_row",
        "_open",
        "_positions",
        "_reader",
        "_rows",
        "_vectors",
        "_view",
    )

    def __init__(
        self, reader: SectionReader, run: SortedRun, first_file: int, keep: Keep | None
    ) -> None:
        self._reader = reader
        self._vectors = reader.vectors
        self._keep = keep
        self._key = reader.table.schema.key_type
        self._files = [KeyedFile.of(f, self._key) for f in run.files]
        self._highs = [f.high for f in self._files]
        self._first_file = first_file
        # More rows at once would be decoded although nobody asks for them.
        self._rows = min(MOST_ROWS, batch_rows((run,), reader.read_type, side_by_side=1))
        self._open = -1
        self._ends = RowGroupEnds()
        self._next_row = 0
        self._batches: Iterator[tuple[pa.RecordBatch, Positions]] = iter(())
        self._view: KeyView | None = None
        self._positions = _NO_ROWS
        self._last: Key = ()

    def find(self, asked: pa.RecordBatch) -> list[_Hit]:
        """Return the hits among the requested keys, which are greater than earlier ones."""
        wanted = KeyView(asked, self._key)
        hits: list[_Hit] = []
        row = 0
        while row < asked.num_rows:
            key = wanted.at(row)
            number = bisect_left(self._highs, key, lo=max(self._open, 0))
            if number == len(self._files):
                break
            row = wanted.lower_bound(self._files[number].low, row)
            if row == asked.num_rows:
                break
            key = wanted.at(row)
            if key > self._files[number].high:
                continue
            if not self._read_to(number, key):
                row = _above(wanted, self._files[number].high, row)
                continue
            end = _above(wanted, self._last, row)
            hits += self._matched(asked.slice(row, end - row), row)
            row = end
        return hits

    def _read_to(self, number: int, key: Key) -> bool:
        """Move to the batch of this file that may hold the key; return False at the file's end."""
        if self._open != number:
            self._open = number
            self._ends = self._row_groups(self._files[number].file)
            self._begin_at(self._first_row_for(key))
        elif self._view is None or self._last < key:
            first = self._first_row_for(key)
            if first - self._next_row > _WORTH_SKIPPING:
                self._begin_at(first)
        while self._view is None or self._last < key:
            batch, positions = next(self._batches, (None, _NO_ROWS))
            if batch is None:
                self._view = None
                return False
            if batch.num_rows:
                self._view = KeyView(batch, self._key)
                self._positions = positions
                self._last = self._view.at(batch.num_rows - 1)
        return True

    def _begin_at(self, first: int) -> None:
        """Continue reading the open file at this row, the first of a row group."""
        self._batches = self._numbered(self._files[self._open].file, first)
        self._next_row = first
        self._view = None

    def _first_row_for(self, key: Key) -> int:
        value = key[0]
        return 0 if isinstance(value, tuple) else self._ends.first_row_for(value)

    def _row_groups(self, file: DataFileMeta) -> RowGroupEnds:
        column = self._key.fields[0]
        if file.row_count <= _WORTH_SKIPPING:
            return RowGroupEnds()
        table = self._reader.table
        stored = {f.id: f for f in table.schema_of(file.schema_id).fields}[column.id]
        if stored.type != column.type:
            return RowGroupEnds()
        path = table.paths.data_file(self._reader.partition, self._reader.bucket, file)
        try:
            return row_group_ends(table.io, path, stored, size=file.file_size)
        except (OSError, CorruptTable):
            return RowGroupEnds()  # reading the file will report the error

    def _numbered(
        self, file: DataFileMeta, first: int
    ) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """Yield the existing rows of a file from this one on, with their positions."""
        batches = read_table_file(
            self._reader.table,
            self._reader.partition,
            self._reader.bucket,
            file,
            self._reader.read_type,
            key_value=True,
            batch_rows=self._rows,
            rows=range(first, file.row_count),
        )
        deleted = self._vectors.get(file.file_name, NOTHING_DELETED)
        for batch, gone in with_deleted_rows(batches, deleted, first):
            there = np.ones(batch.num_rows, np.bool_)
            there[gone] = False
            if self._keep is not None:
                there &= self._keep(batch)
            chosen = np.flatnonzero(there)
            whole = len(chosen) == batch.num_rows
            positions = chosen + first
            first += batch.num_rows
            self._next_row = first
            yield batch if whole else batch.take(index_array(chosen)), positions

    def _matched(self, asked: pa.RecordBatch, first_row: int) -> list[_Hit]:
        """Return the rows of the current batch that have one of the keys."""
        assert self._view is not None
        batch = self._view.batch
        begin = self._view.lower_bound(KeyView(asked.slice(0, 1), self._key).at(0))
        names = self._key.names
        count = asked.num_rows
        both = [
            pa.concat_arrays([asked.column(name), batch.column(name).slice(begin)])
            for name in names
        ]
        digits = key_digits(both, signed_zeros=has_signed_zeros(self._key))
        order, borders = sort_rows(digits)
        # The sort is stable and no side has duplicate keys: a requested key, then its record.
        second = np.flatnonzero(~borders)
        if len(second) == 0:
            return []
        rows = order[second] - count + begin
        return [
            _Hit(
                order[second - 1] + first_row,
                batch.take(index_array(rows)),
                self._first_file + self._open,
                self._positions[rows],
            )
        ]


def _above(view: KeyView, key: Key, begin: int) -> int:
    """Return the first row from `begin` on whose key is greater than `key`."""
    row = view.lower_bound(key, begin)
    return row + 1 if row < view.batch.num_rows and view.at(row) == key else row


def _no_records(read_type: RowType) -> pa.RecordBatch:
    schema = kv_schema(read_type)
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
