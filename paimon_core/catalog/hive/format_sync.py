"""Adds the partitions of a format table to a Hive metastore, if the table asks for it.

The option `format-table.commit-hive-sync-url` names the metastore, which has a table of the same
name (Java: `table/format/FormatTableCommit`).
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.catalog.hive.metastore import Metastore, hive_name
from paimon_core.catalog.hive.partitions import HivePartitions
from paimon_core.errors import CatalogError, PaimonError
from paimon_core.table.format.files import partition_folder
from paimon_core.table.format.format_table import HIVE_SYNC, FormatTable


def sync_partitions(table: FormatTable, partitions: Sequence[tuple[str, ...]]) -> None:
    """Add these partitions, as far as the metastore lacks them; CatalogError if that fails."""
    url = table.options.get(HIVE_SYNC)
    keys = table.schema.partition_keys
    if url is None or not keys or not partitions:
        return
    registry = HivePartitions(
        Metastore({"metastore": "hive", "uri": url}).client, *hive_name(table.name)
    )
    specs = [dict(zip(keys, texts, strict=True)) for texts in partitions]
    below = {
        tuple(texts): partition_folder(table, texts).removeprefix(f"{table.root}/")
        for texts in partitions
    }
    try:
        registry.add(specs, folder_of=lambda spec: below[tuple(spec.values())])
    except PaimonError as e:
        raise CatalogError(
            f"format table {table.name} has its new rows, but the Hive metastore at {url} has not "
            f"taken their partitions: {e.message}",
            table=table.name,
            next_step="MSCK REPAIR TABLE in Hive, or run the statement again if it overwrites",
        ) from e
