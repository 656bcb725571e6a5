"""Small files that stood for endless loops or gigabytes, each by itself."""

from __future__ import annotations

import json
import resource
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from pyroaring import BitMap

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.avro.container import Container, encode_block, encode_header, encode_varint
from paimon_core.format.bounded import inflate
from paimon_core.format.data_format import read_batches
from paimon_core.format.orc.protobuf import read_fields
from paimon_core.format.orc.streams import decompressed
from paimon_core.format.parquet.thrift_compact import decode_struct
from paimon_core.index.deletion_vectors import read_deletion_vectors
from paimon_core.index.file_index.bitmap import BitmapReader
from paimon_core.index.file_index.bloom import BloomReader
from paimon_core.index.file_index.container import decode_indexes
from paimon_core.index.file_index.evaluate import rows_that_may_match
from paimon_core.index.file_index.range_bitmap import RangeBitmapReader
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import DeletionVectorRange, IndexFileMeta
from paimon_core.manifest.manifest_file import read_manifest
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.predicate.nodes import Leaf, Op
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

IO = LocalFileIO()
INT, STRING = parse_type("INT"), parse_type("STRING")
RECORD = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
SYNC = bytes(16)


@contextmanager
def soon(seconds: float = 5.0) -> Iterator[None]:
    """The block takes little of a processor, however many programs share it."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def written(tmp_path: Path, data: bytes, name: str = "file") -> str:
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


# --- Avro ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_manifest, read_manifest_list])
@pytest.mark.parametrize(
    "data",
    [
        b"Obj\x01\xfe\xff\xff\xff\x0f\x01\x01\x01",  # 2^31 - 1 entries of negative lengths
        b"Obj\x01" + b"\x80" * 5000,
        b"Obj\x01\x02\x01",
        b"Obj\x01\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"Obj",
        b"",
    ],
)
def test_headers_that_walk_backwards_or_have_no_end(tmp_path, read, data) -> None:
    path = written(tmp_path, data)
    with soon(), pytest.raises(CorruptTable) as error:
        read(IO, path)
    assert error.value.file == path


@pytest.mark.parametrize("rows", [-1, -(2**40), 2**40, 100])
def test_blocks_that_claim_rows_they_do_not_hold(tmp_path, rows) -> None:
    zigzag = encode_varint(rows) if rows >= 0 else encode_varint(-rows)[:0] + _negative(rows)
    data = encode_header(RECORD, "null", SYNC) + zigzag + encode_varint(4) + b"\x02a\x02b" + SYNC
    with soon(), pytest.raises(CorruptTable, match="rows"):
        list(Container(BytesIO(data)).blocks())
    with soon(), pytest.raises(CorruptTable):
        read_manifest(IO, written(tmp_path, data))


def _negative(value: int) -> bytes:
    number, out = -2 * value - 1, bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def test_entries_whose_texts_walk_backwards(golden) -> None:
    from hostile import _plain_avro

    folder = Path(golden("dedup").root) / "manifest"
    name = next(p for p in sorted(folder.glob("manifest-*")) if "list" not in p.name)
    data = _plain_avro(name.read_bytes())
    container = Container(BytesIO(data))
    (block,) = container.blocks()
    text = block.data.index(b"data-")
    # -1 in place of the length of a name, and of a list's text
    bad = block.data[: text - 1] + b"\x01" + block.data[text:]
    broken = encode_header(container.schema, "null", SYNC) + encode_block(block.rows, bad, SYNC)
    from paimon_core.manifest.entries.decoding import decode_entries

    with soon(), pytest.raises((CorruptTable, ValueError, IndexError, KeyError)):
        decode_entries(Container(BytesIO(broken)))


def _zeros(gigabytes: int) -> bytes:
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    chunk = bytes(2**20)
    parts = [compressor.compress(chunk) for _ in range(1024 * gigabytes)]
    return b"".join([*parts, compressor.flush()])


def test_some_bytes_of_zstd_that_stand_for_gigabytes(tmp_path) -> None:
    bomb = _zeros(4)
    assert len(bomb) < 500_000
    data = encode_header(RECORD, "zstandard", SYNC) + encode_block(1, bomb, SYNC)
    path = written(tmp_path, data)
    told = _in_a_process(
        f"from paimon_core.io.local import LocalFileIO\n"
        f"from paimon_core.manifest.manifest_list import read_manifest_list\n"
        f"read_manifest_list(LocalFileIO(), {path!r})\n"
    )
    assert told["error"] == "CorruptTable"
    assert "decompress to more than" in told["text"]
    assert path in told["text"]
    assert told["bytes"] < 512 * 2**20
    assert told["seconds"] < 10


def test_many_of_them_at_once(tmp_path) -> None:
    """Threads read manifests side by side: on an object store, dozens of them."""
    data = encode_header(RECORD, "zstandard", SYNC) + encode_block(1, _zeros(1), SYNC)
    path = written(tmp_path, data)
    told = _in_a_process(
        f"from concurrent.futures import ThreadPoolExecutor\n"
        f"from paimon_core.io.local import LocalFileIO\n"
        f"from paimon_core.manifest.manifest_file import read_manifest\n"
        f"with ThreadPoolExecutor(16) as pool:\n"
        f"    all_of_them = [pool.submit(read_manifest, LocalFileIO(), {path!r}) for _ in range(16)]\n"
        f"assert all('decompress to more' in str(f.exception()) for f in all_of_them)\n"
    )
    assert told["error"] == "NoneType"
    assert told["bytes"] < 350 * 2**20


def _in_a_process(code: str) -> dict:
    """What the code raised, and the processor time and the memory that it took."""
    script = (
        "import json, time\n"
        "began, error = time.process_time(), None\n"
        "try:\n"
        + "".join(f"    {line}\n" for line in code.splitlines())
        + "except Exception as e:\n"
        "    error = e\n"
        "used = int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) * 1024\n"
        "print(json.dumps({'error': type(error).__name__, 'text': str(error), 'bytes': used,\n"
        "                  'seconds': time.process_time() - began}))\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        ("zstandard", zstandard.ZstdCompressor().compress(bytes(10**7))),
        ("deflate", zlib.compress(bytes(10**7), 9)[2:-4]),
        ("snappy", bytes(pa.Codec("snappy").compress(bytes(10**6), asbytes=True))),
        ("snappy", b"\xff\xff\xff\xff\x0f" + b"x"),
        ("snappy", b"\xff" * 100),
        ("bzip2", __import__("bz2").compress(bytes(10**7))),
        ("xz", __import__("lzma").compress(bytes(10**7))),
        ("lz4", bytes(pa.Codec("lz4_raw").compress(bytes(10**6), asbytes=True))),
        ("null", bytes(10**6)),
    ],
)
def test_every_codec_has_a_limit(codec, data) -> None:
    with soon(), pytest.raises(CorruptTable):
        inflate(codec, data, 100_000)


@pytest.mark.parametrize("codec", ["zstandard", "deflate", "snappy", "bzip2", "xz", "lz4"])
def test_damaged_bytes_of_every_codec(codec) -> None:
    for data in (b"", b"\x01", b"garbage" * 10):
        with suppress(CorruptTable):
            assert len(inflate(codec, data, 1000)) <= 1000


def test_lz4_repeats_what_it_should() -> None:
    plain = b"abcabcabcabc" * 50 + bytes(300) + b"end"
    packed = bytes(pa.Codec("lz4_raw").compress(plain, asbytes=True))
    assert inflate("lz4", packed, len(plain)) == plain


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "r"}]},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": 2**60}}]},
        {"type": "record", "name": "r", "fields": [{"name": 5, "type": "int"}]},
        {"type": "array", "items": "int"},
        "int",
    ],
)  # fmt: skip
def test_schemas_whose_values_need_not_end(tmp_path, schema) -> None:
    data = encode_header(schema, "null", SYNC) + encode_block(1, b"\xfe" * 9 + b"\x01" * 9, SYNC)
    path = written(tmp_path, data)
    with soon(), pytest.raises(CorruptTable) as error:
        read_manifest_list(IO, path)
    assert error.value.file == path


def test_a_schema_that_is_nested_too_deeply(tmp_path) -> None:
    deep = '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000
    header = bytearray(b"Obj\x01") + encode_varint(1)
    header += encode_varint(11) + b"avro.schema" + encode_varint(len(deep)) + deep.encode()
    with soon(), pytest.raises(CorruptTable, match="nested"):
        read_manifest_list(IO, written(tmp_path, bytes(header) + b"\0" + SYNC))


def test_more_records_than_a_file_can_hold(tmp_path) -> None:
    empty = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "int"]}]}
    block = zstandard.ZstdCompressor().compress(bytes(200_000))
    data = encode_header(empty, "zstandard", SYNC) + encode_block(200_000, block, SYNC)
    with soon(), pytest.raises(CorruptTable, match="more records than"):
        read_manifest_list(IO, written(tmp_path, data))


# --- rows, vectors, indexes ---------------------------------------------------------------------


def test_arrays_whose_elements_overlap() -> None:
    """Each level names the level below a hundred times: a hundred to the fifth strings."""
    t = parse_type("ARRAY<ARRAY<ARRAY<ARRAY<ARRAY<STRING>>>>>")
    count = 100
    header = 4 + (count + 31) // 32 * 4
    array = struct.pack("<i", count) + bytes(header - 4)
    array += b"".join(struct.pack("<Q", 0 << 32 | header + 8 * count) for _ in range(count))
    row = struct.pack(">i", 1) + bytes(8) + struct.pack("<Q", 16 << 32 | len(array)) + array
    with soon(), pytest.raises(CorruptTable):
        decode_row(row, [t])


def test_a_decimal_of_a_megabyte() -> None:
    body = b"\x7f" * 2**20
    row = struct.pack(">i", 1) + bytes(8) + struct.pack("<Q", 16 << 32 | len(body)) + body
    with soon(), pytest.raises(CorruptTable) as error:
        decode_row(row, [parse_type("DECIMAL(38, 2)")])
    assert len(str(error.value)) < 2000


def test_a_vector_of_runs_that_deletes_billions_of_rows(tmp_path) -> None:
    bitmap = BitMap()
    bitmap.add_range(0, 2**32)
    body = struct.pack(">i", 1581511376) + bytes(bitmap.serialize())
    data = b"\1" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    path = written(tmp_path, data)
    for cardinality in (None, 2**32):
        meta = IndexFileMeta(
            index_type="DELETION_VECTORS", file_name="i", file_size=len(data), row_count=1,
            dv_ranges=(DeletionVectorRange("f", 1, len(body), cardinality),),
        )  # fmt: skip
        with soon(), pytest.raises(UnsupportedFeature) as error:
            read_deletion_vectors(IO, path, meta)
        assert error.value.file == path
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 * 2**20


def _index(kind: str, data: bytes) -> bytes:
    from paimon_core.index.file_index.container import encode_indexes

    return encode_indexes({"c": {kind: data}})


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("bloom-filter", b"\xff\xff\xff\xff" + bytes(100)),
        ("bloom-filter", b"\0\0\0\1"),
        ("bitmap", b"\1" + struct.pack(">ii?", 10, 2**31 - 1, False) + struct.pack(">i", -4) * 9),
        ("bitmap", b"\2" + struct.pack(">ii?", 10, 1, False) + struct.pack(">i", 2**31 - 1)),
        ("bsi", struct.pack(">bi?", 1, 10, True) + struct.pack(">bqq", 1, 0, 5) + bytes(9)),
    ],
)
def test_indexes_whose_counts_are_lies(kind, data) -> None:
    fields = RowType(fields=(DataField(id=0, name="c", type=STRING if kind == "bitmap" else INT),))
    value = "x" if kind == "bitmap" else 3
    with soon(), pytest.raises(CorruptTable, match="cannot be decoded"):
        rows_that_may_match(_index(kind, data), Leaf(Op.EQ, "c", (value,)), fields)


def test_readers_of_indexes_that_go_on_behind_the_data() -> None:
    head = struct.pack(">bii", 1, 5, 2**31 - 1) + bytes(8) + struct.pack(">i", 100)
    keys = struct.pack(">i", 13) + struct.pack(">biii", 1, 1, 4, 100) + bytes(4)
    keys += b"\1" + bytes(4) + struct.pack(">iiiii", 0, 0, 2**31 - 1, 8, 4)
    data = struct.pack(">i", len(head)) + head + keys
    with soon(), pytest.raises((ValueError, IndexError, struct.error)):
        RangeBitmapReader(data, INT)
    with soon(), pytest.raises((ValueError, IndexError, struct.error)):
        BitmapReader(b"\1" + struct.pack(">ii?", 1, 2**31 - 1, False) + bytes(40), INT)
    with pytest.raises(ValueError, match="bloom"):
        BloomReader(b"\x7f\xff\xff\xff" + bytes(8), INT)


def test_chunks_of_a_dictionary_that_all_hold_the_same_long_key() -> None:
    chunks, length = 2_000, 50_000
    one = b"\1" + bytes(4) + struct.pack(">iiiii", 0, 0, 1, 0, length + 4)
    places = struct.pack(">biii", 1, chunks, 0, len(one) * chunks)
    keys = struct.pack(">i", len(places)) + places + one * chunks
    keys += struct.pack(">i", length) + bytes(length)
    head = struct.pack(">bii", 1, 5, 2 * chunks) + bytes(8) + struct.pack(">i", len(keys))
    with soon(), pytest.raises(ValueError, match="a dictionary of more than"):
        RangeBitmapReader(struct.pack(">i", len(head)) + head + keys, STRING)


def test_slices_that_are_all_the_same_large_bitmap() -> None:
    keys = struct.pack(">i", 13) + struct.pack(">biii", 1, 0, 0, 0)
    large = bytes(BitMap(range(0, 2_000_000, 2)).serialize())
    places = struct.pack(">ii", 0, len(large)) * 100
    present = bytes(BitMap().serialize())
    codes = struct.pack(">bbii", 1, 100, len(present), len(places)) + places
    codes = struct.pack(">i", len(codes)) + codes + present + large
    head = struct.pack(">bii", 1, 5, 2) + bytes(8) + struct.pack(">i", len(keys))
    with pytest.raises(ValueError, match="bitmaps of more than"):
        RangeBitmapReader(struct.pack(">i", len(head)) + head + keys + codes, INT)


def test_indexes_that_all_name_the_whole_file() -> None:
    kinds = 3000
    head = struct.pack(">qii", 1493475289347502, 1, 0) + struct.pack(">i", 1)
    entries = b"".join(
        b"\0\2%02x" % (i % 256) + struct.pack(">ii", 0, 60_000) for i in range(kinds)
    )
    data = head + b"\0\1c" + struct.pack(">i", kinds) + entries + bytes(60_000)
    with soon(), pytest.raises(CorruptTable, match="overlap"):
        decode_indexes(data)


# --- footers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"\x1c" * 5000, b"\x19\xfc" * 5000 + b"\0", b"\x15" + b"\x80" * 5000, b"\x18\xff\xff\xff\x0f"]
)  # fmt: skip
def test_thrift_that_is_deep_or_has_no_end(data) -> None:
    with soon(), pytest.raises(CorruptTable):
        decode_struct(data)


def test_protobuf_that_has_no_end() -> None:
    for data in (b"\x80" * 5000, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b"):
        with soon(), pytest.raises(CorruptTable):
            list(read_fields(data))


def test_an_orc_footer_of_gigabytes() -> None:
    blocks = []
    block = zlib.compress(bytes(8 * 2**20 - 1), 9)[2:-4]
    for _ in range(100):
        blocks.append((len(block) << 1).to_bytes(3, "little") + block)  # noqa: PERF401
    with soon(), pytest.raises(CorruptTable, match="decompress to more"):
        decompressed(b"".join(blocks), 1)


def _damaged_parquet(change: Callable[[bytes], bytes]) -> bytes:
    from paimon_core.format.parquet.footer import footer_of

    sink = BytesIO()
    pq.write_table(pa.table({"c": np.arange(40_000, dtype=np.int32)}), sink, row_group_size=20_000)
    whole = sink.getvalue()
    footer = footer_of(whole)
    changed = change(footer)
    tail = changed + len(changed).to_bytes(4, "little") + b"PAR1"
    return whole[: -8 - len(footer)] + tail


@pytest.mark.parametrize("what", ["type", "codec"])
def test_footers_that_made_arrow_end_the_process(tmp_path, what) -> None:
    from paimon_core.format.parquet.thrift_compact import encode_struct, field_value

    def change(footer: bytes) -> bytes:
        decoded = decode_struct(footer)
        for group in field_value(decoded, 4).items:
            for chunk in field_value(group, 1).items:
                for field in field_value(chunk, 3):
                    if field.id == {"type": 1, "codec": 4}[what]:
                        field.value = 3 if what == "type" else 22
        return encode_struct(decoded)

    path = written(tmp_path, _damaged_parquet(change), "data-1.parquet")
    told = _in_a_process(
        "from paimon_core.format.row_groups import row_group_ends\n"
        "from paimon_core.io.local import LocalFileIO\n"
        "from paimon_core.types.data_types import DataField\n"
        "from paimon_core.types.sql import parse_type\n"
        f"row_group_ends(LocalFileIO(), {path!r}, DataField(id=0, name='c', type=parse_type('INT')))\n"
    )
    assert told["error"] == "CorruptTable"
    assert path in told["text"]


@pytest.mark.parametrize("what", [1, 2, 3])
def test_sizes_of_another_type_that_made_arrow_end_the_process(what) -> None:
    """Counts of bytes of a column without texts, or of levels that a column does not have."""
    from paimon_core.format.parquet.footer import read_checked_footer
    from paimon_core.format.parquet.thrift_compact import (
        I64,
        LIST,
        Field,
        ThriftList,
        encode_struct,
        field_value,
    )

    def change(footer: bytes) -> bytes:
        decoded = decode_struct(footer)
        group = field_value(decoded, 4).items[0]
        sizes = field_value(field_value(field_value(group, 1).items[0], 3), 16)
        kept = [f for f in sizes if f.id != what]
        lie = Field(what, I64, 7) if what == 1 else Field(what, LIST, ThriftList(I64, [1, 2, 3]))
        sizes[:] = sorted([*kept, lie], key=lambda f: f.id)
        return encode_struct(decoded)

    assert read_checked_footer(pa.BufferReader(_damaged_parquet(lambda f: f))).num_columns
    with pytest.raises(CorruptTable, match="size statistics"):
        read_checked_footer(pa.BufferReader(_damaged_parquet(change)))


def test_a_null_key_of_a_map_that_made_arrow_end_the_process() -> None:
    told = _in_a_process(
        "import pyarrow as pa\n"
        "from paimon_core.format.arrow_conversion import with_children\n"
        "maps = pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32()))\n"
        "with_children(maps, maps.type, [pa.array([None], pa.int32()), maps.items])\n"
    )
    assert told["error"] == "CorruptTable"
    assert "a map has a null key" in told["text"]


def test_types_of_an_orc_file_that_made_arrow_end_the_process(tmp_path, golden) -> None:
    from paimon_core.format.orc.protobuf import blob, number, packed

    def orc(types: list[bytes]) -> bytes:
        footer = number(1, 3) + number(2, 0) + b"".join(blob(4, t) for t in types) + number(6, 0)
        postscript = number(1, len(footer)) + number(2, 0) + number(3, 65536)
        postscript += packed(4, [0, 12]) + number(5, 0) + blob(8000, "ORC")
        return b"ORC" + footer + postscript + bytes([len(postscript)])

    struct_of_one = number(1, 12) + packed(2, [1]) + blob(3, "c")
    cases = {
        "decimal": [struct_of_one, number(1, 14) + number(5, 62)],
        "own child": [number(1, 12) + packed(2, [0]) + blob(3, "c")],
        "no such child": [number(1, 12) + packed(2, [7]) + blob(3, "c")],
        "parents": [number(1, 12) + packed(2, [1, 2]) + blob(3, "a") + blob(3, "b"), number(1, 10) + packed(2, [2]), number(1, 3)],
    }  # fmt: skip
    for name, types in cases.items():
        path = written(tmp_path, orc(types), "data-1.orc")
        told = _in_a_process(
            "from paimon_maintenance.verify.footers import count_rows\n"
            "from paimon_core.io.local import LocalFileIO\n"
            f"count_rows(LocalFileIO(), {path!r})\n"
        )
        assert told["error"] == "CorruptTable", name
        assert path in told["text"]


def test_a_slice_of_a_changelog_that_is_longer_than_its_file(tmp_path) -> None:
    bucket = tmp_path / "bucket-1"
    bucket.mkdir()
    (bucket / "compacted-changelog-u$1-10.cc-parquet").write_bytes(b"0123456789")
    path = f"{tmp_path}/bucket-1/compacted-changelog-u$1-10-5-{10**15}.cc-parquet"
    with soon(), pytest.raises(CorruptTable, match="ends before byte"):
        list(read_batches(IO, path, RowType()))
