"""A table's properties as catalogs show them to others (Java: `HiveCatalog`, `JdbcCatalog`)."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_core.options import parse_bool
from paimon_core.schema.table_schema import TableSchema


def shown_properties(schema: TableSchema) -> dict[str, str]:
    """The options of the schema, and its keys as options."""
    keys = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": schema.bucket_keys,
    }
    return {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}


def shows_all_properties(options: Mapping[str, str]) -> bool:
    """Whether the catalog shows them: its option `sync-all-properties`, by default true."""
    return parse_bool(options.get("sync-all-properties", "true"))
