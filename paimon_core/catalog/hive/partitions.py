"""The partitions of a table in a Hive metastore (Java: `HiveCatalog.createPartitions` etc.)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from paimon_core.catalog.hive.tables import LOCATION_PROPERTY, in_properties, location_of
from paimon_core.errors import AlreadyExists, CatalogError, NotFound
from paimon_core.names import checked_long, shown
from paimon_core.options import DATA_FILE_PATH_DIRECTORY
from paimon_core.paths import spec_path
from paimon_core.remote.hive_client import HiveClient
from paimon_core.remote.thrift_calls import (
    LOAD_DONE,
    AddPartitionsRequest,
    Partition,
    StorageDescriptor,
    Table,
)
from paimon_core.snapshot.snapshot_commit import PartitionStatistics

_ALL: Final = -1
_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class HivePartitions:
    """`PartitionRegistry` of one table."""

    client: HiveClient
    database: str
    table: str

    def add(
        self,
        specs: Sequence[Mapping[str, str]],
        folder_of: Callable[[Mapping[str, str]], str] = spec_path,
    ) -> None:
        """Add the partitions that are missing; `folder_of` gives their folders below the table."""
        if not specs:
            return
        table: Table = self.client.call("get_table", self.database, self.table)
        for start in range(0, len(specs), _BATCH):
            batch = specs[start : start + _BATCH]
            self._add(tuple(self._partition(table, s, folder_of(s)) for s in batch))

    def _add(self, partitions: tuple[Partition, ...]) -> None:
        request = AddPartitionsRequest(
            db_name=self.database,
            table_name=self.table,
            partitions=partitions,
            if_not_exists=True,
            need_result=False,
        )
        try:
            self.client.call("add_partitions_req", request)
        except AlreadyExists:
            # Another client added one of them after the server had looked.
            self.client.call("add_partitions_req", request)

    def _partition(self, table: Table, spec: Mapping[str, str], below: str) -> Partition:
        folder = location_of(table, self.client.options) or ""
        directory = (table.parameters or {}).get(DATA_FILE_PATH_DIRECTORY.key)
        if directory:
            folder = f"{folder}/{directory}"
        location = f"{folder}/{below}"
        now = int(time.time())
        sd = table.sd or StorageDescriptor()
        by_property = in_properties(self.client.options)
        return Partition(
            values=tuple(spec.values()),
            db_name=self.database,
            table_name=self.table,
            create_time=now,
            last_access_time=now,
            sd=sd if by_property else replace(sd, location=location),
            parameters={LOCATION_PROPERTY: location} if by_property else None,
        )

    def drop(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Drop the partitions as far as they are there; files stay."""
        for spec in specs:
            try:
                self.client.call(
                    "drop_partition", self.database, self.table, tuple(spec.values()), False
                )
            except NotFound:
                continue

    def found(self) -> list[tuple[dict[str, str], Partition]]:
        """All partitions with their specs; CatalogError for one that has not one value a key."""
        table: Table = self.client.call("get_table", self.database, self.table)
        keys = [column.name or "" for column in table.partition_keys or ()]
        found: Sequence[Partition] = self.client.call(
            "get_partitions", self.database, self.table, _ALL
        )
        for partition in found:
            if len(partition.values or ()) != len(keys):
                raise CatalogError(
                    f"the Hive metastore has a partition of table {self.database}.{self.table} with "
                    f"values {', '.join(partition.values or ())} for the keys {', '.join(keys)}",
                    table=f"{self.database}.{self.table}",
                    next_step="drop it in Hive, then CALL sys.repair",
                )
        return [(dict(zip(keys, p.values or (), strict=True)), p) for p in found]

    def specs(self) -> list[dict[str, str]]:
        """The specs of all partitions."""
        return [spec for spec, _ in self.found()]

    def mark_done(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Mark the partitions with Hive's event LOAD_DONE."""
        for spec in specs:
            self.client.call(
                "markPartitionForEvent", self.database, self.table, dict(spec), LOAD_DONE
            )

    def is_done(self, spec: Mapping[str, str]) -> bool:
        """Whether the partition is marked."""
        return bool(
            self.client.call(
                "isPartitionMarkedForEvent", self.database, self.table, dict(spec), LOAD_DONE
            )
        )

    def is_entry(self, servers: Sequence[tuple[str, int]], database: str, table: str) -> bool:
        """Whether the catalog keeps this table under this name on one of these Hive metastores."""
        same = (self.database, self.table) == (database, table)
        return same and not set(servers).isdisjoint(self.client.servers())


def statistics_of(spec: Mapping[str, str], found: Partition) -> PartitionStatistics:
    """What the metastore says about a partition, with Java's defaults; CatalogError: no number."""
    known = found.parameters or {}

    def number(key: str, default: int) -> int:
        text = known.get(key, str(default))
        try:
            return checked_long(int(text), key)
        except ValueError as e:
            raise CatalogError(
                f"the Hive metastore has partition {spec_path(spec)} of table {found.db_name}."
                f"{found.table_name} with {key}={shown(text)}",
                table=f"{found.db_name}.{found.table_name}",
                next_step="correct it in Hive with ALTER TABLE ... PARTITION ... SET TBLPROPERTIES",
            ) from e

    return PartitionStatistics(
        spec=spec,
        record_count=number("numRows", 1),
        file_size=number("totalSize", 1),
        file_count=number("numFiles", 1),
        last_file_creation_millis=number("lastUpdateTime", 0),
        total_buckets=number("totalBuckets", 0),
    )
