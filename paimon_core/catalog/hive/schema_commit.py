"""Changes of options by jobs, in a table of a Hive catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from paimon_core.paths import MAIN_BRANCH
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema


class ShowsSchema(Protocol):
    """What the change needs of the catalog."""

    def show_schema(
        self, identifier: str, changed: TableSchema, removed: Sequence[str] = ()
    ) -> None:
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
        """As `commit`."""
        return self.commit(schemas, changed)

    def commit(self, schemas: SchemaStore, changed: TableSchema) -> bool:
        """Commit the schema's file, whose creation holds the lock; then the metastore follows it."""
        made = schemas.commit_new(changed)
        if made and schemas.paths.branch == MAIN_BRANCH:
            gone: set[str] = set()
            if schemas.exists(changed.id - 1):
                gone = schemas.get(changed.id - 1).options.keys() - changed.options.keys()
            self.catalog.show_schema(self.identifier, changed, sorted(gone))
        return made
