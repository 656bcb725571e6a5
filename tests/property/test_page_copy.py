"""Append files whose pages are copied are the files that decoding and encoding would have made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_bounds import bounds_of
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples
from small_pages import small_pages
from type_strategies import atomic_types, data_types, same, values

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.compaction import page_copy
from paimon_core.compaction.page_copy import PageCopy
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.unit import CompactUnit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.parquet.chunks import CREATED_BY
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX, write_deletion_vectors
from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta
from paimon_core.read.data_file import read_data_file
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.types.arrow import arrow_schema, column_from_internal, column_to_internal
from paimon_core.types.binary_row import encode_row
from paimon_core.types.data_types import DataType
from paimon_core.types.sql import type_to_sql
from paimon_core.write import page_writer
from paimon_core.write.row_writer import RowWriter

ENV = replace(system_environment(), local_millis=lambda: 7)
NO_PARTITION = encode_row([], [])
Rows = list[tuple[Any, ...]]


MODES = st.sampled_from(["truncate(16)", "none", "counts", "full", "truncate(2)"])


@st.composite
def commits(draw: st.DrawFn) -> tuple[list[DataType], list[Rows]]:
    """Types of columns, and the rows of some commits: few different ones or many."""
    types = draw(st.lists(atomic_types() | data_types(4), min_size=1, max_size=4))
    row = st.tuples(*map(values, types))
    few = draw(st.lists(row, min_size=1, max_size=5))
    some = st.one_of(
        st.lists(row, min_size=1, max_size=30),
        st.lists(st.sampled_from(few), min_size=50, max_size=200),
    )
    return types, draw(st.lists(some, min_size=2, max_size=5))


def made(warehouse: Path, types: Sequence[DataType], **options: str) -> FileStoreTable:
    catalog = FileSystemCatalog(str(warehouse))
    catalog.create_database("db")
    told = {"bucket": "-1", "write-only": "true"} | {
        k.replace("__", "-").replace("_", "."): v for k, v in options.items()
    }
    columns = [Column(f"f{i}", type_to_sql(t)) for i, t in enumerate(types)]
    schema = create_schema(columns, now_millis=0, options=told)
    catalog.create_table("db.t", schema)
    return open_table(str(warehouse), "db.t")


def with_stats(table: FileStoreTable, mode: str) -> FileStoreTable:
    return open_table(
        table.root.rsplit("/", 2)[0], "db.t", dynamic_options={"metadata.stats-mode": mode}
    )


def append(table: FileStoreTable, rows: Rows) -> None:
    row_type = table.schema.row_type
    arrays = [
        column_from_internal([row[i] for row in rows], f.type) for i, f in enumerate(row_type)
    ]
    writer = RowWriter(table, env=ENV)
    writer.write(pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(row_type)))
    commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


def unit_of(table: FileStoreTable) -> CompactUnit:
    files = sorted(
        (e.file for e in scan_files(table, table.latest_or_not_found())),
        key=lambda f: f.min_sequence_number,
    )
    return CompactUnit(
        partition=NO_PARTITION, bucket=0, total_buckets=-1, append_files=tuple(files)
    )


def joined(table: FileStoreTable, unit: CompactUnit) -> list[DataFileMeta]:
    result = rewrite(table, unit, env=ENV)
    return list(result.after)


def decoded(table: FileStoreTable, unit: CompactUnit) -> list[DataFileMeta]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PageCopy, "of", lambda *_: None)
        return joined(table, unit)


def path_of(table: FileStoreTable, file: DataFileMeta) -> str:
    return table.paths.data_file(NO_PARTITION, 0, file)


def rows_of(table: FileStoreTable, files: Sequence[DataFileMeta]) -> list[list[Any]]:
    """All values, column by column."""
    row_type = table.schema.row_type
    columns: list[list[Any]] = [[] for _ in row_type.fields]
    for file in files:
        for batch in read_data_file(
            table.io,
            path_of(table, file),
            file,
            file_schema=table.schema,
            read_type=row_type,
            key_value=False,
        ):
            for column, array, field in zip(columns, batch.columns, row_type.fields, strict=True):
                column.extend(column_to_internal(array, field.type))
    return columns


def is_copied(table: FileStoreTable, file: DataFileMeta) -> bool:
    return str(pq.read_metadata(path_of(table, file)).created_by).startswith(f"{CREATED_BY} ")


@settings(max_examples=examples(80))
@given(
    made_of=commits(),
    group_bytes=st.sampled_from([1, 200, 10_000_000]),
    decoded_bytes=st.sampled_from([1, 10_000_000]),
    compression=st.sampled_from(["zstd", "gzip", "snappy", "none"]),
    stats=st.tuples(MODES, MODES),
)
def test_copied_is_as_decoded(
    made_of: tuple[list[DataType], list[Rows]],
    group_bytes: int,
    decoded_bytes: int,
    compression: str,
    stats: tuple[str, str],
) -> None:
    types, written = made_of
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_copy, "ROW_GROUP_BYTES", group_bytes)
        patch.setattr(page_writer, "DECODED_BYTES", decoded_bytes)
        patch.setattr(page_writer, "PAGE_ROWS", 0)
        table = made(Path(folder), types, file_compression=compression)
        for rows in written:
            append(with_stats(table, stats[0]), rows)
        table = with_stats(open_table(folder, "db.t"), stats[1])
        unit = unit_of(table)
        (copy,) = joined(table, unit)
        (plain,) = decoded(table, unit)
        assert is_copied(table, copy)
        assert not is_copied(table, plain)
        assert same(rows_of(table, [copy]), rows_of(table, unit.append_files))
        assert copy.row_count == plain.row_count == sum(map(len, written))
        found, expected = (bounds_of(f, table.schema).values() for f in (copy, plain))
        assert same(list(found), list(expected))
        pq.ParquetFile(path_of(table, copy), page_checksum_verification=True).read()


@settings(max_examples=examples(15))
@given(
    made_of=commits(),
    deleted=st.lists(st.integers(0, 250), max_size=4),
    page_rows=st.sampled_from([5, 40]),
)
def test_what_no_vector_touches_is_copied(
    made_of: tuple[list[DataType], list[Rows]], deleted: list[int], page_rows: int
) -> None:
    types, (first, *others) = made_of
    written = [(first * 250)[:250], *others]
    with (
        TemporaryDirectory() as folder,
        small_pages(page_rows),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(page_writer, "PAGE_ROWS", 0)
        table = made(Path(folder), types)
        for rows in written:
            append(table, rows)
        unit = unit_of(table)
        largest = max(unit.append_files, key=lambda f: f.row_count)
        gone = np.unique([0, *(n for n in deleted if n < largest.row_count)])
        index = IndexFileMeta(
            index_type=DELETION_VECTORS_INDEX, file_name="index-0", file_size=0, row_count=0
        )
        path = table.paths.index_file(NO_PARTITION, 0, index)
        index = write_deletion_vectors(table.io, path, {largest.file_name: gone}, bitmap64=False)
        unit = replace(unit, vector_files=(index,))
        (copy,), (plain,) = joined(table, unit), decoded(table, unit)
        assert is_copied(table, copy)
        assert same(rows_of(table, [copy]), rows_of(table, [plain]))
        assert copy.row_count == plain.row_count == sum(map(len, written)) - len(gone)
        found, expected = (bounds_of(f, table.schema).values() for f in (copy, plain))
        assert same(list(found), list(expected))
