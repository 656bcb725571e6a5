"""Rows of append tables marked as deleted, as Spark's DELETE does it (Java: `DeleteAction`).

The row-level commands are Spark's; Java's core, which the oracle runs, has none.  What is committed
here are index files alone, kind OVERWRITE.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np

from paimon_core.commit.committer import commit
from paimon_core.commit.message import CommitMessage
from paimon_core.compaction.unit import CompactResult
from paimon_core.compaction.vectors import superseded_rows, with_index_files
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.read.data_file import read_data_file
from paimon_core.read.table_read import deletion_vectors
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files

ENV = system_environment()


def delete_rows(table: FileStoreTable, keys: Collection[int], *, column: str = "k") -> int:
    """How many rows with one of these keys were there; no commit if there is none."""
    snapshot = table.latest_or_not_found()
    gone = deletion_vectors(table, snapshot)
    index_files = vector_files(table, snapshot)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in scan_files(table, snapshot):
        buckets[entry.partition, entry.bucket].append(entry)
    messages, deleted = [], 0
    for (partition, bucket), entries in buckets.items():
        found: dict[str, list[Positions]] = {}
        for entry in entries:
            positions = _positions(table, entry, keys, column)
            positions = np.setdiff1d(positions, gone.get(entry.file.file_name, positions[:0]))
            if len(positions):
                found[entry.file.file_name] = [positions]
                deleted += len(positions)
        if not found:
            continue
        result = CompactResult(
            partition=partition,
            bucket=bucket,
            total_buckets=entries[0].total_buckets,
            superseded=superseded_rows(found),
        )
        done = with_index_files(
            table,
            result,
            index_files.get((partition, bucket), ()),
            live=[e.file.file_name for e in entries],
            new_uuid=ENV.new_uuid,
        )
        messages.append(
            CommitMessage(
                partition=partition,
                bucket=bucket,
                total_buckets=done.total_buckets,
                new_index_files=done.new_index_files,
                deleted_index_files=done.deleted_index_files,
            )
        )
    if messages:
        commit(table, messages, user=ENV.new_uuid(), env=ENV)
    return deleted


def _positions(
    table: FileStoreTable, entry: ManifestEntry, keys: Collection[int], column: str
) -> Positions:
    batches = read_data_file(
        table.io,
        table.paths.data_file(entry.partition, entry.bucket, entry.file),
        entry.file,
        file_schema=table.schema_of(entry.file.schema_id),
        read_type=table.schema.row_type.project([column]),
        key_value=False,
        partition=entry.partition,
    )
    values = np.concatenate([b.column(0).to_numpy(zero_copy_only=False) for b in batches])
    return np.flatnonzero(np.isin(values, list(keys))).astype(np.int64)
