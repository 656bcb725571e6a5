"""The entry of a table in a Hive metastore (Java: `iceberg/IcebergHiveMetadataCommitter`).

An entry names the table's newest metadata file.  Java sets it without looking.  Here it changes
only if it is an Iceberg table with metadata of this table, and not back to an older version.

Metastores since 2.3.10 compare the entry with what was read, if their database has direct SQL;
older ones do not look at the request to compare.  So a slower commit may set the entry back: it
looks for later versions afterwards.  The metastore's lock on the table is no alternative: after a
crash, it is held for minutes, or for ever if no housekeeper runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from paimon_core.environment import user_name
from paimon_core.errors import (
    AlreadyExists,
    CatalogError,
    InvalidArgument,
    NotFound,
    PaimonError,
    StorageError,
)
from paimon_core.iceberg.external_catalog import Shown, Version
from paimon_core.iceberg.store import version_of
from paimon_core.io.file_io import parent
from paimon_core.names import location
from paimon_core.remote.hive_client import HiveClient
from paimon_core.remote.thrift_calls import (
    Database,
    EnvironmentContext,
    FieldSchema,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from paimon_core.types.data_types import DataField
from paimon_core.types.hive import hive_type

log = logging.getLogger(__name__)

TABLE_TYPE: Final = "table_type"
_ICEBERG: Final = "ICEBERG"
_POINTER: Final = "metadata_location"
_BEFORE: Final = "previous_metadata_location"
_ATTEMPTS: Final = 6
_NEVER_RETAINED: Final = 2**31 - 1
_LONGEST_COMMENT: Final = 255
_CUT: Final = "..."


@dataclass(frozen=True, slots=True)
class HiveEntries:
    """`ExternalCatalog`: the entry of a table in each of `databases`.

    New databases get the folder `database_location`; `context` goes with each change.
    """

    client: HiveClient
    databases: tuple[str, ...]
    table: str
    database_location: str
    context: Mapping[str, str]

    def show(self, version: Version) -> Shown:
        """As in `ExternalCatalog`: what the entry shows that is furthest from THIS."""
        shown = [self._show(database, version) for database in self.databases]
        return max(shown, key=lambda s: s.value)

    def _show(self, database: str, version: Version) -> Shown:
        self._ensure_database(database)
        compared = True
        failure: PaimonError | None = None
        for _ in range(_ATTEMPTS):
            found = self._entry(database)
            shown = None if found is None else self._shown(found, version)
            if shown is not None:
                return shown
            try:
                if found is None:
                    self.client.call("create_table", self._new(database, version))
                else:
                    self._alter(found, version, compared=compared)
            except StorageError as e:
                failure = e  # the reply may be lost: look again
            except CatalogError as e:
                # Another client was faster, or the metastore cannot compare.
                failure = e
                compared = found is None or _pointer(self._entry(database)) != _pointer(found)
            else:
                return Shown.UNGUARDED
        raise failure or AssertionError(database)

    def _ensure_database(self, database: str) -> None:
        try:
            self.client.call("get_database", database)
        except NotFound:
            wanted = Database(name=database, location_uri=self.database_location, parameters={})
            try:
                self.client.call("create_database", wanted)
            except AlreadyExists:
                return

    def _entry(self, database: str) -> Table | None:
        try:
            found: Table = self.client.call("get_table", database, self.table)
        except NotFound:
            return None
        return found

    def _shown(self, found: Table, version: Version) -> Shown | None:
        """Return what the entry shows; None if it has to change, CatalogError if it must not."""
        parameters = found.parameters or {}
        name = f"{found.db_name}.{found.table_name}"
        kind = parameters.get(TABLE_TYPE, found.table_type or "")
        if kind.upper() != _ICEBERG:
            raise CatalogError(
                f"{name} in the Hive metastore is not an Iceberg table but {kind}",
                next_step="set metadata.iceberg.database or metadata.iceberg.table to another name",
            )
        pointer = _pointer(found)
        if pointer is None:
            return None
        if location(pointer) == location(version.path):
            return Shown.THIS
        if not version.is_own(pointer):
            raise CatalogError(
                f"{name} in the Hive metastore is another Iceberg table: its metadata is {pointer}",
                next_step="drop it there if this table replaces it, or set metadata.iceberg.database "
                "or metadata.iceberg.table to another name",
            )
        number = version_of(pointer.rsplit("/", 1)[-1])
        later = number is not None and version.is_overtaken_by(number)
        return Shown.LATER if later else None

    def _alter(self, found: Table, version: Version, *, compared: bool) -> None:
        before = _pointer(found)
        parameters = {**(found.parameters or {}), TABLE_TYPE: _ICEBERG, _POINTER: version.path}
        context = dict(self.context)
        if before is not None:
            parameters[_BEFORE] = before
        if before is not None and compared:
            context |= {"expected_parameter_key": _POINTER, "expected_parameter_value": before}
        changed = replace(found, parameters=parameters)
        sd = replace(found.sd or StorageDescriptor(), cols=_columns(version.columns))
        try:
            self._send(replace(changed, sd=sd), context)
        except InvalidArgument as e:
            # Iceberg's readers take the columns from the metadata: old ones here do not hurt.
            log.warning(
                "entry=%s.%s the Hive metastore keeps the old columns: %s",
                found.db_name,
                found.table_name,
                e.message,
            )
            self._send(changed, context)

    def _send(self, table: Table, context: Mapping[str, str]) -> None:
        self.client.call(
            "alter_table_with_environment_context",
            table.db_name,
            table.table_name,
            table,
            EnvironmentContext(properties=context),
        )

    def _new(self, database: str, version: Version) -> Table:
        seconds = int(time.time())
        return Table(
            table_name=self.table,
            db_name=database,
            owner=user_name(),
            create_time=seconds,
            last_access_time=seconds,
            retention=_NEVER_RETAINED,
            sd=StorageDescriptor(
                cols=_columns(version.columns),
                location=parent(parent(version.path)),
                input_format="org.apache.hadoop.mapred.FileInputFormat",
                output_format="org.apache.hadoop.mapred.FileOutputFormat",
                serde_info=SerDeInfo(
                    serialization_lib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
                    parameters={},
                ),
            ),
            partition_keys=(),
            parameters={
                "DO_NOT_UPDATE_STATS": self.context["DO_NOT_UPDATE_STATS"],
                "EXTERNAL": "TRUE",
                TABLE_TYPE: _ICEBERG,
                _POINTER: version.path,
            },
            table_type="EXTERNAL_TABLE",
        )


def _pointer(found: Table | None) -> str | None:
    return None if found is None else (found.parameters or {}).get(_POINTER)


def _columns(columns: tuple[DataField, ...]) -> tuple[FieldSchema, ...]:
    return tuple(
        FieldSchema(name=c.name, type=hive_type(c.type), comment=_comment(c.description))
        for c in columns
    )


def _comment(text: str | None) -> str | None:
    """Return the comment as the metastore's database can keep it, as Java 2.0 does."""
    if text is None:
        return None
    line = text.replace("\n", " ").replace("\r", " ")
    if len(line) <= _LONGEST_COMMENT:
        return line
    return line[: _LONGEST_COMMENT - len(_CUT)] + _CUT
