"""Changes of options by jobs, in a table of a JDBC catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from paimon_core.paths import MAIN_BRANCH
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema


class ShowsProperties(Protocol):
    """What the change needs of the catalog."""

    def show_properties(self, identifier: str, schema: TableSchema) -> None:
        """Make the table's properties those of the schema."""


@dataclass(frozen=True, slots=True)
class JdbcSchemaCommit:
    """Keeps the properties of a table like its newest schema."""

    catalog: ShowsProperties
    identifier: str

    def set_options(
        self,
        schemas: SchemaStore,
        changed: TableSchema,
        options: Mapping[str, str],  # noqa: ARG002 - the properties are replaced as a whole
    ) -> bool:
        """As `commit`."""
        return self.commit(schemas, changed)

    def commit(self, schemas: SchemaStore, changed: TableSchema) -> bool:
        """Commit the schema's file, whose creation holds the lock; then the properties follow it."""
        made = schemas.commit_new(changed)
        if made and schemas.paths.branch == MAIN_BRANCH:
            self.catalog.show_properties(self.identifier, changed)
        return made
