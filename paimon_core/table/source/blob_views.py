"""BLOBs of other tables, which views name (Java: `utils/BlobViewLookup`).

A view names a row of a table by its id.  The BLOB is the one of the newest snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import CorruptTable, NotFound, UnsupportedFeature
from paimon_core.features import check_rows_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.view import VIEW_RESOLVE, BlobView, parse_view, view_columns
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.read.data_evolution import (
    deleted_rows,
    has_data_evolution,
    read_group,
    row_groups,
    rows_of_group,
)
from paimon_core.read.table_read import bucket_vectors
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.types.data_types import TypeRoot

Open = Callable[[str], FileStoreTable]
"""Returns the table of this name."""
_DEEPEST: Final = 16


def without_views(table: FileStoreTable, columns: Collection[str]) -> bool:
    """Return whether none of these columns holds views that a read replaces by BLOBs."""
    return not table.options.value(VIEW_RESOLVE) or set(columns).isdisjoint(
        view_columns(table.options)
    )


def with_viewed_blobs(
    rows: pa.Table, columns: Collection[str], open_table: Open, *, depth: int = 0
) -> pa.Table:
    """Return the rows with BLOBs in place of views in these columns.

    NotFound for a row that its table does not have, CorruptTable for a value that is no view,
    UnsupportedFeature for a BLOB that cannot be read.
    """
    for name in columns:
        at = rows.schema.get_field_index(name)
        views = [None if v is None else parse_view(v) for v in rows.column(name).to_pylist()]
        found = _blobs(filter(None, views), open_table, depth)
        values = pa.array([None if v is None else found[v] for v in views], pa.binary())
        rows = rows.set_column(at, rows.schema.field(at), values)
    return rows


def _blobs(views: Iterable[BlobView], open_table: Open, depth: int) -> Mapping[BlobView, bytes]:
    wanted: dict[tuple[str, int], set[int]] = defaultdict(set)
    for view in views:
        wanted[view.table, view.field_id].add(view.row_id)
    if wanted and depth > _DEEPEST:
        raise CorruptTable(f"BLOB views name each other more than {_DEEPEST} times in a row")
    found: dict[BlobView, bytes] = {}
    for (name, field_id), row_ids in wanted.items():
        blobs = _of_rows(open_table(name), field_id, row_ids, open_table, depth)
        found |= {BlobView(name, field_id, row): blob for row, blob in blobs.items()}
    return found


def _of_rows(
    table: FileStoreTable, field_id: int, row_ids: Collection[int], open_table: Open, depth: int
) -> dict[int, bytes]:
    """Return the BLOBs of these rows."""
    field = next((f for f in table.schema.fields if f.id == field_id), None)
    if field is None or field.type.root is not TypeRoot.BLOB:
        raise NotFound(f"table {table.name} has no BLOB column with the id {field_id}")
    if not has_data_evolution(table):
        raise UnsupportedFeature("BLOB views of tables without row ids", table=table.name)
    snapshot = table.latest_or_not_found()
    check_rows_readable(_raw(table), snapshot, {field.name})
    left, parts = np.array(sorted(row_ids), np.int64), []
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in scan_files(table, snapshot):
        buckets[entry.partition, entry.bucket].append(entry)
    index_files = vector_files(table, snapshot)
    ids: list[int] = []
    for bucket, entries in buckets.items():
        vectors = bucket_vectors(table, bucket, index_files.get(bucket, ()))
        for group in row_groups(entries, table):
            rows = rows_of_group(group)
            mine = left[(left >= rows.first) & (left <= rows.last)]
            gone = deleted_rows(table, group, vectors)
            if gone is not None:
                mine = mine[np.isin(mine - rows.first, gone, invert=True)]
            if len(mine):
                values = _at(table, group, field.name, mine - rows.first)
                parts.append(values)
                ids += mine.tolist()
    missing = set(row_ids) - set(ids)
    if missing:
        raise NotFound(
            f"a BLOB view names row {min(missing)} of table {table.name}, which does not exist",
            table=table.name,
            snapshot=snapshot.id,
            next_step="remove the rows with such views, or set blob-view.resolve.enabled=false to "
            "read the views themselves",
        )
    column = pa.concat_tables(parts)
    if not without_views(table, {field.name}):
        column = with_viewed_blobs(column, [field.name], open_table, depth=depth + 1)
    return dict(zip(ids, column.column(0).to_pylist(), strict=True))


def _raw(table: FileStoreTable) -> FileStoreTable:
    """The table whose views are read as they are stored."""
    return replace(table, schema=table.schema.with_options({VIEW_RESOLVE.key: "false"}))


def _at(
    table: FileStoreTable,
    group: Sequence[ManifestEntry],
    name: str,
    places: npt.NDArray[np.int64],
) -> pa.Table:
    """The column in these rows of a group, ascending."""
    found, first = [], 0
    for batch in read_group(_raw(table), group, {name}, {}):
        inside = places[(places >= first) & (places < first + batch.num_rows)] - first
        if len(inside):
            found.append(batch.select([name]).take(pa.array(inside)))
        first += batch.num_rows
    return pa.Table.from_batches(found)
