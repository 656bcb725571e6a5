"""Plans the compaction of a bucket whose files are sorted by other columns than the key.

Java: `ClusteringCompactManager`, `ClusteringFileRewriter.pickMergeCandidates` (java-rules G8).

Each key has one live row above level 0, whatever file it is in, so these files may overlap.  New
files of level 0 are always taken all together: two compactions of a bucket then never miss each
other's rows, because both delete the same files.

- A minor compaction sorts the new rows into files of their own, and merges neighbors that overlap
  or are small.
- A full one leaves files that do not overlap, without deletes and deletion vectors.  Java also
  sorts the new rows into files of their own, and merges all other files each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from paimon_core.compaction.unit import ClusteredWork, CompactUnit
from paimon_core.lsm.key_order import Key
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.sorted_run import KeyedFile, SortedRun
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import CLUSTERING_COLUMNS, COMPACTION_FORCE_REWRITE_ALL_FILES
from paimon_core.schema.table_schema import TableSchema
from paimon_core.write.file_layout import target_file_size

SORTED_LEVEL: Final = 1
"""The level of files that are sorted by the clustering columns."""


def pick_clustered(
    files: Sequence[DataFileMeta],
    schema: TableSchema,
    *,
    schema_of: Callable[[int], TableSchema],
    partition: bytes,
    bucket: int,
    total_buckets: int,
    full: bool,
    with_deletion_vectors: Collection[str] = (),
) -> CompactUnit | None:
    """Return the work due in a bucket; None if there is none.

    `files` holds all live files of the bucket, `schema_of` returns the schema of an id, and
    `with_deletion_vectors` names the files that have one.
    """
    new = [f for f in files if f.level == 0]
    old = [f for f in files if f.level != 0]
    force = schema.options.value(COMPACTION_FORCE_REWRITE_ALL_FILES)

    def is_stale(file: DataFileMeta) -> bool:
        return force or file.delete_row_count != 0 or file.file_name in with_deletion_vectors

    if full and new:
        groups: tuple[tuple[DataFileMeta, ...], ...] = (tuple(old),) if old else ()
    else:
        groups = _groups(
            _sections(old, schema, schema_of),
            is_stale if full else lambda _: False,
            small=target_file_size(schema.options, primary_key=True) // 2,
        )
    if not new and not groups:
        return None
    return CompactUnit(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        output_level=SORTED_LEVEL,
        drop_deletes=True,
        rewrites=(tuple(interval_partition(new, schema.key_type)),) if new else (),
        above=tuple(SortedRun((f,)) for f in old) if new else (),
        clustered=ClusteredWork(
            columns=schema.options.value(CLUSTERING_COLUMNS),
            groups=groups,
            takes_new=full,
        ),
        reason="full compaction" if full else "new files" if new else "overlapping files",
    )


def _groups(
    sections: Iterable[Sequence[DataFileMeta]],
    is_stale: Callable[[DataFileMeta], bool],
    *,
    small: int,
) -> tuple[tuple[DataFileMeta, ...], ...]:
    """Return neighbors to merge: sections that overlap, have stale files or are small."""
    groups: list[tuple[DataFileMeta, ...]] = []
    pending: list[DataFileMeta] = []

    def close() -> None:
        if len(pending) > 1 or any(map(is_stale, pending)):
            groups.append(tuple(pending))
        pending.clear()

    for section in sections:
        size = sum(f.file_size for f in section)
        if len(section) > 1 or size < small or any(map(is_stale, section)):
            pending += section
        else:
            close()
    close()
    return tuple(groups)


def _sections(
    files: Sequence[DataFileMeta], schema: TableSchema, schema_of: Callable[[int], TableSchema]
) -> list[list[DataFileMeta]]:
    """Return the files in the order of the clustering columns, those together that overlap.

    Files that only touch do not overlap, unlike in Java: rows with one value may fill many files,
    which would be merged in each compaction.
    """
    columns = schema.row_type.project(schema.options.value(CLUSTERING_COLUMNS))
    for file in files:
        stored = {f.id: f.type for f in schema_of(file.schema_id).fields}
        if any(stored.get(f.id) != f.type for f in columns):
            return [list(files)]  # values of different types do not compare
    sections: list[list[DataFileMeta]] = []
    bound: Key = ()
    ranged = (KeyedFile.of(f, columns) for f in files)
    for found in sorted(ranged, key=lambda r: (r.low, r.high, r.file.file_name)):
        if sections and found.low < bound:
            sections[-1].append(found.file)
            bound = max(bound, found.high)
        else:
            sections.append([found.file])
            bound = found.high
    return sections
