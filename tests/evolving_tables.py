"""Updates of columns and deletes of tables with data evolution, as SQL writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from lakes import ENV

from paimon_core.commit.committer import commit
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.data_evolution import Group, anchor, row_groups
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.table.sink.row_deletions import vector_deletions
from paimon_core.table.source.batch_scan import batch_scan_of
from paimon_core.table.system.row_views import tracked_rows
from paimon_core.types.arrow import arrow_schema
from paimon_core.write.column_file import write_columns

EVOLVING = {
    "bucket": "-1",
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "compaction.min.file-num": "2",
}
DELETING = {**EVOLVING, "deletion-vectors.enabled": "true"}


def groups_of(table: FileStoreTable) -> list[Group]:
    """The groups of files of the newest snapshot, in the order of their row ids."""
    by_partition: dict[bytes, list[Any]] = {}
    for entry in scan_files(table, table.latest_or_not_found()):
        by_partition.setdefault(entry.partition, []).append(entry)
    found = [g for entries in by_partition.values() for g in row_groups(entries, table)]
    return sorted(found, key=lambda g: g[0].file.first_row_id or 0)


def update_columns(table: FileStoreTable, group: Group, **columns: Sequence[Any]) -> None:
    """Commit new values of columns, one for each row of the group."""
    types = arrow_schema(table.schema.row_type)
    rows = pa.table({n: pa.array(v, types.field(n).type) for n, v in columns.items()})
    message = write_columns(table, group, rows.to_batches(), list(columns), env=ENV)
    commit(table, [message], user=ENV.new_uuid(), env=ENV, row_groups=[group])


def delete_rows_of(table: FileStoreTable, group: Group, positions: Sequence[int]) -> None:
    """Commit a deletion vector of the group's rows at these positions."""
    gone = [(anchor(group), np.array(sorted(positions), np.int64))]
    index_files = vector_files(table, table.latest_or_not_found())
    messages = list(vector_deletions(table, gone, index_files=index_files, env=ENV))
    commit(table, messages, user=ENV.new_uuid(), env=ENV, row_groups=[group])


def rows_by_id(table: FileStoreTable) -> dict[int, list[Any]]:
    """The values of all rows by row id."""
    found: dict[int, list[Any]] = {}
    for batch in tracked_rows(batch_scan_of(table)):
        for row in batch.to_pylist():
            number = row["_ROW_ID"]
            assert number not in found
            found[number] = [row[name] for name in table.schema.names]
    return found
