"""Which files may hold matching rows, by statistics and embedded indexes (JAVA_RULES G2 to G4).

Java: `operation/KeyValueFileStoreScan`, `operation/AppendOnlyFileStoreScan`.

Statistics describe a file in the schema it was written with.  A column is looked up by its field
id; if its type changed since, its statistics count as unknown, and a column that was added later
is null in every row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise

from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry, SimpleStats
from paimon_core.options import DELETION_VECTORS_ENABLED, MERGE_ENGINE
from paimon_core.predicate import Predicate, conjunction, fields_of, may_match, split_conjuncts
from paimon_core.scan.file_index import reads_file_indexes, rules_out_embedded
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import DataField, DataType

ColumnStats = tuple[object, object, int | None]
"""Minimum, maximum (internal values, None if unknown) and number of nulls (None if unknown)."""


def prune_by_statistics(
    table: FileStoreTable, entries: Sequence[ManifestEntry], predicate: Predicate
) -> list[ManifestEntry]:
    """The entries whose files, or for merged buckets whose buckets, may hold matching rows."""
    if not table.has_primary_key:
        return [e for e in entries if _file_may_match(table, e.file, predicate, by_key=False)]
    keys = frozenset(table.schema.trimmed_primary_keys)
    on_keys = [c for c in split_conjuncts(predicate) if fields_of(c) <= keys]
    if on_keys:
        # A key lives in each of its versions, so a file without it holds nothing of its history.
        key_condition = conjunction(on_keys)
        entries = [e for e in entries if _file_may_match(table, e.file, key_condition, by_key=True)]
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry)
    result: list[ManifestEntry] = []
    for files in buckets.values():
        result += _prune_bucket(table, files, predicate)
    return result


def _prune_bucket(
    table: FileStoreTable, entries: list[ManifestEntry], predicate: Predicate
) -> list[ManifestEntry]:
    matching = [e for e in entries if _file_may_match(table, e.file, predicate, by_key=False)]
    if _no_overlap(table, [e.file for e in entries]):
        return matching
    engine = table.options.value(MERGE_ENGINE)
    if engine in ("partial-update", "aggregation") and not table.options.value(
        DELETION_VECTORS_ENABLED
    ):
        # A row may match only after several files were merged.
        return entries
    # One version that matches may be hidden by one that does not: all of the bucket or nothing.
    return entries if matching else []


def _no_overlap(table: FileStoreTable, files: Sequence[DataFileMeta]) -> bool:
    if len(files) <= 1:
        return True
    levels = {f.level for f in files}
    if levels != {0} and len(levels) == 1:
        return True  # one level above 0 is one sorted run
    order = partial(stored_key, key=table.schema.key_type)
    ranges = sorted((order(f.min_key), order(f.max_key)) for f in files)
    return all(last < first for (_, last), (first, _) in pairwise(ranges))


def _file_may_match(
    table: FileStoreTable, file: DataFileMeta, predicate: Predicate, *, by_key: bool
) -> bool:
    if file.row_count == 0:
        return False
    written = (
        table.schema if file.schema_id == table.schema.id else table.schemas.get(file.schema_id)
    )
    lookup = _lookup(table.schema, written, file, by_key=by_key)
    if not may_match(predicate, file.row_count, lookup):
        return False
    if by_key or file.embedded_index is None or not reads_file_indexes(table):
        return True
    return not rules_out_embedded(table, file, predicate)


def _lookup(
    current: TableSchema, written: TableSchema, file: DataFileMeta, *, by_key: bool
) -> Callable[[str], ColumnStats | None]:
    stats = file.key_stats if by_key else file.value_stats
    if by_key:
        names: Sequence[str] = written.trimmed_primary_keys
    elif file.value_stats_cols is not None:
        names = file.value_stats_cols
    else:
        names = file.write_cols or written.names
    by_id = {f.id: f for f in written.fields}
    wanted = {f.name: f for f in current.fields}
    decoded: dict[str, ColumnStats] | None = None

    def lookup(name: str) -> ColumnStats | None:
        nonlocal decoded
        field = wanted[name]
        old = by_id.get(field.id)
        if old is None:
            return (None, None, file.row_count)
        if not _same_type(old.type, field.type):
            return None
        if decoded is None:
            decoded = column_stats(stats, names, written.fields)
        return decoded.get(old.name)

    return lookup


def _same_type(a: DataType, b: DataType) -> bool:
    return a.with_nullable(True) == b.with_nullable(True)


def column_stats(
    stats: SimpleStats, names: Sequence[str], fields: Iterable[DataField]
) -> dict[str, ColumnStats]:
    """Statistics by column name; nothing for columns of which nothing is stored."""
    if not names:
        return {}
    types = {f.name: f.type for f in fields}
    columns = [types[n] for n in names]
    low, high = decode_row(stats.min_values, columns), decode_row(stats.max_values, columns)
    nulls = stats.null_counts or (None,) * len(names)
    return {
        name: (low[i], high[i], nulls[i] if i < len(nulls) else None)
        for i, name in enumerate(names)
    }
