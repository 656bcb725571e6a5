"""The interface of all catalogs (Java: `catalog/Catalog`).

A catalog finds databases and tables by name, and determines how commits to a table work.  A job
needs no code for this: the handle that `get_table` returns takes the lock of the catalog, or
commits through the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paimon_core.catalog.format_tables import FormatTables
from paimon_core.catalog.views import Views
from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot_commit import PartitionStatistics

Watch = Callable[[FileIO, str], FileIO]
"""A function of a table's storage and folder that returns the storage to use instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database; `location` is None if the catalog does not store one."""

    name: str
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherObject:
    """Something in a database that is not a Paimon table: `kind` is view, format-table, ..."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition with its statistics; `done` if it is marked as complete."""

    statistics: PartitionStatistics
    done: bool = False


class Catalog(Protocol):
    """Databases and tables by name.  Table names are "database.table".

    Methods raise NotFound if a database or table does not exist, AlreadyExists if a name is taken,
    InvalidArgument for an invalid name, UnsupportedFeature for an operation that this kind of
    catalog does not have, and StorageError if the catalog does not answer.
    """

    @property
    def metastore(self) -> str:
        """The kind of catalog, as in the option `metastore`: filesystem, rest, jdbc or hive."""

    @property
    def maintained_jobs(self) -> frozenset[str]:
        """The jobs that the catalog's own service runs, so that Caretaker does not run them."""

    @property
    def views(self) -> Views | None:
        """The views of the catalog; None if this kind of catalog has no views."""

    @property
    def format_tables(self) -> FormatTables | None:
        """The format tables of the catalog; None if this kind of catalog has none."""

    def list_databases(self) -> list[str]:
        """The names of all databases, sorted."""

    def get_database(self, database: str) -> Database:
        """The database with its properties."""

    def create_database(
        self,
        database: str,
        *,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create the database."""

    def alter_database(
        self,
        database: str,
        *,
        changes: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
    ) -> None:
        """Set and remove properties of the database."""

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Delete the database; InvalidArgument if it has tables, unless `cascade`."""

    def list_tables(self, database: str) -> list[str]:
        """The names of the database's Paimon tables, sorted."""

    def list_others(self, database: str) -> list[OtherObject]:
        """The other objects of the database, such as views, sorted by name; jobs skip them."""

    def get_table(
        self,
        identifier: str,
        *,
        branch: str | None = None,
        dynamic_options: Mapping[str, str | None] | None = None,
        watch: Watch | None = None,
    ) -> FileStoreTable:
        """A handle of the table with its newest schema.

        `dynamic_options` apply to this handle only.  Raises UnsupportedFeature for an object that
        is not a Paimon table.
        """

    def create_table(
        self, identifier: str, schema: TableSchema, *, if_not_exists: bool = False
    ) -> None:
        """Create the table with `schema` as its first schema; SchemaError for an invalid schema."""

    def replace_table(self, identifier: str, schema: TableSchema) -> bool:
        """Replace the table by an empty one with this schema, if the catalog's service does this.

        False if it is left to the client: empty the table, and commit the schema.
        """

    def alter_table(
        self,
        identifier: str,
        changes: Sequence[SchemaChange | Mapping[str, object]],
        *,
        now_millis: int,
        branch: str | None = None,
    ) -> TableSchema:
        """Apply the changes and return the new schema; SchemaError for an invalid change."""

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Rename the table, and move its folder if the catalog manages the folder."""

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None:
        """Delete the table with all of its files."""

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions of the table's newest snapshot.

        A table without partition keys has one, with an empty spec.
        """
