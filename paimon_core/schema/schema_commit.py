"""The part that a table's catalog takes in a change of its schema.

A catalog that makes the commits also makes the schemas (REST); others keep a copy of the options for
their own listings and for other engines (JDBC, Hive).
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

        Errors as of `SchemaStore.commit_new`, also where only the catalog makes schemas.
        """

    def set_options(
        self, schemas: SchemaStore, changed: TableSchema, options: Mapping[str, str]
    ) -> bool:
        """Commit `changed`, the newest schema with these options; False if its id is taken.

        A catalog that makes the schemas may set the options of a schema that came meanwhile.  Errors
        as of `SchemaStore.commit_new` and of requests to the catalog.
        """
