"""Rules for the schema of a chain table (Java 2.0: `SchemaValidation.validateChainTable`)."""

from __future__ import annotations

from paimon_core.errors import SchemaError
from paimon_core.features import CHAIN_PARTITION_KEYS, CHAIN_TABLE
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.options import (
    BUCKET,
    DELETION_VECTORS_ENABLED,
    MERGE_ENGINE,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    SEQUENCE_FIELD,
)
from paimon_core.schema.table_schema import TableSchema


def check_chain_table(schema: TableSchema) -> None:
    """Raise SchemaError for a chain table that Java refuses."""
    options = schema.options
    if not options.flag(CHAIN_TABLE):
        return
    deletion_vectors = options.value(DELETION_VECTORS_ENABLED)
    strategy = options.value(PARTITION_EXPIRATION_STRATEGY)
    expires = f"Chain table only supports 'values-time' partition expiration strategy, but found '{strategy}'."
    for holds, message in (
        (schema.primary_keys, "Primary key is required for chain table."),
        (schema.partition_keys, "Chain table must be partition table."),
        (
            options.value(BUCKET) > 0,
            "Bucket number must be greater than 0 for chain table.",
        ),
        (options.value(SEQUENCE_FIELD), "Sequence field is required for chain table."),
        (
            changelog_producer_of(options).name in ("none", "input"),
            "Changelog producer must be none or input for chain table.",
        ),
        (
            not deletion_vectors or options.value(MERGE_ENGINE) == "deduplicate",
            "Chain tables only support deletion vectors with the deduplicate merge engine.",
        ),
        (
            options.value(PARTITION_TIMESTAMP_PATTERN) is not None,
            "Partition timestamp pattern is required for chain table.",
        ),
        (
            options.value(PARTITION_TIMESTAMP_FORMATTER) is not None,
            "Partition timestamp formatter is required for chain table.",
        ),
        (
            options.value(PARTITION_EXPIRATION_TIME) is None or strategy == "values-time",
            expires,
        ),
    ):
        if not holds:
            raise SchemaError(message)
    text = options.get(CHAIN_PARTITION_KEYS)
    if text is None:
        return
    chain = tuple(n.strip() for n in text.split(",") if n.strip())
    if not chain:
        raise SchemaError(f"{CHAIN_PARTITION_KEYS} must not be empty.")
    keys = schema.partition_keys
    if keys[len(keys) - len(chain) :] != chain or len(chain) > len(keys):
        raise SchemaError(
            f"{CHAIN_PARTITION_KEYS} must be a contiguous suffix of the table's partition keys. "
            f"Partition keys: [{', '.join(keys)}], chain partition keys: [{', '.join(chain)}]."
        )
