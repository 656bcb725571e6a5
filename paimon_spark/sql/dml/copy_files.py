"""Loads CSV, JSON and Parquet files into a table, and remembers them.

Java: `spark/execution/CopyIntoTableExec`, `CopyIntoErrorHandler`,
`copyinto/CopyLoadHistoryManager`.  As long as the size and time of a loaded file stay the same,
later statements skip it, those of Java too (`load_history`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.types.data_types import DataField
from paimon_spark.sql.dml.insert import insert
from paimon_spark.sql.dml.load_history import (
    Announcement,
    SourceFile,
    announced,
    files_to_load,
    history,
    record_all,
)
from paimon_spark.sql.query.registered import register
from paimon_spark.sql.result import Result
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.names import quoted
from paimon_spark.sql.text.tokens import Words
from paimon_spark.sql.text.types import read_schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: Final = (
    "file_name",
    "status",
    "rows_loaded",
    "rows_parsed",
    "errors_seen",
    "first_error",
)
_FAILED: Final = "LOAD_FAILED"
_FILE: Final = "__paimon_copied_file"
_CORRUPT: Final = "__paimon_corrupt_record"
_READER_OPTIONS: Final = {
    "FIELD_DELIMITER": "sep",
    "QUOTE": "quote",
    "ESCAPE": "escape",
    "COMPRESSION": "compression",
    "MULTI_LINE": "multiLine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to load, and how: `on_error` is ABORT_STATEMENT, CONTINUE or SKIP_FILE."""

    source: str
    kind: str
    options: Mapping[str, str | Sequence[str]]
    columns: Sequence[str] | None
    pattern: str | None
    force: bool
    on_error: str


@dataclass(slots=True)
class _Seen:
    """Rows and errors by file name."""

    rows: Mapping[str, int]
    errors: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, counts: Mapping[str, int], examples: Mapping[str, str]) -> None:
        for name, count in counts.items():
            self.errors[name] = self.errors.get(name, 0) + count
            self.first.setdefault(name, examples.get(name, ""))


def load_files(session: SqlSession, name: TableName, load: Load) -> Result:
    """Load the files that match and are not loaded yet; one commit.

    Returns one row for each file.  InvalidArgument if a value does not fit and the statement
    aborts.
    """
    table = session.open(name, to_write=True)
    targets = _targets(table, load.columns)
    files = listed(session, load.source)
    if load.pattern is not None:
        files = [f for f in files if re.search(load.pattern, f.name)]
    known = set() if load.force else history(table)
    new: Sequence[SourceFile] = [f for f in files if f.key not in known]
    rows: list[list[Any]] = []
    if new:
        with announced(table, new, session.env) as own:
            new = files_to_load(own, session.env, force=load.force)
            if new:
                rows = _load(session, name, own, load, targets, new)
    rows += [[f.name, "SKIPPED", 0, 0, 0, None] for f in files if f not in new]
    return Result(COLUMNS, rows)


def _targets(table: FileStoreTable, columns: Sequence[str] | None) -> list[DataField]:
    """The fields that the files fill."""
    fields = table.schema.fields
    if columns is None:
        return list(fields)
    by_name = {f.name.lower(): f for f in fields}
    found: list[DataField] = []
    for column in columns:
        target = by_name.get(column.lower())
        if target is None:
            raise InvalidArgument(
                f"Column '{column}' does not exist in target table. "
                f"Available columns: {', '.join(table.schema.names)}",
                table=table.name,
            )
        if target in found:
            raise InvalidArgument(f"Duplicate columns in column list: {column}", table=table.name)
        found.append(target)
    for target in fields:
        if target not in found and not target.type.nullable and target.default_value is None:
            raise InvalidArgument(
                f"Non-nullable column '{target.name}' is not in the column list and has no default "
                "value",
                table=table.name,
            )
    return found


def listed(session: SqlSession, folder: str) -> list[SourceFile]:
    """The files of a folder by name, as Spark's file system sees them, or the one file."""
    spark: Any = session.spark
    jvm = spark._jvm  # noqa: SLF001 - PySpark has no way to list a folder
    path = jvm.org.apache.hadoop.fs.Path(folder)
    system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    if not system.exists(path):
        raise InvalidArgument(f"File {folder} does not exist", next_step="correct the path")
    found = [s for s in system.listStatus(path) if s.isFile()]
    return sorted(
        (
            SourceFile(
                s.getPath().getName(),
                s.getPath().toString(),
                s.getLen(),
                s.getModificationTime(),
            )
            for s in found
        ),
        key=lambda f: f.name,
    )


def _load(
    session: SqlSession,
    name: TableName,
    own: Announcement,
    load: Load,
    targets: Sequence[DataField],
    files: Sequence[SourceFile],
) -> list[list[Any]]:
    from pyspark.sql import functions  # noqa: PLC0415 - only with a session

    aborts = load.on_error == "ABORT_STATEMENT"
    frame = _read(session, load, targets, files).cache()
    try:
        seen = _Seen(_counts(frame))
        good = frame
        if _CORRUPT in frame.columns:
            corrupt = frame.filter(f"{_CORRUPT} IS NOT NULL")
            examples = _examples(corrupt, f"concat('Malformed record: ', {_CORRUPT})")
            seen.add(_counts(corrupt), examples)
            good = frame.filter(f"{_CORRUPT} IS NULL")
        good = _cast(good, load, targets, seen, aborts=aborts)
        if load.on_error == "SKIP_FILE" and seen.errors:
            names = [n for f in seen.errors for n in (f, quote(f))]
            good = good.filter(~functions.substring_index(_FILE, "/", -1).isin(names))
        view = register(session, good.drop(_FILE))
        columns = ", ".join(quoted(f.name) for f in targets)
        target = f"{quoted(name.catalog)}.{quoted(name.database)}.{quoted(name.table)}"
        words = Words(f"INSERT INTO {target} ({columns}) SELECT * FROM {view}")
        words.need("INSERT")
        answers = [(f, _answer(load, f, seen)) for f in files]
        own.files = [(f, answer[2]) for f, answer in answers if answer[1] != _FAILED]
        own.write()
        with session.with_options(name, own.commit_options()):
            insert(session, words)
    finally:
        frame.unpersist()
    record_all(own, session.env)
    return [answer for _, answer in answers]


def _answer(load: Load, file: SourceFile, seen: _Seen) -> list[Any]:
    """The row of `COLUMNS` of a file."""
    parsed, errors = seen.rows.get(file.name, 0), seen.errors.get(file.name, 0)
    loaded = max(0, parsed - errors)
    if load.on_error == "SKIP_FILE" and errors:
        loaded = 0
    status = "LOADED"
    if errors:
        status = "PARTIALLY_LOADED" if loaded else _FAILED
    return [file.name, status, loaded, parsed, errors, seen.first.get(file.name)]


# --- reading ------------------------------------------------------------------------------------


def _read(
    session: SqlSession, load: Load, targets: Sequence[DataField], files: Sequence[SourceFile]
) -> DataFrame:
    """The rows with the path of their file; of texts, all columns are texts."""
    from pyspark.sql import functions  # noqa: PLC0415 - only with a session
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - as above

    options = {
        _READER_OPTIONS[k]: v.lower() if k == "MULTI_LINE" else v
        for k, v in load.options.items()
        if k in _READER_OPTIONS and isinstance(v, str)
    }
    paths: Any = [f.path for f in files]
    reader = session.spark.read.options(**options)
    if load.kind == "PARQUET":
        frame = reader.parquet(*paths)
    else:
        fields = [StructField(f.name, StringType()) for f in targets]
        if load.on_error == "ABORT_STATEMENT":
            reader = reader.option("mode", "FAILFAST")
        else:
            reader = reader.options(mode="PERMISSIVE", columnNameOfCorruptRecord=_CORRUPT)
            fields.append(StructField(_CORRUPT, StringType()))
        if load.kind == "CSV":
            reader = reader.option("header", load.options.get("SKIP_HEADER") == "1")
            reader = reader.option("enforceSchema", True)
        reader = reader.schema(StructType(fields))
        frame = reader.csv(paths) if load.kind == "CSV" else reader.json(paths)
    return frame.withColumn(_FILE, functions.input_file_name())


def _cast(
    frame: DataFrame,
    load: Load,
    targets: Sequence[DataField],
    seen: _Seen,
    *,
    aborts: bool,
) -> DataFrame:
    """The rows in the types of the table, without those with values that do not fit."""
    have = {c.lower(): c for c in frame.columns}
    texts = load.kind != "PARQUET"
    values, casts, bad = [], [], []
    for i, target in enumerate(targets):
        source = have.get(target.name.lower())
        value = "NULL" if source is None else quoted(source)
        if texts:
            value = _with_nulls(value, load)
        kind = read_schema_text(target.type)
        values.append(f"{value} AS v{i}")
        casts.append(f"try_cast(v{i} AS {kind}) AS {quoted(target.name)}")
        if source is not None and not (texts and kind == "STRING"):
            wrong = f"(v{i} IS NOT NULL AND try_cast(v{i} AS {kind}) IS NULL)"
            bad.append((wrong, target.name))
    plain = frame.selectExpr(*values, _FILE)
    if bad:
        wrong = " OR ".join(condition for condition, _ in bad)
        cases = " ".join(
            f"WHEN {condition} THEN '{column.replace(chr(39), chr(92) + chr(39))}'"
            for condition, column in bad
        )
        text = (
            f"concat('Cast failure in column \\'', CASE {cases} END, '\\'. Source data contains "
            "values that cannot be converted to the target type.')"
        )
        failed = plain.filter(wrong)
        examples = _examples(failed, text)
        if examples and aborts:
            raise InvalidArgument(f"ON_ERROR = ABORT_STATEMENT: {next(iter(examples.values()))}")
        if examples:
            seen.add(_counts(failed), examples)
            plain = plain.filter(f"NOT ({wrong})")
    return plain.selectExpr(*casts, _FILE)


def _with_nulls(value: str, load: Load) -> str:
    """The text, with NULL for the values of NULL_IF and EMPTY_FIELD_AS_NULL."""
    nulls = load.options.get("NULL_IF", ())
    nulls = [nulls] if isinstance(nulls, str) else list(nulls)
    if str(load.options.get("EMPTY_FIELD_AS_NULL", "")).upper() == "TRUE":
        nulls.append("")
    if not nulls:
        return value
    shown = ", ".join("'" + n.replace("\\", "\\\\").replace("'", "\\'") + "'" for n in nulls)
    return f"IF({value} IN ({shown}), NULL, {value})"


def _counts(frame: DataFrame) -> dict[str, int]:
    return {_base_name(row[0]): row[1] for row in frame.groupBy(_FILE).count().collect()}


def _examples(frame: DataFrame, text: str) -> dict[str, str]:
    """The text of one row for each file."""
    rows = frame.selectExpr(_FILE, f"{text} AS text").dropDuplicates([_FILE]).collect()
    return {_base_name(row[0]): row[1] for row in rows}


def _base_name(path: str) -> str:
    return unquote(path.rsplit("/", 1)[-1])
