"""The rows of one table in the database of a JDBC catalog: its name, and its options for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_core.catalog.jdbc.database import NAME_LENGTH, VALUE_LENGTH
from paimon_core.errors import InvalidArgument
from paimon_core.table.open import split_identifier

if TYPE_CHECKING:
    from sqlalchemy import Connection

OF_TABLE: Final = "catalog_key = :key AND database_name = :database AND table_name = :table"
_TABLES: Final = ("paimon_tables", "paimon_table_properties")


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table under a catalog's key.  Each method is a part of a transaction."""

    connection: Connection
    key: str
    identifier: str

    @property
    def _values(self) -> dict[str, str]:
        database, table = split_identifier(self.identifier)
        return {"key": self.key, "database": database, "table": table}

    def insert(self) -> None:
        """Register the table; IntegrityError if it is registered."""
        execute(
            self.connection,
            "INSERT INTO paimon_tables (catalog_key, database_name, table_name) "
            "VALUES (:key, :database, :table)",
            **self._values,
        )

    def hold(self) -> bool:
        """Keep others from changing the rows until the transaction ends; False if there are none.

        An update without effect: SQLite has no SELECT FOR UPDATE.
        """
        return (
            execute(
                self.connection,
                f"UPDATE paimon_tables SET table_name = table_name WHERE {OF_TABLE}",
                **self._values,
            )
            > 0
        )

    def rename(self, new_identifier: str) -> bool:
        """Give the rows another name; False if there are none any more."""
        new_database, new_table = split_identifier(new_identifier)
        changed = [
            execute(
                self.connection,
                f"UPDATE {table} SET database_name = :new_database, table_name = :new_table "
                f"WHERE {OF_TABLE}",
                **self._values,
                new_database=new_database,
                new_table=new_table,
            )
            for table in _TABLES
        ]
        return changed[0] > 0

    def delete(self) -> bool:
        """Delete the rows; False if there are none any more."""
        deleted = [
            execute(self.connection, f"DELETE FROM {table} WHERE {OF_TABLE}", **self._values)
            for table in _TABLES
        ]
        return deleted[0] > 0

    def write_properties(self, properties: Mapping[str, str]) -> None:
        """Replace the table's properties.

        A client that does not hold the rows, as Java's, may insert some of them meanwhile.
        """
        execute(
            self.connection,
            f"DELETE FROM paimon_table_properties WHERE {OF_TABLE}",
            **self._values,
        )
        for key, value in sorted(properties.items()):
            execute(
                self.connection,
                "INSERT INTO paimon_table_properties (catalog_key, database_name, table_name, "
                "property_key, property_value) VALUES (:key, :database, :table, :property, :value) "
                "ON CONFLICT (catalog_key, database_name, table_name, property_key) "
                "DO UPDATE SET property_value = excluded.property_value",
                **self._values,
                property=key,
                value=value,
            )


def check_lengths(names: Sequence[str], properties: Mapping[str, str]) -> None:
    """InvalidArgument for what is too long for Paimon's tables in the database."""
    for name in (*names, *properties):
        if len(name) > NAME_LENGTH:
            raise InvalidArgument(
                f"a name in a JDBC catalog has at most {NAME_LENGTH} characters, {name[:40]}... has "
                f"{len(name)}"
            )
    for key, value in properties.items():
        if len(value) > VALUE_LENGTH:
            raise InvalidArgument(
                f"a value in a JDBC catalog has at most {VALUE_LENGTH} characters, that of {key} has "
                f"{len(value)}",
                next_step="shorten it, or set the catalog option sync-all-properties to false",
            )


def execute(connection: Connection, sql: str, **values: object) -> int:
    """Run the statement with values bound by name; the number of rows that it changed."""
    from sqlalchemy import text  # noqa: PLC0415 - an extra

    return connection.execute(text(sql), values).rowcount
