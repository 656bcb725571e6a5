"""Bounds of FLOAT and DOUBLE: in a footer where they hold for all values, nowhere else."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_core.format.parquet.assembler import ParquetAssembler, layout_like
from paimon_core.format.parquet.chunks import stored_groups
from paimon_core.format.parquet.footer import (
    FILE_ROW_GROUPS,
    GROUP_COLUMNS,
    footer_bytes,
    structs_of,
    with_writer,
)
from paimon_core.format.parquet.stored_page import group_pages, value_of_bound
from paimon_core.format.parquet.thrift_compact import decode_struct
from paimon_core.format.parquet.writer import ParquetFileWriter
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.sql import parse_type

NAN = math.nan
COLUMNS = parse_type("ROW<n BIGINT, d DOUBLE, f FLOAT, l ARRAY<DOUBLE>, t TIMESTAMP(9)>")
GROUPS = (
    ([1.5, -2.0, None], [0.0, None, 7.0]),
    ([NAN, 3.0, None], [4.0, 5.0, 6.0]),
    ([None, None, None], [NAN, NAN, NAN]),
)
KNOWN = [[(-2.0, 1.5, 1), (0.0, 7.0, 1)], [None, (4.0, 6.0, 0)], [(None, None, 3), None]]
"""(minimum, maximum, nulls) of `d` and `f` in each row group; None for nothing known."""


def batch(group):
    doubles, floats = GROUPS[group]
    lists = [[NAN] if d is None else [d] for d in doubles]
    columns = [[group, group, group], doubles, floats, lists, [None, None, None]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, arrow_schema(COLUMNS), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(COLUMNS))


def written(make=ParquetFileWriter):
    """Return a file with a row group for each of `GROUPS`."""
    sink = pa.BufferOutputStream()
    writer = make(sink, COLUMNS, compression="zstd", zstd_level=1, row_group_bytes=1)
    for group in range(len(GROUPS)):
        writer.write(batch(group))
    writer.close()
    return sink.getvalue()


def pages_of(data):
    """Return what the page indexes of `d` and `f` say, as `KNOWN`; each group has one page."""
    footer = decode_struct(footer_bytes(pa.BufferReader(data)))
    groups = [(3, structs_of(g, GROUP_COLUMNS)) for g in structs_of(footer, FILE_ROW_GROUPS)]
    found = []
    for chunks in group_pages(pa.BufferReader(data), groups):
        found.append([])
        for leaf, physical_type in ((1, 5), (2, 4)):
            (page,) = chunks[leaf]
            low, high = (
                None if b is None else value_of_bound(physical_type, b)
                for b in (page.minimum, page.maximum)
            )
            found[-1].append(None if page.nulls is None else (low, high, page.nulls))
    return found


@pytest.mark.parametrize("make", [ParquetFileWriter, ParquetAssembler])
def test_bounds_are_written_unless_there_is_nan(make):
    data = written(make)
    footer = pq.read_metadata(pa.BufferReader(data))
    for number, known in enumerate(KNOWN):
        group = footer.row_group(number)
        for leaf, expected in zip((1, 2), known, strict=True):
            statistics = group.column(leaf).statistics
            if expected is None:
                assert statistics is None or not statistics.has_min_max
                continue
            bounds = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
            assert (*bounds, statistics.null_count) == expected
        lists = group.column(3).statistics
        assert lists is None or not lists.has_min_max
        assert group.column(0).statistics.min == number
    assert pages_of(data) == KNOWN
    assert pq.read_table(pa.BufferReader(data)).num_rows == 9


def test_the_footer_says_whose_file_it_is():
    version = pa.__version__
    metadata = pq.read_metadata(pa.BufferReader(written()))
    assert metadata.created_by == f"paimon-caretaker-arrow version {version}"
    tail = b"index" + b"footer" + (6).to_bytes(4, "little") + b"PAR1"
    assert with_writer(tail, "oote", "x") == tail  # not a text with its length
    tail = b"index" + b"\x03foo\x03fooz" + (9).to_bytes(4, "little") + b"PAR1"
    changed = b"index" + b"\x03foo\x05otherz" + (11).to_bytes(4, "little") + b"PAR1"
    assert with_writer(tail, "foo", "other") == changed


def test_copies_keep_bounds_and_files_of_others_have_none():
    data = written()
    like = layout_like(COLUMNS, "zstd")
    metadata = pq.read_metadata(pa.BufferReader(data))
    groups = stored_groups(metadata, like, "ZSTD")
    assert groups is not None
    assert [(c.minimum, c.maximum) for c in groups[0].columns[1:3]] == [(-2.0, 1.5), (0.0, 7.0)]
    # Arrow writes the same bounds whether there is NaN or not.
    table = pq.ParquetFile(pa.BufferReader(data)).read(columns=["d"])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    other = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    assert other.row_group(0).column(0).statistics.has_min_max
    (group,) = stored_groups(other, other, "ZSTD") or ()
    assert (group.columns[0].minimum, group.columns[0].maximum) == (None, None)
