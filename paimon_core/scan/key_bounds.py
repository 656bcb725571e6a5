"""What the least and greatest key of a data file are rows of.

With `pk-clustering-override`, files above level 0 are sorted by the clustering columns, and their
bounds are rows of these columns (Java: `KeyValueClusteringFileWriter`; java-rules G8).
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.features import PK_CLUSTERING
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import CLUSTERING_COLUMNS
from paimon_core.types.data_types import DataField


def is_clustered(table: FileStoreTable) -> bool:
    """Return whether files above level 0 are sorted by other columns than the key."""
    return table.has_primary_key and table.options.flag(PK_CLUSTERING)


def has_key_bounds(table: FileStoreTable, file: DataFileMeta) -> bool:
    """Return whether `min_key` and `max_key` are keys; False for append tables."""
    return table.has_primary_key and (file.level == 0 or not is_clustered(table))


def bound_fields(table: FileStoreTable, file: DataFileMeta) -> Sequence[DataField]:
    """Return the fields of `min_key` and `max_key`; empty for append tables."""
    if not table.has_primary_key:
        return ()
    schema = table.schema_of(file.schema_id)
    if has_key_bounds(table, file):
        return schema.key_type.fields
    return schema.row_type.project(table.options.value(CLUSTERING_COLUMNS)).fields
