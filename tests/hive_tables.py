"""Tables of Hive in a metastore, as Hive and Spark leave them there and in folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.hive.metastore import Metastore
from paimon_core.catalog.hive.migrate import Migration, migrate_table
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.remote.thrift_calls import (
    AddPartitionsRequest,
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)

FORMATS = ("parquet", "orc", "avro")
_QL = "org.apache.hadoop.hive.ql.io"
CLASSES = {
    "parquet": (
        f"{_QL}.parquet.serde.ParquetHiveSerDe",
        f"{_QL}.parquet.MapredParquetInputFormat",
        f"{_QL}.parquet.MapredParquetOutputFormat",
    ),
    "orc": (f"{_QL}.orc.OrcSerde", f"{_QL}.orc.OrcInputFormat", f"{_QL}.orc.OrcOutputFormat"),
    "avro": (
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
        f"{_QL}.avro.AvroContainerInputFormat",
        f"{_QL}.avro.AvroContainerOutputFormat",
    ),
    "csv": (
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        "org.apache.hadoop.mapred.TextInputFormat",
        f"{_QL}.HiveIgnoreKeyTextOutputFormat",
    ),
}
NULL = "__HIVE_DEFAULT_PARTITION__"
ROWS = [{"id": "1", "name": "a"}, {"id": "2", "name": None}]


class Hive:
    """Makes tables of Hive, as Hive and Spark leave them in the metastore and in folders."""

    def __init__(self, options: dict[str, str], database: str) -> None:
        self.catalog = HiveCatalog.connect(options)
        self.metastore = Metastore(self.catalog.options)
        self.database = database
        self.catalog.create_database(database)
        self.folder = self.metastore.folder_of(database).removeprefix("file:")

    def table(
        self,
        name: str,
        kind: str = "parquet",
        columns: str = "id string, name string",
        keys: str = "",
        **entry: Any,
    ) -> Path:
        """Create the table and return its folder."""
        serde, source, target = CLASSES[kind]
        location = Path(f"{self.folder}/{entry.pop('folder', name)}")
        external = entry.get("table_type") == "EXTERNAL_TABLE"
        parameters = {"EXTERNAL": "TRUE"} if external else {}
        table = Table(
            db_name=self.database,
            table_name=name,
            owner="hive",
            partition_keys=_columns(keys),
            parameters={**parameters, **entry.pop("parameters", {})},
            table_type=entry.pop("table_type", "MANAGED_TABLE"),
            sd=StorageDescriptor(
                cols=_columns(columns),
                location=str(location),
                input_format=source,
                output_format=target,
                serde_info=SerDeInfo(serialization_lib=serde, parameters={}),
            ),
        )
        self.metastore.client.call("create_table", replace(table, **entry))
        location.mkdir(parents=True, exist_ok=True)
        return location

    def partition(self, name: str, values: list[str], folder: Path, kind: str = "parquet") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        call = self.metastore.client.call
        table = call("get_table", self.database, name)
        partition = Partition(
            values=tuple(values),
            db_name=self.database,
            table_name=name,
            sd=replace(
                table.sd,
                location=str(folder),
                input_format=CLASSES[kind][1],
                serde_info=SerDeInfo(serialization_lib=CLASSES[kind][0], parameters={}),
            ),
            parameters={},
        )
        request = AddPartitionsRequest(
            db_name=self.database,
            table_name=name,
            partitions=(partition,),
            if_not_exists=False,
            need_result=False,
        )
        call("add_partitions_req", request)

    def exists(self, name: str) -> bool:
        return self.metastore.exists((self.database, name))

    def opened(self, name: str) -> FileStoreTable:
        return self.catalog.get_table(f"{self.database}.{name}")

    def is_done(self, name: str) -> bool:
        """Whether the name is that of a table of Paimon."""
        return name in self.catalog.list_tables(self.database)

    def rows(self, name: str) -> list[str]:
        """The first column of a table of either kind, sorted."""
        if not self.exists(name):
            return []
        if not self.is_done(name):
            files = [f for f in Path(f"{self.folder}/{name}").glob("f*") if f.is_file()]
            return sorted(v for f in files for v in pq.read_table(f)["id"].to_pylist())
        table = self.opened(name)
        snapshot = table.snapshots.latest()
        batches = [] if snapshot is None else read_table(table, snapshot)
        return sorted(v for b in batches for v in b.column("id").to_pylist())

    def migrate(self, name: str, **wanted: Any) -> None:
        target = wanted.pop("target", None)
        migration = Migration(
            source=f"{self.database}.{name}",
            target=target and f"{self.database}.{target}",
            **wanted,
        )
        migrate_table(self.catalog, migration, env=system_environment())


def _columns(text: str) -> tuple[FieldSchema, ...]:
    pairs = (c.strip().partition(" ") for c in text.split(", ") if c)
    return tuple(FieldSchema(name=name, type=kind) for name, _, kind in pairs)


def write(path: Path, rows: list[dict[str, Any]], kind: str = "parquet") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "avro":
            fields = avro_fields(**dict.fromkeys(rows[0], "string"))
            with path.open("wb") as f:
                fastavro.writer(f, {"type": "record", "name": "r", "fields": fields}, rows)
        case "orc":
            orc.write_table(pa.Table.from_pylist(rows), str(path))
        case _:
            pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def avro_fields(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": n, "type": ["null", t], "default": None} for n, t in fields.items()]
