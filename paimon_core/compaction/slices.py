"""Splits the compaction of a huge bucket into several units by key range (java-rules E7).

::

    unit          [----------------------------------------]   one task, hours
    slices        [ < k1  ) [ k1 .. k2 ) [ k2 .. k3 ) [ k3.. ]  four tasks, files of their own

Every version of a key is in one slice, outputs do not overlap, and only the first slice names the
inputs as deleted: results are committed all together or not at all.

The cuts come from a sample of the keys (the key ranges of files are useless if every file spans the
bucket); reading only key columns costs a small part of the rewrite.  A file with one row group, as
Java writes it, must be decoded up to the end of a slice, so each further slice gains less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from paimon_core.compaction.postpone import replay_slices
from paimon_core.compaction.unit import CompactUnit, KeyRange
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.section import SectionReader
from paimon_core.types.binary_rows import encode_rows
from paimon_core.types.buffers import index_array

SAMPLED_KEYS: Final = 10_000
_BATCH_ROWS: Final = 65_536


def slice_unit(table: FileStoreTable, unit: CompactUnit, *, slice_bytes: int) -> list[CompactUnit]:
    """Split `unit` into units of about `slice_bytes` of input each.

    For postponed rows, the files are divided, not the keys.  Returns only the unit itself if it is
    not larger, only changes levels, or joins append files, which have no key order.  Reads the key
    columns of the unit's files.
    """
    if unit.replay is not None:
        return replay_slices(unit, slice_bytes)
    parts = -(-unit.rewritten_bytes // slice_bytes)
    if parts <= 1 or unit.append_files or unit.key_range is not None:
        return [unit]
    cuts = key_quantiles(table, unit, parts)
    bounds: list[bytes | None] = [None, *cuts, None]
    return [
        replace(
            unit,
            key_range=KeyRange(low, high),
            owns_inputs=number == 0,
            upgrades=unit.upgrades if number == 0 else (),
            read_upgrades=unit.read_upgrades if number == 0 else (),
        )
        for number, (low, high) in enumerate(pairwise(bounds))
    ]


def key_quantiles(table: FileStoreTable, unit: CompactUnit, parts: int) -> list[bytes]:
    """Return ascending keys that cut the unit's input into about `parts` parts of equal size."""
    files = unit.rewritten_files
    stride = max(1, sum(f.row_count for f in files) // SAMPLED_KEYS)
    key = table.schema.key_type
    reader = SectionReader(table=table, partition=unit.partition, bucket=unit.bucket, read_type=key)
    weighted = [
        (stored_key(sample, key), sample, file.file_size / max(1, file.row_count))
        for file in files
        for sample in _sampled_keys(reader, file, stride)
    ]
    weighted.sort(key=lambda w: w[0])
    sums = list(accumulate(w for _, _, w in weighted))
    cuts: list[bytes] = []
    seen = weighted[0][0] if weighted else ()
    for part in range(1, parts):
        place = bisect_right(sums, sums[-1] * part / parts) if sums else 0
        if place < len(weighted) and weighted[place][0] > seen:
            seen = weighted[place][0]
            cuts.append(weighted[place][1])
    return cuts


def _sampled_keys(reader: SectionReader, file: DataFileMeta, stride: int) -> Sequence[bytes]:
    """Return stored row bytes of every `stride`-th key of a file, at least one."""
    samples: list[bytes] = []
    skip = min(stride // 2, max(0, file.row_count - 1))
    for batch in reader.file(file, _BATCH_ROWS):
        rows = np.arange(skip, batch.num_rows, stride)
        skip = int(rows[-1]) + stride - batch.num_rows if len(rows) else skip - batch.num_rows
        if len(rows):
            taken = batch.take(index_array(rows))
            columns = [taken.column(f.name) for f in reader.read_type]
            samples += encode_rows(columns, reader.read_type.types)
    return samples
