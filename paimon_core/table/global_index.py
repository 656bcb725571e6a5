"""Builds and drops global indexes of tables with data evolution.

Java: `globalindex/sorted/SortedGlobalIndexBuilder`, `DropGlobalIndexProcedure`.  An index covers
ranges of row ids.  Rows that are written later are not part of it until it is built again, which
indexes these rows only.  A range has rows of one partition, and an index file some of its keys.
Java makes one range of all new rows that have no gap.  Here a range ends with the data file that
fills an index file, so that a build needs no shuffle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument, RowsChanged, UnsupportedFeature
from paimon_core.features import check_committable, check_rows_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.global_index import BTREE
from paimon_core.index.global_index.btree import write_btree
from paimon_core.index.global_index.keys import KeyType
from paimon_core.index.global_index.records import Ints
from paimon_core.index.global_index.sorted_file import Codec
from paimon_core.io.file_io import delete_abandoned, join
from paimon_core.manifest.data_file import (
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_core.options import (
    BTREE_INDEX_BLOCK_SIZE,
    BTREE_INDEX_COMPRESSION,
    BTREE_INDEX_COMPRESSION_LEVEL,
    GLOBAL_INDEX_EXTERNAL_PATH,
    ROW_TRACKING_ENABLED,
    SORTED_INDEX_RECORDS_PER_RANGE,
    Options,
)
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import (
    Group,
    deleted_rows,
    has_data_evolution,
    is_dedicated,
    read_group,
    row_groups,
    rows_of_group,
)
from paimon_core.read.table_read import bucket_vectors
from paimon_core.scan.global_index import (
    RowRange,
    has_other_types,
    index_range,
    is_index_of,
    merged,
    without,
)
from paimon_core.scan.scan import partition_filter, scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.types.data_types import CHARACTER_TYPES, DataField

_BUCKET: Final = 0
"""Of the entries of global indexes, whatever bucket the rows are in."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A range of row ids to index together, and the files that hold the rows."""

    partition: bytes
    rows: RowRange
    groups: tuple[Group, ...]
    vector_files: tuple[IndexFileMeta, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the data files; of wide files, only a part is read."""
        return sum(e.file.file_size for g in self.groups for e in g if not is_dedicated(e.file))

    def files(self, options: Options) -> int:
        """The number of index files, at most: `sorted-index.records-per-range` rows for each."""
        return max(1, len(self.rows) // max(1, options.value(SORTED_INDEX_RECORDS_PER_RANGE)))


def indexed_field(table: FileStoreTable, column: str, kind: str) -> DataField:
    """Return the field of a column that can have an index of this kind.

    Raises UnsupportedFeature for other kinds than B-trees, InvalidArgument for tables without data
    evolution, unknown columns and types that Java cannot index.
    """
    if kind != BTREE:
        raise UnsupportedFeature(
            f"global indexes of type {kind}",
            f"table {table.name}: global indexes of type {kind} cannot be built",
            table=table.name,
            next_step="use the type btree"
            + ("; Paimon 1.4 and 2.0 have different bitmap indexes" if kind == "bitmap" else ""),
        )
    if not table.options.value(ROW_TRACKING_ENABLED):
        raise InvalidArgument(
            f"Table '{table.name}' must enable 'row-tracking.enabled=true' before creating global "
            "index.",
            table=table.name,
        )
    if not has_data_evolution(table):
        raise InvalidArgument(
            f"table {table.name} cannot have a global index: Paimon reads them with "
            "data-evolution.enabled only",
            table=table.name,
            next_step="create the table with data-evolution.enabled=true",
        )
    field = named_field(table, column)
    KeyType(field.type, column)
    return field


def named_field(table: FileStoreTable, column: str) -> DataField:
    """Return the field of this name; InvalidArgument if there is none."""
    field = table.schema.row_type.get(column)
    if field is None:
        raise InvalidArgument(
            f"Column '{column}' does not exist in table '{table.name}'.", table=table.name
        )
    return field


def index_entries_of(
    table: FileStoreTable,
    snapshot: Snapshot,
    field: DataField,
    kind: str,
    predicate: Predicate | None = None,
) -> list[IndexManifestEntry]:
    """Return the index files of one column and kind; `predicate` is about partition columns."""
    keep = partition_filter(table, predicate)
    return [
        entry
        for entry in table.index_entries(snapshot)
        if entry.index_file.index_type == kind
        and is_index_of(entry.index_file, field.id)
        and (keep is None or keep(entry.partition))
    ]


def unindexed_parts(
    table: FileStoreTable,
    snapshot: Snapshot,
    field: DataField,
    *,
    predicate: Predicate | None = None,
) -> list[IndexPart]:
    """Return the rows that no index of the column covers, in parts.

    A part has rows of one partition whose ids have no gap, at least
    `sorted-index.records-per-range` of them where there are so many.  Raises UnsupportedFeature for
    files that cannot be read together, InvalidArgument if the column has an index of another kind:
    Java allows one only.
    """
    check_committable(table)
    check_rows_readable(table, snapshot, {field.name})
    covered = merged(index_range(f) for f in _indexes(table, snapshot, field))
    most = max(1, table.options.value(SORTED_INDEX_RECORDS_PER_RANGE))
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in scan_files(table, snapshot, predicate=predicate):
        buckets[entry.partition, entry.bucket].append(entry)
    vectors = vector_files(table, snapshot)
    parts: list[IndexPart] = []
    for (partition, bucket), entries in buckets.items():
        whole: IndexPart | None = None
        for group in row_groups(entries, table):
            for rows in without(rows_of_group(group), covered):
                piece = IndexPart(partition, rows, (group,), vectors.get((partition, bucket), ()))
                if (
                    whole is not None
                    and whole.rows.last + 1 == rows.first
                    and len(whole.rows) < most
                ):
                    whole = _together(whole, piece)
                    continue
                if whole is not None:
                    parts.append(whole)
                whole = piece
        if whole is not None:
            parts.append(whole)
    return parts


def _indexes(table: FileStoreTable, snapshot: Snapshot, field: DataField) -> list[IndexFileMeta]:
    files = [e.index_file for e in table.index_entries(snapshot)]
    found = [f for f in files if is_index_of(f, field.id)]
    if found and has_other_types(table, field):
        raise InvalidArgument(
            f"the index of column {field.name!r} of table {table.name} may be older than the type "
            "of the column",
            table=table.name,
            snapshot=snapshot.id,
            next_step="drop the index and build it again",
        )
    for file in found:
        if file.index_type != BTREE or (file.global_index or {}).get("_EXTRA_FIELD_IDS"):
            raise InvalidArgument(
                f"column {field.name!r} of table {table.name} has another global index, of type "
                f"{file.index_type}",
                table=table.name,
                snapshot=snapshot.id,
                next_step="drop that index first",
            )
    return found


def _together(left: IndexPart, right: IndexPart) -> IndexPart:
    groups = left.groups if right.groups == left.groups[-1:] else (*left.groups, *right.groups)
    return replace(left, rows=RowRange(left.rows.first, right.rows.last), groups=groups)


def build_part(
    table: FileStoreTable, part: IndexPart, field: DataField, new_uuid: Callable[[], str]
) -> list[IndexFileMeta]:
    """Write the index files of a part and return their entries; none if all its rows are deleted.

    Holds the column of the part in memory.
    """
    column, ids = _rows_to_index(table, part, field)
    if not len(ids):
        return []
    options = table.options
    keys = KeyType(field.type, field.name)
    codec = Codec(
        options.value(BTREE_INDEX_COMPRESSION), options.value(BTREE_INDEX_COMPRESSION_LEVEL)
    )
    files: list[IndexFileMeta] = []
    path = ""
    try:
        for order in keys.order(column).split(part.files(options)):
            name = f"{BTREE}-global-index-{new_uuid()}.index"
            folder = options.value(GLOBAL_INDEX_EXTERNAL_PATH)
            path = table.paths.index(name) if folder is None else join(folder, name)
            size = options.value(BTREE_INDEX_BLOCK_SIZE)
            written = write_btree(
                table.io, path, column, ids, keys, order, block_size=size, codec=codec
            )
            files.append(
                IndexFileMeta(
                    index_type=BTREE,
                    file_name=name,
                    file_size=written.size,
                    row_count=written.rows,
                    external_path=None if folder is None else path,
                    global_index={
                        "_ROW_RANGE_START": part.rows.first,
                        "_ROW_RANGE_END": part.rows.last,
                        "_INDEX_FIELD_ID": field.id,
                        "_EXTRA_FIELD_IDS": None,
                        "_INDEX_META": written.meta.encode(),
                    },
                )
            )
    except BaseException:
        delete_abandoned(table.io, [path])
        delete_index_files(table, [(part, files)])
        raise
    return files


def _rows_to_index(
    table: FileStoreTable, part: IndexPart, field: DataField
) -> tuple[pa.Array, Ints]:
    """Return the column of the part and the row ids from its first on, without deleted rows."""
    arrays: list[pa.Array] = []
    ids: list[Ints] = []
    bucket = part.groups[0][0].partition, part.groups[0][0].bucket
    vectors = bucket_vectors(table, bucket, part.vector_files)
    for group in part.groups:
        gone = deleted_rows(table, group, vectors)
        at = rows_of_group(group).first
        for batch in read_group(table, group, [field.name], {}):
            every = np.arange(at, at + batch.num_rows)
            keep = (every >= part.rows.first) & (every <= part.rows.last)
            if gone is not None:
                keep &= ~np.isin(every - rows_of_group(group).first, gone, assume_unique=True)
            at += batch.num_rows
            values = batch.column(field.name)
            if field.type.root in CHARACTER_TYPES:
                values = values.cast(pa.large_string())  # a part may have more than 2 GB of them
            arrays.append(values if keep.all() else values.filter(pa.array(keep)))
            ids.append(every[keep] - part.rows.first)
    return pa.concat_arrays(arrays), np.concatenate(ids)


def commit_index(
    table: FileStoreTable,
    built: Sequence[tuple[IndexPart, Sequence[IndexFileMeta]]],
    *,
    user: str,
    env: Environment,
) -> Snapshot:
    """Add index files to the table.

    Raises CommitConflict if the rows of a part were changed or moved to other files since they were
    read; the index files are deleted then.
    """
    changes = _changes(FileKind.ADD, ((p.partition, f) for p, files in built for f in files))
    request = CommitRequest(
        user=user,
        kind=CommitKind.APPEND,
        row_groups=[group for part, _ in built for group in part.groups],
    )
    try:
        return commit_changes(table, lambda _: changes, request, env=env)
    except CommitConflict as e:
        delete_index_files(table, built)
        if isinstance(e, RowsChanged):
            raise CommitConflict(
                f"cannot add a global index to table {table.name}: another commit changed the files "
                "of its rows meanwhile",
                table=table.name,
                snapshot=e.snapshot,
            ) from e
        raise


def delete_index_files(
    table: FileStoreTable, built: Iterable[tuple[IndexPart, Sequence[IndexFileMeta]]]
) -> None:
    """Delete index files that are certain never to be committed."""
    found = ((p.partition, f) for p, files in built for f in files)
    delete_abandoned(
        table.io, (table.paths.index_file(partition, _BUCKET, f) for partition, f in found)
    )


def drop_index(
    table: FileStoreTable,
    field: DataField,
    kind: str,
    *,
    predicate: Predicate | None,
    user: str,
    env: Environment,
) -> Snapshot:
    """Remove the index files of a column that the newest snapshot has, in one commit.

    The files stay until the snapshots that need them expire.
    """
    check_committable(table)

    def provide(latest: Snapshot | None) -> ManifestChanges:
        found = [] if latest is None else index_entries_of(table, latest, field, kind, predicate)
        return _changes(FileKind.DELETE, ((e.partition, e.index_file) for e in found))

    return commit_changes(table, provide, CommitRequest(user=user, kind=CommitKind.APPEND), env=env)


def _changes(kind: FileKind, files: Iterable[tuple[bytes, IndexFileMeta]]) -> ManifestChanges:
    entries: Iterator[IndexManifestEntry] = (
        IndexManifestEntry(kind, partition, _BUCKET, file) for partition, file in files
    )
    return ManifestChanges(index_files=tuple(entries))
