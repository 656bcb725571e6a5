"""Changes of options by jobs, in a table of a Hive catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from paimon_core.paths import MAIN_BRANCH
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema


class ShowsSchema(Protocol):
    """What the change needs of the catalog."""

    def show_schema(self, identifier: str, changed: TableSchema) -> None:
        """Give the metastore's table the columns and options of the schema."""


@dataclass(frozen=True, slots=True)
class HiveSchemaCommit:
    """Keeps the metastore's table like the newest schema."""

    catalog: ShowsSchema
    identifier: str

    def set_options(
        self,
        schemas: SchemaStore,
        changed: TableSchema,
        options: Mapping[str, str],  # noqa: ARG002 - they are among those of the schema
    ) -> bool:
        """Commit the schema's file, whose creation holds the lock; then the metastore follows it."""
        made = schemas.commit_new(changed)
        if made and schemas.paths.branch == MAIN_BRANCH:
            self.catalog.show_schema(self.identifier, changed)
        return made
