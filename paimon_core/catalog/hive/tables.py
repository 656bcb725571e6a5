"""Paimon's tables as a Hive metastore keeps them (Java: `hive/HiveCatalog`).

A table of the metastore names Paimon's SerDe and formats, so that Hive can read it.  Its columns,
options and comment are copies for other programs: the schema in the table's folder is the one that
counts.  With `location-in-properties`, locations are in the property `paimon_location` instead of
Hive's own fields, so that the metastore needs no access to the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from paimon_core.catalog.shown_properties import shown_properties, shows_all_properties
from paimon_core.errors import InvalidArgument
from paimon_core.options import (
    DATA_FILE_PATH_DIRECTORY,
    PARTITION_EXPIRATION_TIME,
    PARTITIONED_TABLE,
    TAG_TO_PARTITION,
    parse_bool,
)
from paimon_core.remote.thrift_calls import (
    Database,
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import DataField
from paimon_core.types.hive import hive_type, type_of_hive

LOCATION_PROPERTY: Final = "paimon_location"
EXTERNAL_TABLE: Final = "EXTERNAL_TABLE"
_LOCATION_IN_PROPERTIES: Final = "location-in-properties"
MANAGED_TABLE: Final = "MANAGED_TABLE"
_INPUT_FORMAT: Final = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_OUTPUT_FORMAT: Final = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_SERDE: Final = "org.apache.paimon.hive.PaimonSerDe"
_MARKS: Final = {
    "table_type": "PAIMON",
    "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
}
_EXTERNAL: Final = "EXTERNAL"
_COMMENT: Final = "comment"
_HIVE_PREFIX: Final = "hive."
_ALWAYS_SHOWN: Final = (PARTITION_EXPIRATION_TIME.key, DATA_FILE_PATH_DIRECTORY.key)
VIEW: Final = "VIRTUAL_VIEW"
"""The kind of an entry that is a view."""
_VIEWS: Final = (VIEW, "MATERIALIZED_VIEW")
_COMMENT_LENGTH: Final = 256
"""For as much of a column's comment metastores over MySQL and Derby have room."""
NEVER_RETAINED: Final = 2**31 - 1


def is_paimon(table: Table) -> bool:
    """Whether the metastore's table is one of Paimon."""
    sd = table.sd
    return (
        sd is not None and sd.input_format == _INPUT_FORMAT and sd.output_format == _OUTPUT_FORMAT
    )


def other_kind(table: Table) -> str:
    """What a table that is not Paimon's is: view, iceberg-table, hive-table, ..."""
    if table.table_type in _VIEWS:
        return "view"
    return f"{(table.parameters or {}).get('table_type', 'hive').lower()}-table"


def is_view(table: Table) -> bool:
    """Whether the metastore's table is a view; materialized ones hold data, and are none."""
    return table.table_type == VIEW


def is_external(table: Table) -> bool:
    """Whether dropping the table leaves its files."""
    return table.table_type == EXTERNAL_TABLE


def is_transactional(table: Table) -> bool:
    """Whether Hive's transactions decide which rows of the files count."""
    return (table.parameters or {}).get("transactional", "false").lower() == "true"


def is_created_external(schema: TableSchema, options: Mapping[str, str]) -> bool:
    """Whether a new table is external: by the catalog's `table.type`, or its own `EXTERNAL`."""
    own = schema.options.get("external", schema.options.get(_EXTERNAL, "false"))
    return options.get("table.type", "managed").lower() == "external" or own.lower() == "true"


# --- locations ------------------------------------------------------------------------------------


def in_properties(options: Mapping[str, str]) -> bool:
    """Whether locations are in properties."""
    return parse_bool(options.get(_LOCATION_IN_PROPERTIES, "false"))


def location_of(found: Table | Partition, options: Mapping[str, str]) -> str | None:
    """The folder of a table or partition."""
    own = (found.parameters or {}).get(LOCATION_PROPERTY) if in_properties(options) else None
    return own or (None if found.sd is None else found.sd.location)


def database_location(database: Database, options: Mapping[str, str]) -> str | None:
    """The folder of a database."""
    own = (database.parameters or {}).get(LOCATION_PROPERTY) if in_properties(options) else None
    return own or database.location_uri


def with_location(table: Table, location: str, options: Mapping[str, str]) -> Table:
    """The table at this folder."""
    if in_properties(options):
        return replace(table, parameters={**(table.parameters or {}), LOCATION_PROPERTY: location})
    sd = table.sd or StorageDescriptor()
    return replace(table, sd=replace(sd, location=location))


# --- tables ---------------------------------------------------------------------------------------


def new_table(
    name: tuple[str, str],
    schema: TableSchema,
    location: str,
    options: Mapping[str, str],
    *,
    external: bool,
    owner: str,
    now_millis: int,
) -> Table:
    """The metastore's table (database, table) for a new Paimon table.

    `options` are the catalog's.
    """
    if shows_all_properties(options):
        parameters = shown_properties(schema)
    else:
        parameters = _hive_properties(schema)
        parameters |= {k: schema.options[k] for k in _ALWAYS_SHOWN if k in schema.options}
    seconds = now_millis // 1000
    table = Table(
        db_name=name[0],
        table_name=name[1],
        owner=owner,
        create_time=seconds,
        last_access_time=seconds,
        retention=NEVER_RETAINED,
        partition_keys=(),
        parameters={**parameters, **_MARKS, **({_EXTERNAL: "TRUE"} if external else {})},
        table_type=EXTERNAL_TABLE if external else MANAGED_TABLE,
    )
    return _with_schema(table, schema, location, options)


def altered_table(
    table: Table,
    schema: TableSchema,
    location: str,
    options: Mapping[str, str],
    removed_options: Sequence[str],
) -> Table:
    """The metastore's table with the new schema."""
    shown = shown_properties(schema) if shows_all_properties(options) else _hive_properties(schema)
    parameters = {**(table.parameters or {}), **shown}
    for key in removed_options:
        parameters.pop(key, None)
    return _with_schema(replace(table, parameters=parameters), schema, location, options)


def _hive_properties(schema: TableSchema) -> dict[str, str]:
    return {
        key.removeprefix(_HIVE_PREFIX): value
        for key, value in schema.options.items()
        if key.startswith(_HIVE_PREFIX)
    }


def _with_schema(
    table: Table, schema: TableSchema, location: str, options: Mapping[str, str]
) -> Table:
    sd = table.sd or StorageDescriptor()
    serde = sd.serde_info or SerDeInfo()
    tag_field = schema.options.value(TAG_TO_PARTITION)
    keys = table.partition_keys
    columns = schema.fields
    partitioned = schema.options.value(PARTITIONED_TABLE)
    if schema.partition_keys and partitioned:
        by_name = {f.name: f for f in schema.fields}
        keys = tuple(column(by_name[name]) for name in schema.partition_keys)
        columns = tuple(f for f in schema.fields if f.name not in schema.partition_keys)
    elif tag_field:
        if schema.partition_keys:
            raise InvalidArgument(
                f"a partitioned table cannot have the option {TAG_TO_PARTITION.key}"
            )
        keys = (FieldSchema(name=tag_field, type="string"),)
    parameters = dict(table.parameters or {})
    if schema.comment is not None:
        parameters[_COMMENT] = schema.comment
    sd = replace(
        sd,
        cols=tuple(column(f) for f in columns),
        input_format=_INPUT_FORMAT,
        output_format=_OUTPUT_FORMAT,
        serde_info=replace(serde, serialization_lib=_SERDE, parameters={}),
    )
    changed = replace(table, sd=sd, partition_keys=keys, parameters=parameters)
    return with_location(changed, location, options)


def column(field: DataField) -> FieldSchema:
    """The column as a metastore keeps it, with as much of its comment as there is room for."""
    comment = field.description and field.description[:_COMMENT_LENGTH]
    return FieldSchema(name=field.name, type=hive_type(field.type), comment=comment)


def field(number: int, column: FieldSchema) -> DataField:
    """The column of a metastore as the field with this id; errors as in `type_of_hive`."""
    return DataField(
        id=number,
        name=str(column.name),
        type=type_of_hive(str(column.type)),
        description=column.comment,
    )
