"""Errors of SQL, and the names that Spark gives to errors."""

from __future__ import annotations

import re
from typing import Final

from paimon_core import errors
from paimon_core.errors import (
    AlreadyExists,
    BucketCountChanged,
    CatalogError,
    CommitConflict,
    ForbiddenChange,
    InvalidArgument,
    NoSuchVersion,
    NotFound,
    NullInRequiredColumn,
    PaimonError,
    ReferenceExists,
    SchemaError,
    StorageError,
    UnknownKeyColumn,
    UnsupportedFeature,
    missing_file,
)

CALLED: Final = "__paimon_fn_"
"""Before the names of temporary functions that stand for those of a catalog, with what tells them
apart."""
_CALL: Final = re.compile(rf"{CALLED}[0-9a-f]+_")
_OF_TASK: Final = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): (.+)$", re.MULTILINE)
"""The line that ends the trace of a task in Spark's text."""
_CONDITION: Final = re.compile(r"\[[A-Z_]+(\.[A-Z_]+)*\] ")
"""The name with which a message of Spark begins."""
_NEXT_STEP: Final = " -> "
_MISSING: Final = (
    re.compile(
        r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (.+?)\. File "
    ),
    re.compile(
        r"\[FAILED_READ_FILE\.NO_HINT\] Encountered error while reading file (.+?)\.\s+SQLSTATE"
        r"[\s\S]*\bjava\.(?:io\.FileNotFound|nio\.file\.NoSuchFile)Exception"
    ),
    re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?/bucket-[\w-]+/[^/]+?)\.\s+SQLSTATE"),
)
"""What Spark's own reader of data files says as it opens, reads and lists one."""
_NO_CLIENT: Final = re.compile(
    r"(?:Class (org\.apache\.hadoop\.fs\.\S+) not found|No FileSystem for scheme \"?(\w+)\"?)"
)
"""What Hadoop says about a store for which it has no client."""


class SqlSyntaxError(InvalidArgument):
    """The statement cannot be parsed."""

    default_next_step = "correct the statement"


class AnalysisError(InvalidArgument):
    """The statement names something that does not exist, or combines incompatible parts."""

    default_next_step = "correct the statement"


class WriteRefused(PaimonError):
    """Rows do not fit the table; nothing was written."""

    default_next_step = "correct the rows and run again"


def null_refused(table: str, column: str) -> WriteRefused:
    """The error of rows with a null in a NOT NULL column."""
    return WriteRefused(
        f"Cannot write null to non-null column({column}): [NOT_NULL_ASSERT_VIOLATION] NULL value "
        "appeared in non-nullable field",
        table=table,
    )


class IncompatibleRows(InvalidArgument):
    """The columns of a query do not fit those of the table; nothing was written."""

    default_next_step = "select the columns of the table"


class WrongArguments(PaimonError):
    """The arguments of a procedure are not those that it has."""

    default_next_step = "correct the call; docs/sql.md lists the procedures"


class TableNotLoaded(NotFound):
    """The table or branch that a procedure is called for does not exist."""


class SnapshotNotFound(NotFound):
    """The snapshot that a procedure is to tag does not exist."""


class ReferenceNotFound(NotFound):
    """The snapshot or branch that a procedure names does not exist."""


class PartitionsRegistered(AlreadyExists):
    """Partitions of a format table that are to be added are in the catalog; nothing was added."""

    default_next_step = "add the others, or add IF NOT EXISTS"


class QueryFailed(PaimonError):
    """A query ended with an error that PySpark passes on as a trace of the JVM."""

    default_next_step = "correct the statement"


def error_type(error: BaseException) -> str:
    """The name of the exception that Spark with Java's Paimon raises for such an error."""
    match error:
        case SqlSyntaxError():
            return "ParseException"
        case PartitionsRegistered() | UnknownKeyColumn():
            return "IllegalStateException"
        case IncompatibleRows() | TableNotLoaded():
            return "RuntimeException"
        case SnapshotNotFound():
            return "SnapshotNotExistException"
        case NoSuchVersion() | ReferenceExists() | ReferenceNotFound():
            return "IllegalArgumentException"
        case AnalysisError() | CatalogError() | AlreadyExists():
            return "AnalysisException"
        case UnsupportedFeature() | ForbiddenChange():
            return "UnsupportedOperationException"
        case WriteRefused() | QueryFailed() | NullInRequiredColumn() | BucketCountChanged():
            return "SparkException"
        case SchemaError() | InvalidArgument():
            return "IllegalArgumentException"
        case CommitConflict() | PaimonError():
            return "RuntimeException"
    return type(error).__name__


def own_error(error: Exception) -> Exception:
    """The error of ours that an error of Spark tells of; the error itself if it tells of none."""
    return error_of_task(error) or error_of_store(error) or error_of_query(error) or error


def error_text(error: BaseException) -> str:
    """The message of the error, without the trace that Spark appends."""
    text = str(error).partition("\n\nJVM stacktrace:")[0].partition(";\n'")[0]
    return plain_call(text).strip() or type(error).__name__


def plain_call(text: str) -> str:
    """The name of a column, or a message of Spark, with the catalog's own names of functions."""
    return _CALL.sub("", text)


def error_of_query(error: BaseException) -> QueryFailed | None:
    """What a trace of the JVM tells of, such as a subquery with too many rows; None for others."""
    found: list[str] = []
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        message = str(cause.getMessage()).partition("\n== SQL")[0].strip()
        if found or _CONDITION.match(message):
            found.append(message)
        cause = cause.getCause()
    return QueryFailed(" ".join(dict.fromkeys(found))) if found else None


def error_of_store(error: BaseException) -> StorageError | None:
    """The error of a store that Spark's own readers and writers cannot reach; None for others."""
    missing = _NO_CLIENT.search(str(error)) if _is_of_spark(error) else None
    if missing is None:
        return None
    found = missing[1] or f"for {missing[2]}://"
    return StorageError(
        f"Spark has no Hadoop client {found}, with which it reads and writes format tables",
        next_step="add the package of the store to spark.jars.packages, for S3 "
        "org.apache.hadoop:hadoop-aws in the version of Spark's Hadoop (docs/stores.md)",
    )


def text_for_spark(error: PaimonError) -> str:
    """The text to give to `raise_error`, from which `error_of_task` makes the error again."""
    return f"\n{errors.__name__}.{type(error).__name__}: {error}\n"


def error_of_task(error: BaseException) -> PaimonError | None:
    """The error of ours with which a task of the executors ended, if Spark's error tells of one.

    A file that Spark's own reader misses is one, too.
    """
    if not _is_of_spark(error):
        return None
    for pattern in _MISSING:
        missing = pattern.search(str(error))
        if missing:
            return missing_file("a data file", missing[1])
    found = _OF_TASK.findall(str(error))
    if not found:
        return None
    name, text = found[-1]
    kind: type[PaimonError] = getattr(errors, name)
    message, _, next_step = text.partition(_NEXT_STEP)
    made = kind(message, next_step=next_step)
    made.message = message  # that of UnsupportedFeature begins with words of its own
    return made


def _is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark.", "py4j."))
