"""Builds the file indexes of files that were written without them, or with others.

Java: `index/FileIndexProcessor`, `RewriteFileIndexProcedure`.  The data files stay; their entries
in the manifests get the index.

Java counts the index files of a data file.  Two runs at once would choose the same name then, and
one that fails would delete the index of the other.  So names hold a UUID here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict
from paimon_core.features import check_not_chain, check_writable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.file_index.container import decode_indexes, encode_indexes
from paimon_core.index.file_index.writer import (
    INDEX_SUFFIX,
    FileIndexWriter,
    IndexedColumn,
    indexed_columns,
)
from paimon_core.io.file_io import delete_abandoned
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import FILE_INDEX_IN_MANIFEST_THRESHOLD
from paimon_core.predicate import Predicate
from paimon_core.read.data_file import read_data_file
from paimon_core.scan.scan import scan_files
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.sink.write_session import commit_files
from paimon_core.types.data_types import RowType


@dataclass(frozen=True, slots=True)
class RewrittenIndexes:
    """The numbers of partitions and of files whose indexes changed."""

    partitions: int
    files: int


def rewrite_file_indexes(
    table: FileStoreTable,
    *,
    env: Environment,
    predicate: Predicate | None = None,
) -> RewrittenIndexes:
    """Give every file of the latest snapshot the indexes of the table's options; one commit.

    The `predicate` is about partition columns.
    CommitConflict if another commit replaced one of the files meanwhile.
    """
    check_writable(table)
    check_not_chain(table, "given new file indexes")
    snapshot = table.snapshots.latest()
    if snapshot is None:
        return RewrittenIndexes(0, 0)
    wanted = indexed_columns(table.schema.options)
    messages: list[CommitMessage] = []
    written: list[str] = []
    try:
        for entry in scan_files(table, snapshot, predicate=predicate):
            file = _indexed(table, entry, wanted, written, env)
            if file != entry.file:
                messages.append(
                    CommitMessage(
                        partition=entry.partition,
                        bucket=entry.bucket,
                        total_buckets=entry.total_buckets,
                        compact_before=(entry.file,),
                        compact_after=(file,),
                    )
                )
    except BaseException:
        delete_abandoned(table.io, written)
        raise
    if messages:
        try:
            commit_files(table, messages, env=env, user=env.new_uuid())
        except CommitConflict:  # after any other error, the new entries may be part of the table
            delete_abandoned(table.io, written)
            raise
    return RewrittenIndexes(len({m.partition for m in messages}), len(messages))


def _indexed(
    table: FileStoreTable,
    entry: ManifestEntry,
    wanted: Sequence[IndexedColumn],
    written: list[str],
    env: Environment,
) -> DataFileMeta:
    """The file with its new indexes; paths of index files are added to `written`."""
    file = entry.file
    path = table.paths.data_file(entry.partition, entry.bucket, file)
    folder = path.rpartition("/")[0]
    old = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    others = tuple(name for name in file.extra_files if name not in old)
    schema = table.schema_of(file.schema_id)
    columns = _columns_of(table, schema, wanted)
    indexes: dict[str, dict[str, bytes | None]] = {}
    if old:
        known = decode_indexes(read_whole(table.io, f"{folder}/{old[0]}"))
        names = {c.name for c in columns}
        indexes = {name: dict(kinds) for name, kinds in known.items() if name in names}
    for name, kinds in _built(table, entry, schema, columns).items():
        indexes.setdefault(name, {}).update(kinds)
    if not indexes:
        return replace(file, extra_files=others)
    data = encode_indexes(indexes)
    if len(data) <= table.schema.options.value(FILE_INDEX_IN_MANIFEST_THRESHOLD):
        return replace(file, embedded_index=data)
    name = f"{file.file_name}-{env.new_uuid()}-0{INDEX_SUFFIX}"
    written.append(f"{folder}/{name}")
    table.io.write_bytes(written[-1], data)
    return replace(file, extra_files=(*others, name))


def _columns_of(
    table: FileStoreTable, schema: TableSchema, wanted: Sequence[IndexedColumn]
) -> list[IndexedColumn]:
    """The columns under the names that they have in the file; those that it lacks are left out."""
    ids = {f.name: f.id for f in table.schema.fields}
    names = {f.id: f.name for f in schema.fields}
    renamed = ((c, names.get(ids.get(c.column, -1))) for c in wanted)
    return [replace(c, column=name) for c, name in renamed if name is not None]


def _built(
    table: FileStoreTable,
    entry: ManifestEntry,
    schema: TableSchema,
    columns: Sequence[IndexedColumn],
) -> Mapping[str, Mapping[str, bytes | None]]:
    if not columns:
        return {}
    names = list(dict.fromkeys(c.column for c in columns))
    row_type: RowType = schema.row_type.project(names)
    writer = FileIndexWriter(row_type, columns)
    for batch in read_data_file(
        table.io,
        table.paths.data_file(entry.partition, entry.bucket, entry.file),
        entry.file,
        file_schema=schema,
        read_type=row_type,
        key_value=False,
        partition=entry.partition,
    ):
        writer.update(batch.columns)
    return decode_indexes(writer.finish())
