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
    """Open a catalog: `open_catalog("/lake")`, or with Paimon's options.

    The options are those of Java's catalogs: `metastore` (filesystem, rest, jdbc, hive), `warehouse`,
    `uri`, and those of the store.  They may come as the first argument.  `timezone` is the IANA
    name of the zone of wall clock times; None is the machine's.  InvalidArgument for a missing
    option, UnsupportedFeature for an unsupported metastore.
    """
    given = dict(options or {})
    if isinstance(warehouse, Mapping):
        given = {**warehouse, **given}
    elif warehouse is not None:
        given["warehouse"] = warehouse
    return Catalog(open_core_catalog(given), context_of(timezone))


@dataclass(frozen=True, slots=True)
class Catalog:
    """Databases and tables; tables are named "database.table".

    NotFound for what does not exist, AlreadyExists for a name that is taken, UnsupportedFeature for
    what this kind of catalog cannot do.
    """

    core: CoreCatalog
    context: Context

    # --- databases ---

    def list_databases(self) -> list[str]:
        return self.core.list_databases()

    def get_database(self, name: str) -> Database:
        return self.core.get_database(name)

    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - as in pypaimon
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.core.create_database(name, properties=properties, if_not_exists=ignore_if_exists)

    def alter_database(
        self,
        name: str,
        *,
        changes: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
    ) -> None:
        """Set and remove properties."""
        self.core.alter_database(name, changes=changes, removed=removed)

    def drop_database(
        self,
        name: str,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - as in pypaimon
        *,
        cascade: bool = False,
    ) -> None:
        """Delete an empty database; with `cascade`, also one with tables."""
        self.core.drop_database(name, if_exists=ignore_if_not_exists, cascade=cascade)

    # --- tables ---

    def list_tables(self, database: str) -> list[str]:
        return self.core.list_tables(database)

    def get_table(
        self, identifier: str, *, options: Mapping[str, str | None] | None = None
    ) -> Table:
        """The table "db.t", or a branch, "db.t$branch_b"; `options` apply to this handle only."""
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
        """Create the table and return it; SchemaError for schemas that Java refuses.

        `schema` is a `Schema`, or an Arrow schema with keys and options as further arguments.
        """
        if isinstance(schema, pa.Schema):
            schema = Schema.from_pyarrow_schema(
                schema, partition_keys, primary_keys, options, comment
            )
        elif partition_keys or primary_keys or options or comment:
            raise InvalidArgument("keys, options and comment are part of the Schema")
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
        """Change the schema; SchemaError for changes that are refused."""
        name, branch, _ = split_system_name(identifier)
        try:
            self.core.alter_table(
                name, changes, now_millis=self.context.env.now_millis(), branch=branch
            )
        except NotFound:
            if not ignore_if_not_exists:
                raise

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        self.core.rename_table(identifier, new_identifier)

    def drop_table(
        self,
        identifier: str,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - as in pypaimon
    ) -> None:
        """Delete the table with everything in it."""
        self.core.drop_table(identifier, if_exists=ignore_if_not_exists)

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions of the newest snapshot, with their sizes."""
        return self.core.list_partitions(identifier)

    def exists(self, identifier: str) -> bool:
        """Whether there is a table of this name."""
        database, _, table = identifier.partition(".")
        try:
            return table in self.core.list_tables(database)
        except NotFound:
            return False
