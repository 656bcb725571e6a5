"""The Hive catalog: databases and tables in a Hive metastore (Java: `hive/HiveCatalog`).

The metastore says which tables exist and where their folders are; schemas, snapshots and data are
files there, as everywhere.  With the catalog's lock, commits and changes of schemas hold the
metastore's lock on the table.  Partitions and tags of some tables are partitions in the metastore
too (see `partition_registry`).  Capitals in names become small, as in Hive.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_core.catalog.catalog import Database, OtherObject, Partition, Watch
from paimon_core.catalog.filesystem import database_path, databases_in, tables_in
from paimon_core.catalog.hive import tables as hive_tables
from paimon_core.catalog.hive.folders import check_new_folder, place_of
from paimon_core.catalog.hive.format_tables import HiveFormatTables
from paimon_core.catalog.hive.metastore import KIND, Metastore, hive_name
from paimon_core.catalog.hive.partitions import HivePartitions, statistics_of
from paimon_core.catalog.hive.repair import repair_table
from paimon_core.catalog.hive.views import HiveViews
from paimon_core.catalog.lock import held, lock_enabled, under_lock
from paimon_core.catalog.maintained import maintained_jobs
from paimon_core.catalog.partitions import partitions_of_files
from paimon_core.catalog.shown_schema import ShownSchemaCommit, appears
from paimon_core.catalog.table_files import TableFiles
from paimon_core.catalog.table_folder import delete_table_folder, is_link
from paimon_core.ddl.schema_change import RemoveOption, SchemaChange, change_from_object
from paimon_core.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PaimonError,
    SchemaError,
    StorageError,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.open import open_file_io
from paimon_core.options import (
    PARTITION_MARK_DONE_ACTION,
    PARTITIONED_TABLE,
    PATH,
    TAG_TO_PARTITION,
)
from paimon_core.paths import MAIN_BRANCH
from paimon_core.remote.hive_client import HiveClient, with_site
from paimon_core.remote.thrift_calls import Database as HiveDatabase
from paimon_core.remote.thrift_calls import Table
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.open import check_new_name, open_table_at

log = logging.getLogger(__name__)

_LOCATION: Final = "location"
_COMMENT: Final = "comment"
_OWNER: Final = "owner"
_NAME_LENGTH: Final = 128
_QUOTES: Final = "'\"`\\"


@dataclass(frozen=True, slots=True)
class HiveCatalog:
    """Databases and tables of one metastore.  `options` are those of `connect`."""

    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def connect(cls, options: Mapping[str, str]) -> HiveCatalog:
        """The catalog, with the options that hive-site.xml adds; nothing is asked yet."""
        catalog = cls(with_site(options))
        HiveClient(catalog.options)
        lock_enabled(catalog.options, KIND)
        return catalog

    @property
    def metastore(self) -> str:
        return KIND

    @property
    def maintained_jobs(self) -> frozenset[str]:
        return maintained_jobs(self.options)

    @property
    def views(self) -> HiveViews:
        """The views of the catalog."""
        return HiveViews(self._metastore)

    @property
    def format_tables(self) -> HiveFormatTables:
        """The format tables of the catalog."""
        return HiveFormatTables(self._metastore)

    @property
    def _metastore(self) -> Metastore:
        return Metastore(self.options)

    # --- databases ---

    def list_databases(self) -> list[str]:
        """The names of all databases, sorted."""
        return self._metastore.databases()

    def get_database(self, database: str) -> Database:
        """The database; comment and owner are among its properties, as in Java."""
        found = self._metastore.database(database)
        own = {_COMMENT: found.description, _OWNER: found.owner_name}
        properties = {**(found.parameters or {}), **{k: v for k, v in own.items() if v is not None}}
        location = hive_tables.database_location(found, self.options)
        return Database(name=database, location=location, properties=properties)

    def create_database(
        self,
        database: str,
        *,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create the database at its property `location`, else in the warehouse."""
        database = database.lower()
        given = dict(properties or {})
        location = given.pop(_LOCATION, None) or database_path(self._metastore.warehouse, database)
        wanted = HiveDatabase(
            name=database,
            description=given.pop(_COMMENT, None),
            owner_name=given.pop(_OWNER, None),
            location_uri=location,
            parameters=given,
        )
        if hive_tables.in_properties(self.options):
            io, path = open_file_io(location, self.options)
            io.make_dirs(path)
            given[hive_tables.LOCATION_PROPERTY] = location
            wanted = replace(wanted, location_uri=None)
        try:
            self._metastore.client.call("create_database", wanted)
        except AlreadyExists as e:
            if not if_not_exists:
                raise AlreadyExists(f"database {database} already exists") from e

    def alter_database(
        self,
        database: str,
        *,
        changes: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
    ) -> None:
        """Set and remove properties; one that is to be removed and does not exist is no error."""
        found = self._metastore.database(database)
        parameters = {**(found.parameters or {}), **(changes or {})}
        for key in removed:
            parameters.pop(key, None)
        self._metastore.client.call(
            "alter_database",
            database,
            replace(
                found,
                description=parameters.pop(_COMMENT, found.description),
                owner_name=parameters.pop(_OWNER, found.owner_name),
                location_uri=parameters.pop(_LOCATION, found.location_uri),
                parameters=parameters,
            ),
        )

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Delete the database, and its folder if that is empty.

        InvalidArgument if it holds anything; with `cascade`, only if that is neither a table of
        Paimon, a format table nor a view.
        """
        try:
            found = self._metastore.database(database)
        except NotFound:
            if if_exists:
                return
            raise
        tables = list(self._metastore.tables(database))
        own = [t for t in tables if hive_tables.is_paimon(t)]
        views = [t for t in tables if hive_tables.is_view(t)]
        formats = self.format_tables.names(database)
        others = len(tables) - len(own) - len(views) - len(formats)
        if others or (tables and not cascade):
            raise InvalidArgument(
                f"database {database} is not empty: it has {len(own)} tables of Paimon, "
                f"{len(formats)} format tables, {len(views)} views and {others} others",
                next_step="drop its tables first",
            )
        for table in own:
            self._why_kept(table, self._metastore.files(table))
        for table in own:
            self.drop_table(f"{database}.{table.table_name}", if_exists=True)
        for name in formats:
            with suppress(NotFound):
                self.format_tables.drop(f"{database}.{name}")
        for view in views:
            with suppress(NotFound):
                self.views.drop(f"{database}.{view.table_name}")
        self._metastore.client.call("drop_database", database, False, False)
        location = hive_tables.database_location(found, self.options)
        if location:
            io, path = open_file_io(location, self.options)
            io.delete_dir(path, recursive=False)

    # --- tables ---

    def list_tables(self, database: str) -> list[str]:
        """The names of the database's Paimon tables, sorted."""
        found = self._metastore.tables(database)
        return sorted(str(t.table_name) for t in found if hive_tables.is_paimon(t))

    def list_others(self, database: str) -> list[OtherObject]:
        """Views and tables of other formats, sorted by name."""
        found = [
            OtherObject(str(t.table_name), hive_tables.other_kind(t))
            for t in self._metastore.tables(database)
            if not hive_tables.is_paimon(t)
        ]
        return sorted(found, key=lambda other: other.name)

    def get_table(
        self,
        identifier: str,
        *,
        branch: str | None = None,
        dynamic_options: Mapping[str, str | None] | None = None,
        watch: Watch | None = None,
    ) -> FileStoreTable:
        """The table under its newest schema; with the lock enabled, its commits hold it."""
        found = self._metastore.table(identifier)
        check_new_name(identifier)
        name = hive_name(identifier)
        watch = under_lock(self._metastore.lock(name), watch)
        io, root = open_file_io(self._metastore.location(found), self._metastore.file_options)
        return open_table_at(
            io if watch is None else watch(io, root),
            root,
            identifier,
            branch=branch,
            dynamic_options=dynamic_options,
            partition_registry=HivePartitions(self._metastore.client, *name),
            schema_commit=ShownSchemaCommit(self, identifier),
            location=self._metastore.location(found),
        )

    def create_table(
        self, identifier: str, schema: TableSchema, *, if_not_exists: bool = False
    ) -> None:
        """Create the table: its first schema under the lock, then the metastore's table.

        With the option `path`, or as an external table, the folder may hold a table already.
        """
        name = hive_name(identifier)
        for part in name:
            _check_storable(part)
        database = self._metastore.database(name[0])
        if self._metastore.exists(name):
            if if_not_exists:
                return
            raise AlreadyExists(f"table {identifier} already exists", table=identifier)
        path = schema.options.value(PATH)
        check_new_folder(path)
        external = path is not None or hive_tables.is_created_external(schema, self.options)
        parent = hive_tables.database_location(database, self.options)
        location = (
            path or f"{parent or database_path(self._metastore.warehouse, name[0])}/{name[1]}"
        )
        files = self._metastore.files_at(location, identifier)
        with held(self._metastore.lock(name)):
            first = files.create_first(schema, external=external)
        if first is None:
            if if_not_exists and appears(lambda: self._metastore.exists(name)):
                return
            raise AlreadyExists(
                f"the folder {location} holds a schema, although the Hive metastore has no table "
                f"{identifier}",
                table=identifier,
                next_step="move the folder away, or register the table with CALL sys.repair",
            )
        try:
            self._metastore.register(name, first, location, external=external)
        except (StorageError, AlreadyExists) as e:
            # It may have been created, or another client has registered this folder.
            if isinstance(e, AlreadyExists) and if_not_exists:
                return
            raise
        except PaimonError as e:
            if not external:
                files.withdraw_first(first)
            e.table = e.table or identifier
            raise

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
        """The new schema, committed under the lock; then the metastore's table follows it."""
        wanted = [change_from_object(c) if isinstance(c, Mapping) else c for c in changes]
        table = self._metastore.table(identifier)
        with held(self._metastore.lock(hive_name(identifier))):
            changed = self._metastore.files(table).alter(
                wanted, now_millis=now_millis, branch=branch
            )
        if branch in (None, MAIN_BRANCH):
            removed = [c.key for c in wanted if isinstance(c, RemoveOption)]
            self.show_schema(identifier, changed, removed)
        return changed

    def show_schema(
        self, identifier: str, changed: TableSchema, removed: Sequence[str] | None = None
    ) -> None:
        """Give the metastore's table the columns and options of the schema; `removed` options go.

        By default, those go that the schema before has and this one has not.  If another client has
        changed the schema meanwhile, they are those of its schema.
        """
        try:
            # The metastore's table is replaced as a whole: what another client writes between our
            # reading it and our change would be lost.
            with held(self._metastore.lock(hive_name(identifier))):
                self._show(identifier, changed, None if removed is None else set(removed))
        except PaimonError as e:
            raise SchemaError(
                f"table {identifier} has its new schema {changed.id}, but the Hive metastore "
                f"{_has_not(e)} taken its columns and options: {e.message}",
                table=identifier,
                next_step="Paimon uses the new schema; for Hive, set "
                "hive.metastore.disallow.incompatible.col.type.changes=false in the metastore if it "
                "refused a column, then CALL sys.repair",
            ) from e

    def _show(self, identifier: str, changed: TableSchema, gone: set[str] | None) -> None:
        newest: TableSchema | None = changed
        while newest is not None:
            shown = newest
            table = self._metastore.table(identifier)
            location = self._metastore.location(table)
            if gone is None:
                gone = _removed_by(self._metastore.files(table).schemas(), changed)
            self._metastore.alter(
                identifier,
                hive_tables.altered_table(table, shown, location, self.options, sorted(gone)),
            )
            newest = self._metastore.files(table).schemas().latest()
            if newest is None or newest.id <= shown.id:
                return
            gone = (gone | shown.options.keys()) - newest.options.keys()

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Rename the table; the metastore or this client moves a managed table's folder."""
        check_new_name(new_identifier)
        database, name = hive_name(new_identifier)
        _check_storable(name)
        self._metastore.database(database)
        table = self._metastore.table(identifier)
        if self._metastore.exists(hive_name(new_identifier)):
            raise AlreadyExists(f"{new_identifier} already exists", table=new_identifier)
        source = self._metastore.files(table)
        try:
            self._metastore.alter(identifier, replace(table, db_name=database, table_name=name))
        except StorageError:
            if not self._was_renamed(table, new_identifier):
                raise
        except InvalidArgument as e:
            self._metastore.table(
                identifier
            )  # NotFound, if another client has renamed or dropped it
            raise AlreadyExists(
                f"table {identifier} cannot be renamed to {new_identifier}: {e.message}",
                table=identifier,
            ) from e
        renamed = self._metastore.table(new_identifier)
        target = self._metastore.files(renamed)
        if hive_tables.is_external(table) or target.path == source.path:
            return
        if source.schemas().latest() is None:
            return  # the metastore has moved it
        if not source.io.rename(source.path, target.path):
            self._metastore.alter(
                new_identifier,
                hive_tables.with_location(renamed, self._metastore.location(table), self.options),
            )
            raise AlreadyExists(
                f"table {identifier} is now {new_identifier}, and its folder stays "
                f"{source.path}: {target.path} exists",
                table=identifier,
            )

    def _was_renamed(self, before: Table, new_identifier: str) -> bool:
        """Whether the metastore has renamed the table, although its reply got lost."""
        if self._metastore.exists((before.db_name or "", before.table_name or "")):
            return False
        try:
            now = self._metastore.table(new_identifier)
        except NotFound:
            return False
        return (now.create_time, now.owner) == (before.create_time, before.owner)

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None:
        """Delete the metastore's table, then the folder unless the table is external."""
        try:
            table = self._metastore.table(identifier)
        except NotFound:
            if if_exists:
                return
            raise
        files = self._metastore.files(table)
        kept = self._why_kept(table, files)
        self._metastore.client.call("drop_table", *hive_name(identifier), False)
        if kept:
            log.warning("table=%s is dropped, but %s stays: %s", identifier, files.path, kept)
        elif kept is None:
            delete_table_folder(files.io, files.path)

    def _why_kept(self, table: Table, files: TableFiles) -> str | None:
        """Why the folder of a table that is dropped stays; None if it goes.

        Empty for an external table.  If it goes, errors as in `TableFiles.check_droppable`.
        """
        if hive_tables.is_external(table):
            return ""
        place = place_of(self._metastore.location(table))
        if place is None:
            return "it is not the folder of a table"
        if is_link(files.io, files.path):
            return "it is a symbolic link"
        others = self._metastore.tables_at(place, files.identifier)
        if others:
            return f"it holds table {', '.join(others)}"
        if not files.schemas().ids():
            return "it holds no schema"
        files.check_droppable()
        return None

    def repair(self, name: str = "") -> None:
        """Bring the metastore in line with the files: of `db.t`, of a database, or of all.

        Tables that it lacks are registered, others get the columns and options of their newest
        schema, and partitions are added.  Nothing is removed from the metastore.  NotFound for a
        table without files.  Java: `HiveCatalog.repairTable`, `repairDatabase`, `repairCatalog`.
        """
        metastore = self._metastore
        if not name:
            for database in databases_in(
                *open_file_io(metastore.warehouse, metastore.file_options)
            ):
                self.repair(database)
        elif "." in name:
            repair_table(metastore, name, self.get_table)
        else:
            self.create_database(name, if_not_exists=True)
            folder = metastore.folder_of(name)
            for table in tables_in(*open_file_io(folder, metastore.file_options)):
                with suppress(NotFound, AlreadyExists):
                    repair_table(metastore, f"{name}.{table}", self.get_table)

    # --- partitions ---

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions of the newest snapshot.

        With `metastore.tag-to-partition`, those of the metastore.
        """
        table = self.get_table(identifier)
        registry = HivePartitions(self._metastore.client, *hive_name(identifier))
        if table.options.value(TAG_TO_PARTITION) is not None:
            return [Partition(statistics_of(spec, found)) for spec, found in registry.found()]
        partitions = partitions_of_files(table)
        marks = "mark-event" in table.options.value(PARTITION_MARK_DONE_ACTION)
        if not marks or not table.options.value(PARTITIONED_TABLE):
            return partitions
        return [replace(p, done=registry.is_done(p.statistics.spec)) for p in partitions]


def _has_not(error: PaimonError) -> str:
    return "may not have" if isinstance(error, StorageError) else "has not"


def _removed_by(schemas: SchemaStore, changed: TableSchema) -> set[str]:
    """The options of the schema before that this one has not."""
    if not schemas.exists(changed.id - 1):
        return set()
    return set(schemas.get(changed.id - 1).options) - set(changed.options)


def _check_storable(name: str) -> None:
    """InvalidArgument for names with which the metastore's own statements fail."""
    if len(name) > _NAME_LENGTH or not set(_QUOTES).isdisjoint(name):
        raise InvalidArgument(
            f"a Hive metastore cannot keep the name {name[:40]!r}",
            next_step=f"choose one of at most {_NAME_LENGTH} characters, without quotes and backslashes",
        )
