"""Merges that copy the pages of rows alone with their keys write what decoding all rows writes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
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
from paimon_core.compaction.copyable_pages import CopyablePages
from paimon_core.compaction.due import BucketFiles, units_due
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.unit import CompactResult, CompactUnit, merged
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.parquet.chunks import CREATED_BY
from paimon_core.format.parquet.footer import (
    FILE_ROW_GROUPS,
    GROUP_COLUMNS,
    footer_bytes,
    structs_of,
)
from paimon_core.format.parquet.stored_page import group_pages
from paimon_core.format.parquet.thrift_compact import decode_struct, field_value
from paimon_core.manifest.data_file import EMPTY_STATS, DataFileMeta
from paimon_core.read import section
from paimon_core.read.data_file import read_data_file
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.types.arrow import arrow_schema, column_from_internal, column_to_internal
from paimon_core.types.data_types import DataType
from paimon_core.types.sql import parse_type, type_to_sql
from paimon_core.write.row_writer import RowWriter

ENV = replace(system_environment(), local_millis=lambda: 7)
KEYS: dict[str, Any] = {
    "INT NOT NULL": lambda n: n - 500,
    "STRING NOT NULL": lambda n: f"{'key ' * (n % 2 * 20)}{n:05}é",
    "DECIMAL(20, 2) NOT NULL": lambda n: Decimal(n - 500) / 4,
    "TIMESTAMP(3) NOT NULL": lambda n: (n - 500) * 1_000_000,
}
PAIR = ("SMALLINT NOT NULL", "INT NOT NULL")
ENGINES = (
    {},
    {"merge-engine": "partial-update", "ignore-delete": "true"},
    {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_non_null_value"},
)
MODES = st.sampled_from(["truncate(16)", "none", "counts", "full"])


@dataclass(frozen=True)
class Write:
    """Keys from `first` on, every `step`-th one, and the seed of what they get."""

    first: int
    count: int
    step: int
    deletes: bool
    seed: int


WRITES = st.lists(
    st.builds(
        Write,
        first=st.integers(0, 1000),
        count=st.integers(1, 400),
        step=st.sampled_from([1, 1, 3]),
        deletes=st.sampled_from([False, False, False, True]),
        seed=st.integers(0, 9),
    ),
    min_size=2,
    max_size=4,
)


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[DataType], list[tuple[Any, ...]]]:
    """Types of columns, and a few rows of them."""
    types = draw(st.lists(atomic_types() | data_types(4), min_size=1, max_size=3))
    types = [t.with_nullable(True) for t in types]
    return types, draw(st.lists(st.tuples(*map(values, types)), min_size=1, max_size=6))


def made(
    warehouse: str, keys: Sequence[str], types: Sequence[DataType], options: dict[str, str]
) -> FileStoreTable:
    catalog = FileSystemCatalog(warehouse)
    catalog.create_database("db")
    names = [f"k{i}" for i in range(len(keys))]
    schema = create_schema(
        [Column(n, t) for n, t in zip(names, keys, strict=True)]
        + [Column(f"f{i}", type_to_sql(t)) for i, t in enumerate(types)],
        now_millis=0,
        primary_keys=names,
        options={"bucket": "1", "write-only": "true"} | options,
    )
    catalog.create_table("db.t", schema)
    return open_table(warehouse, "db.t")


def put(table: FileStoreTable, write: Write, rows: Sequence[tuple[Any, ...]]) -> None:
    rng = np.random.default_rng(write.seed)
    numbers = range(write.first, write.first + write.count * write.step, write.step)
    fields = table.schema.row_type.fields
    keys = [f for f in fields if f.name.startswith("k")]
    if len(keys) == 2:
        stored: list[list[Any]] = [[n // 300 for n in numbers], [n % 300 for n in numbers]]
    else:
        stored = [[KEYS[type_to_sql(keys[0].type)](n) for n in numbers]]
    chosen = rng.integers(0, len(rows), write.count)
    stored += [[rows[i][c] for i in chosen] for c in range(len(fields) - len(keys))]
    arrays = [column_from_internal(v, f.type) for v, f in zip(stored, fields, strict=True)]
    kinds = np.zeros(write.count, np.int8)
    if write.deletes:
        kinds[rng.integers(0, write.count, 3)] = 3
    writer = RowWriter(table, env=ENV)
    schema = arrow_schema(table.schema.row_type)
    writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema), kinds)
    commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


def units_of(table: FileStoreTable) -> list[CompactUnit]:
    entries = list(scan_files(table, table.latest_or_not_found()))
    files = BucketFiles(
        partition=entries[0].partition,
        bucket=0,
        total_buckets=1,
        files=tuple(e.file for e in entries),
    )
    return units_due(table, files, full=True, local_millis=0)


def done(table: FileStoreTable, units: Sequence[CompactUnit], *, threads: int = 1) -> CompactResult:
    return merged([rewrite(table, u, env=ENV, threads=threads) for u in units])


def decoded(table: FileStoreTable, units: Sequence[CompactUnit]) -> CompactResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CopyablePages, "of", lambda *_, **__: None)
        return done(table, units)


def path_of(table: FileStoreTable, file: DataFileMeta) -> str:
    entry = next(iter(scan_files(table, table.latest_or_not_found())))
    return table.paths.data_file(entry.partition, 0, file)


def rows_of(table: FileStoreTable, files: Sequence[DataFileMeta]) -> list[list[Any]]:
    """All values with their sequence numbers and kinds, column by column."""
    columns: list[list[Any]] = []
    for file in files:
        for batch in read_data_file(
            table.io,
            path_of(table, file),
            file,
            file_schema=table.schema,
            read_type=table.schema.row_type,
            key_value=True,
        ):
            types = [None, None, *table.schema.row_type.types]
            columns = columns or [[] for _ in types]
            for column, array, kind in zip(columns, batch.columns, types, strict=True):
                column.extend(
                    array.to_pylist() if kind is None else column_to_internal(array, kind)
                )
    return columns


def copies(table: FileStoreTable, file: DataFileMeta) -> bool:
    """Whether the file was assembled from pages."""
    return str(pq.read_metadata(path_of(table, file)).created_by).startswith(f"{CREATED_BY} ")


def described(table: FileStoreTable, file: DataFileMeta) -> tuple[object, ...]:
    """The metadata without names and sizes; NaN, which is not equal to itself, as text."""
    alike = replace(file, file_name="", file_size=0, value_stats=EMPTY_STATS)
    return alike, repr(bounds_of(file, table.schema))


@settings(max_examples=examples(40))
@given(
    made_of=columns(),
    keys=st.sampled_from([*((k,) for k in KEYS), PAIR]),
    writes=WRITES,
    engine=st.sampled_from(ENGINES),
    page_rows=st.sampled_from([3, 16, 50]),
    lead=st.sampled_from([1, 1_000_000]),
    least_file=st.sampled_from([1, 15_000]),
    stats=MODES,
    threads=st.sampled_from([1, 3]),
    thin=st.booleans(),
    base=st.booleans(),
)
def test_spliced_is_as_decoded(
    made_of: tuple[list[DataType], list[tuple[Any, ...]]],
    keys: Sequence[str],
    writes: list[Write],
    engine: dict[str, str],
    page_rows: int,
    lead: int,
    least_file: int,
    stats: str,
    threads: int,
    *,
    thin: bool,
    base: bool,
) -> None:
    types, rows = made_of
    options = {
        "metadata.stats-mode": stats,
        "data-file.thin-mode": str(thin).lower(),
        **engine,
    }
    with (
        TemporaryDirectory() as folder,
        small_pages(page_rows, leading_bytes=lead, least_file=least_file),
    ):
        table = made(folder, keys, types, options)
        if base:
            put(table, Write(0, 1500, 1, deletes=False, seed=3), rows)
            messages = done(table, units_of(table)).to_messages()
            commit(table, messages, user="base", env=ENV)
        for write in writes:
            put(table, write, rows)
        units = units_of(table)
        spliced, plain = done(table, units, threads=threads), decoded(table, units)
        assert same(rows_of(table, spliced.after), rows_of(table, plain.after))
        found, expected = ([described(table, f) for f in r.after] for r in (spliced, plain))
        assert found == expected
        for file in spliced.after:
            pq.ParquetFile(path_of(table, file), page_checksum_verification=True).read()


def test_only_what_overlaps_is_decoded(tmp_path: Path) -> None:
    """Each chunk has its indexes, and the pages are those of the old file around the new rows."""
    with small_pages(100):
        table = made(str(tmp_path), ("INT NOT NULL",), [], {})
        put(table, Write(0, 2000, 1, deletes=False, seed=0), [()])
        commit(table, done(table, units_of(table)).to_messages(), user="base", env=ENV)
        put(table, Write(720, 50, 1, deletes=False, seed=0), [()])
        (base,) = [e.file for e in scan_files(table, table.latest_or_not_found()) if e.file.level]
        (made_of,) = done(table, units_of(table)).after
    assert copies(table, made_of)
    assert not copies(table, base)
    old, new = (Path(path_of(table, f)).read_bytes() for f in (base, made_of))
    pages = page_bytes(old)
    kept = [page in new for page in pages]
    assert [n for n, k in enumerate(kept[:20]) if not k] == [7]
    metadata = pq.read_metadata(path_of(table, made_of))
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            assert chunk.has_offset_index
            assert chunk.has_column_index


def overlapping(folder: Path) -> FileStoreTable:
    """A table with three runs over the same keys, whose result is several files of several row groups."""
    table = made(
        str(folder), ("INT NOT NULL",), [parse_type("STRING")], {"target-file-size": "100 kb"}
    )
    rows = [(np.random.default_rng(n).bytes(12).hex(),) for n in range(3000)]
    for seed in range(3):
        put(table, Write(seed, 8000, 1, deletes=True, seed=seed), rows)
    return table


def test_threads_write_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "MOST_ROWS", 256)
    table = overlapping(tmp_path)
    units = units_of(table)
    on_three, alone = done(table, units, threads=3), done(table, units)
    assert len(on_three.after) > 1
    assert any(pq.read_metadata(path_of(table, f)).num_row_groups > 1 for f in on_three.after)
    assert same(rows_of(table, on_three.after), rows_of(table, alone.after))
    assert 8002 - 9 <= sum(f.row_count for f in on_three.after) < 8002


@pytest.mark.parametrize("spliced", [False, True])
def test_threads_leave_nothing_after_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, spliced: bool
) -> None:
    monkeypatch.setattr(section, "MOST_ROWS", 256)
    with small_pages(100, least_file=30_000) if spliced else nullcontext():
        table = overlapping(tmp_path)
        if spliced:
            commit(table, done(table, units_of(table)).to_messages(), user="base", env=ENV)
            for first in (1000, 1001):
                put(table, Write(first, 400, 9, deletes=False, seed=1), [("new",)])
        units = units_of(table)
        if spliced:
            assert any(copies(table, f) for f in done(table, units).after)
        for file in [f for f in units[0].rewritten_files if f.level == 0]:
            damage(Path(path_of(table, file)))
        before = set(tmp_path.rglob("*"))
        with pytest.raises(CorruptTable):
            done(table, units, threads=3)
        assert set(tmp_path.rglob("*")) == before


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle - 100 : middle + 100] = bytes(200)
    file.write_bytes(content)


def page_bytes(file: bytes) -> list[bytes]:
    """The pages of the sequence numbers."""
    source = pa.BufferReader(file)
    (chunks,) = (
        structs_of(g, GROUP_COLUMNS)
        for g in structs_of(decode_struct(footer_bytes(source)), FILE_ROW_GROUPS)
    )
    ((_, pages, *_),) = (found for found in group_pages(source, [(2000, chunks)]) if found)
    return [file[p.offset : p.offset + p.size] for p in pages]


@pytest.mark.parametrize(("key", "told"), [(200, 280), (299, 210)])
def test_the_rows_of_a_page_index_that_lies_are_merged(tmp_path: Path, key: int, told: int) -> None:
    """Otherwise rows come out of the order of their keys, and a key twice."""
    with small_pages(100):
        table = made(str(tmp_path), ("INT NOT NULL",), [], {})
        put(table, Write(0, 2000, 1, deletes=False, seed=0), [()])
        commit(table, done(table, units_of(table)).to_messages(), user="base", env=ENV)
        put(table, Write(720, 50, 1, deletes=False, seed=0), [()])
        (base,) = [e.file for e in scan_files(table, table.latest_or_not_found()) if e.file.level]
        give_page_another_bound(Path(path_of(table, base)), key, told)
        (made_of,) = done(table, units_of(table)).after
    assert rows_of(table, [made_of])[2] == list(range(-500, 1500))
    assert not copies(table, made_of)


def give_page_another_bound(path: Path, key: int, told: int) -> None:
    """Change the page with the keys 200 to 299 in the index of the column k0."""
    content = path.read_bytes()
    source = pa.BufferReader(content)
    (group,) = structs_of(decode_struct(footer_bytes(source)), FILE_ROW_GROUPS)
    column = pq.read_metadata(path).schema.names.index("k0")
    at, size = (field_value(structs_of(group, GROUP_COLUMNS)[column], n) for n in (6, 7))
    assert isinstance(at, int)
    assert isinstance(size, int)
    old, new = (n.to_bytes(4, "little") for n in (key, told))
    index = content[at : at + size]
    assert index.count(old) == 1
    path.write_bytes(content[:at] + index.replace(old, new) + content[at + size :])
