"""Skips missing or damaged data files in a read, if the table's options allow it.

Java: `io/DataFileRecordReader`.  Only reads for users skip files.  Unlike in Java, a job that
rewrites rows fails: a compaction that skips a file would delete its rows permanently.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SCAN_IGNORE_CORRUPT_FILES, SCAN_IGNORE_LOST_FILES

log = logging.getLogger(__name__)


def ignores_damage(table: FileStoreTable) -> bool:
    """Return whether reads of the table pass over some files that they cannot read."""
    options = table.options
    return options.value(SCAN_IGNORE_LOST_FILES) or options.value(SCAN_IGNORE_CORRUPT_FILES)


def readable_rows(
    table: FileStoreTable, path: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file up to where it is damaged, if the options allow that."""
    return _readable(table, path, batches) if ignores_damage(table) else batches


def _readable(
    table: FileStoreTable, path: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except CorruptTable as e:
        is_there = table.io.exists(path)
        option = SCAN_IGNORE_CORRUPT_FILES if is_there else SCAN_IGNORE_LOST_FILES
        if not table.options.value(option):
            raise
        log.warning("table=%s rows of a file are left out (%s): %s", table.name, option.key, e)


def strict(table: FileStoreTable) -> FileStoreTable:
    """Return the table for changes: what they do not read would be lost."""
    if not ignores_damage(table):
        return table
    options = {SCAN_IGNORE_LOST_FILES.key: None, SCAN_IGNORE_CORRUPT_FILES.key: None}
    return replace(table, schema=table.schema.with_options(options))
