"""VARIANT values that Spark 4.2 wrote, as JSON."""

from __future__ import annotations

import struct

import pytest

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.types.variants.variant import variant_json

NO_NAMES = bytes([1, 0, 0])
WIDE = "1234567890" * 3 + "1234.5678"


def test_objects_and_arrays() -> None:
    names = bytes([0x01, 1, 0, 1]) + b"a"
    assert variant_json(bytes([0x02, 1, 0, 0, 2, 0x0C, 1]), names) == '{"a":1}'
    two = bytes([0x03, 2, 0, 1, 3, 0x00, 0x0C, 7])
    assert variant_json(two, NO_NAMES) == "[null,7]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (bytes([0x04]), "true"),
        (bytes([0x08]), "false"),
        (bytes([0x10]) + struct.pack("<h", -300), "-300"),
        (bytes([0x18]) + struct.pack("<q", 2**62), str(2**62)),
        (bytes([0x1C]) + struct.pack("<d", 1.5), "1.5"),
        (bytes([0x1C]) + struct.pack("<d", float("inf")), '"Infinity"'),
        (bytes([0x20, 2]) + struct.pack("<i", 10099), "100.99"),
        (bytes([0x20, 2]) + struct.pack("<i", 1000), "10"),
        (bytes([0x28, 4]) + int("1234567890" * 3 + "12345678").to_bytes(16, "little"), WIDE),
        (bytes([0x2C]) + struct.pack("<i", 19783), '"2024-03-01"'),
        (bytes([0x34]) + struct.pack("<q", 1_500_000), '"1970-01-01 00:00:01.5"'),
        (bytes([0x30]) + struct.pack("<q", 1_000_000), '"1970-01-01 00:00:01+00:00"'),
        (bytes([0x3C]) + struct.pack("<I", 2) + b"hi", '"aGk="'),
        (bytes([0x40]) + struct.pack("<I", 3) + b'a"b', '"a\\"b"'),
        (bytes([2 << 2 | 1]) + b"ok", '"ok"'),
    ],
)
def test_scalars(value: bytes, text: str) -> None:
    assert variant_json(value, NO_NAMES) == text


def test_other_bytes_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="version 2"):
        variant_json(bytes([0]), bytes([2, 0, 0]))
    with pytest.raises(UnsupportedFeature, match="type 17"):
        variant_json(bytes([17 << 2]), NO_NAMES)
    for value in (b"", bytes([9 << 2 | 1]) + b"short", bytes([0x02, 1, 5, 0, 0, 0])):
        with pytest.raises(CorruptTable, match="VARIANT"):
            variant_json(value, NO_NAMES)


def test_small_values_that_stood_for_gigabytes() -> None:
    value = bytes([0])
    for _ in range(50):  # an array of two elements that begin at the same place
        value = bytes([0x03, 2, 0, 0, len(value)]) + value
    with pytest.raises(CorruptTable, match="offsets overlap"):
        variant_json(value, NO_NAMES)
    names = bytes([0x01, 200, *[0, 150] * 100, 0]) + b"n" * 150
    with pytest.raises(CorruptTable, match="names overlap"):
        variant_json(bytes([0]), names)


def test_values_that_are_nested_too_deeply() -> None:
    value = bytes([0x03, 1, 0, 1]) * 20_000 + bytes([0])
    with pytest.raises(CorruptTable, match="nested too deeply"):
        variant_json(value, NO_NAMES)
