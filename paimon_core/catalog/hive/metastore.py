"""The entries of a Hive metastore, and the files of the tables that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from paimon_core.catalog.filesystem import database_path
from paimon_core.catalog.hive import tables as hive_tables
from paimon_core.catalog.hive.folders import place_of, tables_at
from paimon_core.catalog.hive.lock import HiveLock
from paimon_core.catalog.lock import file_options, lock_enabled
from paimon_core.catalog.table_files import TableFiles
from paimon_core.environment import user_name
from paimon_core.errors import CatalogError, InvalidArgument, NotFound, UnsupportedFeature
from paimon_core.io.open import open_file_io
from paimon_core.names import Location, lies_under
from paimon_core.remote.hive_client import WAREHOUSE_DIR, HiveClient
from paimon_core.remote.thrift_calls import Database, EnvironmentContext, Table
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.open import split_identifier

KIND: Final = "hive"
"""The value of the option `metastore`."""
_BATCH: Final = 300
"""As many tables as Hive gives at a time by default."""


@dataclass(frozen=True, slots=True)
class Metastore:
    """The metastore that the options of a catalog name.

    Each call opens a connection of its own.
    """

    options: Mapping[str, str] = field(repr=False)

    @property
    def client(self) -> HiveClient:
        """What calls the metastore."""
        return HiveClient(self.options)

    def lock(self, name: tuple[str, str]) -> HiveLock | None:
        """The lock of a table; None unless the options enable it."""
        on = lock_enabled(self.options, KIND)
        return HiveLock(self.client, *name) if on else None

    @property
    def file_options(self) -> dict[str, str]:
        """The options for the files of tables."""
        return file_options(self.options, locked=lock_enabled(self.options, KIND))

    def databases(self) -> list[str]:
        """The names of all databases, sorted."""
        return sorted(self.client.call("get_all_databases"))

    def database(self, database: str) -> Database:
        """The metastore's database; NotFound."""
        try:
            found: Database = self.client.call("get_database", database)
        except NotFound as e:
            raise NotFound(f"database {database} does not exist in the Hive metastore") from e
        return found

    def folder_of(self, database: str) -> str:
        """Where new tables of the database are."""
        found = hive_tables.database_location(self.database(database), self.options)
        return found or database_path(self.warehouse, database)

    @property
    def warehouse(self) -> str:
        """The folder of new databases; InvalidArgument if no option names it."""
        found = self.options.get("warehouse") or self.options.get(WAREHOUSE_DIR)
        if not found:
            raise InvalidArgument("a Hive catalog needs the option warehouse to create a database")
        return found

    def tables(self, database: str) -> Iterator[Table]:
        """Everything in the database, views and tables of other formats too; NotFound."""
        self.database(database)
        names: Sequence[str] = self.client.call("get_all_tables", database)
        for start in range(0, len(names), _BATCH):
            batch = tuple(names[start : start + _BATCH])
            yield from self.client.call("get_table_objects_by_name", database, batch)

    def entry(self, identifier: str) -> Table:
        """What the metastore has under this name, whatever it is; NotFound if there is nothing."""
        try:
            found: Table = self.client.call("get_table", *hive_name(identifier))
        except NotFound as e:
            raise NotFound(
                f"table {identifier} does not exist in the Hive metastore", table=identifier
            ) from e
        return found

    def table(self, identifier: str) -> Table:
        """The metastore's table.

        NotFound, also for a view, UnsupportedFeature for other formats.
        """
        found = self.entry(identifier)
        if hive_tables.is_view(found):
            raise NotFound(
                f"table {identifier} does not exist in the Hive metastore: it is a view",
                table=identifier,
                next_step="name a table; SQL queries views",
            )
        if not hive_tables.is_paimon(found):
            kind = hive_tables.other_kind(found)
            raise UnsupportedFeature(
                f"type={kind}",
                f"{identifier} is not a Paimon table but a {kind}",
                table=identifier,
                next_step="no action is needed: Paimon's maintenance does not apply to it",
            )
        return found

    def location(self, table: Table) -> str:
        """The folder of a table; CatalogError if its entry names none."""
        location = hive_tables.location_of(table, self.options)
        if not location:
            raise CatalogError(
                f"the Hive metastore has no location for table {table.db_name}.{table.table_name}",
                next_step="set it in Hive with ALTER TABLE ... SET LOCATION, then run again",
            )
        return location

    def files(self, table: Table) -> TableFiles:
        """The files of a table."""
        return self.files_at(self.location(table), f"{table.db_name}.{table.table_name}")

    def files_at(self, location: str, identifier: str) -> TableFiles:
        """The files of a table in this folder."""
        io, path = open_file_io(location, self.file_options)
        return TableFiles(io=io, path=path, identifier=identifier, options=self.options)

    def exists(self, name: tuple[str, str]) -> bool:
        """Whether the metastore has a table, view or anything else of this name."""
        try:
            self.client.call("get_table", *name)
        except NotFound:
            return False
        return True

    def alter(self, identifier: str, table: Table) -> None:
        """Replace the entry of a table, under another name if `table` has one."""
        context = EnvironmentContext(properties={"CASCADE": "true", "DO_NOT_UPDATE_STATS": "false"})
        self.client.call(
            "alter_table_with_environment_context", *hive_name(identifier), table, context
        )

    def register(
        self, name: tuple[str, str], schema: TableSchema, location: str, *, external: bool
    ) -> None:
        """Create the entry of a table whose files are there; AlreadyExists."""
        table = hive_tables.new_table(
            name,
            schema,
            location,
            self.options,
            external=external,
            owner=user_name(),
            now_millis=int(datetime.now(UTC).timestamp() * 1000),
        )
        self.client.call("create_table", table)

    def tables_at(self, place: Location, identifier: str) -> list[str]:
        """Other tables in, above or below a folder: of its database and of the table's."""
        own = hive_name(identifier)[0]
        databases = {own}
        folder = place_of(self.folder_of(own))
        if folder is None or not lies_under(place, folder):
            for name in self.databases():
                folder = place_of(self.folder_of(name))
                if folder is not None and (lies_under(place, folder) or lies_under(folder, place)):
                    databases.add(name)
        tables = [t for name in sorted(databases) for t in self.tables(name)]
        return tables_at(place, tables, self.options, except_for=".".join(hive_name(identifier)))


def hive_name(identifier: str) -> tuple[str, str]:
    """Database and table as the metastore spells them."""
    database, table = split_identifier(identifier)
    return database.lower(), table.lower()
