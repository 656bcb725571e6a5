"""Which stored rows a read leaves out: old versions of a key, deletes, and deleted positions.

::

    file 1   k1 k2 k3 k4       k2 has a newer version in file 2, k4 is deleted there: rows 1 and 3
    file 2   k2 k4             the delete of k4 is no row of the table: row 1

To find them, a merge decodes nothing but keys, sequence fields and row kinds.  Any reader that can
skip rows by position then reads the table without merging.  This works for merge engines whose
result is one of the versions; others make new rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import NOTHING_DELETED, Positions, without_deleted
from paimon_core.lsm.engines.traits import traits_of
from paimon_core.lsm.key_column import int_values
from paimon_core.lsm.merge_engine import MergeEngine, without_deletes
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta, ManifestEntry
from paimon_core.options import SEQUENCE_FIELD
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.read.table_read import BATCH_ROWS, bucket_vectors
from paimon_core.read.version_reader import VersionReader
from paimon_core.scan.engine import merge_engine_for
from paimon_core.scan.splits import are_sorted_by_key, batch_splits
from paimon_core.types.buffers import index_array

_POSITION: Final = "_POSITION"
_POSITION_FIELD: Final = pa.field(_POSITION, pa.int64(), nullable=False)


def shows_stored_rows(table: FileStoreTable) -> bool:
    """Return whether each row of the table is a row of one of its files."""
    if has_data_evolution(table):
        return False
    return not table.has_primary_key or not traits_of(table.options).combines_versions


def hidden_rows(
    table: FileStoreTable,
    entries: Sequence[ManifestEntry],
    index_files: Sequence[IndexFileMeta] = (),
) -> dict[str, Positions]:
    """Return, for each of these files of one bucket, the positions that a batch read leaves out.

    The files are those of one or more splits of the bucket, `index_files` those with their deletion
    vectors.  Only for tables that `shows_stored_rows`.  Raises CorruptTable if a file cannot be
    read.
    """
    if not entries:
        return {}
    bucket = (entries[0].partition, entries[0].bucket)
    vectors = bucket_vectors(table, bucket, index_files)
    found = {e.file.file_name: vectors.get(e.file.file_name, NOTHING_DELETED) for e in entries}
    if not table.has_primary_key:
        return found
    files = [e.file for e in entries]
    for split in batch_splits(table, files):
        if not split.raw:
            found.update(_superseded(table, bucket, split.files, vectors))
    return found


def _superseded(
    table: FileStoreTable,
    bucket: tuple[bytes, int],
    files: Sequence[DataFileMeta],
    vectors: Mapping[str, Positions],
) -> dict[str, Positions]:
    schema = table.schema
    chosen = merge_engine_for(table)
    fields = {*schema.trimmed_primary_keys, *table.options.value(SEQUENCE_FIELD), *chosen.needs}
    ends = np.cumsum([f.row_count for f in files])
    begins = {f.file_name: int(e) - f.row_count for f, e in zip(files, ends, strict=True)}
    reader = _PositionReader(
        table=table,
        partition=bucket[0],
        bucket=bucket[1],
        read_type=schema.row_type.project([n for n in schema.names if n in fields]),
        with_levels=chosen.with_levels,
        begins=begins,
        deleted=vectors,
    )
    hidden = np.ones(int(ends[-1]), np.bool_)
    merged: list[DataFileMeta] = []
    for together, rows in _shown(table, files, reader, chosen.of_files):
        merged += together
        for batch in rows:
            hidden[int_values(batch.column(_POSITION))] = False
    return {
        f.file_name: np.flatnonzero(
            hidden[begins[f.file_name] : begins[f.file_name] + f.row_count]
        ).astype(np.int64)
        for f in merged
    }


def _shown(
    table: FileStoreTable,
    files: Sequence[DataFileMeta],
    reader: VersionReader,
    engine: MergeEngine,
) -> Iterator[tuple[list[DataFileMeta], Iterator[pa.RecordBatch]]]:
    """Yield files that are read together, and their rows that a read shows."""
    if not are_sorted_by_key(table, files):
        for file in files:
            yield [file], map(without_deletes, reader.file(file, BATCH_ROWS))
        return
    for section in interval_partition(files, table.schema.key_type):
        together = [f for run in section for f in run.files]
        if len(together) == 1 and together[0].delete_row_count == 0:
            continue  # a file has one version of a key
        yield together, reader.merged(section, engine, drop_deletes=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PositionReader(VersionReader):
    """Adds a column `_POSITION`: where the file begins, by `begins`, plus the row's number in it.

    Rows that `deleted` names are skipped.
    """

    begins: Mapping[str, int]
    deleted: Mapping[str, Positions]

    def file(self, file: DataFileMeta, rows: int) -> Iterator[pa.RecordBatch]:
        batches = self._numbered(VersionReader.file(self, file, rows), self.begins[file.file_name])
        return without_deleted(batches, self.deleted.get(file.file_name))

    def _numbered(self, batches: Iterator[pa.RecordBatch], begin: int) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = np.arange(begin, begin + batch.num_rows)
            yield batch.append_column(_POSITION_FIELD, index_array(numbers))
            begin += batch.num_rows
