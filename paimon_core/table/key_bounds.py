"""What the least and greatest key of a data file are rows of."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.features import PK_CLUSTERING
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import CLUSTERING_COLUMNS
from paimon_core.types.data_types import DataField


def bound_fields(table: FileStoreTable, file: DataFileMeta) -> Sequence[DataField]:
    """Return the fields of `min_key` and `max_key`; empty for append tables.

    With `pk-clustering-override`, compacted files have rows of the clustering columns there (Java:
    `KeyValueClusteringFileWriter`; java-rules G8).
    """
    if not table.has_primary_key:
        return ()
    schema = table.schema_of(file.schema_id)
    if table.options.flag(PK_CLUSTERING) and file.level > 0:
        return schema.row_type.project(table.options.value(CLUSTERING_COLUMNS)).fields
    return schema.key_type.fields
