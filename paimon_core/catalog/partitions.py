"""The partitions of a table from its files (Java: `CatalogUtils.listPartitionsFromFileSystem`)."""

from __future__ import annotations

from datetime import UTC, datetime

from paimon_core.catalog.catalog import Partition
from paimon_core.commit.partition_statistics import summed
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_files


def partitions_of_files(table: FileStoreTable) -> list[Partition]:
    """The partitions with live files in the newest snapshot, in no order."""
    latest = table.snapshots.latest()
    if latest is None:
        return []
    here = datetime.now(UTC).astimezone().utcoffset()
    offset = 0 if here is None else int(here.total_seconds() * 1000)
    entries = scan_files(table, latest)
    return [Partition(statistics) for statistics in summed(table, entries, offset_millis=offset)]
