"""Chain tables: complete partitions in one branch, changes in another.

Java: `table/ChainTableFileStoreTable`, `table/ChainGroupReadTable`.

With `chain-table.enabled`, the table reads its own branch first, then the partitions that only the
branches `scan.fallback-snapshot-branch` and `scan.fallback-delta-branch` have (`partitions`).
These two branches by themselves, and tables without the two options, are ordinary tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.errors import NotFound, UnsupportedFeature
from paimon_core.features import CHAIN_TABLE, chain_branches, check_rows_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions, with_deleted_rows
from paimon_core.lsm.merge_engine import MergedRows, MergeEngine, MergeSlice
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import DELETION_VECTORS_ENABLED, MERGE_ENGINE, SEQUENCE_FIELD
from paimon_core.predicate import Predicate, fields_of
from paimon_core.read.data_file import read_data_file
from paimon_core.read.table_read import BATCH_ROWS, bucket_vectors, chosen_rows, least_level
from paimon_core.read.version_reader import VersionReader
from paimon_core.scan.engine import merge_engine_for
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import VectorFiles, vector_files
from paimon_core.schema.key_value import RowKind
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.chain.partitions import ChainKeys, links
from paimon_core.table.open import open_table_at
from paimon_core.types.buffers import int8_array

_MERGE_ENGINES: Final = ("deduplicate", "partial-update")
_NOT_INHERITED: Final = frozenset({"branch", "bucket"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The two branches of a chain table at one time.

    `skip` holds partitions that are left out, `only` says which others are read.  Those of `again`
    are merged from deltas, even though the snapshot branch has them.
    """

    snapshot: FileStoreTable
    delta: FileStoreTable
    snapshot_at: Snapshot | None
    delta_at: Snapshot | None
    skip: frozenset[bytes] = frozenset()
    only: Callable[[bytes], bool] | None = None
    again: frozenset[bytes] = frozenset()


def chain_of(table: FileStoreTable) -> Chain | None:
    """Return the branches that the table reads beside its own; None for an ordinary table.

    Raises UnsupportedFeature for chains that are not read as in Java, NotFound for a missing
    branch.
    """
    names = chain_branches(table)
    if names is None:
        return None
    snapshot, delta = (alone(branch_of_chain(table, name)) for name in names)
    for branch in (snapshot, delta):
        _check_alike(table, branch)
        for feature in _differences(branch):
            raise _unsupported(table, feature)
    return Chain(
        snapshot=snapshot,
        delta=delta,
        snapshot_at=snapshot.snapshots.latest(),
        delta_at=delta.snapshots.latest(),
    )


def alone(table: FileStoreTable) -> FileStoreTable:
    """Return the table as an ordinary one, which reads its own branch only."""
    return replace(table, schema=table.schema.with_options({CHAIN_TABLE: None}))


def branch_of_chain(table: FileStoreTable, branch: str) -> FileStoreTable:
    """Return a branch of a chain table; NotFound if it does not exist."""
    options = {k: v for k, v in table.dynamic_options.items() if k not in _NOT_INHERITED}
    try:
        return open_table_at(
            table.io,
            table.root,
            table.name,
            branch=branch,
            dynamic_options=options,
            snapshot_commit=table.snapshots.snapshot_commit,
            partition_registry=table.partition_registry,
        )
    except NotFound as e:
        e.next_step = f"create the branch {branch} of the chain table, or read another branch"
        raise


def _check_alike(table: FileStoreTable, branch: FileStoreTable) -> None:
    own, other = table.schema, branch.schema
    columns = [[(f.id, f.name, f.type.with_nullable(True)) for f in s.fields] for s in (own, other)]
    if columns[0] != columns[1]:
        raise _unsupported(table, f"other columns in branch {branch.branch}")
    if (own.partition_keys, own.primary_keys) != (other.partition_keys, other.primary_keys):
        raise _unsupported(table, f"other keys in branch {branch.branch}")


def _differences(branch: FileStoreTable) -> Iterator[str]:
    options = branch.options
    engine = options.value(MERGE_ENGINE)
    if engine not in _MERGE_ENGINES:
        yield f"{MERGE_ENGINE.key}={engine}"
    if engine != "deduplicate" and options.value(DELETION_VECTORS_ENABLED):
        # Each older version of a key would be a delete, which partial updates do not take.
        yield f"{DELETION_VECTORS_ENABLED.key} and {MERGE_ENGINE.key}={engine}"
    if not branch.has_primary_key or not branch.schema.partition_keys:
        yield "a table without primary or partition keys"


def read_chain(
    chain: Chain,
    *,
    columns: Sequence[str] | None,
    predicate: Predicate | None,
    keep_deletes: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the partitions that only these branches have, as `read_table` does.

    Files of level 0 are skipped in a branch with deletion vectors, as in a read of this branch.

    Raises UnsupportedFeature where different rows of one key have equal sequences: which of them
    Java takes depends on the other keys.
    """
    table = chain.delta
    names = table.schema.names if columns is None else columns
    needed = {*names, *(fields_of(predicate) if predicate is not None else ())}
    parts = [
        _Branch.at(branch, at, needed)
        for branch, at in ((chain.snapshot, chain.snapshot_at), (table, chain.delta_at))
    ]
    return chosen_rows(_rows(chain, parts, needed, keep_deletes=keep_deletes), names, predicate)


@dataclass(frozen=True, slots=True)
class _Branch:
    """The files of a branch by partition, and its deletion vectors."""

    table: FileStoreTable
    files: Mapping[bytes, Sequence[ManifestEntry]]
    vector_files: VectorFiles

    @classmethod
    def at(cls, table: FileStoreTable, at: Snapshot | None, needed: Collection[str]) -> _Branch:
        if at is None:
            return cls(table, {}, {})
        check_rows_readable(table, at, needed)
        lowest = least_level(table)
        files: dict[bytes, list[ManifestEntry]] = defaultdict(list)
        for entry in scan_files(table, at):
            if entry.file.level >= lowest:
                files[entry.partition].append(entry)
        return cls(table, files, vector_files(table, at))

    def placed(self, partition: bytes) -> Iterator[_Placed]:
        """Yield the files of a partition, with the positions that are deleted in them."""
        known: dict[int, Mapping[str, Positions]] = {}
        for entry in self.files.get(partition, ()):
            if entry.bucket not in known:
                key = partition, entry.bucket
                known[entry.bucket] = bucket_vectors(
                    self.table, key, self.vector_files.get(key, ())
                )
            yield _Placed(self.table, entry, known[entry.bucket].get(entry.file.file_name))


def _rows(
    chain: Chain, parts: Sequence[_Branch], needed: Collection[str], *, keep_deletes: bool
) -> Iterator[pa.RecordBatch]:
    whole, changes = parts
    delta = changes.table
    keys = ChainKeys.of(delta)
    for link in links(
        keys, sorted(whole.files), sorted(changes.files), chain.skip, again=chain.again
    ):
        if chain.only is not None and not chain.only(link.partition):
            continue
        buckets: dict[int, list[_Placed]] = defaultdict(list)
        for place in whole.placed(link.anchor) if link.anchor is not None else ():
            buckets[place.entry.bucket].append(place)
        for partition in link.deltas:
            for place in changes.placed(partition):
                buckets[place.entry.bucket].append(place)
        totals = {p.entry.total_buckets for files in buckets.values() for p in files}
        if len(totals) > 1:
            raise _unsupported(delta, "partitions of different numbers of buckets")
        for bucket, files in buckets.items():
            yield from _bucket_rows(
                delta, link.partition, bucket, files, needed, keep_deletes=keep_deletes
            )


@dataclass(frozen=True, slots=True)
class _Placed:
    """A file, the branch that has it, and the positions of its deleted rows."""

    table: FileStoreTable
    entry: ManifestEntry
    deleted: Positions | None


def _bucket_rows(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    placed: Sequence[_Placed],
    needed: Collection[str],
    *,
    keep_deletes: bool,
) -> Iterator[pa.RecordBatch]:
    schema = table.schema
    chosen = merge_engine_for(table)
    sequence = table.options.value(SEQUENCE_FIELD)
    fields = {*needed, *schema.trimmed_primary_keys, *sequence, *chosen.needs}
    reader = _ChainReader(
        table=table,
        partition=partition,
        bucket=bucket,
        read_type=schema.row_type.project([n for n in schema.names if n in fields]),
        files={p.entry.file.file_name: p for p in placed},
    )
    # Levels of several partitions say nothing about age.  Java: `MergeFileSplitRead.unwrapLookup`.
    engine = _WithoutTies(table, tuple(sequence), chosen.engine)
    for section in interval_partition([p.entry.file for p in placed], schema.key_type):
        yield from reader.merged(section, engine, drop_deletes=not keep_deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChainReader(VersionReader):
    """Reads files of several partitions and branches as rows of one partition."""

    files: Mapping[str, _Placed]

    def file(self, file: DataFileMeta, rows: int) -> Iterator[pa.RecordBatch]:
        placed = self.files[file.file_name]
        entry, branch = placed.entry, placed.table
        batches = read_data_file(
            branch.io,
            branch.paths.data_file(entry.partition, entry.bucket, file),
            file,
            file_schema=branch.schema_of(file.schema_id),
            read_type=self.read_type,
            key_value=True,
            batch_rows=min(rows, BATCH_ROWS),
            partition=self.partition,
        )
        return _with_deletes(batches, placed.deleted)


def _with_deletes(
    batches: Iterator[pa.RecordBatch], deleted: Positions | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file; those that are deleted delete their keys in earlier partitions too.

    Java: `ExposeDeletionKeyValueReader`.
    """
    if deleted is None:
        yield from batches
        return
    for batch, rows in with_deleted_rows(batches, deleted):
        place = batch.schema.get_field_index(VALUE_KIND)
        kinds = batch.column(place).to_numpy().copy()
        kinds[rows] = RowKind.DELETE
        yield batch.set_column(place, batch.schema.field(place), int8_array(kinds))


@dataclass(frozen=True, slots=True)
class _WithoutTies:
    """The engine of a table; refuses different rows of one key whose sequences are all equal.

    Sequence numbers are unique within a partition of a branch, but not over several.
    """

    table: FileStoreTable
    sequence_fields: tuple[str, ...]
    engine: MergeEngine

    def merge(self, rows: MergeSlice) -> MergedRows:
        if not rows.is_merged and _has_ties(rows, self.sequence_fields):
            raise _unsupported(self.table, "equal sequences of one key in several partitions")
        return self.engine.merge(rows)


def _has_ties(rows: MergeSlice, sequence_fields: Collection[str]) -> bool:
    """Return whether two different rows of one key have equal sequences."""
    order = rows.ordered()
    first = np.zeros(len(order), np.bool_)
    first[rows.group_starts()] = True
    numbers = rows.sequence_numbers[order]
    places = np.flatnonzero(~first[1:] & (numbers[1:] == numbers[:-1]))
    if not len(places):
        return False
    before, after = (rows.take(order[at]).to_pylist() for at in (places, places + 1))
    return any(
        a != b and all(a[name] == b[name] for name in sequence_fields)
        for a, b in zip(before, after, strict=True)
    )


def _unsupported(table: FileStoreTable, what: str) -> UnsupportedFeature:
    feature = f"{CHAIN_TABLE} with {what}"
    return UnsupportedFeature(
        feature,
        f"table {table.name} cannot be read: it uses {feature}, which is not supported",
        table=table.name,
    )
