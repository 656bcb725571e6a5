"""Page headers and indexes: the same bytes and values as by way of Thrift structures."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.format.parquet.chunks import values_of
from paimon_core.format.parquet.footer import (
    CHUNK_META,
    FILE_ROW_GROUPS,
    GROUP_COLUMNS,
    footer_bytes,
    structs_of,
)
from paimon_core.format.parquet.index_bytes import (
    DICTIONARY_PAGE,
    PageBounds,
    encode_bounds,
    encode_locations,
    page_bounds,
    page_fields,
    page_locations,
)
from paimon_core.format.parquet.thrift_compact import (
    BINARY,
    FALSE,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Field,
    Struct,
    ThriftList,
    Value,
    decode_at,
    decode_struct,
    encode_struct,
    field_value,
)

NUMBERS = st.integers(0, 2**62)
PLACES = st.lists(st.tuples(NUMBERS, st.integers(0, 2**31 - 1), NUMBERS), max_size=20)
BOUNDS = st.lists(
    st.tuples(st.booleans(), st.binary(max_size=140), st.binary(max_size=9), NUMBERS), max_size=20
)


@given(places=PLACES)
def test_offset_indexes(places: list[tuple[int, int, int]]) -> None:
    rows: list[Value] = [
        [Field(1, I64, a), Field(2, I32, b), Field(3, I64, c)] for a, b, c in places
    ]
    data = encode_struct([Field(1, LIST, ThriftList(STRUCT, rows))])
    assert encode_locations(places) == data
    assert page_locations(data) == places


@given(bounds=BOUNDS, order=st.integers(0, 2), bools=st.sampled_from((TRUE, FALSE)))
def test_column_indexes(bounds: list[PageBounds], order: int, bools: int) -> None:
    columns = [list(c) for c in zip(*bounds, strict=True)] or [[], [], [], []]
    kinds = (bools, BINARY, BINARY, I64)
    lists = [ThriftList(k, list(c)) for k, c in zip(kinds, columns, strict=True)]
    fields: Struct = [Field(i + 1, LIST, values) for i, values in enumerate(lists[:3])]
    fields += [Field(4, I32, order), Field(5, LIST, lists[3])]
    data = encode_struct(fields)
    if bools == TRUE:
        assert encode_bounds(bounds, order) == data
    assert page_bounds(data, len(bounds)) == bounds
    assert page_bounds(data, len(bounds) + 1) is None
    assert all(page_bounds(data[:end], len(bounds)) is None for end in range(len(data)))
    assert page_bounds(encode_struct([*fields[:3], fields[4]]), len(bounds)) is None
    if bounds:
        negative = Field(5, LIST, ThriftList(I64, [-1] * len(bounds)))
        assert page_bounds(encode_struct([*fields[:4], negative]), len(bounds)) is None


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("statistics", [["few", "many", "flag"], []])
def test_page_headers(version: str, statistics: list[str]) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table(
        {
            "few": ["red", "green", None, "blue"] * 500,
            "many": [f"a text of some length {i}" for i in range(2000)],
            "flag": [True, None] * 1000,
        }
    )
    pq.write_table(
        table,
        sink,
        data_page_version=version,
        data_page_size=512,
        write_batch_size=16,
        use_dictionary=["few"],
        write_statistics=statistics,
        write_page_checksum=True,
        compression="zstd",
    )
    data = sink.getvalue().to_pybytes()
    footer = decode_struct(footer_bytes(pa.BufferReader(data)))
    seen = 0
    for group in structs_of(footer, FILE_ROW_GROUPS):
        for chunk in structs_of(group, GROUP_COLUMNS):
            meta = cast("Struct", field_value(chunk, CHUNK_META))
            at = cast("int", field_value(meta, 11) or field_value(meta, 9))
            end = at + cast("int", field_value(meta, 7))
            while at < end:
                decoded = decode_at(data, at)
                assert decoded is not None
                header, body = decoded
                found = page_fields(memoryview(data), at)
                assert found is not None
                is_dictionary = field_value(header, 1) == DICTIONARY_PAGE
                assert found == (
                    body,
                    field_value(header, 3),
                    field_value(header, 2),
                    field_value(header, 4),
                    None if is_dictionary else values_of(header),
                )
                assert all(page_fields(data[at:cut], 0) is None for cut in range(at, body))
                at = body + found.size
                seen += 1
    assert seen > 20
