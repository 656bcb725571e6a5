"""Metadata records in Avro files, as dicts.

The writer's schema decides how a file is read: fields that an older Java lacks are absent, and
fields that a newer one adds are found by `known_and_unknown`. (Manifests hold many entries and use
the faster `entries.decoding` and `entries.encoding`.)
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, Generic, TypeVar

import fastavro

from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.format.avro.container import (
    SCHEMA_KEY,
    Block,
    Container,
    compressor,
    encode_block,
    encode_header,
)
from paimon_core.format.avro.schema import file_schema, physical_schema
from paimon_core.io.json_text import parse_json
from paimon_core.manifest.unknown_fields import UnknownFields, UnknownReader, unknown_reader
from paimon_core.types.data_types import RowType

T = TypeVar("T")
BLOCK_BYTES: Final = 64_000
"""The bytes of records at which Java closes a block."""
_RECORDS_OF_ANY_FILE: Final = 10_000
_LEAST_RECORD_BYTES: Final = 4
_BLOCKS_SEEN: Final = 16
"""Threads that read lists side by side keep more than one block each."""
_LEAST_KEPT: Final = 4
# Without xz: Java's bundles have no library for it.
_CODECS: Final = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "null": "null",
    "deflate": "deflate",
    "snappy": "snappy",
    "bzip2": "bzip2",
}
AVRO_CODECS: Final = frozenset(_CODECS)
"""The values of compression options that Java can write as Avro."""


def avro_codec(compression: str) -> str:
    """Return the Avro codec of a compression option; InvalidArgument if Java cannot write it."""
    codec = _CODECS.get(compression.lower())
    if codec is None:
        raise InvalidArgument(
            f"manifests cannot be compressed by {compression!r}",
            next_step=f"set manifest.compression to one of {', '.join(_CODECS)}",
        )
    return codec


@lru_cache(maxsize=64)
def _reading_schema(schema: bytes) -> Any:
    return fastavro.parse_schema(physical_schema(parse_json(schema)))


def read_records(container: Container) -> Iterator[dict[str, Any]]:
    """Yield the records as dicts; logical types stay plain stored values."""
    for block in _blocks(container, None, lambda record, _: record, None):
        yield from block


def known_and_unknown(
    container: Container,
    known: RowType,
    make: Callable[[dict[str, Any], UnknownFields], T],
    seen: SeenRecords[T] | None = None,
) -> list[T]:
    """Return what `make` makes of each record and its fields that are not in `known`.

    With `seen`, records that an earlier file began with are not decoded again.  Raises
    UnsupportedFeature for an unknown field that cannot be carried to another file.
    """
    unknown = unknown_reader(container.schema, known)
    return [value for block in _blocks(container, unknown, make, seen) for value in block]


def _blocks(
    container: Container,
    unknown: UnknownReader | None,
    make: Callable[[dict[str, Any], UnknownFields], T],
    seen: SeenRecords[T] | None,
) -> Iterator[list[T]]:
    key = container.metadata[SCHEMA_KEY]
    schema = _reading_schema(key)
    for rows, data in metadata_blocks(container):
        values, ends = ([], []) if seen is None else seen.beginning(key, rows, data)
        stream = BytesIO(data)
        stream.seek(ends[-1] if ends else 0)
        for _ in range(rows - len(values)):
            start = stream.tell()
            record: Any = fastavro.schemaless_reader(stream, schema, None)
            values.append(make(record, () if unknown is None else unknown.read(data, start)))
            ends.append(stream.tell())
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes are left after a block's records")
        if seen is not None:
            seen.keep(key, data, values, ends)
        yield values


class SeenRecords(Generic[T]):
    """The decoded blocks of the last files, because the next file may begin with the same records.

    The base list of a snapshot begins with most records of the list before it.  Values are shared,
    so thousands of lists take little memory.  Safe to share between threads.
    """

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: deque[tuple[bytes, bytes, list[T], list[int]]] = deque(maxlen=_BLOCKS_SEEN)

    def beginning(self, schema: bytes, rows: int, data: bytes) -> tuple[list[T], list[int]]:
        """Return the values of the first records of a block, and where each of them ends."""
        values: list[T] = []
        ends: list[int] = []
        for key, earlier, made, made_ends in tuple(self._blocks):
            if key != schema:
                continue
            most = min(rows, len(made))

            def differs(count: int, earlier: bytes = earlier, ends: list[int] = made_ends) -> bool:
                return not data.startswith(earlier[: ends[count - 1]])

            equal = bisect_left(range(1, most + 1), 1, key=differs)
            if equal > len(values):
                values, ends = made[:equal], made_ends[:equal]
        return values, ends

    def keep(self, schema: bytes, data: bytes, values: list[T], ends: list[int]) -> None:
        """Keep a decoded block, unless it is so small that nothing would be saved."""
        if len(values) >= _LEAST_KEPT:
            self._blocks.append((schema, data, values.copy(), ends))


def metadata_blocks(container: Container) -> Iterator[Block]:
    """Yield the blocks of a metadata file.

    Raises CorruptTable for more records than the file's bytes can hold: each takes hundreds of
    bytes of memory and, because it names another file, some bytes of a compressed file.
    """
    left = _RECORDS_OF_ANY_FILE + container.size // _LEAST_RECORD_BYTES
    for block in container.blocks():
        left -= block.rows
        if left < 0:
            raise CorruptTable(
                f"a metadata file of {container.size:,} bytes says that it holds more records than "
                "it can"
            )
        yield block


def record_encoder(row_type: RowType) -> Callable[[Mapping[str, Any]], bytes]:
    """Return a function that encodes a dict as a record."""
    schema = fastavro.parse_schema(physical_schema(file_schema(row_type)))

    def encode(record: Mapping[str, Any]) -> bytes:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, schema, dict(record))
        return buffer.getvalue()

    return encode


class RecordWriter:
    """Builds an Avro file of encoded records, in blocks of Java's size.

    `size` is the number of bytes in the blocks closed so far.
    """

    __slots__ = ("_compress", "_parts", "_pending", "_pending_size", "_sync", "size")

    def __init__(self, schema: Any, *, codec: str, level: int) -> None:
        # The marker only has to be unlikely in data, so equal input gives equal files.
        self._sync = hashlib.md5(repr(schema).encode(), usedforsecurity=False).digest()
        self._compress = compressor(codec, level)
        self._parts = [encode_header(schema, codec, self._sync)]
        self._pending: list[bytes] = []
        self._pending_size = 0
        self.size = len(self._parts[0])

    def add(self, record: bytes) -> None:
        """Append one record."""
        self._pending.append(record)
        self._pending_size += len(record)
        if self._pending_size >= BLOCK_BYTES:
            self._close_block()

    def finish(self) -> bytes:
        """Return the whole file."""
        if self._pending:
            self._close_block()
        return b"".join(self._parts)

    def _close_block(self) -> None:
        packed = self._compress(b"".join(self._pending))
        self._parts.append(encode_block(len(self._pending), packed, self._sync))
        self.size += len(self._parts[-1])
        self._pending, self._pending_size = [], 0
