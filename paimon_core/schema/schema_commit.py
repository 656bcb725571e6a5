"""How the catalog of a table takes part in a schema change.

A REST catalog makes commits and schemas itself.  JDBC and Hive catalogs store a copy of the options
for their own listings and for other engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema


class SchemaCommit(Protocol):
    """Commits the schemas of one table or branch.  Picklable."""

    def commit(self, schemas: SchemaStore, changed: TableSchema) -> bool:
        """Commit `changed`, which follows the newest schema; False if its id is taken.

        Raises the errors of `SchemaStore.commit_new`, also if the catalog makes the schemas.
        """

    def set_options(
        self, schemas: SchemaStore, changed: TableSchema, options: Mapping[str, str]
    ) -> bool:
        """Commit `changed`, the newest schema with these options; False if its id is taken.

        A catalog that makes the schemas may apply the options to a schema that was committed
        meanwhile.  Raises the errors of `SchemaStore.commit_new` and of requests to the catalog.
        """
