"""Sets the table option `bucket`, by a new schema."""

from __future__ import annotations

from paimon_core.ddl.alter import apply_changes
from paimon_core.ddl.schema_change import SetOption
from paimon_core.environment import Environment
from paimon_core.errors import StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import BUCKET
from paimon_core.schema.table_schema import TableSchema

_ATTEMPTS = 5


def with_buckets(schema: TableSchema, buckets: int, env: Environment) -> TableSchema:
    """The schema that would follow; SchemaError or InvalidArgument if it cannot be."""
    return apply_changes(
        schema,
        [SetOption(BUCKET.key, str(buckets))],
        now_millis=env.now_millis(),
        has_snapshots=True,
    )


def set_buckets(table: FileStoreTable, *, before: int, after: int, env: Environment) -> None:
    """Commit a schema that says `after`; StalePlan unless the newest says `before`.

    Other changes of the schema that happen at the same time are kept.
    """
    for _ in range(_ATTEMPTS):
        latest = table.schemas.latest()
        now = None if latest is None else latest.options.value(BUCKET)
        if latest is None or now != before:
            raise StalePlan(
                f"the option bucket of table {table.name} is {now}, not {before} any more",
                table=table.name,
            )
        changed, by_catalog = with_buckets(latest, after, env), table.schema_commit
        if by_catalog is None:
            committed = table.schemas.commit_new(changed)
        else:
            committed = by_catalog.set_options(table.schemas, changed, {BUCKET.key: str(after)})
        if committed:
            return
    raise StalePlan(
        f"other schema changes of table {table.name} were committed first in every attempt",
        table=table.name,
    )
