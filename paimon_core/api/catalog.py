"""Catalogs: databases and tables by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_core.api.context import Context, context_of
from paimon_core.api.schema import Schema
from paimon_core.api.table import Table
from paimon_core.catalog.catalog import Catalog as CoreCatalog
from paimon_core.catalog.catalog import Database, Partition
from paimon_core.catalog.open import open_catalog as open_core_catalog
from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.table.system.read import split_system_name


def open_catalog(
    warehouse: str | Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    *,
    timezone: str | None = None,
) -> Catalog:
    """Open a catalog: `open_catalog("/lake")`, or with Paimon's catalog options.

    `options` are those of Java's catalogs: `metastore` (filesystem, rest, jdbc or hive),
    `warehouse`, `uri`, and the options of the store.  The first argument can be the options instead
    of a path.  `timezone` is the IANA name of the time zone for wall clock times; None: the
    machine's time zone.  Raises InvalidArgument for a missing option or an unknown time zone, and
    UnsupportedFeature for an unsupported metastore.
    """
    given = dict(options or {})
    if isinstance(warehouse, Mapping):
        given = {**warehouse, **given}
    elif warehouse is not None:
        given["warehouse"] = warehouse
    return Catalog(open_core_catalog(given), context_of(timezone))


@dataclass(frozen=True, slots=True)
class Catalog:
    """Lists, creates, changes and drops databases and tables.  A table name is "database.table".

    Methods raise NotFound if a database or table does not exist, AlreadyExists if the name of a new
    one is taken, and UnsupportedFeature for an operation that this kind of catalog does not have.
    """

    core: CoreCatalog
    context: Context

    # --- databases ---

    def list_databases(self) -> list[str]:
        """The names of all databases."""
        return self.core.list_databases()

    def get_database(self, name: str) -> Database:
        """The name, properties and location of a database."""
        return self.core.get_database(name)

    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - as in pypaimon
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a database; with `ignore_if_exists`, leave an existing one unchanged."""
        self.core.create_database(name, properties=properties, if_not_exists=ignore_if_exists)

    def alter_database(
        self,
        name: str,
        *,
        changes: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
    ) -> None:
        """Set the properties in `changes`, and remove those named in `removed`."""
        self.core.alter_database(name, changes=changes, removed=removed)

    def drop_database(
        self,
        name: str,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - as in pypaimon
        *,
        cascade: bool = False,
    ) -> None:
        """Drop a database; only an empty one, unless `cascade` drops its tables as well."""
        self.core.drop_database(name, if_exists=ignore_if_not_exists, cascade=cascade)

    # --- tables ---

    def list_tables(self, database: str) -> list[str]:
        """The names of the tables in a database, without the name of the database."""
        return self.core.list_tables(database)

    def get_table(
        self, identifier: str, *, options: Mapping[str, str | None] | None = None
    ) -> Table:
        """A handle of the table "db.t", or of its branch b: "db.t$branch_b".

        `options` are dynamic options: they apply to this handle only, and None removes one.  Raises
        InvalidArgument for a system table, which `Table.system_table` reads.
        """
        name, branch, system = split_system_name(identifier)
        if system is not None:
            raise InvalidArgument(
                f"{identifier} is a system table",
                next_step=f"get_table({name!r}).system_table({system!r})",
            )
        core = self.core.get_table(name, branch=branch, dynamic_options=options)
        return Table(name, core, self.core, self.context)

    def create_table(
        self,
        identifier: str,
        schema: Schema | pa.Schema,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - as in pypaimon
        *,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Table:
        """Create a table and return its handle.

        `schema` is a `Schema`, or an Arrow schema with keys, options and comment as further
        arguments.  With `ignore_if_exists`, an existing table stays unchanged.  Raises SchemaError
        for a schema that Java refuses.
        """
        if isinstance(schema, pa.Schema):
            schema = Schema.from_pyarrow_schema(
                schema, partition_keys, primary_keys, options, comment
            )
        elif partition_keys or primary_keys or options or comment:
            raise InvalidArgument(
                f"{identifier}: keys, options and comment are part of the Schema",
                next_step="pass them to the Schema, or pass an Arrow schema instead of it",
            )
        first = schema.to_table_schema(now_millis=self.context.env.now_millis())
        self.core.create_table(identifier, first, if_not_exists=ignore_if_exists)
        return self.get_table(identifier)

    def alter_table(
        self,
        identifier: str,
        changes: Sequence[SchemaChange | Mapping[str, object]],
        *,
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Apply the changes as one new schema of the table or branch.

        Raises SchemaError for a change that Java refuses, for example dropping a key column.
        """
        name, branch, _ = split_system_name(identifier)
        try:
            self.core.alter_table(
                name, changes, now_millis=self.context.env.now_millis(), branch=branch
            )
        except NotFound:
            if not ignore_if_not_exists:
                raise

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Rename a table; both names are "database.table"."""
        self.core.rename_table(identifier, new_identifier)

    def drop_table(
        self,
        identifier: str,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - as in pypaimon
    ) -> None:
        """Drop a table, and delete its data, branches and tags."""
        self.core.drop_table(identifier, if_exists=ignore_if_not_exists)

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions of the newest snapshot, with their rows, bytes and files."""
        return self.core.list_partitions(identifier)

    def exists(self, identifier: str) -> bool:
        """Whether the table "database.table" exists."""
        database, _, table = identifier.partition(".")
        try:
            return table in self.core.list_tables(database)
        except NotFound:
            return False
