"""BLOB files: index, elements and lists of packs, sound and damaged."""

from __future__ import annotations

import random
import struct
import zlib

import pyarrow as pa
import pytest
from blob_files import PLACEHOLDER, blob_file, delta_varints

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.blob.delta_varints import decode_delta_varints
from paimon_core.format.blob.elements import decoder_of
from paimon_core.format.blob.pack_references import pack_paths
from paimon_core.format.blob.reader import check_elements, read_elements, read_index
from paimon_core.types.sql import parse_type

VALUES = [b"one", None, b"", PLACEHOLDER, b"\x00" * 300, b"last"]


def _open(data: bytes) -> pa.NativeFile:
    return pa.BufferReader(data)


def test_delta_varints_come_back() -> None:
    for numbers in ([], [0], [-1, -2, 5, 2**62, -(2**62), 7], list(range(500, 0, -3))):
        assert decode_delta_varints(delta_varints(numbers)).tolist() == numbers


@pytest.mark.parametrize("data", [b"\x80", b"\x01\xff", b"\x80" * 10 + b"\x01"])
def test_damaged_delta_varints_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptTable):
        decode_delta_varints(data)


def test_any_rows_are_read_at_once() -> None:
    source = _open(blob_file(VALUES))
    index = read_index(source)
    wanted = [None if v is PLACEHOLDER else v for v in VALUES]
    for first in range(len(VALUES)):
        for last in range(first, len(VALUES) + 1):
            assert read_elements(source, index, first, last) == wanted[first:last]
    assert check_elements(source) == len(VALUES)


def test_each_damaged_byte_is_found_or_harmless() -> None:
    """Every byte of values, index and footer is covered by a checksum or a check."""
    data = blob_file(VALUES)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        with pytest.raises((CorruptTable, UnsupportedFeature)):
            check_elements(_open(bytes(damaged)))


def test_no_cut_file_is_read() -> None:
    data = blob_file(VALUES)
    for size in range(len(data)):
        with pytest.raises((CorruptTable, UnsupportedFeature)):
            check_elements(_open(data[:size]))


def test_random_bytes_raise_typed_errors_only() -> None:
    rng = random.Random(7)
    decode = [decoder_of(parse_type(t)) for t in ("ARRAY<BLOB>", "MAP<STRING, BLOB>")]
    for magic in (1_094_861_634, 0x4D424342):
        for _ in range(500):
            data = struct.pack("<iBi", magic, 1, rng.randrange(4)) + rng.randbytes(
                rng.randrange(30)
            )
            for d in decode:
                assert d is not None
                try:
                    d(data)
                except (CorruptTable, UnsupportedFeature, UnicodeDecodeError):
                    continue


@pytest.mark.parametrize("text", ["ARRAY<ARRAY<BLOB>>", "MAP<DOUBLE, BLOB>", "ROW<b BLOB>", "INT"])
def test_other_types_have_no_decoder(text: str) -> None:
    assert decoder_of(parse_type(text)) is None


def _references(*packs: tuple[str, str], version: int = 1) -> bytes:
    body = struct.pack(">Bi", version, len(packs))
    for text in (t for pack in packs for t in pack):
        body += struct.pack(">H", len(text.encode())) + text.encode()
    return struct.pack(">I", 0x50424C52) + body + struct.pack(">I", zlib.crc32(body))


def test_packs_of_a_sidecar() -> None:
    data = _references(("file:/t/bucket-0", "a.managed.blob"), ("s3://b/t/", "b.managed.blob"))
    assert pack_paths(data) == ["file:/t/bucket-0/a.managed.blob", "s3://b/t/b.managed.blob"]
    assert pack_paths(_references()) == []
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises((CorruptTable, UnsupportedFeature)):
            pack_paths(damaged)
    with pytest.raises(UnsupportedFeature, match="version 2"):
        pack_paths(_references(version=2))
    with pytest.raises(CorruptTable):
        pack_paths(_references(("file:/t", "../x")))
