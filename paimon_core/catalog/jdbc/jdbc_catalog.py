"""The JDBC catalog: a warehouse whose databases and tables are rows (Java: `jdbc/JdbcCatalog`).

Tables lie at `warehouse/DB.db/TABLE`, as in a filesystem catalog, and their schemas are files.  The
rows say which of them exist.  With the catalog's lock, changes of schemas and commits hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from paimon_core.catalog.catalog import Database, OtherObject, Partition, Watch
from paimon_core.catalog.filesystem import FileSystemCatalog, database_path, name_taken
from paimon_core.catalog.jdbc.database import JdbcDatabase
from paimon_core.catalog.jdbc.lock import JdbcLock
from paimon_core.catalog.jdbc.table_rows import OF_TABLE, TableRows, check_lengths, execute
from paimon_core.catalog.jdbc.views import JdbcViews
from paimon_core.catalog.lock import file_options, held, lock_enabled, under_lock
from paimon_core.catalog.maintained import maintained_jobs
from paimon_core.catalog.partitions import partitions_of_files
from paimon_core.catalog.shown_properties import shown_properties, shows_all_properties
from paimon_core.catalog.shown_schema import ShownSchemaCommit, appears
from paimon_core.ddl.schema_change import SchemaChange, SetOption, change_from_object
from paimon_core.errors import (
    AlreadyExists,
    CatalogError,
    InvalidArgument,
    NotFound,
    PaimonError,
    SchemaError,
    StorageError,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import renames_atomically
from paimon_core.io.open import open_file_io
from paimon_core.options import parse_int
from paimon_core.paths import MAIN_BRANCH
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.open import check_new_name, split_identifier

if TYPE_CHECKING:
    from sqlalchemy import Connection

CATALOG_KEY: Final = "catalog-key"
_LOCATION: Final = "location"
_EXISTS: Final = "exists"
_DATABASE: Final = "catalog_key = :key AND database_name = :database"
_UNDO_RENAME: Final = (
    "CALL sys.repair('{0}') to register its folder, then drop {1}, whose folder does not exist"
)


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
        return shows_all_properties(self.options)

    @property
    def views(self) -> JdbcViews:
        """The views of the catalog."""
        return JdbcViews(self._database, self._key, self._lock)

    @property
    def format_tables(self) -> None:
        """None: a catalog of this kind has no format tables, as in Java."""

    def _lock(self, identifier: str) -> JdbcLock | None:
        return JdbcLock(self._database, self._key, identifier) if self.lock_enabled else None

    # --- databases ---

    def list_databases(self) -> list[str]:
        """The names of all databases, sorted."""
        return self._database.names(
            "SELECT database_name FROM paimon_tables WHERE catalog_key = :key "
            "UNION SELECT database_name FROM paimon_database_properties WHERE catalog_key = :key",
            key=self._key,
        )

    def get_database(self, database: str) -> Database:
        """The database with its properties; NotFound if it does not exist."""
        rows = self._database.rows(
            f"SELECT property_key, property_value FROM paimon_database_properties WHERE {_DATABASE}",
            key=self._key,
            database=database,
        )
        # A value may be NULL, as in Java.
        found = {str(key): str(value) for key, value in rows if value is not None}
        if not rows and not self._table_names(database):
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
        check_lengths([database], values)
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
        check_lengths([], changes)
        with self._database.transaction() as connection:
            for key in {*changes, *removed}:
                execute(
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
        """Delete the database; InvalidArgument if it has tables or views, unless `cascade`."""
        try:
            self.get_database(database)
        except NotFound:
            if if_exists:
                return
            raise
        tables, views = self.list_tables(database), self.views.names(database)
        if not cascade and (tables or views):
            what = f"{len(views)} views" if not tables else f"{len(tables)} tables"
            raise InvalidArgument(
                f"database {database} is not empty: it has {what}",
                next_step="drop its tables and views first",
            )
        for table in tables:
            self._files.table_files(f"{database}.{table}").check_droppable()
        for table in tables:
            self.drop_table(f"{database}.{table}", if_exists=True)
        with self._database.transaction() as connection:
            made = execute(
                connection,
                f"UPDATE paimon_tables SET table_name = table_name WHERE {_DATABASE}",
                key=self._key,
                database=database,
            )
            if made:
                raise InvalidArgument(
                    f"database {database} is not empty: another client has created a table in it",
                    next_step="run again",
                )
            if views:
                self.views.drop_all(connection, database)
            for table in ("paimon_database_properties", "paimon_table_properties"):
                execute(
                    connection,
                    f"DELETE FROM {table} WHERE {_DATABASE}",
                    key=self._key,
                    database=database,
                )

    def _insert_database(
        self, connection: Connection, database: str, properties: Mapping[str, str]
    ) -> None:
        for key, value in properties.items():
            execute(
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
        return names

    def list_others(self, database: str) -> list[OtherObject]:
        """The views, sorted by name."""
        return [OtherObject(name, "view") for name in self.views.names(database)]

    def _table_names(self, database: str) -> list[str]:
        return self._database.names(
            f"SELECT table_name FROM paimon_tables WHERE {_DATABASE}",
            key=self._key,
            database=database,
        )

    def _exists(self, identifier: str) -> bool:
        database, table = split_identifier(identifier)
        sql = f"SELECT table_name FROM paimon_tables WHERE {OF_TABLE}"
        return bool(self._database.rows(sql, key=self._key, database=database, table=table))

    def _check_exists(self, identifier: str) -> None:
        if not self._exists(identifier):
            raise self._not_found(identifier)

    def _not_found(self, identifier: str) -> NotFound:
        return NotFound(
            f"table {identifier} does not exist in the JDBC catalog {self._key}", table=identifier
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
        try:
            table = self._files.get_table(
                identifier,
                branch=branch,
                dynamic_options=dynamic_options,
                watch=under_lock(self._lock(identifier), watch),
            )
        except NotFound as e:
            if branch in (None, MAIN_BRANCH):
                e.next_step = (
                    "its folder was deleted, or a rename was interrupted; in that case, CALL "
                    "sys.repair with the old name, and then drop this one"
                )
            raise
        return replace(table, schema_commit=ShownSchemaCommit(self, identifier))

    def create_table(
        self, identifier: str, schema: TableSchema, *, if_not_exists: bool = False
    ) -> None:
        """Create the table: its first schema under the lock, then its row."""
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

        database, table = split_identifier(identifier)
        check_lengths([database, table], schema.options if self._syncs_properties else {})
        self.get_database(database)
        taken = AlreadyExists(f"table {identifier} already exists", table=identifier)
        if self._exists(identifier):
            if if_not_exists:
                return
            raise taken
        if self.views.find(identifier) is not None:
            if if_not_exists:
                return
            raise _view_exists(identifier)
        with held(self._lock(identifier)):
            first = self._files.create_first_schema(identifier, schema)
        if first is None:
            if not appears(lambda: self._exists(identifier)):
                raise AlreadyExists(
                    f"the folder of table {identifier} holds a schema, although the JDBC catalog "
                    f"{self._key} has no such table",
                    table=identifier,
                    next_step="move the folder away, or register the table with CALL sys.repair",
                )
            if if_not_exists:
                return
            raise taken
        try:
            with self._database.transaction() as connection:
                self._rows(connection, identifier).insert()
                self._write_properties(connection, identifier, first)
        except IntegrityError as e:
            if not if_not_exists:
                raise taken from e

    def _rows(self, connection: Connection, identifier: str) -> TableRows:
        return TableRows(connection, self._key, identifier)

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
        check_lengths([database, table], schema.options if self._syncs_properties else {})
        self.create_database(database, if_not_exists=True)
        if not self._exists(identifier):
            from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

            with suppress(IntegrityError), self._database.transaction() as connection:
                self._rows(connection, identifier).insert()
        self.show_schema(identifier, schema)

    def replace_table(self, identifier: str, schema: TableSchema) -> bool:  # noqa: ARG002
        """False: the client does it."""
        return False

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
        wanted = [change_from_object(c) if isinstance(c, Mapping) else c for c in changes]
        shown = branch in (None, MAIN_BRANCH)
        if shown and self._syncs_properties:
            check_lengths([], {c.key: c.value for c in wanted if isinstance(c, SetOption)})
        with held(self._lock(identifier)):
            changed = self._files.alter_table(
                identifier, wanted, now_millis=now_millis, branch=branch
            )
        if shown:
            self.show_schema(identifier, changed)
        return changed

    def show_schema(self, identifier: str, changed: TableSchema) -> None:
        """Make the table's properties those of the schema, if the catalog keeps them.

        If another client has changed the schema meanwhile, they are those of its schema.
        """
        if not self._syncs_properties:
            return
        schemas = self._files.table_files(identifier).schemas()
        newest: TableSchema | None = changed
        try:
            while newest is not None:
                shown = newest
                with self._database.transaction() as connection:
                    if not self._rows(connection, identifier).hold():
                        return  # dropped or renamed meanwhile
                    self._write_properties(connection, identifier, shown)
                newest = schemas.latest()
                if newest is not None and newest.id <= shown.id:
                    return
        except PaimonError as e:
            raise SchemaError(
                f"table {identifier} has its new schema {changed.id}, but the JDBC catalog did not "
                f"take its options: {e.message}",
                table=identifier,
                next_step=f"Paimon uses the new schema; for other programs, CALL "
                f"sys.repair('{identifier}')",
            ) from e

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Rename the table's row and properties, then its folder."""
        check_new_name(new_identifier)
        self._check_exists(identifier)
        new_database, new_table = split_identifier(new_identifier)
        check_lengths([new_database, new_table], {})
        self.get_database(new_database)
        taken = AlreadyExists(f"table {new_identifier} already exists", table=new_identifier)
        if self.views.find(new_identifier) is not None:
            raise _view_exists(new_identifier)
        io, _ = open_file_io(self.options["warehouse"], self.options)
        source, target = map(self._files.table_path, (identifier, new_identifier))
        if self._exists(new_identifier):
            raise taken
        files = self._files.table_files(new_identifier)
        if renames_atomically(target) and io.exists(target):
            raise name_taken(files, registered=False)
        self._move_rows(identifier, new_identifier)
        try:
            io.make_dirs(database_path(self.options["warehouse"], new_database))
            moved = io.rename(source, target)
        except BaseException as e:
            self._move_back(new_identifier, identifier)
            if isinstance(e, FileNotFoundError):
                raise NotFound(f"table {identifier} has no folder", table=identifier) from e
            raise
        if not moved:
            self._move_back(new_identifier, identifier)
            raise name_taken(files, registered=False)

    def _move_rows(self, source: str, target: str) -> None:
        """Rename the rows.

        NotFound if another client has dropped or renamed the table meanwhile.
        """
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

        try:
            with self._database.transaction() as connection:
                there = self._rows(connection, source).rename(target)
        except IntegrityError as e:
            raise AlreadyExists(f"table {target} already exists", table=target) from e
        except StorageError as e:
            if self._is_renamed(source, target):
                return  # only the reply was lost
            e.next_step = f"no folder was moved; if the catalog lists {target} now, {_UNDO_RENAME.format(source, target)}"
            raise
        if not there:
            raise self._not_found(source)

    def _is_renamed(self, source: str, target: str) -> bool:
        """Whether the rows have the new name, as far as the database says so."""
        try:
            return self._exists(target) and not self._exists(source)
        except StorageError:
            return False

    def _move_back(self, renamed: str, identifier: str) -> None:
        try:
            self._move_rows(renamed, identifier)
        except PaimonError as e:
            raise CatalogError(
                f"the JDBC catalog has renamed table {identifier} to {renamed}, but its folder was "
                f"not moved, and its row cannot be renamed back: {e.message}",
                table=identifier,
                next_step=_UNDO_RENAME.format(identifier, renamed),
            ) from e

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None:
        """Delete the table's row, then its folder.

        UnsupportedFeature as in a filesystem catalog.
        """
        if if_exists and not self._exists(identifier):
            return
        self._check_exists(identifier)
        self._files.table_files(identifier).check_droppable()
        with self._database.transaction() as connection:
            deleted = self._rows(connection, identifier).delete()
        if deleted:
            self._files.drop_table(identifier, if_exists=True)
        elif not if_exists:
            # Another client dropped or renamed it meanwhile: the folder is not ours to delete.
            raise self._not_found(identifier)

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions of the newest snapshot, from its files."""
        return partitions_of_files(self.get_table(identifier))

    def _write_properties(
        self, connection: Connection, identifier: str, schema: TableSchema
    ) -> None:
        """Replace the table's properties, if kept, by the options and keys of the schema."""
        if self._syncs_properties:
            self._rows(connection, identifier).write_properties(shown_properties(schema))


def _view_exists(identifier: str) -> AlreadyExists:
    return AlreadyExists(f"a view {identifier} already exists", table=identifier)
