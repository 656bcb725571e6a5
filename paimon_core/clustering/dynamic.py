"""Distributes the rows of a dynamic-bucket partition to new buckets, similar rows together.

Java: `SortCompactAction` of a table with dynamic buckets.

Rows are merged, sorted by code, and written like an overwrite: each bucket is filled before the
next one starts, so that a bucket holds a range of codes.  Within a bucket rows are sorted by key,
as usual.  Hash indexes are rewritten.  Rows move between buckets, so the result is committed only
if the partition has not changed since it was read.
"""

from __future__ import annotations

from dataclasses import replace

from paimon_core.commit.overwrite import moved_up
from paimon_core.compaction.unit import CompactResult
from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.options import CHANGELOG_PRODUCER, DYNAMIC_BUCKET_ASSIGNERS, ROWKIND_FIELD
from paimon_core.rescale.rewrite import rows_of_unit
from paimon_core.rescale.unit import RescaleResult, RescaleUnit
from paimon_core.types.buffers import RecordBatches
from paimon_core.write.external_sort import EXPANSION, Clustering, sorted_rows
from paimon_core.write.incoming_rows import without_defaults
from paimon_core.write.on_failure import aborted_on_failure
from paimon_core.write.row_writer import RowWriter

_OPTIONS = {
    # The rewrite does not change rows, so it needs no changelog.
    CHANGELOG_PRODUCER.key: "none",
    # Several assigners would distribute keys by hash.
    DYNAMIC_BUCKET_ASSIGNERS.key: "1",
    ROWKIND_FIELD.key: None,
}


def sort_dynamic(
    table: FileStoreTable,
    unit: RescaleUnit,
    clustering: Clustering,
    *,
    env: Environment,
) -> RescaleResult:
    """Return the new files and hash indexes of each bucket; they exist when this returns."""
    kept = without_defaults(table)
    writer_table = replace(kept, schema=kept.schema.with_options(_OPTIONS))
    writer = RowWriter(writer_table, env=env, overwrite=True)
    with aborted_on_failure((writer,)):
        for batch in sorted_rows(
            _coded(table, unit, clustering),
            clustering,
            expected_bytes=EXPANSION * unit.read_bytes,
        ):
            writer.write(batch)
        messages = writer.prepare_commit()
    results = []
    for message in messages:
        entries = [
            ManifestEntry(
                FileKind.ADD, message.partition, message.bucket, message.total_buckets, file
            )
            for file in message.new_files
        ]
        results.append(
            CompactResult(
                partition=message.partition,
                bucket=message.bucket,
                total_buckets=message.total_buckets,
                after=tuple(e.file for e in moved_up(table, entries)),
                new_index_files=message.new_index_files,
            )
        )
    return RescaleResult(tuple(results))


def _coded(table: FileStoreTable, unit: RescaleUnit, clustering: Clustering) -> RecordBatches:
    names = table.schema.names
    for batch in rows_of_unit(table, unit):
        yield clustering.with_codes(batch.select(names), table.schema.row_type)
