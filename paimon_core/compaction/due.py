"""Finds the compaction due in a bucket of any kind of table, and runs it in one process.

The rules are in `pick`, `clustered_pick`, `append_coordinator` and `evolution`; this module
provides their input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from paimon_core.compaction.append_coordinator import FileVector, pick_bucketed, pick_unaware
from paimon_core.compaction.clustered_pick import pick_clustered
from paimon_core.compaction.evolution import pick_evolving
from paimon_core.compaction.level_indexes import level_index_files, with_level_indexes
from paimon_core.compaction.pick import pick_primary_key
from paimon_core.compaction.record_expiry import RecordExpiry
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.unit import CompactResult, CompactUnit, merged
from paimon_core.compaction.vectors import only_of, with_index_files
from paimon_core.environment import Environment
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.io.file_io import delete_abandoned
from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta
from paimon_core.options import DELETION_VECTORS_ENABLED
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.scan.key_bounds import is_clustered
from paimon_core.write.row_writer import new_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The live files of one bucket, and its index files with deletion vectors."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    vector_files: tuple[IndexFileMeta, ...] = ()


def units_due(
    table: FileStoreTable,
    files: BucketFiles,
    *,
    full: bool,
    local_millis: int,
    expiry: RecordExpiry | None = None,
    until_done: bool = True,
) -> list[CompactUnit]:
    """Return the units of one bucket; empty if nothing is due.

    `local_millis` is the wall clock time, as in creation times; `until_done` False joins only what
    Java's writer joins at once in bucketed append tables.
    """
    vectors = _vectors(table, files)
    if is_clustered(table):
        clustered = pick_clustered(
            files.files,
            table.schema,
            schema_of=table.schema_of,
            partition=files.partition,
            bucket=files.bucket,
            total_buckets=files.total_buckets,
            full=full,
            with_deletion_vectors=frozenset(vectors or ()),
        )
        found = [] if clustered is None else [clustered]
    elif table.has_primary_key:
        unit = pick_primary_key(
            files.files,
            table.schema,
            partition=files.partition,
            bucket=files.bucket,
            total_buckets=files.total_buckets,
            full=full,
            local_millis=local_millis,
            is_expired=None if expiry is None else partial(expiry.holds_expired, table),
            expired_before=None if expiry is None else expiry.before,
            with_deletion_vectors=frozenset(vectors or ()),
        )
        found = [] if unit is None else [unit]
    elif has_data_evolution(table):
        found = pick_evolving(
            table,
            files.files,
            partition=files.partition,
            bucket=files.bucket,
            total_buckets=files.total_buckets,
            vectors=vectors,
        )
    elif table.bucket_mode is BucketMode.UNAWARE:
        found = pick_unaware(
            files.files,
            table.options,
            partition=files.partition,
            total_buckets=files.total_buckets,
            vectors=vectors,
        )
    else:
        found = pick_bucketed(
            files.files,
            table.options,
            partition=files.partition,
            bucket=files.bucket,
            total_buckets=files.total_buckets,
            full=full,
            until_done=until_done,
            vectors=vectors,
        )
    return [_with_vectors(u, files) for u in found]


def compact_bucket(
    table: FileStoreTable,
    units: Sequence[CompactUnit],
    files: BucketFiles,
    *,
    env: Environment,
) -> CompactResult:
    """Run the units of one bucket one after the other and return one result.

    The new files exist when this returns; the files of a failed unit are deleted again.
    """
    results: list[CompactResult] = []
    try:
        for unit in units:
            result = rewrite(table, unit, env=env)
            results.append(result)
        result = merged(results)
        if files.vector_files or result.superseded:
            result = with_index_files(
                table,
                result,
                files.vector_files,
                live=[f.file_name for f in files.files],
                new_uuid=env.new_uuid,
            )
        known = level_index_files(table)
        result = with_level_indexes(table, result, files.files, known, new_uuid=env.new_uuid)
    except BaseException:
        delete_results(table, results)
        raise
    return result


def delete_results(table: FileStoreTable, results: Iterable[CompactResult]) -> None:
    """Delete the new files of results that will not be committed."""
    messages = (message for result in results for message in result.to_messages())
    delete_abandoned(table.io, [p for m in messages for p in new_paths(table, m)])


def _vectors(table: FileStoreTable, files: BucketFiles) -> Mapping[str, FileVector] | None:
    """Return the vectors by data file; None if the table neither has nor creates any."""
    if not files.vector_files and not table.options.value(DELETION_VECTORS_ENABLED):
        return None
    return {
        r.data_file: FileVector(f.file_name, r.cardinality)
        for f in files.vector_files
        for r in f.dv_ranges or ()
    }


def _with_vectors(unit: CompactUnit, files: BucketFiles) -> CompactUnit:
    """Return the unit with the vectors of the files that it reads or looks up in."""
    if not files.vector_files:
        return unit
    looked_up = (f for run in unit.above for f in run.files)
    names = frozenset(f.file_name for f in (*unit.rewritten_files, *unit.moved_files, *looked_up))
    return replace(unit, vector_files=only_of(files.vector_files, names))
