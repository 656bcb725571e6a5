"""Writes ORC files that Java Paimon can read.

pyarrow's ORC writer is not used: it writes times before 1970 with negative nanoseconds, on which
Java's reader fails, it lacks CHAR(n) and VARCHAR(n), and its statistics ignore NaN.

::

    ORC | stripe: streams of the columns, then its footer | ... | footer | postscript | its length

`streams` encodes the streams.  There are no row indexes, so readers can skip whole files by
Paimon's statistics, but no rows inside a file.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.dictionary_choice import repeats, sample
from paimon_core.format.orc.protobuf import blob, number, packed
from paimon_core.format.orc.streams import (
    BLOCK,
    Ints,
    bits,
    byte_runs,
    compressed,
    compressor,
    signed,
    unsigned,
    wide_varints,
)
from paimon_core.format.orc.types import OrcKind, OrcType, orc_type
from paimon_core.format.orc.zone import UTC, ZONE_KEY, has_ltz, to_instants
from paimon_core.types.data_types import RowType

MAGIC: Final = b"ORC"
FIRST_RATIO: Final = 0.5
"""The estimated bytes on disk per Arrow byte before the first stripe is written."""
_CODECS: Final = {"none": 0, "zlib": 1, "snappy": 2, "lz4": 4, "zstd": 5}
_WRITER_VERSION: Final = 6
_EPOCH_2015: Final = 1_420_070_400
"""The epoch of ORC timestamps: seconds count from 2015."""
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MILLI_NANOS: Final = 999_999

# Kinds of streams, and of column encodings.
_PRESENT, _DATA, _LENGTH, _DICTIONARY_DATA, _SECONDARY = 0, 1, 2, 3, 5
_DIRECT, _DIRECT_V2, _DICTIONARY_V2 = 0, 2, 3


class OrcFileWriter:
    """`FormatWriter` of one ORC file."""

    def __init__(
        self,
        sink: pa.NativeFile,
        row_type: RowType,
        *,
        compression: str,
        zstd_level: int,
        stripe_bytes: int,
        ltz_zone: str,
    ) -> None:
        """`stripe_bytes`: the Arrow bytes that are collected for a stripe.

        `ltz_zone`: the zone to which TIMESTAMP LTZ is bound, "UTC" for plain instants.
        """
        codec = _CODECS.get(compression.lower())
        if codec is None:
            raise UnsupportedFeature(
                f"compression {compression} of ORC files (Java does not support it either)"
            )
        self._codec = codec
        self._compress = compressor(compression.lower(), zstd_level)
        self._sink = sink
        self._root = orc_type(row_type)
        self._zone = ltz_zone
        self._zoned = [i for i, f in enumerate(row_type) if ltz_zone != UTC and has_ltz(f.type)]
        self._stripe_bytes = stripe_bytes
        self._stripes: list[bytes] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._encoded_bytes = 0
        self._rows = 0
        self._counts = [_Count() for _ in self._root.nodes()]
        sink.write(MAGIC)

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= self._stripe_bytes:
            self._flush()

    def bytes_written(self) -> int:
        written = int(self._sink.tell())
        ratio = written / self._encoded_bytes if self._encoded_bytes else FIRST_RATIO
        return int(written + self._waiting_bytes * ratio)

    def close(self) -> int:
        self._flush()
        content = int(self._sink.tell())
        footer = number(1, len(MAGIC)) + number(2, content - len(MAGIC))
        footer += b"".join(blob(3, stripe) for stripe in self._stripes)
        footer += b"".join(blob(4, node.encoded()) for node in self._root.nodes())
        if self._zone != UTC:
            footer += blob(5, blob(1, ZONE_KEY) + blob(2, self._zone))
        footer += number(6, self._rows)
        footer += b"".join(blob(7, c.encoded()) for c in self._counts)
        footer += number(8, 0)
        footer = compressed(footer, self._compress)
        postscript = (
            number(1, len(footer))
            + number(2, self._codec)
            + number(3, BLOCK)
            + packed(4, (0, 12))
            + number(5, 0)
            + number(6, _WRITER_VERSION)
            + blob(8000, MAGIC)
        )
        self._sink.write(footer + postscript + bytes([len(postscript)]))
        size = int(self._sink.tell())
        self._sink.close()
        return size

    def abort(self) -> None:
        self._waiting.clear()
        self._sink.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._waiting = []
        for i in self._zoned:
            chunks = [to_instants(c, self._zone) for c in table.column(i).chunks]
            table = table.set_column(i, table.schema.field(i), pa.chunked_array(chunks))
        start = int(self._sink.tell())
        stripe = _Stripe(self._counts)
        stripe.root(self._root, table)
        descriptions = []
        for kind, column, data in stripe.streams:
            stored = compressed(data, self._compress)
            self._sink.write(stored)
            descriptions.append(number(1, kind) + number(2, column) + number(3, len(stored)))
        data_length = int(self._sink.tell()) - start
        footer = b"".join(blob(1, d) for d in descriptions)
        footer += b"".join(blob(2, stripe.encodings[n.number]) for n in self._root.nodes())
        footer += blob(3, UTC)
        footer = compressed(footer, self._compress)
        self._sink.write(footer)
        self._stripes.append(
            number(1, start)
            + number(2, 0)
            + number(3, data_length)
            + number(4, len(footer))
            + number(5, table.num_rows)
        )
        self._rows += table.num_rows
        self._encoded_bytes += self._waiting_bytes
        self._waiting_bytes = 0


class _Count:
    """The statistics of a column: its number of values, and whether it has nulls."""

    __slots__ = ("has_null", "values")

    def __init__(self) -> None:
        self.values = 0
        self.has_null = False

    def encoded(self) -> bytes:
        return number(1, self.values) + number(10, int(self.has_null))


class _Stripe:
    """The streams and encodings of one stripe, column by column."""

    def __init__(self, counts: list[_Count]) -> None:
        self.streams: list[tuple[int, int, bytes]] = []
        self.encodings: dict[int, bytes] = {}
        self._counts = counts

    def root(self, node: OrcType, table: pa.Table) -> None:
        self._counts[node.number].values += table.num_rows
        self._encode_as(node, _DIRECT)
        for child, column in zip(node.children, table.columns, strict=True):
            self._column(child, column.combine_chunks())

    def _column(self, node: OrcType, array: pa.Array) -> None:
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
        count = self._counts[node.number]
        if array.null_count:
            self._add(_PRESENT, node, bits(np.asarray(array.is_valid())))
            count.has_null = True
            array = array.drop_null()
        count.values += len(array)
        self._values(node, array)

    def _values(self, node: OrcType, array: pa.Array) -> None:
        match node.kind:
            case OrcKind.STRUCT:
                self._encode_as(node, _DIRECT)
                for child, column in zip(node.children, array.flatten(), strict=True):
                    self._column(child, column)
            case OrcKind.LIST | OrcKind.MAP:
                self._encode_as(node, _DIRECT_V2)
                offsets = np.asarray(array.offsets).astype(np.int64)
                self._add(_LENGTH, node, unsigned(np.diff(offsets)))
                first, last = int(offsets[0]), int(offsets[-1])
                children = (
                    (array.values,) if node.kind is OrcKind.LIST else (array.keys, array.items)
                )
                for child, column in zip(node.children, children, strict=True):
                    self._column(child, column[first:last])
            case OrcKind.STRING | OrcKind.VARCHAR | OrcKind.CHAR | OrcKind.BINARY:
                self._text(node, array)
            case OrcKind.DECIMAL:
                self._encode_as(node, _DIRECT_V2)
                words = np.frombuffer(array.buffers()[1] or b"", np.uint64)
                words = words[2 * array.offset : 2 * (array.offset + len(array))]
                self._add(_DATA, node, wide_varints(words[::2], words[1::2]))
                self._add(_SECONDARY, node, signed(np.full(len(array), node.scale, np.int64)))
            case OrcKind.TIMESTAMP | OrcKind.TIMESTAMP_INSTANT:
                self._encode_as(node, _DIRECT_V2)
                seconds, nanos = _seconds_and_nanos(array)
                self._add(_DATA, node, signed(seconds - _EPOCH_2015))
                self._add(_SECONDARY, node, unsigned(_formatted_nanos(nanos)))
            case OrcKind.BOOLEAN:
                self._encode_as(node, _DIRECT)
                self._add(_DATA, node, bits(np.asarray(array)))
            case OrcKind.BYTE:
                self._encode_as(node, _DIRECT)
                self._add(_DATA, node, byte_runs(np.asarray(array).view(np.uint8)))
            case OrcKind.FLOAT | OrcKind.DOUBLE:
                self._encode_as(node, _DIRECT)
                self._add(_DATA, node, np.ascontiguousarray(array).tobytes())
            case _:
                self._encode_as(node, _DIRECT_V2)
                self._add(_DATA, node, signed(_integers(array)))

    def _text(self, node: OrcType, array: pa.Array) -> None:
        if node.kind is OrcKind.CHAR:
            array = pc.utf8_rpad(array, width=node.length, padding=" ")
        # Java's reader of BINARY columns does not support dictionaries.
        texts = node.kind is not OrcKind.BINARY
        if texts and repeats(sample(pa.chunked_array([array])), len(array)):
            encoded = array.dictionary_encode()
            self._encode_as(node, _DICTIONARY_V2, len(encoded.dictionary))
            self._add(_DATA, node, unsigned(np.asarray(encoded.indices).astype(np.int64)))
            data, lengths = _bytes_and_lengths(encoded.dictionary)
            self._add(_DICTIONARY_DATA, node, data)
        else:
            self._encode_as(node, _DIRECT_V2)
            data, lengths = _bytes_and_lengths(array)
            self._add(_DATA, node, data)
        self._add(_LENGTH, node, unsigned(lengths))

    def _add(self, kind: int, node: OrcType, data: bytes) -> None:
        self.streams.append((kind, node.number, data))

    def _encode_as(self, node: OrcType, kind: int, dictionary_size: int = 0) -> None:
        self.encodings[node.number] = number(1, kind) + (
            number(2, dictionary_size) if kind == _DICTIONARY_V2 else b""
        )


def _integers(array: pa.Array) -> Ints:
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.view(pa.int32())
    return np.asarray(array).astype(np.int64)


def _bytes_and_lengths(array: pa.Array) -> tuple[bytes, Ints]:
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer or bytes(4), np.int32, len(array) + 1, 4 * array.offset)
    lengths: Ints = np.subtract(offsets[1:], offsets[:-1], dtype=np.int64)
    return bytes(memoryview(data or b"")[offsets[0] : offsets[-1]]), lengths


def _seconds_and_nanos(array: pa.Array) -> tuple[Ints, Ints]:
    """Return ORC seconds and nanoseconds.

    Seconds before 1970 are rounded up if the fraction is a millisecond or more; the reader reverses
    this, but only for seconds below zero.
    """
    of_second = _UNITS[array.type.unit]
    times = np.asarray(array.view(pa.int64()))
    seconds = times // of_second
    nanos = (times - seconds * of_second) * (10**9 // of_second)
    rounded = (seconds < 0) & (nanos > _MILLI_NANOS)
    if (rounded & (seconds == -1)).any():
        raise UnsupportedFeature(
            "ORC timestamps within the second before 1970",
            "an ORC file cannot hold a time within the second before 1970: readers would "
            "return a time within the second after (Java corrupts such times silently)",
            next_step="use file.format=parquet for this table",
        )
    return seconds + rounded, nanos


def _formatted_nanos(nanos: Ints) -> Ints:
    """Drop trailing zeros of nanoseconds; the low three bits hold their number minus one."""
    zeros = np.zeros(len(nanos), np.int64)
    left = nanos.copy()
    cut = (left != 0) & (left % 100 == 0)
    left[cut] //= 100
    zeros[cut] = 1
    for _ in range(6):
        cut = cut & (left % 10 == 0)
        left[cut] //= 10
        zeros[cut] += 1
    return left << 3 | zeros
