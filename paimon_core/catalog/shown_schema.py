"""Tables whose catalog shows a copy of the newest schema to other engines (JDBC, Hive)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from paimon_core.paths import MAIN_BRANCH
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema

_CREATION_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1


class ShowsSchema(Protocol):
    """What the change of a schema needs of the catalog."""

    def show_schema(self, identifier: str, changed: TableSchema) -> None:
        """Make the catalog's copy that of this schema, or of a newer one that is there."""


@dataclass(frozen=True, slots=True)
class ShownSchemaCommit:
    """Keeps the catalog's copy like the newest schema, also for changes by jobs and writers."""

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
        """Commit the schema's file, whose creation holds the lock; then the copy follows it."""
        made = schemas.commit_new(changed)
        if made and schemas.paths.branch == MAIN_BRANCH:
            self.catalog.show_schema(self.identifier, changed)
        return made


def appears(exists: Callable[[], bool]) -> bool:
    """Return whether a table is there, or soon: another client may have made its first schema."""
    until = time.monotonic() + _CREATION_SECONDS
    while not exists():
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True
