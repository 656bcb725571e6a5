"""The filesystem catalog: `warehouse/DB.db/TABLE` (Java: `catalog/FileSystemCatalog`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_core.catalog.catalog import Database, OtherObject, Partition, Watch
from paimon_core.catalog.maintained import maintained_jobs
from paimon_core.catalog.partitions import partitions_of_files
from paimon_core.catalog.table_files import TABLE_DEFAULT, TableFiles
from paimon_core.catalog.table_folder import (
    delete_all_dropped,
    delete_entry,
    drop_table_folder,
    foreign_file,
    is_dropped,
)
from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.errors import (
    AlreadyExists,
    BrokenLink,
    InvalidArgument,
    NotAFolder,
    NotFound,
    SchemaError,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO, renames_atomically
from paimon_core.io.open import open_file_io
from paimon_core.names import is_file_name
from paimon_core.options import PATH
from paimon_core.paths import SCHEMA_PREFIX, TablePaths
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.open import check_new_name, open_table_at, split_identifier
from paimon_core.table.other_tables import refused, table_within

DATABASE_SUFFIX: Final = ".db"


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """Databases and tables under one warehouse folder."""

    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def metastore(self) -> str:
        return "filesystem"

    @property
    def maintained_jobs(self) -> frozenset[str]:
        return maintained_jobs(self.options)

    @property
    def views(self) -> None:
        """None: a filesystem catalog has no place for views."""

    @property
    def format_tables(self) -> None:
        """None: a catalog of this kind has no format tables, as in Java."""

    def _open(self) -> tuple[FileIO, str]:
        return open_file_io(self.warehouse, self.options)

    # --- databases ---

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return databases_in(*self._open())

    def get_database(self, database: str) -> Database:
        """The database, which has no properties here; NotFound if its folder does not exist."""
        io, root = self._open()
        path = database_path(root, database)
        if not io.exists(path):
            raise NotFound(f"database {database} does not exist under {root}")
        return Database(name=database, location=path)

    def create_database(
        self,
        database: str,
        *,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Make the database's folder; AlreadyExists unless `if_not_exists`.

        InvalidArgument for properties, which a filesystem catalog has no place for.
        """
        io, root = self._open()
        if properties:
            raise InvalidArgument(
                f"database {database} cannot have properties ({', '.join(sorted(properties))}): a "
                "filesystem catalog does not store them"
            )
        path = database_path(root, database)
        if io.exists(path):
            if if_not_exists:
                return
            raise AlreadyExists(f"database {database} already exists")
        io.make_dirs(path)

    def alter_database(
        self,
        database: str,
        *,
        changes: Mapping[str, str] | None = None,  # noqa: ARG002 - as every catalog
        removed: Sequence[str] = (),  # noqa: ARG002 - as every catalog
    ) -> None:
        """UnsupportedFeature: a filesystem catalog stores no properties of databases."""
        raise UnsupportedFeature(
            "properties of databases",
            f"database {database} cannot be altered: a filesystem catalog stores no properties",
        )

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Delete the database's folder.

        InvalidArgument if it has tables, or files that are of none, unless `cascade`.  OutsideTable
        if its folder holds tables that are not its own.
        """
        io, root = self._open()
        path = database_path(root, database)
        if not io.exists(path):
            if if_exists:
                return
            raise NotFound(f"database {database} does not exist under {root}")
        self._drop_tables(database, self.list_tables(database), cascade=cascade)
        delete_all_dropped(io, path)
        theirs = None if cascade else foreign_file(io, path)
        if theirs is not None:
            raise InvalidArgument(
                f"database {database} is not empty: it has no tables, but files that are of none",
                file=theirs,
                next_step="move them away, or drop the database with CASCADE, which deletes them",
            )
        left = io.list_dir(path)
        for found in left:
            if found.is_dir and _has_schema(io, found.path):
                raise _not_empty(database)
        theirs = table_within(io, path) if any(f.is_dir for f in left) else None
        if theirs is not None:
            raise refused(f"database {database}", theirs)
        for found in left:
            delete_entry(io, found)
        io.delete_dir(path, recursive=False)
        if io.list_dir(path):
            raise _not_empty(database)

    def _drop_tables(self, database: str, tables: Sequence[str], *, cascade: bool) -> None:
        if tables and not cascade:
            raise InvalidArgument(
                f"database {database} is not empty: it has {len(tables)} tables",
                next_step="drop its tables first",
            )
        for table in tables:
            self.table_files(f"{database}.{table}").check_droppable()
        for table in tables:
            self.drop_table(f"{database}.{table}", if_exists=True)

    # --- tables ---

    def list_others(self, database: str) -> list[OtherObject]:  # noqa: ARG002 - as every catalog
        """Nothing: a folder without a schema is no object of a filesystem catalog."""
        return []

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the database's tables, sorted.

        NotFound if the database does not exist.
        """
        io, root = self._open()
        path = database_path(root, database)
        found = tables_in(io, path)
        if not found and not io.exists(path):
            raise NotFound(f"database {database} does not exist under {root}")
        return found

    def table_path(self, identifier: str) -> str:
        """Return the folder of table "db.t", whether or not it exists."""
        _, root = self._open()
        database, table = split_identifier(identifier)
        return f"{database_path(root, database)}/{table}"

    def get_table(
        self,
        identifier: str,
        *,
        branch: str | None = None,
        dynamic_options: Mapping[str, str | None] | None = None,
        watch: Watch | None = None,
    ) -> FileStoreTable:
        """The table under its newest schema; NotFound if there is none."""
        io, _ = self._open()
        folder = self.table_path(identifier)
        return open_table_at(
            io if watch is None else watch(io, folder),
            folder,
            identifier,
            branch=branch,
            dynamic_options=dynamic_options,
            location="/".join((self.warehouse.rstrip("/"), *folder.split("/")[-2:])),
        )

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions of the newest snapshot, from its files."""
        return partitions_of_files(self.get_table(identifier))

    def create_table(
        self, identifier: str, schema: TableSchema, *, if_not_exists: bool = False
    ) -> None:
        """Create the table with `schema` as its first schema; AlreadyExists unless `if_not_exists`.

        Catalog options `table-default.KEY` are defaults for options that the schema does not set.
        Raises NotFound if the database does not exist, SchemaError or UnsupportedFeature for an
        invalid schema.  The option `path` is refused, as in Java: the catalog determines the path.
        """
        self.get_database(split_identifier(identifier)[0])
        if self.create_first_schema(identifier, schema) is None and not if_not_exists:
            raise AlreadyExists(f"table {identifier} already exists", table=identifier)

    def create_first_schema(self, identifier: str, schema: TableSchema) -> TableSchema | None:
        """The schema as the table's first; None if the table's folder holds one already.

        Whether the database exists is not looked at.  Errors as in `create_table`.
        """
        check_new_name(identifier)
        path = schema.options.value(PATH) or self.options.get(f"{TABLE_DEFAULT}{PATH.key}")
        files = self.table_files(identifier)
        if path is not None and files.schemas().latest() is None:
            raise SchemaError(
                f"table {identifier} cannot be created at {path}: a {self.metastore} catalog "
                f"determines the path of a table, here {files.path}",
                table=identifier,
                next_step=f"omit the option {PATH.key}, or choose another warehouse",
            )
        return files.create_first(schema)

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None:
        """Delete the table's folder with its content; NotFound unless `if_exists`.

        Raises UnsupportedFeature for a table with data outside its folder.
        """
        io, _ = self._open()
        self.table_files(identifier).check_droppable()
        if not drop_table_folder(io, self.table_path(identifier)) and not if_exists:
            raise NotFound(f"table {identifier} does not exist", table=identifier)

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Rename the table's folder; NotFound, or AlreadyExists if the new name is taken.

        On an object store, the same call finishes a rename that was interrupted.
        """
        check_new_name(new_identifier)
        io, root = self._open()
        database, _ = split_identifier(new_identifier)
        there = self.table_files(identifier).schemas().latest() is not None
        if not there and not self._is_left_of(identifier, new_identifier):
            raise NotFound(f"table {identifier} does not exist", table=identifier)
        if not io.exists(database_path(root, database)):
            raise NotFound(f"database {database} does not exist under {root}")
        try:
            moved = io.rename(self.table_path(identifier), self.table_path(new_identifier))
        except FileNotFoundError as e:  # another client has dropped or renamed it meanwhile
            raise NotFound(f"table {identifier} does not exist", table=identifier) from e
        if not moved and not there:
            raise NotFound(f"table {identifier} does not exist", table=identifier)
        if not moved:
            raise name_taken(self.table_files(new_identifier))

    def _is_left_of(self, identifier: str, new_identifier: str) -> bool:
        """Whether the table's folder may be what an interrupted rename has left to delete."""
        path = self.table_path(identifier)
        if renames_atomically(path) or not self.table_files(identifier).io.exists(path):
            return False
        return self.table_files(new_identifier).schemas().latest() is not None

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
        """The new schema; errors as in `TableFiles.alter`."""
        return self.table_files(identifier).alter(changes, now_millis=now_millis, branch=branch)

    def table_files(self, identifier: str) -> TableFiles:
        """The schema files of the table, there or not."""
        io, _ = self._open()
        return TableFiles(
            io=io, path=self.table_path(identifier), identifier=identifier, options=self.options
        )


def name_taken(files: TableFiles, *, registered: bool = True) -> AlreadyExists:
    """The error for a name that another table has, or a folder that is no table of the catalog.

    `registered`: whether the catalog has each table that has a folder.
    """
    if files.schemas().latest() is None:
        return AlreadyExists(
            f"there is no table {files.identifier}, but its folder {files.path} exists",
            table=files.identifier,
            next_step="find out what it holds, move it away, then run again",
        )
    if registered:
        return AlreadyExists(f"table {files.identifier} already exists", table=files.identifier)
    return AlreadyExists(
        f"the catalog has no table {files.identifier}, but the folder {files.path} holds one",
        table=files.identifier,
        next_step="move the folder away, or register the table with CALL sys.repair",
    )


def database_path(root: str, database: str) -> str:
    """The folder of a database; InvalidArgument for what is no name."""
    if not is_file_name(database):
        raise InvalidArgument(f"not a database name: {database!r}")
    return f"{root.rstrip('/')}/{database}{DATABASE_SUFFIX}"


def databases_in(io: FileIO, root: str) -> list[str]:
    """The names of the databases whose folders are in a warehouse, sorted."""
    end = len(DATABASE_SUFFIX)
    return sorted(
        f.name[:-end]
        for f in io.list_dir(root)
        if f.is_dir and f.name.endswith(DATABASE_SUFFIX) and len(f.name) > end
    )


def tables_in(io: FileIO, folder: str) -> list[str]:
    """The names of the tables whose folders are in that of a database, sorted."""
    return sorted(
        f.name
        for f in io.list_dir(folder)
        if f.is_dir and not is_dropped(f.name) and _has_schema(io, f.path)
    )


def _not_empty(database: str) -> InvalidArgument:
    return InvalidArgument(
        f"database {database} is not empty: another client has created a table in it",
        next_step="run again",
    )


def _has_schema(io: FileIO, table_root: str) -> bool:
    folder = TablePaths(root=table_root).schema_dir
    try:
        return any(f.name.startswith(SCHEMA_PREFIX) for f in io.list_dir(folder))
    except (BrokenLink, NotAFolder):
        return True  # whoever opens the table is told; the other tables are listed
