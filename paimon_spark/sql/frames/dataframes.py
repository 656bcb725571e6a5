"""Paimon tables as DataFrames, and DataFrames as Arrow: the interface between SQL and Spark.

`table_dataframe` reads through the core on the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.arrow_conversion import with_children
from paimon_core.format.blob.view import VIEW_RESOLVE, view_columns
from paimon_core.lsm.merge_engine import DELETE, UPDATE_BEFORE
from paimon_core.options import BLOB_AS_DESCRIPTOR, POSTPONE_MERGE_ON_READ
from paimon_core.predicate import Predicate, fields_of
from paimon_core.schema.scan_options import SCAN_OPTIONS
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.table.source.batch_scan import BatchScan, batch_scan_of, read_batch
from paimon_core.table.source.blob_views import with_viewed_blobs, without_views
from paimon_core.table.source.nullability import never_null
from paimon_core.table.source.placed_rows import collected, scan_units
from paimon_core.table.source.postponed_rows import merges_postponed
from paimon_core.table.system.read import VIEWS, read_system_table, read_view, system_scan
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import ArrayType, AtomicType, DataType, MapType, RowType, TypeRoot
from paimon_core.types.sql import type_to_sql
from paimon_spark.metadata_columns import OF_FILES, OF_ROWS, metadata_of
from paimon_spark.sql.frames.characters import column_metadata, padded_column, pads, with_metadata
from paimon_spark.sql.frames.distributed import LARGE_READ, distributed_dataframe, distributed_view
from paimon_spark.sql.frames.format_frames import format_dataframe
from paimon_spark.sql.frames.global_tables import read_global_table
from paimon_spark.sql.frames.pushdown import check_full_scan, pushed
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import SYSTEM_DATABASE, TableName, on_branch, refused_for_formats
from paimon_spark.sql.text.types import read_schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK_S_ROWS: Final = 4
"""How much more memory rows take in Spark than in Arrow, at most."""


def table_dataframe(
    session: SqlSession,
    name: TableName,
    options: dict[str, str] | None = None,
    *,
    metadata: Collection[str] = (),
    lenient: bool = False,
    wanted: Collection[str] | None = None,
    conditions: Sequence[str] = (),
) -> DataFrame:
    """The rows of a table, a branch or a system table; the options select the snapshot.

    `metadata` names hidden columns to add; `lenient` as in `scan_units`.  `wanted` are the names,
    in lower case, of the columns that the query needs; None for all.  Rows that do not meet one of
    the `conditions` may be left out: the query has them too.
    """
    if name.database == SYSTEM_DATABASE:
        return arrow_dataframe(session, *read_global_table(session, name))
    branch = (options or {}).get("branch")
    if branch is not None:
        name = on_branch(name, branch)
    formatted = session.known_format(name)
    if formatted is not None:
        if metadata or any(k in SCAN_OPTIONS for k in options or ()):
            raise refused_for_formats(name)
        formatted = replace(formatted, schema=formatted.schema.with_options({**(options or {})}))
        return format_dataframe(session, formatted, wanted=wanted, conditions=conditions)
    scan = _scan_of(session, name, options or {})
    if name.system is not None:
        if name.system in VIEWS:
            view = distributed_view(session, scan, name.system)
            if view is not None:
                return view
        rows, row_type = _system_rows(session, scan, name.system)
    elif metadata:
        hidden = _Hidden(frozenset(metadata), lenient)
        return _with_metadata(session, scan, hidden, wanted, conditions)
    else:
        names = needed_columns(scan.table, wanted)
        predicate = pushed(scan.table, conditions)
        if not without_views(scan.table, names):
            rows, row_type = _viewed(session, name, scan, names, predicate)
            return arrow_dataframe(session, rows, row_type, never_null(scan))
        if scan.whole is not None:
            check_full_scan(scan.table, scan.whole, predicate)
        distributed = distributed_dataframe(session, name, scan, names, predicate)
        if distributed is not None:
            return distributed
        key = _small_key(session, scan, names, predicate)
        if key is not None:
            return session.frames.frame(key, lambda: _small(session, scan, names, predicate))
        rows, row_type = _scanned(session, scan, names, predicate)
        return arrow_dataframe(session, rows, row_type, never_null(scan))
    return arrow_dataframe(session, rows, row_type)


def _scan_of(session: SqlSession, name: TableName, options: Mapping[str, str]) -> BatchScan:
    """The scan of the table or system table, the same one in all queries of a statement."""

    def plan() -> BatchScan:
        table = session.open(name, options=options)
        return system_scan(table, name.system, zone=session.zone)

    given = (options, session.table_options(name))
    return session.scan_once((name, *(tuple(sorted(o.items())) for o in given)), plan)


def _small_key(
    session: SqlSession, scan: BatchScan, columns: Sequence[str], predicate: Predicate | None
) -> Hashable:
    """Equal for reads of the same rows; None if the scan is not of one snapshot."""
    whole = scan.whole
    if whole is None or scan.since is not None or scan.then is not None:
        return None
    # The lists of manifests have unique names.  Options say how rows are merged.
    return (
        scan.table.root,
        (whole.base_manifest_list, whole.delta_manifest_list),
        repr(scan.table.schema),
        tuple(columns),
        repr(predicate),
        tuple(sorted(session.conf.items())),
    )


def _small(
    session: SqlSession, scan: BatchScan, columns: Sequence[str], predicate: Predicate | None
) -> tuple[DataFrame, int]:
    rows, row_type = _scanned(session, scan, columns, predicate)
    frame = arrow_dataframe(session, rows, row_type, never_null(scan))
    return frame, _SPARK_S_ROWS * rows.nbytes


def needed_columns(table: FileStoreTable, wanted: Collection[str] | None) -> list[str]:
    """The wanted columns of the table; one column if none is wanted, to count rows."""
    names = table.schema.names
    if wanted is None:
        return list(names)
    return [n for n in names if n.lower() in wanted] or list(names[:1])


def table_rows(
    session: SqlSession, table: FileStoreTable, *, predicate: Predicate | None = None
) -> tuple[pa.Table, RowType]:
    """The rows that a batch reads; for changes, without deletes, as in Spark."""
    scan = batch_scan_of(table, zone=session.zone)
    return _scanned(session, scan, None, predicate)


def _scanned(
    session: SqlSession,
    scan: BatchScan,
    columns: Sequence[str] | None,
    predicate: Predicate | None,
) -> tuple[pa.Table, RowType]:
    row_type = scan.table.schema.row_type
    if columns is not None:
        row_type = row_type.project(columns)
    rows = read_batch(scan, columns=row_type.names, predicate=predicate, zone=session.zone)
    return _collected(rows, row_type), row_type


def _viewed(
    session: SqlSession,
    name: TableName,
    scan: BatchScan,
    columns: Sequence[str],
    predicate: Predicate | None,
) -> tuple[pa.Table, RowType]:
    """The rows with the BLOBs of other tables in the place of views."""
    schema = scan.table.schema.with_options({VIEW_RESOLVE.key: "false"})
    raw = replace(scan, table=replace(scan.table, schema=schema))
    if predicate is not None and not without_views(scan.table, fields_of(predicate)):
        predicate = None
    rows, row_type = _scanned(session, raw, columns, predicate)
    views = [n for n in view_columns(scan.table.options) if n in row_type.names]
    options = (
        {BLOB_AS_DESCRIPTOR.key: "true"} if scan.table.options.value(BLOB_AS_DESCRIPTOR) else {}
    )

    def open_table(identifier: str) -> FileStoreTable:
        return session.catalog_for(name).get_table(identifier, dynamic_options=options)

    return with_viewed_blobs(rows, views, open_table), row_type


def _system_rows(session: SqlSession, scan: BatchScan, system: str) -> tuple[pa.Table, RowType]:
    if system in VIEWS:
        row_type, batches = read_view(scan, system, zone=session.zone)
        return _collected(batches, row_type, keep_deletes=True), row_type
    row_type, batches = read_system_table(
        scan.table, system, scan.whole, zone=session.zone, like_2_0=True
    )
    return _collected(batches, row_type), row_type


def _collected(
    batches: Iterable[pa.RecordBatch], row_type: RowType, *, keep_deletes: bool = False
) -> pa.Table:
    # A column that is NOT NULL now can have nulls from before.
    schema = pa.schema([f.with_nullable(True) for f in arrow_schema(row_type)])
    found: list[pa.RecordBatch] = []
    for batch in batches:
        kept = batch
        if not keep_deletes:
            kinds = np.asarray(batch.column(VALUE_KIND))
            wanted = ~np.isin(kinds, (UPDATE_BEFORE, DELETE))
            kept = batch if wanted.all() else batch.filter(pa.array(wanted))
        found.append(kept.select(list(row_type.names)).cast(schema))
    return pa.Table.from_batches(found, schema=schema)


def arrow_dataframe(
    session: SqlSession,
    rows: pa.Table,
    row_type: RowType,
    not_null: Collection[str] = (),
) -> DataFrame:
    """The rows as a DataFrame with Spark's types; columns of `not_null` are NOT NULL."""
    pad = pads(session)
    columns = [
        for_spark(column, field.type, pad=pad)
        for column, field in zip(rows.columns, row_type, strict=True)
    ]
    schema = ", ".join(
        f"`{f.name.replace('`', '``')}` {read_schema_text(f.type)}" for f in row_type
    )
    table = pa.table(columns, names=list(row_type.names))
    return _made(session, table, schema, row_type, not_null)


def _made(
    session: SqlSession,
    rows: pa.Table,
    schema: str,
    row_type: RowType,
    not_null: Collection[str],
) -> DataFrame:
    from pyspark.sql.types import StructType  # noqa: PLC0415 - only once Spark runs

    # For Spark, an empty batch means the end of the rows.
    batches = [b for b in rows.to_batches() if b.num_rows]
    # Spark also rejects a nested column without a chunk.
    whole = pa.Table.from_batches(batches) if batches else rows.schema.empty_table()
    spark: Any = session.spark  # whose overloads do not know Arrow tables
    types: Any = StructType.fromDDL(schema)
    for field, data_field in zip(types.fields, row_type, strict=False):
        field.metadata = column_metadata(data_field)
        if field.name in not_null and not whole.column(field.name).null_count:
            field.nullable = False
    frame: DataFrame = spark.createDataFrame(whole, schema=types)
    return frame


def arrow_of(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame.

    `DataFrame.toArrow` of PySpark 4 fails for nulls in VARIANT columns.
    """
    if "variant" not in frame.schema.simpleString() or not hasattr(frame, "_jdf"):
        return frame.toArrow()
    classic: Any = frame
    batches = classic._collect_as_arrow()  # noqa: SLF001 - as above
    return pa.Table.from_batches(batches) if batches else frame.toArrow()


def for_spark(column: pa.ChunkedArray, data_type: DataType, *, pad: bool = True) -> pa.ChunkedArray:
    """The column in a type that Spark takes; `pad`: CHAR has its length."""
    if pad:
        column = padded_column(column, data_type)
    match data_type:
        case AtomicType(kind=TypeRoot.TIME):
            return column.cast(pa.int32())
        case _ if "VARIANT" in type_to_sql(data_type):
            chunks = [_without_null_parts(chunk, data_type) for chunk in column.chunks]
            column = pa.chunked_array(chunks, column.type)
    return column.cast(_spark_arrow(column.type), safe=False)


def _without_null_parts(array: pa.Array, data_type: DataType) -> pa.Array:
    """The array whose VARIANTs have parts even where they are null, as Spark demands."""
    kind = array.type
    match data_type:
        case AtomicType(kind=TypeRoot.VARIANT):
            parts = [pc.fill_null(array.field(i), b"") for i in range(kind.num_fields)]
        case RowType():
            parts = [
                _without_null_parts(array.field(i), f.type) for i, f in enumerate(data_type.fields)
            ]
        case ArrayType():
            return with_children(
                array, kind, [_without_null_parts(array.values, data_type.element)]
            )
        case MapType():
            items = _without_null_parts(array.items, data_type.value)
            return with_children(array, kind, [array.keys, items])
        case _:
            return array
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())


def _spark_arrow(arrow: pa.DataType) -> pa.DataType:
    """The type with timestamps in microseconds and times as numbers, at any depth."""
    if pa.types.is_timestamp(arrow):
        return pa.timestamp("us", tz=arrow.tz)
    if pa.types.is_time32(arrow):
        return pa.int32()
    if pa.types.is_list(arrow):
        return pa.list_(_spark_arrow(arrow.value_type))
    if pa.types.is_map(arrow):
        return pa.map_(_spark_arrow(arrow.key_type), _spark_arrow(arrow.item_type))
    if pa.types.is_struct(arrow):
        return pa.struct([(f.name, _spark_arrow(f.type)) for f in arrow.fields])
    return arrow


@dataclass(frozen=True, slots=True)
class _Hidden:
    """The hidden columns of a query; `lenient` as in `scan_units`."""

    names: frozenset[str]
    lenient: bool


def _with_metadata(
    session: SqlSession,
    scan: BatchScan,
    hidden: _Hidden,
    wanted: Collection[str] | None,
    conditions: Sequence[str],
) -> DataFrame:
    table, columns = scan.table, needed_columns(scan.table, wanted)
    if scan.whole is not None and merges_postponed(table):
        raise UnsupportedFeature(
            f"metadata columns with {POSTPONE_MERGE_ON_READ.key}",
            f"Option '{POSTPONE_MERGE_ON_READ.key}' does not support metadata columns: "
            f"{', '.join(sorted(hidden.names))}",
            table=table.name,
            next_step=f"leave them out, or set {POSTPONE_MERGE_ON_READ.key}=false for this query",
        )
    predicate = pushed(table, conditions)
    needs_files = bool(hidden.names & (OF_ROWS if table.has_primary_key else OF_FILES))
    units = scan_units(
        scan, needs_files=needs_files, lenient=hidden.lenient, predicate=predicate, columns=columns
    )
    fields = [f for f in table.schema.fields if f.name in columns]
    if sum(u.size for u in units) > LARGE_READ and hasattr(session.spark, "_jsparkSession"):
        from paimon_spark.source.changes.placed_frames import placed_dataframe  # noqa: PLC0415 - imports PySpark

        frame = placed_dataframe(session.spark, table, units, columns, hidden.names)
        return with_metadata(session, frame, fields)
    placed = collected(table, units, columns)
    rows, row_type = placed.rows, RowType(fields=tuple(fields))
    for field, values in metadata_of(placed, hidden.names):
        row_type = RowType(fields=(*row_type.fields, field))
        rows = rows.append_column(field.name, values)
    return arrow_dataframe(session, rows, row_type, never_null(scan))
