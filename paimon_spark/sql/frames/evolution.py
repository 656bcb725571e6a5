"""Changes of tables with data evolution: new column values for whole groups of files; deletes.

Java: `spark/commands/MergeIntoPaimonDataEvolutionTable`, `UpdatePaimonDataEvolutionTableCommand`,
`PaimonRowLevelCommand.dataEvolutionDeletionTargets`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import dedicated_columns
from paimon_core.format.blob.view import VIEW_RESOLVE
from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.options import BLOB_AS_DESCRIPTOR, GLOBAL_INDEX_COLUMN_UPDATE_ACTION
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import Group, anchor, held_columns, read_group
from paimon_core.scan.global_index import DROPPED_BY_UPDATES, IGNORED_UPDATES, indexed_id
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import Identity, Snapshot
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.row_deletions import vector_deletions
from paimon_core.table.sink.write_session import commit_files, delete_messages, new_writer
from paimon_core.table.source.placed_rows import (
    Numbers,
    PlacedRows,
    collected,
    group_units,
    with_new_values,
)
from paimon_core.write.blob_writer import write_blob_column
from paimon_core.write.column_file import write_columns
from paimon_core.write.on_failure import aborted_on_failure


@dataclass(frozen=True, slots=True)
class EvolvedRows:
    """The rows of a snapshot by group; the `entries` of `placed` are the newest of each group.

    Positions are those in the group, whose deleted rows are left out.
    """

    placed: PlacedRows
    groups: Sequence[Group]


def with_blobs_as_stored(table: FileStoreTable) -> FileStoreTable:
    """The table for reads that return descriptors and views in place of BLOBs."""
    as_stored = {BLOB_AS_DESCRIPTOR.key: "true", VIEW_RESOLVE.key: "false"}
    return replace(table, schema=table.schema.with_options(as_stored))


def evolved_rows(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    predicate: Predicate | None = None,
    *,
    described: bool = False,
) -> EvolvedRows:
    """All rows with their ids; a row's sequence number is that of the newest file of its group.

    Groups that the predicate excludes are left out.  `described`: BLOBs are descriptors and views.
    UnsupportedFeature as in `read_group`.
    """
    if described:
        table = with_blobs_as_stored(table)
    units = group_units(table, snapshot, predicate)
    return EvolvedRows(
        collected(table, units, table.schema.names), tuple(unit.group for unit in units)
    )


def commit_evolved(
    table: FileStoreTable,
    rows: EvolvedRows,
    *,
    snapshot: Snapshot | None,
    updated: pa.Table,
    numbers: Numbers,
    columns: Collection[str],
    removed: Numbers,
    inserted: pa.Table | None,
    env: Environment,
    rows_at: Identity | None = None,
) -> None:
    """Commit new values of the columns for the rows of these numbers, removed and new rows.

    `snapshot` is the one that was read, `rows_at` as in `commit_files`.  CommitConflict if another
    commit changed rows of the same files since then.
    """
    user = new_commit_user(table, env)
    touched = sorted({int(f) for f in rows.placed.files[numbers]})
    check_columns(table, [rows.groups[g] for g in touched], columns)
    blobs = dedicated_columns(table.schema.row_type, table.options) & set(columns)
    messages: list[CommitMessage] = []
    try:
        messages += outdated_indexes(table, [rows.groups[g] for g in touched], columns)
        for group, values in _values(table, rows, touched, updated, numbers, {*columns} - blobs):
            batches = values.to_batches()
            messages.append(write_columns(table, group, batches, values.schema.names, env=env))
        for name in sorted(blobs):
            for message in _new_blobs(table, rows, touched, updated, numbers, name, env):
                messages.append(message)  # one by one: a failure cleans these up
        for message in _deletions(table, rows, snapshot, removed, env):
            messages.append(message)  # one by one: a failure cleans these up
        if inserted is not None and inserted.num_rows:
            writer = new_writer(table, env=env, user=user)
            with aborted_on_failure((writer,)):
                writer.write(inserted)
                messages += writer.prepare_commit()
    except BaseException:
        delete_messages(table, messages)
        raise
    groups = [rows.groups[g] for g in {*touched, *rows.placed.files[removed].tolist()}]
    if messages:
        after = AfterCommit(table, env=env, of_engine=True)
        commit_files(
            table, messages, env=env, user=user, row_groups=groups, after=after, rows_at=rows_at
        )


def _values(
    table: FileStoreTable,
    rows: EvolvedRows,
    touched: Sequence[int],
    updated: pa.Table,
    numbers: Numbers,
    columns: Collection[str],
) -> Iterator[tuple[Group, pa.Table]]:
    """Yield each group and the columns of all its rows, the updated ones among them."""
    names = [n for n in rows.placed.rows.schema.names if n in columns]
    if not names:
        return
    schema = rows.placed.rows.select(names).schema
    new = updated.select(names).cast(schema)
    for number in touched:
        group = rows.groups[number]
        # Deleted rows, too: a file of columns has all rows of its group.
        batches = [b.select(names).cast(schema) for b in read_group(table, group, names, {})]
        old = pa.Table.from_batches(batches, schema=schema)
        mine = np.flatnonzero(rows.placed.files[numbers] == number)
        source = np.arange(old.num_rows, dtype=np.int64)
        source[rows.placed.positions[numbers[mine]]] = old.num_rows + mine
        yield group, with_new_values(old, new, source)


def _new_blobs(
    table: FileStoreTable,
    rows: EvolvedRows,
    touched: Sequence[int],
    updated: pa.Table,
    numbers: Numbers,
    name: str,
    env: Environment,
) -> Iterator[CommitMessage]:
    """Yield a message for each group with new values of the column; only these are written.

    A value that is the same as before is not new: one may be a large file.
    """
    kind = rows.placed.rows.schema.field(name).type
    new = updated.column(name).cast(kind)
    old = rows.placed.rows.column(name).take(pa.array(numbers))
    changed = np.array([a != b for a, b in zip(new, old, strict=True)], np.bool_)
    field_id = next(f.id for f in table.schema.fields if f.name == name)
    for number in touched:
        group = rows.groups[number]
        mine = np.flatnonzero((rows.placed.files[numbers] == number) & changed)
        if not len(mine):
            continue
        # Without an older file, the value that stays is null.
        held = any(field_id in held_columns(table, e.file) for e in group)
        stays = np.full(group[0].file.row_count, held, np.bool_)
        places = rows.placed.positions[numbers[mine]]
        stays[places] = False
        source = np.full(len(stays), len(new), np.int64)
        source[places] = mine
        values = pa.chunked_array([*new.chunks, pa.nulls(1, kind)], kind).take(pa.array(source))
        for batch in pa.table([values], names=[name]).combine_chunks().to_batches():
            yield write_blob_column(table, group[0], batch, stays.tolist(), env=env)


def _deletions(
    table: FileStoreTable,
    rows: EvolvedRows,
    snapshot: Snapshot | None,
    removed: Numbers,
    env: Environment,
) -> Iterator[CommitMessage]:
    """Yield the messages with the vectors of the removed rows, one for each bucket."""
    if snapshot is None or not len(removed):
        return
    files = rows.placed.files[removed]
    gone = (
        (anchor(rows.groups[n]), np.sort(rows.placed.positions[removed[files == n]]))
        for n in np.unique(files).tolist()
    )
    index_files = vector_files(table, snapshot)
    yield from vector_deletions(table, gone, index_files=index_files, env=env)


def check_columns(table: FileStoreTable, groups: Sequence[Group], columns: Collection[str]) -> None:
    """UnsupportedFeature for partition columns."""
    keys = set(table.schema.partition_keys) & set(columns)
    if keys and groups:
        raise UnsupportedFeature(
            "updates of partition columns under data evolution",
            "Update to partition columns is not supported for data evolution tables.",
            table=table.name,
            next_step="insert the rows with their new partition, then delete the old ones",
        )


def outdated_indexes(
    table: FileStoreTable, groups: Sequence[Group], columns: Collection[str]
) -> Iterator[CommitMessage]:
    """Yield messages that drop the global indexes of updated columns, one for each partition.

    UnsupportedFeature unless `global-index.column-update-action` says so; nothing if it says to
    leave the indexes as they are.
    """
    action = table.options.value(GLOBAL_INDEX_COLUMN_UPDATE_ACTION)
    latest = table.snapshots.latest()
    if latest is None or not groups or action == IGNORED_UPDATES:
        return
    ids = {f.id for f in table.schema.fields if f.name in columns}
    total_buckets = {g[0].partition: g[0].total_buckets for g in groups}
    found: dict[bytes, list[IndexFileMeta]] = {}
    for entry in table.index_entries(latest):
        file = entry.index_file
        if entry.partition in total_buckets and indexed_id(file) in ids:
            found.setdefault(entry.partition, []).append(file)
    if found and action != DROPPED_BY_UPDATES:
        raise UnsupportedFeature(
            "updates of columns with a global index",
            "MergeInto: update columns contain globally indexed columns, not supported now.",
            table=table.name,
            next_step="drop the index with CALL sys.drop_global_index, or set "
            f"{GLOBAL_INDEX_COLUMN_UPDATE_ACTION.key}={DROPPED_BY_UPDATES}",
        )
    for partition, files in found.items():
        yield CommitMessage(
            partition=partition,
            bucket=0,
            total_buckets=total_buckets[partition],
            deleted_index_files=tuple(files),
        )
