"""Splits the compaction of a huge bucket into several units by key range (java-rules E7).

::

    unit          [----------------------------------------]   one task, hours
    slices        [ < k1  ) [ k1 .. k2 ) [ k2 .. k3 ) [ k3.. ]  four tasks, files of their own

Every version of a key is in one slice, outputs do not overlap, and only the first slice names the
inputs as deleted: results are committed all together or not at all.

The cuts come from a sample of the keys (the key ranges of files are useless if every file spans the
bucket); reading only key columns costs a small part of the rewrite.  The sample also shows between
which rows of a file the keys of a slice are, so that a slice decodes only their pages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Final

import numpy as np

from paimon_core.compaction.page_copy import LEAST_BYTES
from paimon_core.compaction.postpone import replay_slices
from paimon_core.compaction.unit import CompactUnit, KeyRange, RowWindow
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.key_order import Key, stored_key
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import FILE_FORMAT
from paimon_core.read.data_file import read_table_file
from paimon_core.types.binary_rows import encode_rows
from paimon_core.types.buffers import index_array

PAGED_BYTES: Final = 256 * 1024**2
"""The default size of a slice if its files are decoded by page."""
UNPAGED_BYTES: Final = 4 * 1024**3
"""The same for ORC and Avro, whose files are decoded up to the end of the slice."""
SAMPLED_KEYS: Final = 10_000
_BATCH_ROWS: Final = 65_536


def default_slice_bytes(table: FileStoreTable) -> int:
    """Return the input bytes of a slice that cost little more than the same bytes uncut."""
    return PAGED_BYTES if table.options.value(FILE_FORMAT) == "parquet" else UNPAGED_BYTES


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """The keys to sample: every `stride`-th of a file."""

    partition: bytes
    bucket: int
    file: DataFileMeta
    stride: int


@dataclass(frozen=True, slots=True)
class KeySample:
    """Every `stride`-th key of a file from row `first` on, as stored row bytes."""

    file: DataFileMeta
    stride: int
    first: int
    stored: tuple[bytes, ...]


Samples = Mapping[str, KeySample]
"""Samples by the name of their file."""


def is_cut(unit: CompactUnit, slice_bytes: int) -> bool:
    """Return whether `slice_unit` cuts the unit by its keys."""
    return (
        unit.rewritten_bytes > slice_bytes
        and unit.replay is None
        and unit.clustered is None
        and not unit.append_files
        and unit.key_range is None
    )


def sample_requests(units: Sequence[CompactUnit]) -> list[SampleRequest]:
    """Return what must be sampled to cut these units at the same keys."""
    stride = max(1, sum(u.rewritten_rows for u in units) // SAMPLED_KEYS)
    return [
        SampleRequest(u.partition, u.bucket, f, stride) for u in units for f in u.rewritten_files
    ]


def sample_keys(table: FileStoreTable, request: SampleRequest) -> KeySample:
    """Read the key columns of a file; return at least one key."""
    file, stride = request.file, request.stride
    key = table.schema.key_type
    batches = read_table_file(
        table, request.partition, request.bucket, file, key, batch_rows=_BATCH_ROWS
    )
    stored: list[bytes] = []
    first = skip = min(stride // 2, max(0, file.row_count - 1))
    for batch in batches:
        rows = np.arange(skip, batch.num_rows, stride)
        skip = int(rows[-1]) + stride - batch.num_rows if len(rows) else skip - batch.num_rows
        if len(rows):
            taken = batch.take(index_array(rows))
            columns = [taken.column(f.name) for f in key]
            stored += encode_rows(columns, key.types)
    return KeySample(file, stride, first, tuple(stored))


def samples_of(table: FileStoreTable, units: Sequence[CompactUnit]) -> Samples:
    """Return the samples to cut these units at the same keys, read one after the other."""
    return {r.file.file_name: sample_keys(table, r) for r in sample_requests(units)}


def are_sampled(units: Sequence[CompactUnit], samples: Samples) -> bool:
    """Return whether there is a sample of every file of the units."""
    return all(f.file_name in samples for unit in units for f in unit.rewritten_files)


def slice_unit(
    table: FileStoreTable, unit: CompactUnit, *, slice_bytes: int, samples: Samples | None = None
) -> list[CompactUnit]:
    """Split `unit` into units of about `slice_bytes` of input each.

    For postponed rows, the files are divided, not the keys.  Returns only the unit itself if it is
    not larger, only changes levels, or joins append files, which have no key order.  The key
    columns of the unit's files are read here unless `samples` is given; a unit with a file that it
    lacks is not cut.
    """
    if unit.replay is not None:
        return replay_slices(unit, slice_bytes)
    if not is_cut(unit, slice_bytes):
        return [unit]
    if samples is None:
        samples = samples_of(table, [unit])
    if not are_sampled([unit], samples):
        return [unit]
    parts = -(-unit.rewritten_bytes // slice_bytes)
    return [
        replace(
            unit,
            key_range=key_range,
            owns_inputs=number == 0,
            upgrades=unit.upgrades if number == 0 else (),
            read_upgrades=unit.read_upgrades if number == 0 else (),
        )
        for number, key_range in enumerate(key_ranges(table, [unit], parts, samples))
    ]


def key_ranges(
    table: FileStoreTable, units: Sequence[CompactUnit], parts: int, samples: Samples
) -> list[KeyRange]:
    """Return ascending ranges that divide the units' input into about `parts` parts of equal size.

    Together they hold all keys.  `samples` holds what `sample_requests` asks for.
    """
    key = table.schema.key_type
    sampled = [
        _Sampled(s, [stored_key(row, key) for row in s.stored])
        for unit in units
        for s in (samples[f.file_name] for f in unit.rewritten_files)
    ]
    ordered = sorted(((k, n) for n, s in enumerate(sampled) for k in s.keys), key=itemgetter(0))
    bounds = [None, *_cuts(sampled, parts), None]
    return [
        KeyRange(
            None if low is None else low[1],
            None if high is None else high[1],
            tuple(s.window(low and low[0], high and high[0]) for s in sampled),
            _may_copy(sampled, _between(ordered, low and low[0], high and high[0])),
        )
        for low, high in pairwise(bounds)
    ]


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A sample and its keys, decoded."""

    sample: KeySample
    keys: Sequence[Key]

    def window(self, low: Key | None, high: Key | None) -> RowWindow:
        """Return the rows that may have keys >= `low` and < `high`."""
        file = self.sample.file
        begin, end = 0, file.row_count
        if low is not None:
            below = bisect_left(self.keys, low)
            begin = self._row(below - 1) + 1 if below else 0
        if high is not None:
            above = bisect_left(self.keys, high)
            end = self._row(above) if above < len(self.keys) else end
        return RowWindow(file.file_name, min(begin, end), end)

    @property
    def copied(self) -> int:
        """Return the number of sampled keys in the shortest stretch of rows that is copied."""
        file = self.sample.file
        return LEAST_BYTES * file.row_count // max(1, file.file_size) // self.sample.stride

    def _row(self, number: int) -> int:
        return self.sample.first + number * self.sample.stride


def _between(
    ordered: Sequence[tuple[Key, int]], low: Key | None, high: Key | None
) -> Iterator[int]:
    """Yield the sample numbers of the keys >= `low` and < `high`."""
    begin = 0 if low is None else bisect_left(ordered, low, key=itemgetter(0))
    end = len(ordered) if high is None else bisect_left(ordered, high, key=itemgetter(0))
    return (number for _, number in ordered[begin:end])


def _may_copy(samples: Sequence[_Sampled], numbers: Iterable[int]) -> bool:
    """Return whether a stretch of one file's keys may be long enough to copy its pages.

    Such a stretch has sampled keys that follow each other, without a key of another file between.
    Half of them suffice here, since not all rows take as many bytes.
    """
    longest: Counter[int] = Counter()
    for number, stretch in groupby(numbers):
        longest[number] = max(longest[number], sum(1 for _ in stretch))
    return any(length >= samples[number].copied // 2 for number, length in longest.items())


def _cuts(samples: Sequence[_Sampled], parts: int) -> list[tuple[Key, bytes]]:
    """Return keys that cut the files into about `parts` parts of equal size."""
    weighted = [
        (key, stored, s.sample.file.file_size / max(1, s.sample.file.row_count))
        for s in samples
        for key, stored in zip(s.keys, s.sample.stored, strict=True)
    ]
    weighted.sort(key=lambda w: w[0])
    sums = list(accumulate(w for _, _, w in weighted))
    cuts: list[tuple[Key, bytes]] = []
    seen = weighted[0][0] if weighted else ()
    for part in range(1, parts):
        place = bisect_right(sums, sums[-1] * part / parts) if sums else 0
        if place < len(weighted) and weighted[place][0] > seen:
            seen = weighted[place][0]
            cuts.append(weighted[place][:2])
    return cuts
