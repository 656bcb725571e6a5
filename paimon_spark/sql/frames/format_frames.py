"""The rows of format tables, which Spark's own readers read.

The driver lists folders and files, as names in folders say which partitions and files count; Spark
reads the files that the query needs.  Java: `spark/PaimonFormatTableScan`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.io.file_io import FileStat, map_parallel
from paimon_core.table.format.files import (
    FormatPartition,
    FormatRead,
    data_files,
    format_partitions,
)
from paimon_core.table.format.format_table import FormatTable
from paimon_core.types.data_types import DataField, TypeRoot
from paimon_core.types.partition_text import sql_text
from paimon_spark.sql.frames.characters import with_metadata
from paimon_spark.sql.frames.format_text import (
    Unreadable,
    by_python,
    check_columns,
    data_fields,
    text_type,
    typed,
)
from paimon_spark.sql.frames.pushdown import pushed
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.names import quoted, quoted_text
from paimon_spark.sql.text.types import null_text, read_schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

_PATTERN: Final = frozenset("{}[]*?\\")
_NO_PATTERNS: Final = "__globPaths__"
_OBJECT_STORES: Final = {"s3": "s3a", "s3n": "s3a"}
"""The names that Hadoop has for stores."""
_LINE: Final = "__line"
_FOLDER: Final = "__folder"
_KNOWN: Final = "__known"
_STORE: Final = re.compile("^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
"""What names the store in a path."""
_ROW: Final = "__row"
_NO_FILE: Final = ".no-such-file"
_MODES: Final = ("permissive", "dropmalformed", "failfast")


def format_dataframe(
    session: SqlSession,
    table: FormatTable,
    *,
    wanted: Collection[str] | None = None,
    conditions: Sequence[str] = (),
) -> DataFrame:
    """The rows of a format table; `wanted` and `conditions` as in `table_dataframe`.

    Partitions that no condition allows are not listed.  UnsupportedFeature for columns that the
    format does not have.
    """
    check_columns(table)
    predicate = pushed(table, conditions)
    partitions = format_partitions(table, predicate)
    listed = map_parallel(table.io, lambda p: data_files(table, p), partitions)
    found = frozenset(f.path for files in listed for f in files)
    session.note_format_read(FormatRead(table.root, predicate, found))
    paths = [spark_path(f.path) for files in listed for f in files if f.size]
    names = table.schema.names
    if wanted is not None:
        names = tuple(n for n in names if n.lower() in wanted) or names[:1]
    fields = [f for f in table.schema.fields if f.name in names]
    if not paths:
        schema = ", ".join(f"{quoted(f.name)} {read_schema_text(f.type)}" for f in fields)
        return with_metadata(session, session.spark.createDataFrame([], schema), fields)
    filled = [p for p, files in zip(partitions, listed, strict=True) if files]
    if by_python(table):
        stored = _by_tasks(session, table, fields, partitions, listed)
    else:
        stored = _union([_read(session, table, part) for part in _by_pattern(paths)])
    rows = _with_partitions(session, table, stored, filled)
    return with_metadata(session, rows.select(*(quoted(f.name) for f in fields)), fields)


def _by_tasks(
    session: SqlSession,
    table: FormatTable,
    fields: Sequence[DataField],
    partitions: Sequence[FormatPartition],
    listed: Sequence[Sequence[FileStat]],
) -> DataFrame:
    """As `_read`, by Python tasks; of the columns, those among `fields`."""
    from paimon_spark.source.orc_files import orc_dataframe  # noqa: PLC0415 - imports PySpark

    files = [
        (f.path, _below_root(table, p))
        for p, found in zip(partitions, listed, strict=True)
        for f in found
        if f.size
    ]
    wanted = [f for f in data_fields(table) if f in fields]
    return orc_dataframe(session.spark, table.io, files, wanted, table.options, _FOLDER)


def spark_path(path: str) -> str:
    """The path of a file as Hadoop names its store."""
    scheme, separator, rest = path.partition("://")
    return f"{_OBJECT_STORES.get(scheme, scheme)}://{rest}" if separator else path


def check_client(spark: SparkSession, folder: str) -> None:
    """Raise Spark's error if it has no client for the store of the folder, or no access to it."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - only with a session

    try:
        reader = spark.read.option(_NO_PATTERNS, "false")
        # Connect asks the server only for the schema.
        _ = reader.text(f"{spark_path(folder)}/{_NO_FILE}").schema
    except AnalysisException as e:
        if e.getCondition() != "PATH_NOT_FOUND":
            raise


def _by_pattern(paths: Sequence[str]) -> list[list[str]]:
    """The paths that Spark takes for patterns, and the others: of both it would read some twice."""
    plain = [p for p in paths if _PATTERN.isdisjoint(p)]
    patterns = [p for p in paths if not _PATTERN.isdisjoint(p)]
    return [part for part in (plain, patterns) if part]


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    first, *others = frames
    for other in others:
        first = first.unionAll(other)
    return first


# --- partition columns ----------------------------------------------------------------------------


def _with_partitions(
    session: SqlSession, table: FormatTable, rows: DataFrame, partitions: Sequence[FormatPartition]
) -> DataFrame:
    """The rows with the values of the partition columns, which stand in the paths of files."""
    fields = table.schema.partition_type.fields
    if not fields:
        return rows
    if len(partitions) == 1:
        values = zip(partitions[0].values, fields, strict=True)
        literals = (f"{_literal(v, f)} AS {quoted(f.name)}" for v, f in values)
        return rows.selectExpr("*", *literals)
    from pyspark.sql.functions import broadcast  # noqa: PLC0415 - only with a session

    names = [f"__p{i}" for i in range(len(fields))]
    texts: dict[str, list[str | None]] = {_FOLDER: [_below_root(table, p) for p in partitions]}
    for i, (n, f) in enumerate(zip(names, fields, strict=True)):
        texts[n] = [_value_text(p.values[i], f) for p in partitions]
    spark: Any = session.spark  # whose overloads do not know Arrow tables
    known = spark.createDataFrame(
        pa.table({n: pa.array(column, pa.string()) for n, column in texts.items()})
    ).selectExpr(
        _FOLDER,
        f"true AS {_KNOWN}",
        *(
            f"CAST({n} AS {read_schema_text(f.type)}) AS {n}"
            for n, f in zip(names, fields, strict=True)
        ),
    )
    # A row whose folder is unknown must fail, not vanish: an overwrite would delete it.
    message = quoted_text(f"a row of format table {table.name} is in no known partition: ")
    shown = [quoted(f.name) for f in data_fields(table) if f.name in rows.columns]
    shown += [
        f"IF({_KNOWN}, {n}, raise_error(concat({message}, {_FOLDER}))) AS {quoted(f.name)}"
        for n, f in zip(names, fields, strict=True)
    ]
    return rows.join(broadcast(known), on=_FOLDER, how="left").selectExpr(*shown)


def _below_root(table: FormatTable, partition: FormatPartition) -> str:
    """The folder of a partition as its rows name it."""
    return partition.path.removeprefix(table.root.rstrip("/"))


def _literal(value: object, field: DataField) -> str:
    text = _value_text(value, field)
    if text is None:
        return null_text(field.type)
    return f"CAST({quoted_text(text)} AS {read_schema_text(field.type)})"


def _value_text(value: object, field: DataField) -> str | None:
    """The text that Spark casts to the value; None for null."""
    if value is None:
        return None
    end = "+00:00" if field.type.root is TypeRoot.TIMESTAMP_LTZ else ""
    return sql_text(value, field.type) + end


def _folder_of_file(table: FormatTable) -> str:
    """The SQL of the partition's folder below the table, of the file of a row.

    Hadoop spells stores in its own way: `file:/w` for `file:///w`, `hdfs://node/w` for `hdfs:///w`.
    """
    below = re.sub("/+", "/", _STORE.sub("", table.root)).rstrip("/")
    path = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
    own = f"regexp_replace({path}, {quoted_text(_STORE.pattern)}, '')"
    levels = len(table.schema.partition_keys) + 1
    return f"substring_index(substring({own}, {len(below) + 1}), '/', {levels})"


# --- files ----------------------------------------------------------------------------------------


def _reader(session: SqlSession, paths: Sequence[str]) -> DataFrameReader:
    reader = session.spark.read.option("recursiveFileLookup", "true")
    return reader if _PATTERN.isdisjoint(paths[0]) else reader.option(_NO_PATTERNS, "false")


def _read(session: SqlSession, table: FormatTable, paths: Sequence[str]) -> DataFrame:
    """The columns of the files, and the folder of the partition if there are partition columns."""
    reader = _reader(session, paths)
    fields = data_fields(table)
    own = [f"{_folder_of_file(table)} AS {_FOLDER}"] if table.schema.partition_keys else []
    match table.format:
        case "csv":
            return _csv(table, reader, paths, fields, own)
        case "json":
            return _json(table, reader, paths, fields, own)
        case "text":
            delimiter = _line_option(table.file_option("text.line-delimiter"))
            rows = reader.options(**delimiter).text(list(paths))
            return rows.selectExpr(f"value AS {quoted(fields[0].name)}", *own)
    schema = ", ".join(f"{quoted(f.name)} {read_schema_text(f.type)}" for f in fields)
    rows = reader.schema(schema).format(table.format).load(list(paths))
    return rows.selectExpr(*(quoted(f.name) for f in fields), *own)


def _line_option(delimiter: str) -> dict[str, str]:
    return {} if delimiter == "\n" else {"lineSep": delimiter}


def csv_options(table: FormatTable, *, escape: str | None = None) -> dict[str, str]:
    """The options of Spark for values of CSV, both ways (Java: `FormatTableCatalog`)."""
    return {
        "sep": table.file_option("csv.field-delimiter"),
        "quote": table.file_option("csv.quote-character"),
        "escape": escape or table.file_option("csv.escape-character"),
        "nullValue": table.file_option("csv.null-literal"),
        "emptyValue": "",
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
    }


def has_header(table: FormatTable) -> bool:
    """Whether the first line of a CSV file names the columns.

    UnsupportedFeature with a delimiter of lines that Spark does not read then.
    """
    found = table.file_option("csv.include-header").lower() == "true"
    if found and len(table.file_option("csv.line-delimiter")) > 1:
        raise UnsupportedFeature(
            "csv.include-header with a csv.line-delimiter of several characters",
            table=table.name,
            next_step="change one of the options",
        )
    return found


def _csv(
    table: FormatTable,
    reader: DataFrameReader,
    paths: Sequence[str],
    fields: Sequence[DataField],
    own: Sequence[str],
) -> DataFrame:
    names = [f"c{i}" for i in range(len(fields))]
    delimiter = _line_option(table.file_option("csv.line-delimiter"))
    if has_header(table):
        options = {**csv_options(table), **delimiter, "header": "true"}
        schema = ", ".join(f"{n} STRING" for n in names)
        rows = reader.schema(schema).options(**options).csv(list(paths))
        texts = rows.selectExpr(*names, *own)
    else:
        # In this way an empty line is a row without values, as in Java.
        lines = reader.options(**delimiter).text(list(paths)).selectExpr(f"value AS {_LINE}", *own)
        kept = [c for c in lines.columns if c != _LINE]
        parsed = lines.selectExpr(f"{_parsed(table, names)} AS {_ROW}", *kept)
        texts = parsed.selectExpr(*(f"{_ROW}.{n} AS {n}" for n in names), *kept)
    mode = table.file_option("csv.mode").lower()
    if mode not in _MODES:
        raise UnsupportedFeature(f"csv.mode={mode}", table=table.name)
    null = quoted_text(table.file_option("csv.null-literal"))
    values = [f"nullif({n}, {null})" for n in names]
    unreadable = Unreadable.FAIL if mode == "failfast" else Unreadable.NULL
    columns = [typed(v, f.type, unreadable) for v, f in zip(values, fields, strict=True)]
    if mode == "dropmalformed":
        wrong = (f"({v} IS NOT NULL AND {c} IS NULL)" for v, c in zip(values, columns, strict=True))
        texts = texts.where(f"NOT ({' OR '.join(wrong)})")
    kept = [c for c in texts.columns if c not in names]
    shown = [f"{c} AS {quoted(f.name)}" for c, f in zip(columns, fields, strict=True)]
    return texts.selectExpr(*shown, *kept)


def _parsed(table: FormatTable, names: Sequence[str]) -> str:
    """The SQL of the texts in a line.

    Java also takes a doubled quote for one, which Spark does only where quotes escape quotes.
    """
    schema = quoted_text(", ".join(f"{n} STRING" for n in names))
    escape = table.file_option("csv.escape-character")
    quote = table.file_option("csv.quote-character")

    def by(options: Mapping[str, str]) -> str:
        pairs = ", ".join(f"{quoted_text(k)}, {quoted_text(v)}" for k, v in options.items())
        return f"from_csv({_LINE}, {schema}, map({pairs}))"

    doubled, escaped = by(csv_options(table, escape=quote)), by(csv_options(table))
    return f"IF(contains({_LINE}, {quoted_text(escape)}), {escaped}, {doubled})"


def _json(
    table: FormatTable,
    reader: DataFrameReader,
    paths: Sequence[str],
    fields: Sequence[DataField],
    own: Sequence[str],
) -> DataFrame:
    ignores = table.file_option("json.ignore-parse-errors").lower() == "true"
    options = {
        "mode": "DROPMALFORMED" if ignores else "FAILFAST",
        **_line_option(table.file_option("json.line-delimiter")),
    }
    schema = ", ".join(f"{quoted(f.name)} {text_type(f.type)}" for f in fields)
    rows = reader.schema(schema).options(**options).json(list(paths))
    unreadable = Unreadable.NULL if ignores else Unreadable.FAIL
    columns = (f"{typed(quoted(f.name), f.type, unreadable)} AS {quoted(f.name)}" for f in fields)
    return rows.selectExpr(*columns, *own)
