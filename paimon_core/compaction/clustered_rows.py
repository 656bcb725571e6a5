"""Reads the rows that a compaction sorts by other columns than the key.

Java: `ClusteringKeyIndex`, `ClusteringFileRewriter` (java-rules G8).

::

    new files, merged by key     k2 k5 k9 ...      a chunk of keys at a time
    keys of the other files      k7 k2 k1 | k5 ..  in any order: each file is read once per chunk
    found                        k2 and k5, with file and position

Deduplicate: the rows found are superseded.  A file that this compaction rewrites loses them; the
deletion vector of a file that stays hides them.  First-row: the new rows found are dropped.

Java keeps an index of all keys on local disk.  Here only a chunk of new keys is in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.compaction.unit import CompactUnit
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import (
    NOTHING_DELETED,
    Positions,
    union,
    with_deleted_rows,
)
from paimon_core.lsm.engines.traits import traits_of
from paimon_core.lsm.key_column import Rows
from paimon_core.lsm.key_order import has_signed_zeros, key_digits, sort_rows
from paimon_core.lsm.merge_engine import without_deletes
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.sorted_run import SortedRun
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.data_file import read_table_file
from paimon_core.read.section import SectionReader, plain_rows
from paimon_core.scan.engine import merge_engine_for
from paimon_core.types.buffers import index_array
from paimon_core.write.external_sort import EXPANSION, Clustering, OrderStrategy, sorted_rows

CHUNK_ROWS: Final = 1_000_000
"""The limit for new rows whose keys are looked up together."""
CHUNK_BYTES: Final = 128 * 1024**2
"""The limit for their Arrow bytes."""
_KEYS_AT_ONCE: Final = 1_000_000
"""Keys of a file that are compared with a chunk at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredRows:
    """The rows of a unit of `clustered` work; `superseded` grows while new rows are read.

    `vectors` are the deleted positions by file name, `superseded` those of rows in the files
    `unit.above` whose keys have new rows.
    """

    table: FileStoreTable
    unit: CompactUnit
    vectors: Mapping[str, Positions]
    spill_dir: str | None = None
    superseded: dict[str, list[Positions]] = field(default_factory=lambda: defaultdict(list))

    def new(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of level 0 that become visible, one for each key, in key order."""
        for chunk in _chunks(self._merged()):
            yield self._visible(chunk)

    def of_group(self, files: tuple[DataFileMeta, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of these files.  New rows must have been read before."""
        hidden = {f.file_name: self._hidden(f.file_name) for f in files}
        reader = self._reader({name: p for name, p in hidden.items() if p is not None})
        for file in files:
            for batch in reader.file(file, plain_rows(file, reader.read_type)):
                yield without_deletes(batch)

    def _merged(self) -> Iterator[pa.RecordBatch]:
        reader, engine = self._reader(self.vectors), merge_engine_for(self.table).engine
        for rewrite in self.unit.rewrites:
            for section in rewrite:
                yield from reader.merged(section, engine, drop_deletes=False)

    def _visible(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows to write of merged new rows, and note those that they supersede."""
        keeps_first = traits_of(self.table.options).keeps_first
        keys = chunk.select(list(self.table.schema.key_type.names))
        exist = np.zeros(chunk.num_rows, np.bool_)
        for run in self.unit.above:
            for file in run.files:
                for asked, positions in self._found(keys, file):
                    exist[asked] = True
                    if not keeps_first:
                        self.superseded[file.file_name].append(positions)
        if keeps_first:
            return chunk.take(index_array(np.flatnonzero(~exist)))
        return without_deletes(chunk)

    def _found(self, keys: pa.RecordBatch, file: DataFileMeta) -> Iterator[tuple[Rows, Positions]]:
        """Yield rows of `keys` whose keys the file has, each with the position of its live row."""
        for stored, positions in self._stored_keys(file):
            asked, rows = _equal_keys(keys, stored, self.table)
            if len(rows):
                yield asked, positions[rows]

    def _stored_keys(self, file: DataFileMeta) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """Yield the keys of the live rows of a file, with their positions."""
        unit, key = self.unit, self.table.schema.key_type
        batches = read_table_file(
            self.table, unit.partition, unit.bucket, file, key, batch_rows=_KEYS_AT_ONCE
        )
        deleted = self.vectors.get(file.file_name, NOTHING_DELETED)
        first = 0
        for batch, gone in with_deleted_rows(batches, deleted):
            live = np.delete(np.arange(batch.num_rows), gone)
            yield batch.take(index_array(live)) if len(gone) else batch, live + first
            first += batch.num_rows

    def _hidden(self, name: str) -> Positions | None:
        found = self.superseded.get(name)
        if not found:
            return self.vectors.get(name)
        new = np.unique(np.concatenate(found))
        known = self.vectors.get(name)
        return new if known is None else union(known, new)

    def _reader(self, vectors: Mapping[str, Positions]) -> SectionReader:
        return SectionReader(
            table=self.table,
            partition=self.unit.partition,
            bucket=self.unit.bucket,
            read_type=self.table.schema.row_type,
            spill_dir=self.spill_dir,
            vectors=vectors,
        )


def live_rows(
    table: FileStoreTable,
    bucket: CompactUnit,
    files: Sequence[DataFileMeta],
    vectors: Mapping[str, Positions],
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a whole bucket, level 0 included, in any order.

    `files` are all files of the bucket that `bucket` names, `vectors` their deleted positions.
    """
    new = [f for f in files if f.level == 0]
    old = tuple(f for f in files if f.level != 0)
    unit = replace(
        bucket,
        append_files=(),
        rewrites=(tuple(interval_partition(new, table.schema.key_type)),),
        above=tuple(SortedRun((f,)) for f in old),
    )
    rows = ClusteredRows(table=table, unit=unit, vectors=vectors)
    yield from rows.new()
    yield from rows.of_group(old)


def sorted_by(
    table: FileStoreTable,
    columns: tuple[str, ...],
    rows: Iterator[pa.RecordBatch],
    *,
    file_bytes: int,
    spill_dir: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the order of these columns.

    `file_bytes` are those that they have in files; `spill_dir` as in `sorted_rows`.
    """
    row_type = table.schema.row_type
    clustering = Clustering(strategy=OrderStrategy.ORDER, columns=columns)
    coded = (clustering.with_codes(b, row_type) for b in rows if b.num_rows)
    return sorted_rows(
        coded, clustering, expected_bytes=EXPANSION * file_bytes, spill_dir=spill_dir
    )


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in larger batches."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _equal_keys(
    keys: pa.RecordBatch, stored: pa.RecordBatch, table: FileStoreTable
) -> tuple[Rows, Rows]:
    """Return pairs of a row of `keys` and a row of `stored` with the same key.

    `keys` has no key twice.
    """
    key = table.schema.key_type
    both = [pa.concat_arrays([keys.column(n), stored.column(n)]) for n in key.names]
    order, borders = sort_rows(key_digits(both, signed_zeros=has_signed_zeros(key)))
    # The sort is stable, so the first row of a group of equal keys is the one of `keys`, if any.
    first = order[np.maximum.accumulate(np.where(borders, np.arange(len(order)), 0))]
    matches = (order >= keys.num_rows) & (first < keys.num_rows)
    return first[matches], order[matches] - keys.num_rows
