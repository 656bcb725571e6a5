"""The tables of the database `sys`, about all tables of a catalog.

Java: `table/system/{AllTablesTable,AllPartitionsTable,AllTableOptionsTable,CatalogOptionsTable}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from paimon_core.catalog.catalog import Catalog
from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.data_types import MAX_LENGTH, AtomicType, DataField, RowType, TypeRoot
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import SYSTEM_DATABASE, TableName, not_found

_TEXT: Final = AtomicType(kind=TypeRoot.VARCHAR, length=MAX_LENGTH)
_LONG: Final = AtomicType(kind=TypeRoot.BIGINT)
_FLAG: Final = AtomicType(kind=TypeRoot.BOOLEAN)
_NAMES: Final = (("database_name", _TEXT), ("table_name", _TEXT))
_SIZES: Final = (
    ("record_count", _LONG),
    ("file_size_in_bytes", _LONG),
    ("file_count", _LONG),
    ("last_file_creation_time", _LONG),
)
_TABLES: Final[dict[str, tuple[tuple[str, AtomicType], ...]]] = {
    "tables": (
        *_NAMES,
        ("table_type", _TEXT),
        ("partitioned", _FLAG),
        ("primary_key", _FLAG),
        ("owner", _TEXT),
        ("created_at", _LONG),
        ("created_by", _TEXT),
        ("updated_at", _LONG),
        ("updated_by", _TEXT),
        *_SIZES,
    ),
    "partitions": (*_NAMES, ("partition_name", _TEXT), *_SIZES, ("done", _FLAG)),
    "all_table_options": (*_NAMES, ("key", _TEXT), ("value", _TEXT)),
    "catalog_options": (("key", _TEXT), ("value", _TEXT)),
}
GLOBAL_TABLES: Final = tuple(_TABLES)
_SECRET: Final = re.compile(r"password|secret|token|access-?key|credential", re.IGNORECASE)
_HIDDEN: Final = "******"


def read_global_table(session: SqlSession, name: TableName) -> tuple[pa.Table, RowType]:
    """The rows of `sys.NAME`; AnalysisError if there is no such table."""
    row_type = global_table_type(name)
    catalog = session.catalog_for(name)
    ref = session.find(name.catalog)
    rows: list[tuple[Any, ...]]
    kind = name.table.lower()
    if kind == "catalog_options":
        options = {} if ref is None else {"warehouse": ref.warehouse, **ref.options}
        rows = sorted((k, _HIDDEN if _SECRET.search(k) else v) for k, v in options.items())
    else:
        rows = [row for table in _tables(catalog) for row in _rows(catalog, table, kind)]
    arrays = [
        column_from_internal([row[i] for row in rows], field.type)
        for i, field in enumerate(row_type.fields)
    ]
    return pa.table(arrays, names=list(row_type.names)), row_type


def global_table_type(name: TableName) -> RowType:
    """The columns of `sys.NAME`; AnalysisError if there is no such table."""
    columns = _TABLES.get(name.table.lower())
    if columns is None:
        raise not_found(name)
    return RowType(
        fields=tuple(DataField(id=i, name=n, type=t) for i, (n, t) in enumerate(columns))
    )


def _tables(catalog: Catalog) -> Iterator[FileStoreTable]:
    for database in catalog.list_databases():
        if database == SYSTEM_DATABASE:
            continue
        for table in catalog.list_tables(database):
            try:
                yield catalog.get_table(f"{database}.{table}")
            except PaimonError:
                continue  # dropped meanwhile, or not readable: Java skips it too


def _rows(catalog: Catalog, table: FileStoreTable, kind: str) -> list[tuple[Any, ...]]:
    database, _, name = table.name.partition(".")
    if kind == "all_table_options":
        shown = {**table.schema.options, **table.catalog_properties}  # as `Table.options` has them
        shown["path"] = table.location or table.root
        return [(database, name, k, v) for k, v in sorted(shown.items())]
    if kind == "partitions":
        if not table.schema.partition_keys:
            return []
        found: list[tuple[Any, ...]] = []
        for partition in catalog.list_partitions(table.name):
            s = partition.statistics
            partition_name = "/".join(f"{k}={v}" for k, v in s.spec.items())
            counts = (s.record_count, s.file_size, s.file_count, s.last_file_creation_millis)
            found.append((database, name, partition_name, *counts, partition.done))
        return sorted(found, key=lambda row: row[2])
    sizes: tuple[int | None, ...] = (None,) * 4
    if catalog.metastore == "rest":  # Java asks only a catalog that manages snapshots
        sizes = _sums(catalog, table)
    options = {**table.schema.options, **table.catalog_properties}
    return [
        (
            database,
            name,
            options.get("type", "table"),
            bool(table.schema.partition_keys),
            table.has_primary_key,
            options.get("owner"),
            _number(options.get("createdAt")),
            options.get("createdBy"),
            _number(options.get("updatedAt")),
            options.get("updatedBy"),
            *sizes,
        )
    ]


def _sums(catalog: Catalog, table: FileStoreTable) -> tuple[int | None, ...]:
    parts = [p.statistics for p in catalog.list_partitions(table.name)]
    if not parts:
        return (None,) * 4
    return (
        sum(p.record_count for p in parts),
        sum(p.file_size for p in parts),
        sum(p.file_count for p in parts),
        max(p.last_file_creation_millis for p in parts),
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
