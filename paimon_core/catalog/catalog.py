"""What every kind of catalog can do (Java: `catalog/Catalog`).

A catalog knows databases and tables by name, and says how a table is committed to.  Jobs work on the
table handle that `get_table` gives: its commits take the catalog's lock, or go through the catalog,
without the job's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot_commit import PartitionStatistics

Watch = Callable[[FileIO, str], FileIO]
"""Is given a table's storage and folder, and returns the storage to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database; `location` is None where the catalog keeps none."""

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
    """A partition with what it holds; `done` if it is marked as complete."""

    statistics: PartitionStatistics
    done: bool = False


class Catalog(Protocol):
    """Databases and tables by name.  Table names are "database.table".

    NotFound for what does not exist, AlreadyExists for a name that is taken, InvalidArgument for
    what is no name, UnsupportedFeature for what this kind of catalog cannot do, StorageError if the
    catalog does not answer.
    """

    @property
    def metastore(self) -> str:
        """The kind of catalog, as in the option of this name."""

    @property
    def maintained_jobs(self) -> frozenset[str]:
        """The jobs that the catalog's own service does, so that no other client should do them."""

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
        """What else the database holds, sorted by name; jobs skip it."""

    def get_table(
        self,
        identifier: str,
        *,
        branch: str | None = None,
        dynamic_options: Mapping[str, str | None] | None = None,
        watch: Watch | None = None,
    ) -> FileStoreTable:
        """The table under its newest schema; `dynamic_options` hold for this handle only.

        UnsupportedFeature names what is not a Paimon table.
        """

    def create_table(
        self, identifier: str, schema: TableSchema, *, if_not_exists: bool = False
    ) -> None:
        """Create the table with `schema` as its first; SchemaError if it is refused."""

    def alter_table(
        self,
        identifier: str,
        changes: Sequence[SchemaChange | Mapping[str, object]],
        *,
        now_millis: int,
        branch: str | None = None,
    ) -> TableSchema:
        """The new schema; SchemaError for changes that are refused."""

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Give the table another name, and its folder with it if the catalog manages the folder."""

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None:
        """Delete the table with everything in it."""

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions of the table's newest snapshot; one with an empty spec if it has no keys."""
