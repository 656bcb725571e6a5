"""Feeds damaged files to a decoder, in a process of its own whose time and memory are watched.

    python tests/hostile.py DECODER SECONDS [FIRST_CASE [CASES]]

Case number N of a decoder is always the same file, so a failure that the test names can be run
again by itself: `python tests/hostile.py manifest 10 1234 1`.

A decoder may give values or raise one of our errors, which names the file.  Anything else fails:
another exception, more than `MOST_BYTES` of memory, more than `MOST_SECONDS` for one case (which
whoever started the process measures), or the end of the process.
"""

from __future__ import annotations

import json
import random
import resource
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any

MOST_BYTES = 512 * 1024 * 1024
MOST_SECONDS = 10.0
GOLDEN = Path(__file__).resolve().parent / "golden" / "1.4.2"
_ADDRESS_SPACE = 16 * 1024**3
_BATCHES = 50


@dataclass(frozen=True)
class Decoder:
    """Sound inputs, and what reads one from a file; `texts` if the inputs are JSON."""

    samples: Sequence[bytes]
    read: Callable[[str, bytes], object]
    texts: bool = False
    suffix: str = ""
    in_file: bool = True
    """Whether the input is a file that errors have to name."""
    sound: bool = True
    """Whether every sample can be read as it is."""


# --- damage -------------------------------------------------------------------------------------

EXTREMES = (
    *(struct.pack(f, v) for f in ("<i", ">i") for v in (-1, -(2**31), 2**31 - 1, 2**24, 0)),
    *(struct.pack(f, v) for f in ("<q", ">q") for v in (-1, -(2**63), 2**63 - 1, 2**40)),
    b"\xfe\xff\xff\xff\x0f",  # Avro: 2^31 - 1
    b"\xff\xff\xff\xff\x0f",  # Avro: -2^31
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80" * 40,
    b"\x01",
    b"\x03",
    b"\xff" * 16,
    b"\0" * 16,
)
WORDS = (
    "null", "true", "-1", "0", "1e400", "1e-999999999", "1E+999999999", "NaN", "Infinity", "-0",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "9" * 5000,
    "0." + "1" * 5000, '""', '".."', '"../../victim"', '"/etc/passwd"', '"a\\u0000b"', '"' + "x" * 5000 + '"',
    "[" * 5000, "[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000, "[]", "{}", '"\\ud800"',
    '"' + "ARRAY<" * 3000 + "INT" + ">" * 3000 + '"', '"INT' + " ARRAY" * 3000 + '"',
    '{"type":"ARRAY","element":' * 90 + '"INT"' + "}" * 90, '"DECIMAL(99999999999999999999, 3)"',
)  # fmt: skip


def damaged(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """The bytes after one to four kinds of damage."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(9):
            case 0 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at % len(out)] = rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF))
            case 2:
                del out[at:]
            case 3:
                del out[at : at + rng.randrange(1, 9)]
            case 4:
                out[at:at] = rng.choice(EXTREMES)
            case 5:
                extreme = rng.choice(EXTREMES)
                out[at : at + len(extreme)] = extreme
            case 6:
                piece = out[at : at + rng.randrange(1, 200)]
                out[at:at] = piece * rng.randrange(1, 5)
            case 7:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                out[at:] = other[start:]
            case 8:
                out[at : at + 8] = rng.randbytes(8)
    return bytes(out)


def damaged_text(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """JSON with a value replaced, or with bytes damaged."""
    if rng.random() < 0.3:
        return damaged(data, others, rng)
    text = data.decode()
    values = [i + 3 for i in range(len(text) - 2) if text[i : i + 3] == " : "]
    if not values:
        return rng.choice(WORDS).encode()
    start = rng.choice(values)
    if text[start] == '"':
        end = text.index('"', start + 1) + 1
    else:
        end = next(
            i for i in range(start, len(text) + 1) if text[i : i + 1] in ("", ",", "\n", "}")
        )
    return (text[:start] + rng.choice(WORDS) + text[end:]).encode()


# --- decoders -----------------------------------------------------------------------------------


def _files(pattern: str, most: int = 12, largest: int = 60_000) -> list[bytes]:
    found = [p.read_bytes() for p in sorted(GOLDEN.glob(pattern)) if p.is_file()]
    fitting = sorted({d for d in found if len(d) <= largest}, key=lambda d: (len(d), d))
    return fitting[:: max(1, len(fitting) // most)][:most]


def _io() -> Any:
    from paimon_core.io.local import LocalFileIO

    return LocalFileIO()


def _plain_avro(data: bytes) -> bytes:
    """The same file without compression, so that damage reaches the records."""
    from io import BytesIO

    from paimon_core.format.avro.container import Container, encode_block, encode_header

    container = Container(BytesIO(data))
    sync = bytes(16)
    blocks = [encode_block(b.rows, b.data, sync) for b in container.blocks()]
    return encode_header(container.schema, "null", sync) + b"".join(blocks)


def _metadata(name: str, *patterns: str) -> Decoder:
    from importlib import import_module

    module, function = {
        "manifest": ("manifest_file", "read_manifest"),
        "manifest_list": ("manifest_list", "read_manifest_list"),
        "index_manifest": ("index_manifest", "read_index_manifest"),
    }[name]
    read = getattr(import_module(f"paimon_core.manifest.{module}"), function)
    samples = [data for p in patterns for data in _files(p) if data.startswith(b"Obj")]
    samples += [_plain_avro(data) for data in samples]
    return Decoder(samples, lambda path, _: read(_io(), path))


def manifest() -> Decoder:
    return _metadata(
        "manifest",
        "*/warehouse/db.db/t/manifest/manifest-[0-9a-k]*",
        "manifest_*/warehouse/db.db/t/manifest/manifest-[0-9a-k]*",
    )


def manifest_list() -> Decoder:
    return _metadata("manifest_list", "*/warehouse/db.db/t/manifest/manifest-list-*")


def index_manifest() -> Decoder:
    return _metadata("index_manifest", "*/warehouse/db.db/t/manifest/index-manifest-*")


def _stored(kind: str, pattern: str, name: str) -> Decoder:
    """A reader of one JSON file under the name that it has in a table."""
    from paimon_core.io import read_retry
    from paimon_core.paths import TablePaths

    read_retry.WAITS_MILLIS = ()  # nobody writes it meanwhile

    def read(path: str, data: bytes) -> object:
        from paimon_core.refs.consumers import ConsumerStore
        from paimon_core.refs.tags import TagStore
        from paimon_core.schema.store import SchemaStore
        from paimon_core.snapshot.store import SnapshotStore

        root = Path(path).parent / kind
        paths = TablePaths(root=str(root))
        (root / kind).mkdir(parents=True, exist_ok=True)
        (root / kind / name).write_bytes(data)
        match kind:
            case "snapshot":
                store = SnapshotStore(_io(), paths, "db.t")
                found = store.get(1)
                return (found.identity, store.hints())
            case "schema":
                schema = SchemaStore(_io(), paths, "db.t").get(0)
                return (schema.partition_type, hash(schema.row_type), len(schema.options))
            case "tag":
                from paimon_core.refs.tags import tag_to_json

                tag = TagStore(_io(), paths, "db.t").get("t")
                return (tag.expires_at_millis, tag_to_json(tag))
            case _:
                return ConsumerStore(_io(), paths, "db.t").all()

    samples = _files(pattern) or [b'{\n  "nextSnapshot" : 3\n}']
    return Decoder(samples, read, texts=True)


def snapshot() -> Decoder:
    return replace(
        _stored("snapshot", "*/warehouse/db.db/t/snapshot/snapshot-1", "snapshot-1"), texts=True
    )


def schema() -> Decoder:
    return _stored("schema", "*/warehouse/db.db/t/schema/schema-0", "schema-0")


def tag() -> Decoder:
    decoder = _stored("tag", "*/warehouse/db.db/t/tag/tag-*", "tag-t")
    living = b'{\n  "tagCreateTime" : [ 2024, 1, 2, 3, 4, 5 ],\n  "tagTimeRetained" : 3600.5,'
    return replace(
        decoder, samples=[*decoder.samples, *(living + s[1:] for s in decoder.samples[:3])]
    )


def consumer() -> Decoder:
    return _stored("consumer", "*/warehouse/db.db/t/consumer/consumer-*", "consumer-c")


def hint() -> Decoder:
    from paimon_core.snapshot.numbered_files import NumberedFiles

    def read(path: str, data: bytes) -> object:
        folder = Path(path).parent / "hints"
        folder.mkdir(exist_ok=True)
        (folder / "LATEST").write_bytes(data)
        return NumberedFiles(_io(), str(folder), "snapshot-").latest()

    samples = [b"5", b"9" * 18, b"9" * 5000, b" 7\n"]
    return Decoder(samples, read)


def binary_row() -> Decoder:
    from paimon_core.types.binary_row import decode_row, encode_row
    from paimon_core.types.sql import parse_type

    nested = parse_type(
        "ROW<a ARRAY<STRING>, b MAP<STRING, ARRAY<BIGINT>>, c ROW<x STRING, y DECIMAL(30, 2)>, "
        "d ARRAY<ARRAY<ARRAY<BYTES>>>, e DECIMAL(38, 5), f TIMESTAMP(9), g VECTOR<FLOAT, 3>, "
        "h DOUBLE, i BOOLEAN, j ARRAY<DECIMAL(30, 0)>, k DATE>"
    )
    from decimal import Decimal

    long = "a text that does not fit its slot"
    values = (
        [long, None, "b"], [(long, [1, 2, None])], (long, Decimal("1.50")),
        [[[long.encode()], []], [[b"x"]]], Decimal("-7.00000"), 10**18 + 5, [1.0, 2.0, 3.0],
        1.5, True, [Decimal(10**25), None], 19_000,
    )  # fmt: skip
    types = nested.types
    samples = [encode_row(values, types), encode_row((None,) * len(types), types)]
    return Decoder(samples, lambda _, data: decode_row(data, types), in_file=False)


@cache
def _tables(name: str) -> Any:
    from paimon_core.table.open import open_table

    return open_table(str(GOLDEN / name / "warehouse"), "db.t")


def _index_files(table: Any) -> list[tuple[bytes, Any]]:
    found = []
    for one in table.snapshots.all():
        for entry in table.index_entries(one):
            file = entry.index_file
            path = Path(table.paths.index_file(entry.partition, entry.bucket, file))
            if path.exists():
                found.append((path.read_bytes(), file))
    return found


def deletion_vectors() -> Decoder:
    from pyroaring import BitMap, BitMap64

    from paimon_core.index.deletion_vectors import read_deletion_vectors
    from paimon_core.manifest.data_file import DeletionVectorRange, IndexFileMeta

    def block(bitmap: Any, magic: bytes) -> bytes:
        body = magic + bytes(bitmap.serialize())
        return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))

    narrow, wide = struct.pack(">i", 1581511376), struct.pack("<i", 1681511377)
    runs, rest = BitMap(range(0, 10**6, 1)), BitMap(range(0, 10**5, 7))
    runs.run_optimize()
    bitmaps = [block(b, narrow) for b in (BitMap([1, 5]), runs, rest)]
    bitmaps.append(block(BitMap64([1, 2**40]), wide))
    samples = [b"\1" + b for b in bitmaps] + [
        data for data, _ in _index_files(_tables("deletion_vectors"))
    ]

    def read(path: str, data: bytes) -> object:
        # The checksum of a hostile file fits.
        if len(data) > 13:
            length = min(int.from_bytes(data[1:5], "big"), len(data) - 9)
            if length > 0:
                crc = struct.pack(">I", zlib.crc32(data[5 : 5 + length]))
                data = data[: 5 + length] + crc + data[9 + length :]
                Path(path).write_bytes(data)
        ranges = [DeletionVectorRange("f", 1, len(data), None)]
        size = int.from_bytes(data[1:5], "big", signed=True)
        ranges += [DeletionVectorRange(f"g{more}", 1, size + more, None) for more in (0, 8)]
        for where in ranges:
            meta = IndexFileMeta(
                index_type="DELETION_VECTORS", file_name="i", file_size=1, row_count=1,
                dv_ranges=(where,),
            )  # fmt: skip
            try:
                read_deletion_vectors(_io(), path, meta)
            except Exception as e:  # noqa: BLE001 - the worker judges it
                error: Exception = e
            else:
                return None
        raise error

    return Decoder(samples, read, sound=False)


def hash_index() -> Decoder:
    from paimon_core.index.hash_index import read_hash_index

    known = _index_files(_tables("dynamic_bucket"))
    return Decoder(
        [data for data, _ in known],
        lambda path, _: read_hash_index(_io(), path, known[0][1]),
        sound=False,
    )


def _data(name: str, extension: str) -> Decoder:
    from paimon_core.format.data_format import read_batches
    from paimon_core.types.data_types import RowType
    from paimon_core.types.sql import type_to_sql

    fields = _tables(name).schema.row_type
    if extension == "orc":
        # The ORC library divides by ten as often as the scale of a stored DECIMAL says, up to four
        # billion times a value, and nothing outside of it can see that scale.
        fields = RowType(
            fields=tuple(f for f in fields.fields if "DECIMAL" not in type_to_sql(f.type))
        )

    def read(path: str, _: bytes) -> int:
        batches = read_batches(_io(), path, fields, batch_rows=1024)
        return sum(b.num_rows for b in islice(batches, _BATCHES))

    samples = _files(f"{name}/warehouse/db.db/t/bucket-0/*.{extension}", most=4)
    if extension == "avro":
        samples += [_plain_avro(data) for data in samples]
    return Decoder(samples, read, suffix=f".{extension}")


def parquet_rows() -> Decoder:
    return _data("types_append_parquet", "parquet")


def orc_rows() -> Decoder:
    return _data("types_append_orc", "orc")


def orc_footer() -> Decoder:
    """Damage to the footer alone: the stripes stay, the length is set right."""
    from paimon_core.format.data_format import read_batches
    from paimon_core.format.orc.protobuf import number, read_fields
    from paimon_core.format.orc.streams import decompressed

    whole = _files("types_append_orc/warehouse/db.db/t/bucket-0/*.orc", most=1)[0]
    fields = _tables("types_append_orc").schema.row_type
    length = whole[-1]
    postscript = dict(read_fields(whole[-1 - length : -1]))
    size = int(postscript[1])
    end = len(whole) - 1 - length
    footer = decompressed(whole[end - size : end], int(postscript[2]))

    def read(path: str, data: bytes) -> int:
        stored = (len(data) << 1 | 1).to_bytes(4, "little")[:3] + data
        told = number(1, len(stored)) + whole[-1 - length : -1][1 + len(number(0, size)) - 1 :]
        Path(path).write_bytes(whole[: end - size] + stored + told + bytes([len(told)]))
        batches = read_batches(_io(), path, fields, batch_rows=1024)
        return sum(b.num_rows for b in islice(batches, _BATCHES))

    return Decoder([footer], read, suffix=".orc")


def avro_rows() -> Decoder:
    return _data("types_append_avro", "avro")


def footers() -> Decoder:
    from paimon_maintenance.verify.footers import count_rows

    samples = [
        data
        for e in ("parquet", "orc", "avro")
        for data in _files(f"types_append_{e}/warehouse/db.db/t/bucket-0/*.{e}", most=3)
    ]

    def read(path: str, data: bytes) -> object:
        last: Exception | None = None
        for extension in ("parquet", "orc", "avro"):
            named = Path(f"{path}.{extension}")
            named.write_bytes(data)
            try:
                count_rows(_io(), str(named))
            except Exception as e:  # noqa: BLE001 - judged right here
                _check_error(e, path)
                last = e
        if last is not None:
            raise last
        return None

    return Decoder(samples, read, sound=False)


def parquet_footer() -> Decoder:
    """Damage to the footer alone: the pages stay, the length is set right."""
    from paimon_core.format.data_format import read_batches

    whole = _files("types_append_parquet/warehouse/db.db/t/bucket-0/*.parquet", most=2)
    fields = _tables("types_append_parquet").schema.row_type

    def footer(data: bytes) -> bytes:
        return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]

    def read(path: str, data: bytes) -> object:
        pages = whole[0][: -8 - len(footer(whole[0]))]
        end = len(data).to_bytes(4, "little") + b"PAR1"
        Path(path).write_bytes(pages + data + end)
        batches = read_batches(_io(), path, fields, batch_rows=1024)
        return sum(b.num_rows for b in islice(batches, _BATCHES))

    return Decoder([footer(d) for d in whole], read, suffix=".parquet", sound=False)


def parquet_windows() -> Decoder:
    """Damage to the footer and the page indexes before it, for those who read some rows only."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from paimon_core.format.data_format import read_batches
    from paimon_core.format.parquet import reader
    from paimon_core.types.data_types import DataField, RowType
    from paimon_core.types.sql import parse_type

    reader.PAGES_FROM = 0
    types = {"k": "INT", "v": "STRING", "a": "ARRAY<INT>"}
    fields = RowType(
        fields=tuple(
            DataField(id=i, name=n, type=parse_type(t)) for i, (n, t) in enumerate(types.items())
        )
    )
    rows = [{"k": i, "v": f"v{i}", "a": [i, None]} for i in range(600)]
    schema = pa.schema({"k": pa.int32(), "v": pa.string(), "a": pa.list_(pa.int32())})
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_pylist(rows, schema=schema),
        sink,
        row_group_size=300,
        data_page_size=200,
        write_batch_size=16,
        write_page_index=True,
        use_dictionary=["v"],
    )
    whole = bytes(sink.getvalue())
    metadata = pq.read_metadata(pa.BufferReader(whole))
    last = metadata.row_group(1).column(2)
    end = last.data_page_offset + last.total_compressed_size

    def read(path: str, data: bytes) -> object:
        # The length of the footer is set right; what precedes it are the indexes.
        length = int.from_bytes(whole[-8:-4], "little") + len(data) - len(whole[end:-8])
        Path(path).write_bytes(whole[:end] + data + max(0, length).to_bytes(4, "little") + b"PAR1")
        batches = read_batches(_io(), path, fields, batch_rows=64, rows=range(100, 400))
        return sum(b.num_rows for b in islice(batches, _BATCHES))

    return Decoder([whole[end:-8]], read, suffix=".parquet", sound=False)


def parquet_pages() -> Decoder:
    import pyarrow as pa

    from paimon_core.format.data_format import decoding
    from paimon_core.format.parquet.chunks import checked_pages, stored_groups
    from paimon_core.format.parquet.footer import read_checked_footer

    samples = _files("*/warehouse/db.db/t/bucket-0/*.parquet", most=8)

    def read(path: str, data: bytes) -> object:
        with decoding(path), _io().open_input(path) as source:
            metadata = read_checked_footer(source)
            groups = stored_groups(metadata, metadata, "ZSTD") or ()
            buffer = pa.py_buffer(data)
            for group in groups:
                for column in group.columns:

                    def at(start: int, size: int) -> Any:
                        return buffer[start : start + size]

                    for _ in islice(checked_pages(at, column, "c"), 1000):
                        pass

    return Decoder(samples, read, suffix=".parquet")


def parquet_chunks() -> Decoder:
    """Damage to the footer, for those who look at its column chunks."""
    from paimon_core.format.data_format import decoding
    from paimon_core.format.parquet.chunks import joined, stored_groups
    from paimon_core.format.parquet.footer import read_checked_footer
    from paimon_core.format.row_groups import row_group_ends
    from paimon_core.types.data_types import DataField
    from paimon_core.types.sql import parse_type

    column = DataField(id=0, name="k", type=parse_type("INT"))
    text = DataField(id=0, name="v", type=parse_type("STRING"))

    def read(path: str, data: bytes) -> object:
        Path(path).write_bytes(b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1")
        with decoding(path):
            with _io().open_input(path) as source:
                metadata = read_checked_footer(source)
                groups = stored_groups(metadata, metadata, "ZSTD") or ()
                for group in groups:
                    joined(group.columns[:1] * 2, parse_type("INT"))
            return [row_group_ends(_io(), path, c) for c in (column, text)]

    samples = [*parquet_footer().samples]
    samples += [
        d[-8 - int.from_bytes(d[-8:-4], "little") : -8]
        for d in _files("*/warehouse/db.db/t/bucket-0/*.parquet", most=6)
    ]
    return Decoder(samples, read, suffix=".parquet", sound=False)


def file_index() -> Decoder:
    import pyarrow as pa

    from paimon_core.index.file_index.bitmap import BitmapWriter
    from paimon_core.index.file_index.bloom import BloomWriter
    from paimon_core.index.file_index.bsi import BsiWriter
    from paimon_core.index.file_index.container import encode_indexes
    from paimon_core.index.file_index.evaluate import rows_that_may_match
    from paimon_core.index.file_index.range_bitmap import RangeBitmapWriter
    from paimon_core.predicate.nodes import Leaf, Op, Or
    from paimon_core.types.data_types import DataField, RowType
    from paimon_core.types.sql import parse_type

    number, text = parse_type("INT"), parse_type("STRING")
    fields = RowType(
        fields=(DataField(id=0, name="n", type=number), DataField(id=1, name="s", type=text))
    )
    numbers = pa.array([*range(50), None, 7, 7], pa.int32())
    texts = pa.array([f"text {i % 9}" for i in range(50)] + [None, "a", "b"])

    def built(writer: Any, array: Any) -> bytes:
        writer.write(array)
        return bytes(writer.finish())

    kinds = {
        "bitmap": lambda t: BitmapWriter(t, {"version": "2"}),
        "bitmap 1": lambda t: BitmapWriter(t, {"version": "1"}),
        "range-bitmap": lambda t: RangeBitmapWriter(t, {"chunk-size": "64b"}),
        "bloom-filter": lambda t: BloomWriter(t, {"items": "50"}),
    }
    samples = [
        encode_indexes(
            {
                "n": {kind.split()[0]: built(make(number), numbers)},
                "s": {kind.split()[0]: built(make(text), texts)},
            }
        )
        for kind, make in kinds.items()
    ]
    samples.append(encode_indexes({"n": {"bsi": built(BsiWriter(number, {}), numbers)}}))
    samples += _files("bloom_index_file/warehouse/db.db/t/bucket-0/*.index", most=2)
    asked = [
        *(Leaf(op, f, (v,)) for f, v in (("n", 7), ("s", "text 3")) for op in (Op.EQ, Op.NE, Op.LT)),
        *(Leaf(Op.IS_NULL, f, ()) for f in ("n", "s")),
        Leaf(Op.EQ, "k", (3,)),
    ]  # fmt: skip
    everything = RowType(fields=(*fields.fields, DataField(id=2, name="k", type=number)))

    def read(_: str, data: bytes) -> object:
        return [rows_that_may_match(data, p, everything) for p in (*asked, Or(tuple(asked)))]

    return Decoder(samples, read, in_file=False)


def global_index() -> Decoder:
    import numpy as np
    import pyarrow as pa

    from paimon_core.errors import UNREADABLE, CorruptTable, UnsupportedFeature
    from paimon_core.index.global_index.btree import BtreeReader, IndexMeta, write_btree
    from paimon_core.index.global_index.keys import KeyType
    from paimon_core.index.global_index.records import read_varints
    from paimon_core.index.global_index.sorted_file import Codec, read_block
    from paimon_core.types.sql import parse_type

    keys = KeyType(parse_type("TIMESTAMP(6)"), "c")
    column = pa.array([*range(500), None, 7, 7], pa.timestamp("us"))
    samples = []
    for codec in ("none", "zstd"):
        with tempfile.TemporaryDirectory() as folder:
            place = f"{folder}/f"
            ids, order = np.arange(len(column)), keys.order(column)
            write_btree(_io(), place, column, ids, keys, order, block_size=900, codec=Codec(codec))
            samples.append(Path(place).read_bytes())
    footer = samples[0][-52:]

    def block(data: bytes, kind: int) -> None:
        # The checksum of a hostile file fits.
        stored = data + struct.pack("<BI", kind, zlib.crc32(data + bytes([kind])))
        for key, value in read_block(stored):
            keys.decode(key)
            read_varints(value)

    def read(path: str, data: bytes) -> object:
        steps: list[Callable[[], object]] = [
            *(lambda k=k: block(data[:4000], k) for k in (0, 1, 9)),
            lambda: IndexMeta.decode(data[:200]),
        ]
        for step in steps:
            # Callers turn these into errors of ours.
            with suppress(CorruptTable, UnsupportedFeature, struct.error, *UNREADABLE):
                step()
        for end in (data, data[:-52] + footer):
            Path(path).write_bytes(end)
            with BtreeReader(_io(), path, keys) as index:
                index.null_rows()
                index.rows_between(None, None)
        return None

    return Decoder(samples, read, sound=False)


def thrift() -> Decoder:
    from paimon_core.format.parquet.thrift_compact import decode_struct, encode_struct

    samples = parquet_footer().samples
    return Decoder(samples, lambda _, d: encode_struct(decode_struct(d)), in_file=False)


def orc_zone() -> Decoder:
    import pyarrow as pa

    from paimon_core.format.orc.zone import file_zone

    samples = _files("types_append_orc/warehouse/db.db/t/bucket-0/*.orc", most=3)
    return Decoder(samples, lambda _, data: file_zone(pa.BufferReader(data)), in_file=False)


DECODERS: dict[str, Callable[[], Decoder]] = {
    f.__name__: f
    for f in (
        manifest, manifest_list, index_manifest, snapshot, schema, tag, consumer, hint, binary_row,
        deletion_vectors, hash_index, parquet_rows, orc_rows, orc_footer, avro_rows, footers, parquet_footer,
        parquet_windows, parquet_pages, parquet_chunks, file_index, global_index, thrift, orc_zone,
    )
}  # fmt: skip


# --- the worker ---------------------------------------------------------------------------------


def inputs(name: str, decoder: Decoder, first: int) -> Iterator[tuple[int, bytes]]:
    """Cases from this number on; the first ones are the sound samples."""
    for number in count(first):
        if number < len(decoder.samples):
            yield number, decoder.samples[number]
            continue
        rng = random.Random(f"{name} {number}")
        damage = damaged_text if decoder.texts else damaged
        yield number, damage(rng.choice(decoder.samples), decoder.samples, rng)


def _check_error(error: Exception, path: str) -> None:
    from paimon_core.errors import PaimonError

    if not isinstance(error, PaimonError):
        raise error
    told = f"{error.file} {error}"
    name = Path(path).parent.name
    if name not in told:
        raise AssertionError(f"the error does not name the file: {told[:500]}") from error


LEAST_CASES = 25
"""So many cases run, however little time there is."""


def most_memory() -> int:
    """The most bytes that this process has had in memory.

    Not `ru_maxrss`, which a process takes over from the one that started it.
    """
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run(name: str, seconds: float, first: int, most: int) -> None:
    """Print each case before it runs, and how it all ended."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    decoder = DECODERS[name]()
    assert decoder.samples, name
    end = time.monotonic() + seconds
    done = 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        path = f"{folder}/data-1{decoder.suffix}"
        for number, data in islice(inputs(name, decoder, first), most):
            print(json.dumps({"case": number}), flush=True)
            Path(path).write_bytes(data)
            try:
                decoder.read(path, data)
            except Exception as e:  # noqa: BLE001 - judged right here
                try:
                    if decoder.sound and number < len(decoder.samples):
                        raise
                    _check_error(e, path if decoder.in_file else "/")
                except Exception:  # noqa: BLE001 - printed
                    told = traceback.format_exc()[-4000:]
                    print(json.dumps({"failed": number, "why": told}), flush=True)
            done += 1
            used = most_memory()
            if used > MOST_BYTES:
                told = f"{used / 2**20:,.0f} MiB of memory"
                print(json.dumps({"failed": number, "why": told}), flush=True)
                break
            # On a busy machine, the time ends before enough was tried.
            if done >= LEAST_CASES and time.monotonic() > end:
                break
    print(json.dumps({"done": done, "bytes": used}), flush=True)


if __name__ == "__main__":
    run(
        sys.argv[1],
        float(sys.argv[2]),
        int(sys.argv[3]) if len(sys.argv) > 3 else 0,
        int(sys.argv[4]) if len(sys.argv) > 4 else 10**9,
    )
