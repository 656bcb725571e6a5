"""Format tables of a Hive metastore: Hive's own tables (Java: `hive/HiveTableUtils`).

Their columns are those of Hive, partition columns last.  The metastore's own list of partitions is
not looked at, as in Java.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from paimon_core.catalog.filesystem import database_path
from paimon_core.catalog.hive import tables as hive_tables
from paimon_core.catalog.hive.folders import check_new_folder, place_of
from paimon_core.catalog.hive.metastore import Metastore, hive_name
from paimon_core.catalog.table_files import with_table_defaults
from paimon_core.catalog.table_folder import is_link
from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.environment import user_name
from paimon_core.errors import AlreadyExists, NotFound, PaimonError, UnsupportedFeature
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.file_io import FileIO
from paimon_core.io.open import open_file_io
from paimon_core.names import Boundary
from paimon_core.options import PATH, Options, parse_bool
from paimon_core.remote.thrift_calls import SerDeInfo, StorageDescriptor, Table
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.format_table import (
    CSV_DELIMITER,
    FILE_FORMAT,
    FORMAT_TABLE,
    TYPE,
    FormatTable,
    check_format_table,
    file_option,
    format_of_table,
)
from paimon_core.table.other_tables import table_within

log = logging.getLogger(__name__)

_ENABLED: Final = "format-table.enabled"
_TABLE_TYPE: Final = "table_type"
_COMMENT: Final = "comment"
_HIVES_DELIMITER: Final = "field.delim"
_HIVES_USUAL_DELIMITER: Final = "\x01"
_LAZY: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_TEXT_INPUT: Final = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUTPUT: Final = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_PARQUET: Final = "org.apache.hadoop.hive.ql.io.parquet"
_ORC: Final = "org.apache.hadoop.hive.ql.io.orc"
_CLASSES: Final = {
    "csv": (_LAZY, _TEXT_INPUT, _TEXT_OUTPUT),
    "text": (_LAZY, _TEXT_INPUT, _TEXT_OUTPUT),
    "json": ("org.apache.hive.hcatalog.data.JsonSerDe", _TEXT_INPUT, _TEXT_OUTPUT),
    "parquet": (
        f"{_PARQUET}.serde.ParquetHiveSerDe",
        f"{_PARQUET}.MapredParquetInputFormat",
        f"{_PARQUET}.MapredParquetOutputFormat",
    ),
    "orc": (f"{_ORC}.OrcSerde", f"{_ORC}.OrcInputFormat", f"{_ORC}.OrcOutputFormat"),
}
"""SerDe, input and output format of each format."""


@dataclass(frozen=True, slots=True)
class HiveFormatTables:
    """`FormatTables` of a Hive metastore."""

    metastore: Metastore

    def names(self, database: str) -> list[str]:
        """The names of the database's format tables, sorted; none if the catalog disables them."""
        if not self._enabled:
            return []
        found = self.metastore.tables(database)
        return sorted(str(t.table_name) for t in found if _schema_of(t) is not None)

    def find(self, identifier: str) -> FormatTable | None:
        """The format table; None if there is none of this name, or the catalog disables them."""
        if not self._enabled:
            return None
        try:
            found = self.metastore.entry(identifier)
        except NotFound:
            return None
        schema = _schema_of(found)
        if schema is None:
            return None
        location = self.metastore.location(found)
        io, root = open_file_io(location, self.metastore.file_options)
        return FormatTable(
            name=identifier,
            schema=schema,
            location=location,
            io=ConfinedFileIO(io, Boundary(root)),
            root=root,
            external=hive_tables.is_external(found),
            catalog_properties={} if found.owner is None else {"owner": found.owner},
        )

    def create(self, identifier: str, schema: TableSchema) -> None:
        """Create the metastore's table, which makes the folder; as `FormatTables`.

        UnsupportedFeature if the catalog disables format tables.
        """
        if not self._enabled:
            raise UnsupportedFeature(
                "format tables",
                f"Format table is not enabled for {identifier}",
                table=identifier,
                next_step=f"set the option {_ENABLED}=true of the catalog",
            )
        options = self.metastore.options
        schema = with_table_defaults(schema, options)
        check_format_table(schema)
        name = hive_name(identifier)
        path = schema.options.value(PATH)
        check_new_folder(path)
        external = path is not None or hive_tables.is_created_external(schema, options)
        database = self.metastore.database(name[0])
        parent = hive_tables.database_location(database, options) or database_path(
            self.metastore.warehouse, name[0]
        )
        location = path or f"{parent}/{name[1]}"
        table = _hive_table(name, schema, external=external)
        try:
            self.metastore.client.call(
                "create_table", hive_tables.with_location(table, location, options)
            )
        except AlreadyExists as e:
            raise AlreadyExists(f"table {identifier} already exists", table=identifier) from e

    def alter(self, identifier: str, changes: Sequence[SchemaChange]) -> None:
        """UnsupportedFeature, as in Java."""
        raise UnsupportedFeature(
            "changes of a format table in a Hive metastore",
            f"Only data table support alter table. ({len(changes)} changes of {identifier})",
            table=identifier,
            next_step="change the table in Hive",
        )

    def rename(self, identifier: str, new_identifier: str) -> None:
        """Give the table another name; the metastore moves a managed table's folder."""
        found = self.metastore.entry(identifier)
        database, name = hive_name(new_identifier)
        self.metastore.database(database)
        if self.metastore.exists((database, name)):
            raise AlreadyExists(f"{new_identifier} already exists", table=new_identifier)
        self.metastore.alter(identifier, replace(found, db_name=database, table_name=name))

    def drop(self, identifier: str) -> None:
        """Delete the table, and its folder unless it is external or may not be its own."""
        found = self.metastore.entry(identifier)
        folder = own_folder(self.metastore, found, identifier)
        self.metastore.client.call("drop_table", *hive_name(identifier), False)
        if folder is not None:
            io, root = folder
            io.delete_dir(root)

    @property
    def _enabled(self) -> bool:
        return parse_bool(self.metastore.options.get(_ENABLED, "true"))


def own_folder(metastore: Metastore, table: Table, identifier: str) -> tuple[FileIO, str] | None:
    """Return the folder that goes with a table; None for an external one.

    None, too, if others may need the folder: the log says so.
    """
    if hive_tables.is_external(table):
        return None
    location = metastore.location(table)
    io, root = open_file_io(location, metastore.file_options)
    place = place_of(location)
    others = [] if place is None else metastore.tables_at(place, identifier)
    if place is None or others or is_link(io, root) or table_within(io, root):
        log.warning("table=%s is dropped, but %s stays: it may not be its own", identifier, root)
        return None
    return io, root


def _hive_table(name: tuple[str, str], schema: TableSchema, *, external: bool) -> Table:
    """The metastore's table, without its folder (Java: `HiveCatalog.createHiveFormatTable`)."""
    kind = format_of_table(schema)
    serde, input_format, output_format = _CLASSES[kind]
    own: dict[str, str] = {}
    if kind == "csv":
        own[_HIVES_DELIMITER] = file_option(schema.options, CSV_DELIMITER)
    parameters = {
        **schema.options,
        _TABLE_TYPE: kind.upper(),
        FILE_FORMAT: kind,
        TYPE: FORMAT_TABLE,
        **({"EXTERNAL": "TRUE"} if external else {}),
        **({} if schema.comment is None else {_COMMENT: schema.comment}),
    }
    by_name = {f.name: f for f in schema.fields}
    seconds = int(datetime.now(UTC).timestamp())
    return Table(
        db_name=name[0],
        table_name=name[1],
        owner=schema.options.get("owner") or user_name(),
        create_time=seconds,
        last_access_time=seconds,
        retention=hive_tables.NEVER_RETAINED,
        partition_keys=tuple(hive_tables.column(by_name[k]) for k in schema.partition_keys),
        parameters=parameters,
        table_type=hive_tables.EXTERNAL_TABLE if external else hive_tables.MANAGED_TABLE,
        sd=StorageDescriptor(
            cols=tuple(
                hive_tables.column(f) for f in schema.fields if f.name not in schema.partition_keys
            ),
            input_format=input_format,
            output_format=output_format,
            serde_info=SerDeInfo(serialization_lib=serde, parameters=own),
        ),
    )


def _schema_of(table: Table) -> TableSchema | None:
    """The schema of Hive's table; None if it is no format table.

    Java: `HiveTableUtils.tryToFormatSchema`.
    """
    sd = table.sd
    if sd is None or sd.serde_info is None or hive_tables.is_paimon(table):
        return None
    if hive_tables.other_kind(table) == "view":
        return None
    options = dict(table.parameters or {})
    comment = options.pop(_COMMENT, None)
    serde = (sd.serde_info.serialization_lib or "").lower()
    if "parquet" in serde:
        kind = "parquet"
    elif "orc" in serde:
        kind = "orc"
    elif "Text" not in (sd.input_format or ""):
        return None
    elif "json" in serde:
        kind = "json"
    elif options.get(_TABLE_TYPE) == "TEXT":
        kind = "text"
    else:
        kind = "csv"
        own = sd.serde_info.parameters or {}
        options[CSV_DELIMITER] = own.get(_HIVES_DELIMITER, _HIVES_USUAL_DELIMITER)
    if not _has_plain_files(table, sd, kind):
        return None
    options |= {TYPE: FORMAT_TABLE, FILE_FORMAT: kind}
    keys = tuple(table.partition_keys or ())
    try:
        fields = tuple(hive_tables.field(i, c) for i, c in enumerate((*(sd.cols or ()), *keys)))
    except PaimonError:
        return None  # a type that Paimon does not have
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=len(fields) - 1,
        partition_keys=tuple(str(c.name) for c in keys),
        options=Options(options),
        comment=comment,
    )


def _has_plain_files(table: Table, sd: StorageDescriptor, kind: str) -> bool:
    """Whether the folder has rows in files of this format, and nothing that decides which count.

    Java also takes tables with transactions, lists of files, other layouts of text, and Hudi's.
    """
    serde, usual, _ = _CLASSES[kind]
    known = sd.input_format == usual
    if kind in ("csv", "text") and sd.serde_info is not None:
        known &= sd.serde_info.serialization_lib == serde
    return known and not hive_tables.is_transactional(table)
