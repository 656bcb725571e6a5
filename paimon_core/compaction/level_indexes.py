"""Builds the indexes of the levels that a compaction changed.

Java: `index/pksorted/BucketedSortedIndexMaintainer`, `PkSortedIndexBuilder` (java-rules E13).  The
commit names the index files that it replaces, so that two compactions do not both index a level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.compaction.unit import CompactResult
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.global_index import BITMAP, BTREE
from paimon_core.index.global_index.bitmap import write_bitmap
from paimon_core.index.global_index.btree import write_btree
from paimon_core.index.global_index.keys import KeyType
from paimon_core.index.global_index.sorted_file import Codec
from paimon_core.index.primary_key import (
    COLUMNS,
    SOURCE_META,
    LevelIndex,
    Sources,
    has_sources,
    is_indexed,
    level_indexes,
    sources_of,
)
from paimon_core.io.file_io import delete_abandoned
from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta
from paimon_core.options import (
    BITMAP_INDEX_BLOCK_SIZE,
    BITMAP_INDEX_COMPRESSION,
    BITMAP_INDEX_COMPRESSION_LEVEL,
    BTREE_INDEX_BLOCK_SIZE,
    BTREE_INDEX_COMPRESSION,
    BTREE_INDEX_COMPRESSION_LEVEL,
)
from paimon_core.read.data_file import read_table_file
from paimon_core.scan.global_index import indexed_id
from paimon_core.types.data_types import CHARACTER_TYPES, RowType

LevelIndexFiles = Mapping[tuple[bytes, int], Sequence[IndexFileMeta]]
"""Partition (stored row bytes) and bucket -> its index files with sources."""
_NO_FILES: Final[tuple[IndexFileMeta, ...]] = ()
_WRITERS: Final = {
    BTREE: (
        write_btree,
        BTREE_INDEX_BLOCK_SIZE,
        BTREE_INDEX_COMPRESSION,
        BTREE_INDEX_COMPRESSION_LEVEL,
    ),
    BITMAP: (
        write_bitmap,
        BITMAP_INDEX_BLOCK_SIZE,
        BITMAP_INDEX_COMPRESSION,
        BITMAP_INDEX_COMPRESSION_LEVEL,
    ),
}
"""By index type: what writes a file, and its options."""


def level_index_files(table: FileStoreTable) -> LevelIndexFiles:
    """Return the index files of primary keys in the newest snapshot; empty without such indexes."""
    found: dict[tuple[bytes, int], list[IndexFileMeta]] = defaultdict(list)
    latest = table.snapshots.latest() if level_indexes(table.schema) else None
    for entry in () if latest is None else table.index_entries(latest):
        file = entry.index_file
        if file.index_type in COLUMNS and has_sources(file):
            found[entry.partition, entry.bucket].append(file)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelBuild:
    """The index of a column of one level to build."""

    partition: bytes
    bucket: int
    index: LevelIndex
    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def sources(self) -> Sources:
        """Return the files with their numbers of rows, as the index names them."""
        return Sources.of(self.level, self.files)

    @property
    def read_bytes(self) -> int:
        """Return the bytes of the files of which one column is read."""
        return sum(f.file_size for f in self.files)


def missing_level_indexes(
    table: FileStoreTable,
    result: CompactResult,
    live: Sequence[DataFileMeta],
    known: LevelIndexFiles,
) -> tuple[CompactResult, list[LevelBuild]]:
    """Return the result of a whole bucket without stale index files, and the indexes to build.

    `live` are the files of the bucket in the planned snapshot.
    """
    levels: dict[int, list[DataFileMeta]] = defaultdict(list)
    gone = {(f.file_name, f.level) for f in result.before}
    left = [f for f in live if (f.file_name, f.level) not in gone]
    for covered in filter(is_indexed, (*left, *result.after)):
        levels[covered.level].append(covered)
    builds: list[LevelBuild] = []
    removed: list[IndexFileMeta] = []
    for index in level_indexes(table.schema):
        own = [
            f
            for f in known.get((result.partition, result.bucket), _NO_FILES)
            if (f.index_type, indexed_id(f)) == (index.kind, index.field.id)
        ]
        wanted = {level: Sources.of(level, files) for level, files in levels.items()}
        for file in own:
            sources = sources_of(file)
            if sources is not None and wanted.get(sources.level) == sources:
                del wanted[sources.level]
            else:
                removed.append(file)
        builds += (
            LevelBuild(
                partition=result.partition,
                bucket=result.bucket,
                index=index,
                level=level,
                files=tuple(levels[level]),
            )
            for level in sorted(wanted)
        )
    deleted = (*result.deleted_index_files, *removed)
    return replace(result, deleted_index_files=deleted), builds


def with_level_indexes(
    table: FileStoreTable,
    result: CompactResult,
    live: Sequence[DataFileMeta],
    known: LevelIndexFiles,
    *,
    new_uuid: Callable[[], str],
) -> CompactResult:
    """Return the result of a whole bucket with the index files to add and to remove.

    `live` as in `missing_level_indexes`.  On failure, written index files are deleted again, those
    of the result, too.
    """
    result, builds = missing_level_indexes(table, result, live, known)
    built: list[IndexFileMeta] = []
    try:
        for build in builds:
            # Of a failed call, `extend` need not tell what was built before.
            built.append(build_level_index(table, build, new_uuid=new_uuid))  # noqa: PERF401
    except BaseException:
        written = (*result.new_index_files, *built)
        paths = [table.paths.index_file(result.partition, result.bucket, f) for f in written]
        delete_abandoned(table.io, paths)
        raise
    return replace(result, new_index_files=(*result.new_index_files, *built))


def build_level_index(
    table: FileStoreTable, build: LevelBuild, *, new_uuid: Callable[[], str]
) -> IndexFileMeta:
    """Write the index file of a level.  Holds the column of the level in memory."""
    column = _column(table, build)
    index, sources = build.index, build.sources
    options, keys = index.options, KeyType(index.field.type, index.field.name)
    write, size, compression, level = _WRITERS[index.kind]
    codec = Codec(options.value(compression), options.value(level))
    file = IndexFileMeta(
        index_type=index.kind, file_name=f"index-{new_uuid()}-0", file_size=0, row_count=0
    )
    path = table.paths.index_file(build.partition, build.bucket, file)
    try:
        written = write(
            table.io,
            path,
            column,
            np.arange(sources.rows),
            keys,
            keys.order(column),
            block_size=options.value(size),
            codec=codec,
        )
    except BaseException:
        delete_abandoned(table.io, [path])
        raise
    return replace(
        file,
        file_size=written.size,
        row_count=written.rows,
        global_index={
            "_ROW_RANGE_START": 0,
            "_ROW_RANGE_END": sources.rows - 1,
            "_INDEX_FIELD_ID": index.field.id,
            "_EXTRA_FIELD_IDS": None,
            "_INDEX_META": written.meta.encode(),
            SOURCE_META: sources.encode(),
        },
    )


def _column(table: FileStoreTable, build: LevelBuild) -> pa.Array:
    """Return the values of all rows of the files by name, also of those that are deleted."""
    field, by_name = build.index.field, {f.file_name: f for f in build.files}
    arrays: list[pa.Array] = []
    for name, rows in build.sources.files:
        before = sum(map(len, arrays))
        for batch in read_table_file(
            table, build.partition, build.bucket, by_name[name], RowType(fields=(field,))
        ):
            values = batch.column(field.name)
            if field.type.root in CHARACTER_TYPES:
                values = values.cast(pa.large_string())  # a level may have more than 2 GB of them
            arrays.append(values)
        if sum(map(len, arrays)) - before != rows:
            raise CorruptTable(
                f"a data file holds another number of rows than its {rows}",
                table=table.name,
                file=name,
            )
    return pa.concat_arrays(arrays)
