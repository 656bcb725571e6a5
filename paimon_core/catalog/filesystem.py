"""The filesystem catalog: `warehouse/DB.db/TABLE` (Java: `catalog/FileSystemCatalog`)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_core.ddl.alter import apply_changes
from paimon_core.ddl.create import normalized
from paimon_core.ddl.schema_change import SchemaChange, change_from_object
from paimon_core.ddl.validation import check_fallback_branch, validate_schema
from paimon_core.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PaimonError,
    SchemaError,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO
from paimon_core.io.open import open_file_io
from paimon_core.known_options import check_values, similar_name, unknown_options
from paimon_core.names import is_file_name
from paimon_core.options import PATH, Options
from paimon_core.paths import SCHEMA_PREFIX, TablePaths
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.store import SnapshotStore
from paimon_core.table.open import open_table_at, split_identifier

log = logging.getLogger(__name__)

DATABASE_SUFFIX: Final = ".db"
TABLE_DEFAULT: Final = "table-default."
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """Databases and tables under one warehouse folder."""

    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict)

    def _open(self) -> tuple[FileIO, str]:
        return open_file_io(self.warehouse, self.options)

    # --- databases ---

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        io, root = self._open()
        end = len(DATABASE_SUFFIX)
        return sorted(
            f.name[:-end]
            for f in io.list_dir(root)
            if f.is_dir and f.name.endswith(DATABASE_SUFFIX) and len(f.name) > end
        )

    def create_database(self, database: str, *, if_not_exists: bool = False) -> None:
        """Create the database's folder; AlreadyExists unless `if_not_exists`."""
        io, root = self._open()
        path = _database_path(root, database)
        if io.exists(path):
            if if_not_exists:
                return
            raise AlreadyExists(f"database {database} already exists")
        io.make_dirs(path)

    # --- tables ---

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the database's tables, sorted.

        NotFound if the database does not exist.
        """
        io, root = self._open()
        path = _database_path(root, database)
        folders = [f for f in io.list_dir(path) if f.is_dir]
        if not folders and not io.exists(path):
            raise NotFound(f"database {database} does not exist under {root}")
        return sorted(f.name for f in folders if _has_schema(io, f.path))

    def table_path(self, identifier: str) -> str:
        """Return the folder of table "db.t", whether or not it exists."""
        _, root = self._open()
        database, table = split_identifier(identifier)
        return f"{_database_path(root, database)}/{table}"

    def get_table(
        self,
        identifier: str,
        *,
        branch: str | None = None,
        dynamic_options: Mapping[str, str | None] | None = None,
    ) -> FileStoreTable:
        """Open the table with its newest schema; NotFound if it does not exist."""
        io, _ = self._open()
        return open_table_at(
            io,
            self.table_path(identifier),
            identifier,
            branch=branch,
            dynamic_options=dynamic_options,
        )

    def create_table(
        self, identifier: str, schema: TableSchema, *, if_not_exists: bool = False
    ) -> None:
        """Create the table with `schema` as its first schema; AlreadyExists unless `if_not_exists`.

        Catalog options `table-default.KEY` are defaults for options that the schema does not set.
        Raises NotFound if the database does not exist, SchemaError or UnsupportedFeature for an
        invalid schema.  The option `path` is refused, as in Java: the catalog determines the path.
        """
        io, root = self._open()
        database, _ = split_identifier(identifier)
        if not io.exists(_database_path(root, database)):
            raise NotFound(f"database {database} does not exist under {root}")
        store = self._schemas(identifier)
        if store.latest() is None:
            with _named(identifier):
                first = normalized(self._with_default_options(schema))
                self._check_options(identifier, first.options)
                validate_schema(first)
                check_fallback_branch(
                    first.options, lambda name: store.of_branch(name).latest() is not None
                )
            if store.commit_new(first):
                return
        if not if_not_exists:
            raise AlreadyExists(f"table {identifier} already exists", table=identifier)

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None:
        """Delete the table's folder with its content; NotFound unless `if_exists`.

        Raises UnsupportedFeature for a table with data outside its folder.
        """
        io, _ = self._open()
        outside = "data-file.external-paths"
        if any(outside in s.options for s in self._schemas(identifier).all()):
            raise UnsupportedFeature(outside, table=identifier)
        if not io.delete_dir(self.table_path(identifier)) and not if_exists:
            raise NotFound(f"table {identifier} does not exist", table=identifier)

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Rename the table's folder; NotFound, or AlreadyExists if the new name is taken."""
        io, root = self._open()
        database, _ = split_identifier(new_identifier)
        if self._schemas(identifier).latest() is None:
            raise NotFound(f"table {identifier} does not exist", table=identifier)
        if not io.exists(_database_path(root, database)):
            raise NotFound(f"database {database} does not exist under {root}")
        if not io.rename(self.table_path(identifier), self.table_path(new_identifier)):
            raise AlreadyExists(f"table {new_identifier} already exists", table=new_identifier)

    def alter_table(
        self,
        identifier: str,
        changes: Sequence[SchemaChange | Mapping[str, object]],
        *,
        now_millis: int,
        branch: str | None = None,
    ) -> TableSchema:
        """Apply the changes to the newest schema in order; return the new schema.

        Changes are values of `schema.schema_change`, or the JSON objects that it reads.  If another
        process changes the schema meanwhile, they are applied again to its schema.  Raises NotFound
        for a missing table, SchemaError or UnsupportedFeature for an invalid change.
        """
        wanted = [change_from_object(c) if isinstance(c, Mapping) else c for c in changes]
        store = self._schemas(identifier, branch=branch)
        snapshots = SnapshotStore(store.io, store.paths, identifier)
        for _ in range(_ATTEMPTS):
            latest = store.latest()
            if latest is None:
                raise NotFound(f"table {identifier} does not exist", table=identifier)
            with _named(identifier):
                changed = apply_changes(
                    latest,
                    wanted,
                    now_millis=now_millis,
                    has_snapshots=lambda: snapshots.latest_id() is not None,
                )
                check_fallback_branch(
                    changed.options, lambda name: store.of_branch(name).latest() is not None
                )
            if store.commit_new(changed):
                return changed
        raise AlreadyExists(
            f"other schema changes of table {identifier} won every time",
            table=identifier,
            next_step="run again",
        )

    def _check_options(self, identifier: str, options: Options) -> None:
        path = options.value(PATH)
        if path is not None:
            raise SchemaError(
                f"table {identifier} cannot be created at {path}: a filesystem catalog "
                f"determines the path of a table, here {self.table_path(identifier)}",
                next_step=f"omit the option {PATH.key}, or choose another warehouse",
            )
        check_values(options)
        for key in unknown_options(options):
            near = similar_name(key)
            hint = "" if near is None else f"; is {near} meant?"
            log.warning("table=%s option %r is unknown to Paimon%s", identifier, key, hint)

    def _with_default_options(self, schema: TableSchema) -> TableSchema:
        defaults = Options(self.options).matching(TABLE_DEFAULT)
        return replace(schema, options=Options({**defaults, **schema.options}))

    def _schemas(self, identifier: str, *, branch: str | None = None) -> SchemaStore:
        io, _ = self._open()
        paths = TablePaths(root=self.table_path(identifier))
        return SchemaStore(io, paths.of_branch(branch) if branch else paths, identifier)


def _database_path(root: str, database: str) -> str:
    if not is_file_name(database):
        raise InvalidArgument(f"not a database name: {database!r}")
    return f"{root.rstrip('/')}/{database}{DATABASE_SUFFIX}"


def _has_schema(io: FileIO, table_root: str) -> bool:
    folder = TablePaths(root=table_root).schema_dir
    return any(f.name.startswith(SCHEMA_PREFIX) for f in io.list_dir(folder))


@contextmanager
def _named(identifier: str) -> Iterator[None]:
    """Add the table name to errors raised inside."""
    try:
        yield
    except PaimonError as e:
        e.table = e.table or identifier
        raise
