"""INSERT ... BY NAME: the columns of the query go to the columns of the table with their names.

Java: `PaimonAnalysis.resolveQueryColumnsByName`; under `write.merge-schema` the table first takes
in new columns, and wider types if asked (`SchemaEvolutionHelper`).  Fields of structs match by name
too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import parse_bool
from paimon_core.table.format.format_table import FormatTable
from paimon_core.types.data_types import ArrayType, DataField, DataType, MapType, RowType
from paimon_spark.sql.errors import AnalysisError, IncompatibleRows
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.spark_settings import CASE_SENSITIVE
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.names import quoted, quoted_text
from paimon_spark.sql.text.types import null_text
from paimon_spark.write_options import EXPLICIT_CAST, MERGE_SCHEMA, TYPE_WIDENING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_distinct(table: FileStoreTable | FormatTable) -> None:
    """UnsupportedFeature for names of columns that differ only in case: here, they name one column.

    Spark makes such tables under spark.sql.caseSensitive.
    """
    lowered = [n.lower() for n in table.schema.names]
    repeated = sorted({n for n in lowered if lowered.count(n) > 1})
    if repeated:
        raise UnsupportedFeature(
            "columns whose names differ only in case",
            f"statements that name columns need other names than {', '.join(repeated)}",
            table=table.name,
            next_step="insert without naming columns, or rename one of them",
        )


def check_case(
    session: SqlSession, table: FileStoreTable | FormatTable, named: Iterable[str]
) -> None:
    """AnalysisError for columns that only another case tells from the table's, where case counts.

    Java adds them to the table under `write.merge-schema`; `check_distinct` says why we do not.
    """
    if not session.case_sensitive:
        return
    own = table.schema.names
    lowered = {n.lower() for n in own}
    for name in named:
        if name not in own and name.lower() in lowered:
            raise AnalysisError(
                f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `{name}` cannot be "
                f"resolved, because {CASE_SENSITIVE} is set. Did you mean one of {', '.join(own)}",
                table=table.name,
                next_step=f"write the name as the table does, or RESET {CASE_SENSITIVE}",
            )


def merges_schema(session: SqlSession, name: TableName) -> bool:
    """Whether a write by name may change the table's schema in this session."""
    return parse_bool(session.table_options(name).get(MERGE_SCHEMA, "false"))


def merged_schema(
    session: SqlSession, name: TableName, table: FileStoreTable, frame: DataFrame
) -> FileStoreTable:
    """The table with the new columns of the query, and its wider types if the options say so.

    SchemaError if the types of a column do not merge.
    """
    from paimon_spark.source.own_names import named_as  # noqa: PLC0415 - imports PySpark
    from paimon_spark.source.spark_types import paimon_type  # noqa: PLC0415 - imports PySpark
    from paimon_spark.source.writes.schema_merge import schema_changes  # noqa: PLC0415 - imports PySpark

    options = session.table_options(name)
    explicit = parse_bool(options.get(EXPLICIT_CAST, "false"))
    widen = parse_bool(options.get(TYPE_WIDENING, "false"))
    data = paimon_type(frame.schema)
    assert isinstance(data, RowType)
    data = named_as(table.schema.row_type, data)
    changes = list(schema_changes(table.schema.row_type, data, explicit=explicit, widen=widen))
    if not changes:
        return table
    session.catalog_for(name).alter_table(
        name.identifier, changes, now_millis=session.env.now_millis(), branch=name.branch
    )
    return session.open(name, to_write=True)


def by_name(
    table: FileStoreTable | FormatTable,
    static: Collection[str],
    frame: DataFrame,
    *,
    fill: bool,
) -> tuple[list[DataField], DataFrame]:
    """The table's fields that the query has, in its order, and the query's columns as they are.

    `fill` allows fields of structs to be missing.  IncompatibleRows for unknown and repeated names,
    and for NOT NULL columns without a value.
    """
    fields = {f.name.lower(): f for f in table.schema.fields if f.name not in static}
    check_distinct(table)
    lowered = [c.lower() for c in frame.columns]
    start = f"Cannot write incompatible data for the table `{table.name}`, "
    if len(lowered) > len(fields):
        extra = ", ".join(f"`{c}`" for c in lowered if c not in fields)
        raise IncompatibleRows(
            f"{start}the number of data columns ({len(lowered)}) doesn't match the table schema's "
            f"({len(fields)})." + (f" It fails due to extra columns: {extra}." if extra else "")
        )
    repeated = sorted({c for c in lowered if lowered.count(c) > 1})
    if repeated:
        raise IncompatibleRows(
            f"{start}due to column name conflicts: {', '.join(repeated)}. "
            f"It fails due to ambiguous column name `{repeated[0]}`."
        )
    unknown = [c for c in lowered if c not in fields]
    if unknown:
        names = ", ".join(f"`{c}`" for c in unknown)
        raise IncompatibleRows(
            f"{start}due to unknown column names: {names}. It fails due to extra columns: {names}."
        )
    for name, field in fields.items():
        if name not in lowered and not field.type.nullable and field.default_value is None:
            raise IncompatibleRows(
                f"{start}due to non-nullable column `{field.name}` has no specified value. "
                f"Cannot write null to non-null column({field.name})."
            )
    found = [fields[c] for c in lowered]
    for column in frame.schema.fields:
        _check_unambiguous(column.name, column.dataType, start)
    plain = frame.toDF(*(f"c{i}" for i in range(len(lowered))))
    columns = plain.selectExpr(
        *(
            f"{shaped(f'c{i}', column.dataType, field.type, fill=fill)} AS c{i}"
            for i, (column, field) in enumerate(zip(plain.schema.fields, found, strict=True))
        )
    )
    return found, columns


def _check_unambiguous(path: str, source: Any, start: str) -> None:
    """IncompatibleRows if names of the fields of a struct, at any depth, differ in case only."""
    match source.typeName():
        case "struct":
            names = [f.name.lower() for f in source.fields]
            for field in source.fields:
                inner = f"{path}.{field.name}"
                if names.count(field.name.lower()) > 1:
                    raise IncompatibleRows(f"{start}due to ambiguous column name `{inner}`.")
                _check_unambiguous(inner, field.dataType, start)
        case "array":
            _check_unambiguous(f"{path}.element", source.elementType, start)
        case "map":
            _check_unambiguous(f"{path}.value", source.valueType, start)


def has_rows(data_type: DataType) -> bool:
    """Whether the type has structs, at any depth of arrays and maps."""
    match data_type:
        case RowType():
            return True
        case ArrayType(element=inner) | MapType(value=inner):
            return has_rows(inner)
    return False


def named_alike(source: Any, target: DataType) -> bool:
    """Whether the outermost structs of a value name fields of the target's.

    Otherwise, as for `struct(1, 2)`, the places of the fields count.
    """
    kind = source.typeName()
    if isinstance(target, RowType) and kind == "struct":
        known = {f.name.lower() for f in target.fields}
        return any(f.name.lower() in known for f in source.fields)
    if isinstance(target, ArrayType) and kind == "array":
        return named_alike(source.elementType, target.element)
    if isinstance(target, MapType) and kind == "map":
        return named_alike(source.valueType, target.value)
    return False


def shaped(
    text: str, source: Any, target: DataType, *, fill: bool, current: str | None = None
) -> str:
    """The SQL of the value with the fields of its structs in the order of the target's.

    `fill` allows fields to be missing: they are null, or as in `current`, the SQL of the value that
    the target has now.
    """
    kind = source.typeName()
    if isinstance(target, RowType) and kind == "struct":
        return _struct(text, source, target, fill=fill, current=current)
    if isinstance(target, ArrayType) and kind == "array":
        element = shaped("x", source.elementType, target.element, fill=fill)
        return text if element == "x" else f"transform({text}, x -> {element})"
    if isinstance(target, MapType) and kind == "map":
        value = shaped("v", source.valueType, target.value, fill=fill)
        return text if value == "v" else f"transform_values({text}, (k, v) -> {value})"
    return text


def _struct(text: str, source: Any, target: RowType, *, fill: bool, current: str | None) -> str:
    have: Mapping[str, Any] = {f.name.lower(): f for f in source.fields}
    known = {f.name.lower() for f in target.fields}
    extra = [f.name for f in source.fields if f.name.lower() not in known]
    if extra:
        raise IncompatibleRows(
            f"Cannot write incompatible data: nested struct has extra fields: {', '.join(extra)}."
        )
    parts = []
    for field in target.fields:
        mine = have.get(field.name.lower())
        if mine is not None:
            inner = f"{text}.{quoted(mine.name)}"
            now = None if current is None else f"{current}.{quoted(field.name)}"
            value = shaped(inner, mine.dataType, field.type, fill=fill, current=now)
        elif current is not None:
            value = f"{current}.{quoted(field.name)}"
        elif fill:
            value = null_text(field.type)
        else:
            raise IncompatibleRows(
                f"Cannot write incompatible data: nested struct has no field `{field.name}`."
            )
        parts.append(f"{quoted_text(field.name)}, {value}")
    made = f"named_struct({', '.join(parts)})"
    keeps = current is not None and not known <= set(have)
    return made if keeps else f"IF({text} IS NULL, NULL, {made})"
