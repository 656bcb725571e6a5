"""The checked footer is what Arrow reads, without the fields that no known writer makes."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_core.errors import CorruptTable
from paimon_core.format.parquet.footer import (
    CHUNK_META,
    FILE_ROW_GROUPS,
    GROUP_COLUMNS,
    MAGIC,
    META_CODEC,
    checked_footer,
    footer_bytes,
    read_checked_footer,
    structs_of,
)
from paimon_core.format.parquet.thrift_compact import (
    BINARY,
    STRUCT,
    Field,
    Struct,
    decode_struct,
    encode_struct,
    field_value,
)

_PLACES_OF_INDEXES = {4, 5, 6, 7}
_CRYPTO_METADATA = 8


@pytest.fixture(scope="module")
def file() -> pa.Buffer:
    sink = pa.BufferOutputStream()
    table = pa.table({"k": [1, 2, 3], "v": ["a", "b", None]})
    pq.write_table(table, sink, row_group_size=2, write_page_index=True)
    return sink.getvalue()


def _changed(file: pa.Buffer, field: Field) -> pa.BufferReader:
    """Return the file with another field in its first chunk, or in the chunk's metadata."""
    footer = decode_struct(footer_bytes(pa.BufferReader(file)))
    chunk = structs_of(structs_of(footer, FILE_ROW_GROUPS)[0], GROUP_COLUMNS)[0]
    meta = cast("Struct", field_value(chunk, CHUNK_META))
    fields = meta if field.id == META_CODEC else chunk
    fields[:] = sorted([f for f in fields if f.id != field.id] + [field], key=lambda f: f.id)
    data = encode_struct(footer)
    return pa.BufferReader(MAGIC + data + len(data).to_bytes(4, "little") + MAGIC)


def test_the_footer_of_a_known_writer_is_that_of_arrow(file: pa.Buffer) -> None:
    metadata, chunks = checked_footer(pa.BufferReader(file))
    expected = pq.read_metadata(pa.BufferReader(file))
    assert metadata.equals(expected)
    assert [len(group) for group in chunks] == [2, 2]
    assert all({f.id for f in chunk} >= _PLACES_OF_INDEXES for group in chunks for chunk in group)


def test_arrow_does_not_see_fields_that_no_known_writer_makes(file: pa.Buffer) -> None:
    key = Field(_CRYPTO_METADATA, STRUCT, [Field(2, STRUCT, [Field(2, BINARY, b"key")])])
    source = _changed(file, key)
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_metadata(source).row_group(0).column(0)
    metadata, chunks = checked_footer(source)
    assert metadata.row_group(0).column(0).statistics.max == 2
    assert _CRYPTO_METADATA in {f.id for f in chunks[0][0]}


def test_an_unknown_codec_is_an_error(file: pa.Buffer) -> None:
    with pytest.raises(CorruptTable, match="unknown codec"):
        read_checked_footer(_changed(file, Field(META_CODEC, 5, 77)))
