"""Writes of format tables: Spark writes the files into a hidden folder, the driver moves them.

So rows appear only once all of them are written.  Java: `spark/format/FormatTableBatchWriteBase`,
`table/format/FormatTableCommit`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from paimon_core.catalog.hive.format_sync import sync_partitions
from paimon_core.errors import CommitStateUnknown, InvalidArgument, PaimonError, RowsChanged
from paimon_core.io.file_io import renames_atomically
from paimon_core.paths import TO_ESCAPE, escape_path_name, is_hidden, unescape_path_name
from paimon_core.table.format.files import (
    LONGEST_NAME,
    FormatPartition,
    FormatRead,
    StagedFile,
    files_to_replace,
    format_partitions,
    partition_folder,
    partition_folders,
    partition_texts,
    publish,
    specs_of,
    staging,
    too_long,
)
from paimon_core.table.format.format_table import FormatTable
from paimon_core.table.format.registered import FormatPartitions
from paimon_core.types.data_types import DataField, TypeRoot
from paimon_core.types.partition_text import parse_partition_text
from paimon_spark.sql.errors import text_for_spark
from paimon_spark.sql.frames.characters import stored_text
from paimon_spark.sql.frames.format_frames import (
    check_client,
    csv_options,
    has_header,
    spark_path,
)
from paimon_spark.sql.frames.format_text import (
    TEXT_FORMATS,
    as_text,
    by_python,
    check_columns,
    data_fields,
)
from paimon_spark.sql.text.names import quoted, quoted_text
from paimon_spark.sql.text.types import null_text, read_schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
"""What stands for a null in the folders that Spark makes."""
_KEY: Final = "__key"
_ANY_TEXT: Final = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
"""The types whose values may be too long for a name, or hold what no name has."""
_CLASSES: Final = {"zstd": "org.apache.hadoop.io.compress.ZStandardCodec"}
"""Codecs of texts for which Spark has no short name."""


def format_rows(
    table: FormatTable,
    frame: DataFrame,
    fields: Sequence[DataField],
    static: Mapping[str, str],
) -> DataFrame:
    """The query's columns, by position, as these fields, and the table's other columns.

    `static` holds the SQL of the values of partition columns that the statement gives.  Null gives
    a column its default, and fails in one that is NOT NULL.
    """
    values = {f.name: f"c{i}" for i, f in enumerate(fields)}
    lowered = {k.lower(): v for k, v in static.items()}
    columns = []
    for field in table.schema.fields:
        given = values.get(field.name, lowered.get(field.name.lower()))
        text = null_text(field.type) if given is None else stored_text(given, field)
        if not field.type.nullable:
            message = quoted_text(f"Cannot write null to non-null column({field.name})")
            text = f"coalesce({text}, raise_error({message}))"
        elif field.default_value is not None:
            text = f"coalesce({text}, {_default(field.default_value, field)})"
        columns.append(f"{text} AS {quoted(field.name)}")
    return frame.toDF(*values.values()).selectExpr(*columns)


def _default(text: str, field: DataField) -> str:
    """The SQL of a default value: its text without quotes, cast (Java: `DefaultValueUtils`)."""
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    return f"CAST({quoted_text(text)} AS {read_schema_text(field.type)})"


def write_format(
    table: FormatTable,
    rows: DataFrame,
    *,
    static: Mapping[str, object] | None = None,
    overwrite: bool = False,
    dynamic: bool = False,
    reads: Sequence[FormatRead] = (),
) -> None:
    """Add the rows of `format_rows`; with `overwrite`, in place of others.

    Replaced are the partitions with the `static` values or, without any, and if `dynamic`, those
    of the new rows, as in Java; of a table without partitions, all rows.  `reads` is what the rows
    were computed from: RowsChanged if others added files to it since, as those would be lost.
    Other errors as in `publish`.
    """
    check_columns(table)
    registry = table.registry()
    static = static or {}
    with staging(table) as folder:
        files = [
            StagedFile(path, partition_texts(table, _values(table, texts)), _end(table, path))
            for path, texts in _written(table, rows, folder)
        ]
        replaced: list[str] = []
        if overwrite:
            partitions = _replaced(table, files, static, dynamic=dynamic)
            found = {p.path: files_to_replace(table, p) for p in partitions}
            replaced = [path for paths in found.values() for path in paths]
            _check_read(table, found, reads)
        publish(table, folder, files, replaced)
    written = {f.texts for f in files}
    keys = table.schema.partition_keys
    if static and len(static) == len(keys):
        texts = partition_texts(table, [static[k] for k in keys])
        written.add(texts)
        table.io.make_dirs(partition_folder(table, texts))
    if registry is not None and written:
        _register(table, registry, sorted(written))
    sync_partitions(table, sorted(written))


def _register(
    table: FormatTable, registry: FormatPartitions, written: Sequence[tuple[str, ...]]
) -> None:
    """Tell the catalog which partitions have rows now."""
    try:
        registry.add(specs_of(table, written), if_not_exists=True)
    except (OSError, PaimonError) as e:
        raise CommitStateUnknown(
            f"format table {table.name} has the new rows, but the catalog may not know all of their "
            f"partitions: {e}",
            table=table.name,
            next_step=f"MSCK REPAIR TABLE {table.name}, which registers them; do not run the "
            "statement again",
        ) from e


def check_writable(table: FormatTable, rows: DataFrame, place: str) -> None:
    """Compute the rows of `format_rows` as files would hold them, and fail where a write would.

    `place` is a folder of the store that the files will be in.
    """
    check_columns(table)
    if by_python(table):
        stored = rows
    else:
        check_client(rows.sparkSession, place)
        stored = _stored(table, rows)
    stored.write.format("noop").mode("overwrite").save()


def _replaced(
    table: FormatTable,
    files: Sequence[StagedFile],
    static: Mapping[str, object],
    *,
    dynamic: bool,
) -> list[FormatPartition]:
    """The partitions that the new rows replace, registered or not."""
    partitions = partition_folders(table)
    keys = table.schema.partition_keys
    if not keys:
        return partitions
    if static and not dynamic:
        wanted = {k: _comparable(v) for k, v in static.items()}
        return [
            p
            for p in partitions
            if all(k not in wanted or v == wanted[k] for k, v in _compared(keys, p.values))
        ]
    new = {tuple(map(_comparable, _values(table, f.texts))) for f in files}
    return [p for p in partitions if tuple(map(_comparable, p.values)) in new]


def _compared(keys: Sequence[str], values: Sequence[object]) -> list[tuple[str, object]]:
    return list(zip(keys, map(_comparable, values), strict=True))


def _comparable(value: object) -> object:
    """The value of a partition, so that NaN is the same partition as NaN."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _check_read(
    table: FormatTable, replaced: Mapping[str, Sequence[str]], reads: Sequence[FormatRead]
) -> None:
    """RowsChanged if files would be replaced that the query would have read, too."""
    for read in reads:
        allowed = {p.path for p in format_partitions(table, read.predicate)}
        files = (path for folder in allowed & replaced.keys() for path in replaced[folder])
        if (new := next((path for path in files if path not in read.paths), None)) is not None:
            raise RowsChanged(
                f"{new} was added to format table {table.name} while the rows were read that are to "
                "replace it; nothing was changed",
                table=table.name,
                file=new,
            )


def _values(table: FormatTable, texts: Sequence[str]) -> tuple[object, ...]:
    """The internal values of texts in the names of folders, those of Spark or of the table."""
    found = []
    for text, field in zip(texts, table.schema.partition_type.fields, strict=True):
        null = text in (_NULL_FOLDER, table.default_partition)
        found.append(None if null else _value(table, text, field))
    return tuple(found)


def _value(table: FormatTable, text: str, field: DataField) -> Any:
    try:
        return parse_partition_text(text, field.type)
    except InvalidArgument as e:
        e.table = table.name
        raise


# --- what Spark writes ----------------------------------------------------------------------------


def _written(table: FormatTable, rows: DataFrame, folder: str) -> list[tuple[str, tuple[str, ...]]]:
    """Write the rows below the folder; each file, and the texts of its partition."""
    if not by_python(table):
        _write(table, rows, folder)
        return _staged(table, folder)
    from paimon_spark.source.orc_files import written_orc  # noqa: PLC0415 - imports PySpark

    fields, keys = data_fields(table), table.schema.partition_type.fields
    names = _key_names(table)
    null = quoted_text(_NULL_FOLDER)
    own = (
        f"coalesce({_key_text(table, f)}, {null}) AS {n}" for f, n in zip(keys, names, strict=True)
    )
    return written_orc(
        rows.selectExpr(*(quoted(f.name) for f in fields), *own),
        table.io,
        folder,
        fields,
        names,
        compression=table.compression,
        options=table.options,
    )


def _write(table: FormatTable, rows: DataFrame, folder: str) -> None:
    """Write the files below the folder, in folders `__key0=text/__key1=text`."""
    options = {"compression": table.compression}
    kind = table.format
    if kind in TEXT_FORMATS:
        options["compression"] = _CLASSES.get(table.compression, table.compression)
        delimiter = table.file_option(f"{kind}.line-delimiter")
        if delimiter != "\n":
            options["lineSep"] = delimiter
    if kind == "json":
        options["ignoreNullFields"] = "false"
    if kind == "csv" and has_header(table):
        options |= {**csv_options(table), "header": "true"}
    elif kind == "csv":
        kind = "text"
    names = _key_names(table)
    writer = _stored(table, rows).write.format(kind).options(**options)
    (writer.partitionBy(*names) if names else writer).save(spark_path(folder))


def _stored(table: FormatTable, rows: DataFrame) -> DataFrame:
    """The rows as the files hold them, and the texts of their partitions."""
    names = _key_names(table)
    keys = table.schema.partition_type.fields
    own = [f"{_key_text(table, f)} AS {n}" for f, n in zip(keys, names, strict=True)]
    fields = data_fields(table)
    plain = [quoted(f.name) for f in fields]
    if table.format in TEXT_FORMATS:
        plain = [f"{as_text(quoted(f.name), f.type)} AS {quoted(f.name)}" for f in fields]
    files = rows.selectExpr(*plain, *own)
    if table.format == "csv" and not has_header(table):
        return files.selectExpr(f"{_csv_line(table, fields)} AS value", *names)
    return files


def _key_names(table: FormatTable) -> list[str]:
    return [f"{_KEY}{i}" for i in range(len(table.schema.partition_keys))]


def _csv_line(table: FormatTable, fields: Sequence[DataField]) -> str:
    """The SQL of the line of a row, as Java reads it; its writer forgets to escape escapes.

    A text with the delimiter of lines fails, because no reader would find its end.
    """
    line, separator, quote, escape, null = (
        table.file_option(f"csv.{key}")
        for key in (
            "line-delimiter",
            "field-delimiter",
            "quote-character",
            "escape-character",
            "null-literal",
        )
    )
    message = quoted_text(
        f"a text holds the delimiter of lines of format table {table.name}, which has CSV files"
    )

    def one(name: str) -> str:
        special = " OR ".join(
            f"contains({name}, {quoted_text(t)})" for t in (separator, quote, escape)
        )
        escaped = name
        for sign in (escape, quote):
            escaped = f"replace({escaped}, {quoted_text(sign)}, {quoted_text(escape + sign)})"
        enclosed = f"concat({quoted_text(quote)}, {escaped}, {quoted_text(quote)})"
        return (
            f"CASE WHEN {name} IS NULL THEN {quoted_text(null)} "
            f"WHEN contains({name}, {quoted_text(line)}) THEN raise_error({message}) "
            f"WHEN {special} THEN {enclosed} ELSE {name} END"
        )

    values = ", ".join(one(quoted(f.name)) for f in fields)
    return f"concat_ws({quoted_text(separator)}, {values})"


def _key_text(table: FormatTable, field: DataField) -> str:
    """The SQL of a partition value as the text that Spark names its folder by.

    InvalidArgument for what cannot be a name, which Spark would call a folder that it cannot make.
    """
    name = quoted(field.name)
    text = f"CAST({name} AS STRING)"
    if field.type.root is TypeRoot.TIMESTAMP_LTZ:
        zones = "current_timezone(), 'UTC'"
        text = f"CAST(convert_timezone({zones}, CAST({name} AS TIMESTAMP_NTZ)) AS STRING)"
    if field.type.root not in _ANY_TEXT:
        return text
    cases = f"WHEN contains({text}, chr(0)) THEN {_failure(_with_nul(table, field.name))} "
    if renames_atomically(table.root):
        # The name in the hidden folder may be longer than that in the table.
        most = LONGEST_NAME - max(len(f"{_KEY}0="), len(escape_path_name(field.name).encode()) + 1)
        escaped = f"regexp_replace({text}, {quoted_text(TO_ESCAPE.pattern)}, '%xx')"
        long = f"octet_length({escaped}) > {most}"
        cases += f"WHEN {long} THEN {_failure(too_long(table, field.name))} "
    return f"CASE {cases}ELSE {text} END"


def _failure(error: PaimonError) -> str:
    return f"raise_error({quoted_text(text_for_spark(error))})"


def _with_nul(table: FormatTable, key: str) -> InvalidArgument:
    return InvalidArgument(
        f"a value of partition column {key} of format table {table.name} has a NUL character: it "
        "names a folder, whose name cannot have one",
        table=table.name,
        next_step="write the rows with another value",
    )


def _end(table: FormatTable, path: str) -> str:
    """How the name of a file of Spark ends as a file of the table: `.csv.gz`, `.parquet`."""
    last = path.rpartition(".")[2]
    packed = table.format in TEXT_FORMATS and last not in ("txt", table.format)
    return f".{table.format}.{last}" if packed else f".{table.format}"


def _staged(table: FormatTable, folder: str) -> list[tuple[str, tuple[str, ...]]]:
    """The files that Spark wrote, each with the texts in the names of its folders."""
    found: list[tuple[str, tuple[str, ...]]] = [(folder, ())]
    for _ in table.schema.partition_keys:
        found = [
            (inside.path, (*texts, unescape_path_name(inside.name.partition("=")[2])))
            for path, texts in found
            for inside in table.io.list_dir(path)
            if inside.is_dir and inside.name.startswith(_KEY)
        ]
    return [
        (inside.path, texts)
        for path, texts in found
        for inside in table.io.list_dir(path)
        if not inside.is_dir and not is_hidden(inside.name)
    ]
