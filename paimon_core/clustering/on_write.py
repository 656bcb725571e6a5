"""Sorts new rows by the clustering columns of their table before they are written.

Java: `spark/commands/PaimonSparkWriter` with `clustering.columns`, for append tables without
buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from paimon_core.clustering.rewrite import code_width
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import (
    CLUSTERING_COLUMNS,
    CLUSTERING_INCREMENTAL,
    CLUSTERING_STRATEGY,
    ZORDER_TEXT_BYTES,
    Option,
    parse_bool,
)
from paimon_core.write.external_sort import Clustering, OrderStrategy

AUTO: Final = "auto"
_MOST_ZORDER_COLUMNS: Final = 4
_OPTIMIZE_WRITE: Final = Option("clustering.incremental.optimize-write", parse_bool, default=False)


def clustering_by(table: FileStoreTable, columns: Sequence[str], strategy: str) -> Clustering:
    """Return the clustering by these columns; the strategy "auto" depends on their number.

    InvalidArgument for unknown columns, partition columns, columns named twice, and unknown
    strategies; UnsupportedFeature for types and numbers of columns that have no code.
    """
    unknown = [c for c in columns if c not in table.schema.names]
    if unknown:
        raise InvalidArgument(
            f"table {table.name} has no column {', '.join(unknown)}; it has "
            f"{', '.join(table.schema.names)}",
            table=table.name,
        )
    partition_keys = [c for c in columns if c in table.schema.partition_keys]
    if partition_keys:
        raise InvalidArgument(
            f"sorting table {table.name} by {', '.join(partition_keys)} has no effect: all rows "
            f"of a partition have the same value",
            table=table.name,
        )
    if len(set(columns)) < len(columns):
        raise InvalidArgument("order_by names a column twice", table=table.name)
    named = strategy
    if named == AUTO:
        named = "order" if len(columns) == 1 else "hilbert"
        if 1 < len(columns) <= _MOST_ZORDER_COLUMNS:
            named = "zorder"
    try:
        chosen = OrderStrategy(named)
    except ValueError as e:
        raise InvalidArgument(
            f"{CLUSTERING_STRATEGY.key}={named} is not one of auto, {', '.join(OrderStrategy)}",
            table=table.name,
        ) from e
    clustering = Clustering(
        strategy=chosen, columns=tuple(columns), text_bytes=table.options.value(ZORDER_TEXT_BYTES)
    )
    code_width(table, clustering)
    return clustering


def clustering_on_write(table: FileStoreTable) -> Clustering | None:
    """Return how new rows are sorted; None if they stay as they come.

    Columns that cannot be sorted leave them as they come: the order of rows is no promise.
    """
    options = table.options
    columns = options.value(CLUSTERING_COLUMNS)
    if not columns or table.has_primary_key or table.bucket_mode is not BucketMode.UNAWARE:
        return None
    if options.value(CLUSTERING_INCREMENTAL) and not options.value(_OPTIMIZE_WRITE):
        return None
    try:
        return clustering_by(table, columns, options.value(CLUSTERING_STRATEGY))
    except (InvalidArgument, UnsupportedFeature):
        return None


def clustered(table: FileStoreTable, rows: pa.Table) -> pa.Table:
    """Return the rows in the order in which they are written; they have the table's columns."""
    clustering = clustering_on_write(table)
    if clustering is None or rows.num_rows <= 1:
        return rows
    batch = rows.select(list(clustering.columns)).combine_chunks().to_batches()[0]
    coded = clustering.with_codes(batch, table.schema.row_type)
    return rows.take(pa.array(clustering.order(coded)))
