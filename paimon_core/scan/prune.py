"""Prunes files by statistics and embedded indexes (java-rules G2 to G4).

Java: `operation/KeyValueFileStoreScan`, `operation/AppendOnlyFileStoreScan`.

Statistics describe a file in the schema that it was written with.  Columns are matched by field id;
if the type has changed since, the statistics count as unknown, and a column that was added later is
null in every row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.engines.traits import traits_of
from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry, SimpleStats
from paimon_core.options import DELETION_VECTORS_ENABLED
from paimon_core.predicate import Predicate, conjunction, fields_of, may_match, split_conjuncts
from paimon_core.scan.key_bounds import is_clustered
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.binary_row import RowCodec, decode_row, row_arity, row_codec
from paimon_core.types.data_types import AtomicType, DataType, TypeRoot

_BIGINT: Final = AtomicType(kind=TypeRoot.BIGINT)

ColumnStats = tuple[object, object, int | None]
"""Minimum, maximum (internal values, None if unknown) and number of nulls (None if unknown)."""
Statistics = Callable[[str], ColumnStats | None]
"""The statistics of a column by its name; None if nothing is known."""


def prune_by_statistics(
    table: FileStoreTable, entries: Sequence[ManifestEntry], predicate: Predicate
) -> list[ManifestEntry]:
    """Return the entries whose files (for merged buckets: whose buckets) may have matching rows."""
    if not table.has_primary_key:
        return [e for e in entries if _file_may_match(table, e.file, predicate, by_key=False)]
    entries = prune_by_keys(table, entries, predicate)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry)
    result: list[ManifestEntry] = []
    for files in buckets.values():
        result += _prune_bucket(table, files, predicate)
    return result


def key_condition(table: FileStoreTable, predicate: Predicate | None) -> Predicate | None:
    """Return the predicate's conditions on the trimmed primary key only; None if there are none."""
    keys = frozenset(table.schema.trimmed_primary_keys)
    conditions = [] if predicate is None else split_conjuncts(predicate)
    on_keys = [c for c in conditions if fields_of(c) <= keys]
    return conjunction(on_keys) if on_keys else None


def prune_by_keys(
    table: FileStoreTable, entries: Sequence[ManifestEntry], predicate: Predicate | None
) -> Sequence[ManifestEntry]:
    """Return the entries whose files may have keys of matching rows, of a primary-key table.

    All versions of a row have its key, so a file without the key holds none of its versions.
    """
    condition = key_condition(table, predicate)
    if condition is None:
        return entries
    return [e for e in entries if _file_may_match(table, e.file, condition, by_key=True)]


def _prune_bucket(
    table: FileStoreTable, entries: list[ManifestEntry], predicate: Predicate
) -> list[ManifestEntry]:
    matching = [e for e in entries if _file_may_match(table, e.file, predicate, by_key=False)]
    if _no_overlap(table, [e.file for e in entries]):
        return matching
    if traits_of(table.options).combines_versions and not table.options.value(
        DELETION_VECTORS_ENABLED
    ):
        # A row may match only after several files are merged.
        return entries
    # A version that does not match may hide one that does: keep the whole bucket or nothing.
    return entries if matching else []


def _no_overlap(table: FileStoreTable, files: Sequence[DataFileMeta]) -> bool:
    if len(files) <= 1:
        return True
    levels = {f.level for f in files}
    if levels != {0} and len(levels) == 1:
        return True  # one level above 0 is one sorted run
    if is_clustered(table):
        return 0 not in levels  # keys are in one file above level 0 only
    order = partial(stored_key, key=table.schema.key_type)
    ranges = sorted((order(f.min_key), order(f.max_key)) for f in files)
    return all(last < first for (_, last), (first, _) in pairwise(ranges))


def _file_may_match(
    table: FileStoreTable, file: DataFileMeta, predicate: Predicate, *, by_key: bool
) -> bool:
    if file.row_count == 0:
        return False
    if not may_match(predicate, file.row_count, statistics_of(table, file, by_key=by_key)):
        return False
    if by_key or file.embedded_index is None:
        return True
    from paimon_core.scan.file_index import (  # noqa: PLC0415 - fast start
        reads_file_indexes,
        rules_out_embedded,
    )

    return not reads_file_indexes(table) or not rules_out_embedded(table, file, predicate)


def statistics_of(table: FileStoreTable, file: DataFileMeta, *, by_key: bool = False) -> Statistics:
    """Return what the file's statistics tell about a column of the table, by its name.

    CorruptTable if they are not those of the file's columns.
    """
    layout = _layout(table.schema, table.schema_of(file.schema_id), file, by_key=by_key)
    return layout.lookup(file, file.key_stats if by_key else file.value_stats)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The positions of the current columns' statistics in the statistics rows of some files.

    `places` holds the columns that exist there with their current type; `added` those that were
    added after these files.
    """

    codec: RowCodec
    names: tuple[str, ...]
    places: Mapping[str, int]
    added: frozenset[str]

    def lookup(self, file: DataFileMeta, stats: SimpleStats) -> Statistics:
        count = len(self.names)
        if count and not row_arity(stats.min_values) == row_arity(stats.max_values) == count:
            raise CorruptTable(
                f"the statistics of file {file.file_name} are not those of {count} columns",
                file=file.file_name,
            )
        nulls = stats.null_counts

        def lookup(name: str) -> ColumnStats | None:
            if name in self.added:
                return (None, None, file.row_count)
            place = self.places.get(name)
            if place is None:
                return None
            low = self.codec.decode_field(stats.min_values, place)
            high = self.codec.decode_field(stats.max_values, place)
            return (low, high, nulls[place] if nulls and place < len(nulls) else None)

        return lookup


_LayoutKey = tuple[int, int, bool, tuple[str, ...] | None]
_layouts: dict[_LayoutKey, tuple[TableSchema, TableSchema, _Layout]] = {}
"""Keyed by the identities of both schemas, which the value keeps alive."""
_MAX_LAYOUTS: Final = 256


def _layout(
    current: TableSchema, written: TableSchema, file: DataFileMeta, *, by_key: bool
) -> _Layout:
    cols = None if by_key else _stats_columns(file)
    key = (id(current), id(written), by_key, cols)
    known = _layouts.get(key)
    if known is not None:
        return known[2]
    stored = written.names if cols is None else cols
    names = written.trimmed_primary_keys if by_key else stored
    by_id = {f.id: f for f in written.fields}
    at = {name: i for i, name in enumerate(names)}
    places: dict[str, int] = {}
    added: set[str] = set()
    for field in current.fields:
        old = by_id.get(field.id)
        if old is None:
            added.add(field.name)
        elif old.name in at and _same_type(old.type, field.type):
            places[field.name] = at[old.name]
    layout = _Layout(row_codec(_types_of(names, written)), tuple(names), places, frozenset(added))
    if len(_layouts) >= _MAX_LAYOUTS:
        _layouts.clear()
    _layouts[key] = (current, written, layout)
    return layout


def _stats_columns(file: DataFileMeta) -> tuple[str, ...] | None:
    """Return the columns of the file's statistics in order; None: all of its schema."""
    return (file.write_cols or None) if file.value_stats_cols is None else file.value_stats_cols


def _types_of(names: Iterable[str], written: TableSchema) -> list[DataType]:
    """Return types by name; names missing in the schema are the row's id and number (BIGINT).

    Spark's row tracking writes them in addition to the columns.
    """
    types = {f.name: f.type for f in written.fields}
    return [types.get(n, _BIGINT) for n in names]


def _same_type(a: DataType, b: DataType) -> bool:
    return a.with_nullable(True) == b.with_nullable(True)


def column_stats(file: DataFileMeta, written: TableSchema) -> dict[str, ColumnStats]:
    """Return the file's statistics by column name in the schema that it was written with.

    Columns without stored statistics are left out.
    """
    with_stats = _stats_columns(file)
    names = written.names if with_stats is None else with_stats
    if not names:
        return {}
    stats, columns = file.value_stats, _types_of(names, written)
    low, high = decode_row(stats.min_values, columns), decode_row(stats.max_values, columns)
    nulls = stats.null_counts or (None,) * len(names)
    return {
        name: (low[i], high[i], nulls[i] if i < len(nulls) else None)
        for i, name in enumerate(names)
    }
