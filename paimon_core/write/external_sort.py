"""Sorts any number of rows by their codes, in bounded memory.

Rows that do not fit into memory are divided by code into parts on local disk, which are sorted one
by one; no merge is needed::

    rows ------> [ < c1 ) [ c1 .. c2 ) [ c2 .. )     cuts: quantiles of the first rows' codes
                   sort      divide       sort       a part that is still too large is divided again

A part whose rows all have the same code is already sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.io.arrow_files import SpillFile, read_spilled
from paimon_core.io.temporary import temporary_folder
from paimon_core.lsm.key_order import key_digits, sort_rows
from paimon_core.types.buffers import RecordBatches, index_array
from paimon_core.types.data_types import RowType
from paimon_core.types.sort_codes import TEXT_BYTES, Codes, hilbert_codes, order_codes, z_codes

CODE: Final = "_SORT_CODE"
"""The column of codes that rows have until they are written."""
MEMORY_BYTES: Final = 128 * 1024**2
"""The limit in Arrow bytes for rows that are sorted at once."""
MOST_PARTS: Final = 64
EXPANSION: Final = 4
"""Estimated Arrow bytes per file byte, including codes; only used for the number of parts."""
SAMPLED_CODES: Final = 10_000
_ROWS_OUT: Final = 65_536

Words = npt.NDArray[Any]
"""Codes as NumPy byte strings: they compare as unsigned bytes."""


class OrderStrategy(StrEnum):
    """The order that clusters rows (Java: `CoreOptions.OrderType`)."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """The columns and the order strategy of a clustering."""

    strategy: OrderStrategy
    columns: tuple[str, ...]
    text_bytes: int = TEXT_BYTES

    def with_codes(self, batch: pa.RecordBatch, row_type: RowType) -> pa.RecordBatch:
        """Return the rows with their codes as the last column."""
        columns = [batch.column(c) for c in self.columns]
        types = row_type.project(self.columns).types
        match self.strategy:
            case OrderStrategy.ZORDER:
                codes = z_codes(columns, types, text_bytes=self.text_bytes)
            case OrderStrategy.HILBERT:
                codes = hilbert_codes(columns, types)
            case _:
                codes = order_codes(columns, types)
        return batch.append_column(CODE, _column(codes))

    def order(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the row numbers of a batch with codes in sorted order."""
        if self.strategy is OrderStrategy.ORDER:
            # Compare the values: a code holds only the beginning of a string.
            rows, _ = sort_rows(key_digits([batch.column(c) for c in self.columns]))
            return rows
        codes = _matrix(batch)
        padded = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 8)))
        digits = np.ascontiguousarray(padded).view(">u8").astype(np.uint64)
        return np.lexsort(digits.T[::-1])


def words_of(batch: pa.RecordBatch) -> Words:
    """Return the codes of a batch in comparable form."""
    codes = np.ascontiguousarray(_matrix(batch))
    return codes.view(f"S{codes.shape[1]}").ravel()


def sampled(words: Words, most: int = SAMPLED_CODES) -> Words:
    """Return at most `most` of the codes, evenly spaced."""
    return words[:: -(-len(words) // most)] if len(words) else words


def cuts_of(sample: Words, parts: int) -> Words:
    """Return ascending codes that cut the sample into about `parts` parts.

    None if all are equal.
    """
    ordered = np.sort(sample)
    places = np.arange(1, parts) * len(ordered) // parts
    cuts: Words = np.unique(ordered[places])
    return cast("Words", cuts[cuts > ordered[0]])


def sorted_rows(
    batches: RecordBatches,
    clustering: Clustering,
    *,
    expected_bytes: int,
    memory_bytes: int = MEMORY_BYTES,
    spill_dir: str | None = None,
) -> RecordBatches:
    """Yield all rows (which have codes) in sorted order, without their codes.

    `expected_bytes` is an estimate of the input; `spill_dir` is a local folder (default: the
    system's temporary one) for everything that does not fit into memory.
    """
    with temporary_folder("sort-", spill_dir) as folder:
        sorter = _Sorter(clustering, memory_bytes)
        yield from sorter.sort(batches, expected_bytes, Path(folder))


@dataclass(frozen=True, slots=True)
class _Sorter:
    clustering: Clustering
    memory_bytes: int

    def sort(self, batches: RecordBatches, expected: int, folder: Path) -> RecordBatches:
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > self.memory_bytes and sum(b.num_rows for b in held) > 1:
                yield from self.divided(held, batches, max(expected, size), folder)
                return
        if held:
            rows = held[0] if len(held) == 1 else pa.concat_batches(held)
            held.clear()
            order = self.clustering.order(rows)
            plain = rows.drop_columns([CODE])
            for begin in range(0, len(order), _ROWS_OUT):
                yield plain.take(index_array(order[begin : begin + _ROWS_OUT]))

    def divided(
        self, held: list[pa.RecordBatch], more: RecordBatches, expected: int, folder: Path
    ) -> RecordBatches:
        """Divide all rows by the codes of the rows that were read first."""
        sample = np.concatenate([sampled(words_of(b)) for b in held])
        parts = min(MOST_PARTS, max(2, -(-3 * expected // (2 * self.memory_bytes))))
        cuts = cuts_of(sample, parts)
        equal = None if len(cuts) else sample[0]
        files = _Files(folder)
        for batch in _drained(held, more):
            words = words_of(batch)
            if equal is None:
                numbers = np.searchsorted(cuts, words, side="right")
            else:
                numbers = (words >= equal).astype(np.int64) + (words > equal)
            files.add(batch, numbers)
        files.close()
        for number in files.numbers:
            rows = files.read(number)
            if equal is not None and number == 1:
                yield from (b.drop_columns([CODE]) for b in rows)
                continue
            inner = folder / f"in-{number}"
            inner.mkdir()
            yield from self.sort(rows, files.bytes[number], inner)


class _Files:
    """Parts on disk, one Arrow stream each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, SpillFile] = {}
        self.bytes: dict[int, int] = {}

    @property
    def numbers(self) -> Sequence[int]:
        return sorted(self.bytes)

    def add(self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]) -> None:
        for number, rows in divided_rows(batch, numbers):
            if number not in self._files:
                self._files[number] = SpillFile(self._path(number))
            self._files[number].write(rows)
            self.bytes[number] = self.bytes.get(number, 0) + rows.nbytes

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def read(self, number: int) -> RecordBatches:
        """Yield the rows of a part; delete its file afterwards."""
        path = self._path(number)
        yield from read_spilled(path)
        path.unlink()

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number}"


def divided_rows(
    batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each part number, in their order."""
    order = np.argsort(numbers, kind="stable")
    arranged = numbers[order]
    starts = np.flatnonzero(np.r_[True, arranged[1:] != arranged[:-1]])
    for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(arranged[begin]), batch.take(index_array(order[begin:end]))


def _drained(held: list[pa.RecordBatch], more: RecordBatches) -> RecordBatches:
    """Yield the held batches, releasing them one by one, then the rest."""

    def first() -> RecordBatches:
        held.reverse()
        while held:
            yield held.pop()

    return chain(first(), more)


def _column(codes: Codes) -> pa.Array:
    width = codes.shape[1]
    buffer = pa.py_buffer(np.ascontiguousarray(codes))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(codes), [None, buffer])


def _matrix(batch: pa.RecordBatch) -> Codes:
    column = batch.column(CODE)
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8)
    begin = column.offset * width
    return data[begin : begin + len(column) * width].reshape(-1, width)
