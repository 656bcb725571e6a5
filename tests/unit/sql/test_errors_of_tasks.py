"""Errors of ours that Spark passes on as the text of a trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException, PythonException

from paimon_core.errors import (
    CommitConflict,
    CorruptTable,
    InvalidArgument,
    UnsupportedFeature,
)
from paimon_spark.source.functions import descriptor_of, descriptor_text
from paimon_spark.sql.errors import error_of_store, error_of_task

TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "row_writer.py", line 177, in write
paimon_core.errors.CorruptTable: a data file is missing -> read again

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "task_writer.py", line 160, in write
paimon_core.errors.{error}

JVM stacktrace:
org.apache.spark.SparkException
"""


def test_the_last_one_counts_with_its_next_step() -> None:
    told = "CommitConflict: table db.t has 2 buckets [snapshot 7] -> run again"
    error = error_of_task(PythonException(TRACE.format(error=told)))
    assert isinstance(error, CommitConflict)
    assert error.message == "table db.t has 2 buckets [snapshot 7]"
    assert str(error).endswith(" -> run again")
    refused = error_of_task(PythonException(TRACE.format(error="UnsupportedFeature: type MAP")))
    assert isinstance(refused, UnsupportedFeature)
    assert str(refused) == "type MAP"


PATH = "file:///lake/db.db/t/p=a. b/bucket-0/data-1.parquet"
CALLED = "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: "


READING = "Encountered error while reading file"
MISSED = {
    "opening": f"{CALLED}[FAILED_READ_FILE.FILE_NOT_EXIST] {READING} {PATH}. File does not exist. ",
    "reading": f"{CALLED}[FAILED_READ_FILE.NO_HINT] {READING} {PATH}.  SQLSTATE: KD001\n\tat org\n"
    f"Caused by: java.io.FileNotFoundException: {PATH} (No such file or directory)",
    "listing": f"[PATH_NOT_FOUND] Path does not exist: {PATH}. SQLSTATE: 42K03",
}


@pytest.mark.parametrize("told", MISSED.values(), ids=MISSED)
def test_a_file_that_the_reader_of_spark_misses(told: str) -> None:
    error = error_of_task(PySparkException(told))
    assert isinstance(error, CorruptTable)
    assert error.file == PATH
    assert "expired" in error.next_step


def test_a_path_of_the_statement_is_no_file_of_a_table() -> None:
    told = "[PATH_NOT_FOUND] Path does not exist: file:/exports/new.parquet. SQLSTATE: 42K03"
    assert error_of_task(PySparkException(told)) is None


def test_a_store_without_a_client_is_named() -> None:
    missing = "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat"
    for told, named in (
        (f"{CALLED}{missing}", "org.apache.hadoop.fs.s3a.S3AFileSystem,"),
        (f'{CALLED}No FileSystem for scheme "gs"\n\tat', "for gs://,"),
    ):
        error = error_of_store(PySparkException(told))
        assert error is not None
        assert f"no Hadoop client {named}" in error.message
    assert error_of_store(ValueError(missing)) is None
    assert error_of_store(PySparkException("Class example.Own not found")) is None


def test_other_errors_are_not_ours() -> None:
    assert error_of_task(PythonException("ValueError: paimon_core.errors.CommitConflict")) is None
    assert error_of_task(ValueError(TRACE.format(error="CommitConflict: x"))) is None


@pytest.mark.parametrize(
    ("function", "arguments", "told"),
    [
        (descriptor_of, (), "requires 1 argument, but found 0"),
        (descriptor_of, (1,), "must be STRING type, but found 1"),
        (descriptor_text, (b"a", b"b"), "requires 1 argument, but found 2"),
        (descriptor_text, ("a",), "must be BINARY type, but found 'a'"),
        (descriptor_text, (bytearray(1),), "Invalid BlobDescriptor data"),
    ],
)
def test_arguments_that_a_function_does_not_take(
    function: Callable[..., object], arguments: tuple[object, ...], told: str
) -> None:
    with pytest.raises(InvalidArgument, match=told):
        function(*arguments)
