"""Updates deletion vectors after a compaction.

Java: `BucketedDvMaintainer`, `AppendDeleteFileMaintainer`.

::

    before   index-1: a {3, 7}  b {1}         a is rewritten; a row of c is superseded
    after    index-2: b {1}  c {40}           index-1 is deleted, by name

A rewritten file loses its vector, because its deleted rows are not copied; a file that only changes
its level keeps it.  With data evolution all rows are copied where they keep their ids, so the
vector moves with them (Java: `DataEvolutionCompactDeletionVectorRewriter`)::

    rows     0..9  10..19  ->  0..19
    deleted  3     0           3, 10

Rows of remaining files that the written rows supersede are added.  In a
bucket=-1 table, only the index files that name rewritten files are rewritten; elsewhere the
bucket's only index file is rewritten, or removed if it would be empty (Java keeps an empty one).

The commit names the index files that were read as deleted, so it fails if a vector changed since
the plan (java-rules C1, C2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from paimon_core.compaction.unit import CompactResult, CompactUnit, SupersededRows
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.index.deletion_vectors import (
    DELETION_VECTORS_INDEX,
    Positions,
    encoded_size,
    packed,
    read_deletion_vectors,
    union,
    unpacked,
    write_deletion_vectors,
)
from paimon_core.io.file_io import delete_abandoned
from paimon_core.manifest.data_file import DeletionVectorRange, IndexFileMeta
from paimon_core.options import DELETION_VECTOR_BITMAP64, DELETION_VECTOR_FILE_SIZE
from paimon_core.read.data_evolution import files_of_lost_ids, has_data_evolution


def only_of(
    index_files: Sequence[IndexFileMeta], data_files: Collection[str]
) -> tuple[IndexFileMeta, ...]:
    """Return the index files with vectors of these data files, limited to their ranges."""
    chosen = []
    for index_file in index_files:
        ranges = tuple(r for r in index_file.dv_ranges or () if r.data_file in data_files)
        if ranges:
            chosen.append(replace(index_file, dv_ranges=ranges))
    return tuple(chosen)


def ranges_by_file(index_files: Sequence[IndexFileMeta]) -> dict[str, DeletionVectorRange]:
    """Return data file name -> location of its vector."""
    return {r.data_file: r for f in index_files for r in f.dv_ranges or ()}


def vectors_of_unit(table: FileStoreTable, unit: CompactUnit) -> dict[str, Positions]:
    """Return the deleted positions of the files that the unit reads or looks up in, by name."""
    return _read(table, unit.partition, unit.bucket, unit.vector_files)


def superseded_rows(positions: Mapping[str, Sequence[Positions]]) -> tuple[SupersededRows, ...]:
    """Convert positions by data file, any number of arrays each, to the form of a result."""
    return tuple(
        SupersededRows(name, packed(np.concatenate(parts)))
        for name, parts in positions.items()
        if any(len(p) for p in parts)
    )


def with_index_files(
    table: FileStoreTable,
    result: CompactResult,
    index_files: Sequence[IndexFileMeta],
    *,
    live: Collection[str],
    new_uuid: Callable[[], str],
) -> CompactResult:
    """Return the result of a whole bucket with the index files to add and to remove.

    `index_files` are those of the bucket and `live` the names of its data files, both in the
    planned snapshot; vectors of files that are no longer live are dropped.  On failure, written
    files are deleted again.
    """
    stays = {f.file_name for f in result.after}
    rewritten = {f.file_name for f in result.before} - stays
    kept = frozenset(live) - rewritten
    added: dict[str, Positions] = {}
    for s in result.superseded:  # the slices of a bucket may each name a file
        added[s.data_file] = _joined(added.get(s.data_file), unpacked(s.positions))
    if has_data_evolution(table):
        added |= _moved(table, result, only_of(index_files, rewritten))
    if table.bucket_mode is BucketMode.UNAWARE:
        touched = [f for f in index_files if not _names(f).isdisjoint(rewritten | added.keys())]
    elif added or any(not _names(f) <= kept for f in index_files):
        touched = list(index_files)
    else:
        touched = []
    if not touched and not added:
        return result
    vectors = _read(table, result.partition, result.bucket, only_of(touched, kept))
    for name, positions in added.items():
        vectors[name] = _joined(vectors.get(name), positions)
    return replace(
        result,
        new_index_files=_written(table, result, vectors, new_uuid),
        deleted_index_files=tuple(touched),
    )


def _moved(
    table: FileStoreTable, result: CompactResult, index_files: Sequence[IndexFileMeta]
) -> dict[str, Positions]:
    """Return the vectors of groups of files as those of the files that took their rows."""
    moved: dict[str, Positions] = {}
    first_rows = {f.file_name: f.first_row_id for f in result.before}
    dropped = {f.file_name for f in files_of_lost_ids(result.before, result.after)}
    kept = only_of(index_files, first_rows.keys() - dropped)
    for name, positions in _read(table, result.partition, result.bucket, kept).items():
        first = first_rows[name]
        assert first is not None  # a group of files has row ids
        into, offset = next(
            (f.file_name, first - f.first_row_id)
            for f in result.after
            if f.first_row_id is not None and 0 <= first - f.first_row_id < f.row_count
        )
        moved[into] = _joined(moved.get(into), positions + offset)
    return moved


def without_stale_vectors(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    index_files: Sequence[IndexFileMeta],
    *,
    live: Collection[str],
    new_uuid: Callable[[], str],
) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
    """Return the index files to add and to remove, so that only live files have vectors.

    Both are empty if there is nothing to do.  On failure, written files are deleted again.
    """
    kept = frozenset(live)
    touched = tuple(f for f in index_files if not _names(f) <= kept)
    if not touched:
        return (), ()
    vectors = _read(table, partition, bucket, only_of(touched, kept))
    nothing = CompactResult(
        partition=partition, bucket=bucket, total_buckets=0, before=(), after=()
    )
    return _written(table, nothing, vectors, new_uuid), touched


def _names(index_file: IndexFileMeta) -> frozenset[str]:
    return frozenset(r.data_file for r in index_file.dv_ranges or ())


def _joined(known: Positions | None, more: Positions) -> Positions:
    return more if known is None else union(known, more)


def _read(
    table: FileStoreTable, partition: bytes, bucket: int, index_files: Sequence[IndexFileMeta]
) -> dict[str, Positions]:
    vectors: dict[str, Positions] = {}
    for file in index_files:
        path = table.paths.index_file(partition, bucket, file)
        vectors.update(read_deletion_vectors(table.io, path, file))
    return vectors


def _written(
    table: FileStoreTable,
    result: CompactResult,
    vectors: Mapping[str, Positions],
    new_uuid: Callable[[], str],
) -> tuple[IndexFileMeta, ...]:
    bitmap64 = table.options.value(DELETION_VECTOR_BITMAP64)
    parts: Iterator[dict[str, Positions]] = iter([dict(vectors)] if vectors else [])
    if table.bucket_mode is BucketMode.UNAWARE:
        target = table.options.value(DELETION_VECTOR_FILE_SIZE)
        parts = _rolled(vectors, target, bitmap64=bitmap64)
    paths: list[str] = []
    written: list[IndexFileMeta] = []
    try:
        for part in parts:
            name = IndexFileMeta(
                index_type=DELETION_VECTORS_INDEX,
                file_name=f"index-{new_uuid()}-0",
                file_size=0,
                row_count=0,
            )
            paths.append(table.paths.index_file(result.partition, result.bucket, name))
            written.append(write_deletion_vectors(table.io, paths[-1], part, bitmap64=bitmap64))
    except BaseException:
        delete_abandoned(table.io, paths)
        raise
    return tuple(written)


def _rolled(
    vectors: Mapping[str, Positions], target: int, *, bitmap64: bool
) -> Iterator[dict[str, Positions]]:
    """Yield the vectors in parts, each ending with the one that exceeds `target` bytes."""
    part: dict[str, Positions] = {}
    size = 0
    for name, positions in vectors.items():
        part[name] = positions
        size += encoded_size(positions, bitmap64=bitmap64)
        if size > target:
            yield part
            part, size = {}, 0
    if part:
        yield part
