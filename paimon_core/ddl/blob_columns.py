"""Rules for BLOB columns in a schema (Java 2.0: `SchemaValidation.validateBlob*`)."""

from __future__ import annotations

from paimon_core.ddl.column_directives import (
    BLOB_DESCRIPTOR_FIELD,
    BLOB_FIELD,
    is_blob_column,
)
from paimon_core.errors import SchemaError
from paimon_core.format.blob.view import BLOB_VIEW_FIELD
from paimon_core.options import (
    CHANGELOG_PRODUCER,
    DATA_EVOLUTION_ENABLED,
    DATA_FILE_EXTERNAL_PATHS,
    MERGE_ENGINE,
    SEQUENCE_FIELD,
)
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import TypeRoot, type_roots
from paimon_core.types.sql import type_to_sql

_KINDS = "BLOB, ARRAY<BLOB> or MAP<X, BLOB>"


def check_blobs(schema: TableSchema) -> None:
    """Raise SchemaError for BLOB columns that Java refuses."""
    options = schema.options
    for field in schema.fields:
        if not is_blob_column(field.type) and TypeRoot.BLOB in type_roots(field.type):
            raise SchemaError(
                f"Field '{field.name}' has unsupported nested BLOB type {type_to_sql(field.type)}. "
                "BLOB is only supported as a top-level BLOB, ARRAY<BLOB>, or MAP<X, BLOB> field."
            )
    blobs = [f.name for f in schema.fields if is_blob_column(f.type)]
    plain = [f.name for f in schema.fields if f.type.root is TypeRoot.BLOB]
    inline = {n for key in (BLOB_DESCRIPTOR_FIELD, BLOB_VIEW_FIELD) for n in options.names(key)}
    for name in options.names(BLOB_FIELD):
        _require(
            name in blobs,
            f"Field '{name}' in '{BLOB_FIELD}' must be a {_KINDS} field in table schema.",
        )
    for key in (BLOB_DESCRIPTOR_FIELD, BLOB_VIEW_FIELD):
        for name in options.names(key):
            _require(
                name in plain,
                f"Field '{name}' in '{key}' must be a BLOB field in table schema. ARRAY<BLOB> and "
                f"MAP<X, BLOB> are only supported by '{BLOB_FIELD}'.",
            )
    for name in options.names(BLOB_VIEW_FIELD):
        _require(
            name not in options.names(BLOB_DESCRIPTOR_FIELD),
            f"Field '{name}' in '{BLOB_VIEW_FIELD}' can not also be in '{BLOB_DESCRIPTOR_FIELD}'.",
        )
    if not blobs:
        return
    _require(
        bool(schema.primary_keys) or schema.options.value(DATA_EVOLUTION_ENABLED),
        f"Data evolution config must enabled for table with {_KINDS} type column.",
    )
    _require(
        len(schema.fields) > len(blobs),
        f"Table with {_KINDS} type column must have other normal columns.",
    )
    _require(
        not set(blobs) & set(schema.partition_keys),
        f"The {_KINDS} type column can not be part of partition keys.",
    )
    if schema.primary_keys:
        _check_managed(schema, set(blobs) - inline)


def _check_managed(schema: TableSchema, blobs: set[str]) -> None:
    """Check the BLOBs of a primary-key table that are in its own files."""
    if not blobs:
        return
    for what, names in (
        ("primary keys", schema.primary_keys),
        ("bucket keys", schema.bucket_keys),
        ("sequence fields", schema.options.value(SEQUENCE_FIELD)),
    ):
        found = [n for n in schema.names if n in blobs and n in names]
        _require(not found, f"Managed BLOB fields cannot be {what}: [{', '.join(found)}].")
    tables = "Primary-key managed BLOB tables"
    _require(
        schema.options.value(MERGE_ENGINE) == "deduplicate",
        f"{tables} only support the deduplicate merge engine.",
    )
    _require(
        schema.options.value(CHANGELOG_PRODUCER) == "none",
        f"{tables} only support changelog-producer 'none'.",
    )
    _require(
        DATA_FILE_EXTERNAL_PATHS.key not in schema.options,
        f"{tables} do not support 'data-file.external-paths'.",
    )


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 - reads like an assertion
    if not condition:
        raise SchemaError(message)
