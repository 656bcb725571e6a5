"""A table's properties as catalogs show them to others (Java: `HiveCatalog`, `JdbcCatalog`)."""

from __future__ import annotations

from paimon_core.schema.table_schema import TableSchema


def shown_properties(schema: TableSchema) -> dict[str, str]:
    """The options of the schema, and its keys as options."""
    keys = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": _bucket_keys(schema),
    }
    return {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}


def _bucket_keys(schema: TableSchema) -> tuple[str, ...]:
    """As `TableSchema.bucketKeys` in Java: the option, else the trimmed primary key."""
    named = schema.options.get("bucket-key", "").strip()
    if named:
        return tuple(column.strip() for column in named.split(","))
    return tuple(schema.trimmed_primary_keys)
