"""The JDBC catalog: a warehouse folder whose databases and tables are rows (Java: `jdbc/JdbcCatalog`).

Tables lie at `warehouse/DB.db/TABLE`, as in a filesystem catalog, and their schemas are files.  The
rows say which of them exist.  With the catalog's lock, changes of schemas and commits hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from paimon_core.catalog.catalog import Database, OtherObject, Partition, Watch
from paimon_core.catalog.filesystem import FileSystemCatalog, database_path
from paimon_core.catalog.jdbc.database import NAME_LENGTH, VALUE_LENGTH, JdbcDatabase
from paimon_core.catalog.jdbc.lock import JdbcLock
from paimon_core.catalog.lock import file_options, held, lock_enabled, under_lock
from paimon_core.catalog.maintained import maintained_jobs
from paimon_core.catalog.partitions import partitions_of_files
from paimon_core.catalog.shown_properties import shown_properties
from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.open import open_file_io
from paimon_core.options import parse_bool, parse_int
from paimon_core.paths import MAIN_BRANCH
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.open import split_identifier

if TYPE_CHECKING:
    from sqlalchemy import Connection

CATALOG_KEY: Final = "catalog-key"
_LOCATION: Final = "location"
_EXISTS: Final = "exists"
_TABLE: Final = "catalog_key = :key AND database_name = :database AND table_name = :table"
_DATABASE: Final = "catalog_key = :key AND database_name = :database"


@dataclass(frozen=True, slots=True)
class JdbcCatalog:
    """Databases and tables of one `catalog-key`.  Making one creates the catalog's tables."""

    options: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.options.get("warehouse"):
            raise InvalidArgument("a JDBC catalog needs the option warehouse")
        self._database.create_tables(
            locks=self.lock_enabled,
            lock_key_length=parse_int(self.options.get("lock-key-max-length", "255")),
        )

    @property
    def metastore(self) -> str:
        return "jdbc"

    @property
    def maintained_jobs(self) -> frozenset[str]:
        return maintained_jobs(self.options)

    @property
    def lock_enabled(self) -> bool:
        """Whether commits hold the lock."""
        return lock_enabled(self.options, self.metastore)

    @property
    def _database(self) -> JdbcDatabase:
        return JdbcDatabase(self.options)

    @property
    def _files(self) -> FileSystemCatalog:
        options = file_options(self.options, locked=self.lock_enabled)
        return FileSystemCatalog(self.options["warehouse"], options)

    @property
    def _key(self) -> str:
        return self.options.get(CATALOG_KEY, "jdbc")

    @property
    def _syncs_properties(self) -> bool:
        return parse_bool(self.options.get("sync-all-properties", "true"))

    def _lock(self, identifier: str) -> JdbcLock | None:
        return JdbcLock(self._database, self._key, identifier) if self.lock_enabled else None

    # --- databases ---

    def list_databases(self) -> list[str]:
        """The names of all databases, sorted."""
        rows = self._database.rows(
            "SELECT database_name FROM paimon_tables WHERE catalog_key = :key "
            "UNION SELECT database_name FROM paimon_database_properties WHERE catalog_key = :key",
            key=self._key,
        )
        return sorted(row[0] for row in rows)

    def get_database(self, database: str) -> Database:
        """The database with its properties; NotFound if it does not exist."""
        found = dict(
            self._database.rows(
                "SELECT property_key, property_value FROM paimon_database_properties "
                f"WHERE {_DATABASE}",
                key=self._key,
                database=database,
            )
        )
        if not found and not self._table_names(database):
            raise NotFound(f"database {database} does not exist in the JDBC catalog {self._key}")
        found.pop(_EXISTS, None)
        location = found.pop(_LOCATION, None) or self._location(database)
        return Database(name=database, location=location, properties=found)

    def create_database(
        self,
        database: str,
        *,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create the database; AlreadyExists unless `if_not_exists`."""
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

        location = self._location(database)
        values = {_EXISTS: "true", _LOCATION: location, **(properties or {})}
        _check_lengths([database], values)
        try:
            self.get_database(database)
        except NotFound:
            try:
                with self._database.transaction() as connection:
                    self._insert_database(connection, database, values)
            except IntegrityError:
                pass
            else:
                return
        if not if_not_exists:
            raise AlreadyExists(f"database {database} already exists")

    def alter_database(
        self,
        database: str,
        *,
        changes: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
    ) -> None:
        """Set and remove properties; one that is to be removed and does not exist is no error."""
        self.get_database(database)
        changes = dict(changes or {})
        _check_lengths([], changes)
        with self._database.transaction() as connection:
            for key in {*changes, *removed}:
                _execute(
                    connection,
                    f"DELETE FROM paimon_database_properties WHERE {_DATABASE} "
                    "AND property_key = :property",
                    key=self._key,
                    database=database,
                    property=key,
                )
            self._insert_database(connection, database, changes)

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Delete the database; InvalidArgument if it has tables, unless `cascade`."""
        try:
            self.get_database(database)
        except NotFound:
            if if_exists:
                return
            raise
        tables = self.list_tables(database)
        if tables and not cascade:
            raise InvalidArgument(
                f"database {database} is not empty: it has {len(tables)} tables",
                next_step="drop its tables first",
            )
        for table in tables:
            self._files.table_files(f"{database}.{table}").check_droppable()
        for table in tables:
            self.drop_table(f"{database}.{table}", if_exists=True)
        with self._database.transaction() as connection:
            for table in ("paimon_database_properties", "paimon_table_properties"):
                _execute(
                    connection,
                    f"DELETE FROM {table} WHERE {_DATABASE}",
                    key=self._key,
                    database=database,
                )

    def _insert_database(
        self, connection: Connection, database: str, properties: Mapping[str, str]
    ) -> None:
        for key, value in properties.items():
            _execute(
                connection,
                "INSERT INTO paimon_database_properties "
                "(catalog_key, database_name, property_key, property_value) "
                "VALUES (:key, :database, :property, :value)",
                key=self._key,
                database=database,
                property=key,
                value=value,
            )

    def _location(self, database: str) -> str:
        return database_path(self.options["warehouse"], database)

    # --- tables ---

    def list_tables(self, database: str) -> list[str]:
        """The names of the database's tables, sorted; NotFound if there is no such database."""
        names = self._table_names(database)
        if not names:
            self.get_database(database)
        return sorted(names)

    def list_others(self, database: str) -> list[OtherObject]:  # noqa: ARG002 - as every catalog
        """Nothing: a JDBC catalog has tables only."""
        return []

    def _table_names(self, database: str) -> list[str]:
        rows = self._database.rows(
            f"SELECT table_name FROM paimon_tables WHERE {_DATABASE}",
            key=self._key,
            database=database,
        )
        return [row[0] for row in rows]

    def _exists(self, identifier: str) -> bool:
        database, table = split_identifier(identifier)
        sql = f"SELECT table_name FROM paimon_tables WHERE {_TABLE}"
        return bool(self._database.rows(sql, key=self._key, database=database, table=table))

    def _check_exists(self, identifier: str) -> None:
        if not self._exists(identifier):
            raise NotFound(
                f"table {identifier} does not exist in the JDBC catalog {self._key}",
                table=identifier,
            )

    def get_table(
        self,
        identifier: str,
        *,
        branch: str | None = None,
        dynamic_options: Mapping[str, str | None] | None = None,
        watch: Watch | None = None,
    ) -> FileStoreTable:
        """The table under its newest schema; with the lock enabled, its commits hold it."""
        self._check_exists(identifier)
        table = self._files.get_table(
            identifier,
            branch=branch,
            dynamic_options=dynamic_options,
            watch=under_lock(self._lock(identifier), watch),
        )
        return replace(table, schema_commit=JdbcSchemaCommit(self, identifier))

    def create_table(
        self, identifier: str, schema: TableSchema, *, if_not_exists: bool = False
    ) -> None:
        """Create the table: its first schema under the lock, then its row."""
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

        database, table = split_identifier(identifier)
        _check_lengths([database, table], schema.options if self._syncs_properties else {})
        self.get_database(database)
        if self._exists(identifier):
            if if_not_exists:
                return
            raise AlreadyExists(f"table {identifier} already exists", table=identifier)
        first = self._create_first(identifier, schema)
        if first is None:
            raise AlreadyExists(
                f"the folder of table {identifier} holds a schema, although the JDBC catalog "
                f"{self._key} has no such table",
                table=identifier,
                next_step="move the folder away, or register the table with CALL sys.repair",
            )
        try:
            with self._database.transaction() as connection:
                self._insert_table(connection, identifier)
                self._write_properties(connection, identifier, first)
        except IntegrityError as e:
            raise AlreadyExists(f"table {identifier} already exists", table=identifier) from e

    def _insert_table(self, connection: Connection, identifier: str) -> None:
        _execute(
            connection,
            "INSERT INTO paimon_tables (catalog_key, database_name, table_name) "
            "VALUES (:key, :database, :table)",
            **self._table_values(identifier),
        )

    def repair(self, name: str = "") -> None:
        """Bring the catalog in line with the files: of `db.t`, of a database, or of all.

        Databases and tables that it lacks are registered, and the properties of tables are those
        of their newest schema.  Nothing is removed.  NotFound for what has no files.  Java:
        `JdbcCatalog.repairTable`, `repairDatabase`, `repairCatalog`.
        """
        if not name:
            for database in self._files.list_databases():
                self.repair(database)
        elif "." in name:
            self._repair_table(name)
        else:
            tables = self._files.list_tables(name)
            self.create_database(name, if_not_exists=True)
            for table in tables:
                with suppress(NotFound):
                    self._repair_table(f"{name}.{table}")

    def _repair_table(self, identifier: str) -> None:
        schema = self._files.table_files(identifier).schemas().latest()
        if schema is None:
            raise NotFound(f"table {identifier} does not exist: no schema", table=identifier)
        database, table = split_identifier(identifier)
        _check_lengths([database, table], schema.options if self._syncs_properties else {})
        self.create_database(database, if_not_exists=True)
        is_there = self._exists(identifier)
        with self._database.transaction() as connection:
            if not is_there:
                self._insert_table(connection, identifier)
            self._write_properties(connection, identifier, schema)

    def _create_first(self, identifier: str, schema: TableSchema) -> TableSchema | None:
        with held(self._lock(identifier)):
            return self._files.create_first_schema(identifier, schema)

    def alter_table(
        self,
        identifier: str,
        changes: Sequence[SchemaChange | Mapping[str, object]],
        *,
        now_millis: int,
        branch: str | None = None,
    ) -> TableSchema:
        """The new schema, committed under the lock; then the table's properties follow it."""
        self._check_exists(identifier)
        with held(self._lock(identifier)):
            changed = self._files.alter_table(
                identifier, changes, now_millis=now_millis, branch=branch
            )
        if branch in (None, MAIN_BRANCH):
            self.show_properties(identifier, changed)
        return changed

    def show_properties(self, identifier: str, schema: TableSchema) -> None:
        """Make the table's properties those of the schema, if the catalog keeps them."""
        with self._database.transaction() as connection:
            self._write_properties(connection, identifier, schema)

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Rename the table's row and properties, then its folder."""
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

        self._check_exists(identifier)
        new_database, new_table = split_identifier(new_identifier)
        _check_lengths([new_database, new_table], {})
        self.get_database(new_database)
        taken = AlreadyExists(f"table {new_identifier} already exists", table=new_identifier)
        if self._exists(new_identifier) or self._folder_exists(new_identifier):
            raise taken
        self._move_rows(identifier, new_identifier, taken, IntegrityError)
        io, _ = open_file_io(self.options["warehouse"], self.options)
        try:
            source, target = map(self._files.table_path, (identifier, new_identifier))
            io.make_dirs(database_path(self.options["warehouse"], new_database))
            moved = io.rename(source, target)
        except BaseException:
            self._move_rows(new_identifier, identifier, taken, IntegrityError)
            raise
        if not moved:
            self._move_rows(new_identifier, identifier, taken, IntegrityError)
            raise taken

    def _folder_exists(self, identifier: str) -> bool:
        io, _ = open_file_io(self.options["warehouse"], self.options)
        return io.exists(self._files.table_path(identifier))

    def _move_rows(
        self, source: str, target: str, taken: AlreadyExists, integrity: type[Exception]
    ) -> None:
        new_database, new_table = split_identifier(target)
        try:
            with self._database.transaction() as connection:
                for table in ("paimon_tables", "paimon_table_properties"):
                    _execute(
                        connection,
                        f"UPDATE {table} SET database_name = :new_database, "
                        f"table_name = :new_table WHERE {_TABLE}",
                        **self._table_values(source),
                        new_database=new_database,
                        new_table=new_table,
                    )
        except integrity as e:
            raise taken from e

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None:
        """Delete the table's row, then its folder; UnsupportedFeature as in a filesystem catalog."""
        if if_exists and not self._exists(identifier):
            return
        self._check_exists(identifier)
        self._files.table_files(identifier).check_droppable()
        with self._database.transaction() as connection:
            for table in ("paimon_tables", "paimon_table_properties"):
                _execute(
                    connection,
                    f"DELETE FROM {table} WHERE {_TABLE}",
                    **self._table_values(identifier),
                )
        self._files.drop_table(identifier, if_exists=True)

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions of the newest snapshot, from its files."""
        return partitions_of_files(self.get_table(identifier))

    def _table_values(self, identifier: str) -> dict[str, str]:
        database, table = split_identifier(identifier)
        return {"key": self._key, "database": database, "table": table}

    def _write_properties(
        self, connection: Connection, identifier: str, schema: TableSchema
    ) -> None:
        """Replace the table's properties by the options and keys of the schema, if they are kept."""
        if not self._syncs_properties:
            return
        values = self._table_values(identifier)
        _execute(connection, f"DELETE FROM paimon_table_properties WHERE {_TABLE}", **values)
        for key, value in shown_properties(schema).items():
            _execute(
                connection,
                "INSERT INTO paimon_table_properties (catalog_key, database_name, table_name, "
                "property_key, property_value) VALUES (:key, :database, :table, :property, :value)",
                **values,
                property=key,
                value=value,
            )


@dataclass(frozen=True, slots=True)
class JdbcSchemaCommit:
    """Keeps the properties of a table like its newest schema."""

    catalog: JdbcCatalog
    identifier: str

    def set_options(
        self,
        schemas: SchemaStore,
        changed: TableSchema,
        options: Mapping[str, str],  # noqa: ARG002 - the properties are replaced as a whole
    ) -> bool:
        """Commit the schema's file, whose creation holds the lock; then the properties follow it."""
        made = schemas.commit_new(changed)
        if made and schemas.paths.branch == MAIN_BRANCH:
            self.catalog.show_properties(self.identifier, changed)
        return made


def _check_lengths(names: Sequence[str], properties: Mapping[str, str]) -> None:
    """InvalidArgument for what Paimon's tables have no room for."""
    for name in (*names, *properties):
        if len(name) > NAME_LENGTH:
            raise InvalidArgument(
                f"a JDBC catalog has room for names of {NAME_LENGTH} characters: {name[:40]}..."
            )
    for key, value in properties.items():
        if len(value) > VALUE_LENGTH:
            raise InvalidArgument(
                f"a JDBC catalog has room for values of {VALUE_LENGTH} characters, the value of "
                f"{key} has {len(value)}",
                next_step="shorten it, or set the catalog option sync-all-properties to false",
            )


def _execute(connection: Connection, sql: str, **values: object) -> None:
    from sqlalchemy import text  # noqa: PLC0415 - an extra

    connection.execute(text(sql), values)
