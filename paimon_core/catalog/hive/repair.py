"""Brings a Hive metastore in line with the files (Java: `HiveCatalog.repairTable`)."""

from __future__ import annotations

from collections.abc import Callable

from paimon_core.catalog.hive import tables as hive_tables
from paimon_core.catalog.hive.folders import place_of
from paimon_core.catalog.hive.metastore import Metastore, hive_name
from paimon_core.catalog.hive.partitions import HivePartitions
from paimon_core.catalog.partitions import partitions_of_files
from paimon_core.errors import AlreadyExists, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import PARTITIONED_TABLE


def repair_table(
    metastore: Metastore, identifier: str, open_table: Callable[[str], FileStoreTable]
) -> None:
    """Give the table's entry the columns and options of the newest schema, and its partitions.

    Registers the table if the metastore lacks it.  Nothing is removed from the metastore.  NotFound
    for a table without files, AlreadyExists if another table has its folder.
    """
    name = hive_name(identifier)
    registered = metastore.table(identifier) if metastore.exists(name) else None
    location = (
        f"{metastore.folder_of(name[0])}/{name[1]}"
        if registered is None
        else metastore.location(registered)
    )
    schema = metastore.files_at(location, identifier).schemas().latest()
    if schema is None:
        raise NotFound(
            f"table {identifier} does not exist: no schema under {location}", table=identifier
        )
    if registered is None:
        place = place_of(location)
        others = metastore.tables_at(place, identifier) if place is not None else []
        if others:
            raise AlreadyExists(
                f"{location} is the folder of table {', '.join(others)}",
                table=identifier,
                next_step="no action is needed, unless that table should have another folder",
            )
        external = hive_tables.is_created_external(schema, metastore.options)
        metastore.register(name, schema, location, external=external)
    else:
        wanted = hive_tables.altered_table(registered, schema, location, metastore.options, ())
        if wanted != registered:
            metastore.alter(identifier, wanted)
    table = open_table(identifier)
    keeps_partitions: bool = table.options.value(PARTITIONED_TABLE)
    if schema.partition_keys and keeps_partitions:
        found = [dict(p.statistics.spec) for p in partitions_of_files(table)]
        HivePartitions(metastore.client, *name).add(found)
