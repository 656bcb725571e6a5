"""The format tables of a catalog (Java: `catalog/Catalog`, `table/FormatTable`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.format_table import FormatTable


class FormatTables(Protocol):
    """The format tables of a catalog by their names, "database.table"."""

    def names(self, database: str) -> list[str]:
        """The names of the database's format tables, sorted."""

    def find(self, identifier: str) -> FormatTable | None:
        """The format table; None if there is none of this name, whatever else has it."""

    def create(self, identifier: str, schema: TableSchema) -> None:
        """Create the table; AlreadyExists, and SchemaError for what Java refuses.

        With the option `path` its files are those of this folder, and stay when it is dropped.
        """

    def alter(self, identifier: str, changes: Sequence[SchemaChange]) -> None:
        """Change columns and options; UnsupportedFeature where the catalog cannot."""

    def rename(self, identifier: str, new_identifier: str) -> None:
        """Give the table another name; NotFound, AlreadyExists."""

    def drop(self, identifier: str) -> None:
        """Delete the table, and its files unless it is external; NotFound."""
