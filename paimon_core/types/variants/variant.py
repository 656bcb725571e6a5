"""VARIANT values as JSON text (Java: `data/variant/GenericVariantUtil`; Parquet Variant encoding).

A value has two parts: `metadata` holds the names of all fields, `value` the value, which refers to
the names by their places.  In Arrow it is a struct of both.
"""

from __future__ import annotations

import base64
import json
import struct
from itertools import pairwise
from typing import Any, Final

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.types import datetimes
from paimon_core.types.decimals import from_unscaled
from paimon_core.types.java_numbers import double_text, float_text

_VERSION: Final = 1
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_INTEGERS: Final = {3: 1, 4: 2, 5: 4, 6: 8}
_DECIMALS: Final = {8: 4, 9: 8, 10: 16}


def variant_json(value: bytes, metadata: bytes) -> str:
    """Return the JSON text of a value, as Spark's `to_json` writes it.

    Raises CorruptTable for bytes that are no VARIANT, UnsupportedFeature for a newer encoding.
    """
    try:
        return _Decoder(value, _names(metadata)).text(0)
    except (IndexError, struct.error, UnicodeDecodeError) as e:
        raise CorruptTable(f"a VARIANT value cannot be decoded: {e}") from e
    except RecursionError as e:
        raise CorruptTable("a VARIANT value is nested too deeply") from e


def _names(metadata: bytes) -> list[str]:
    version = metadata[0] & 0x0F
    if version != _VERSION:
        raise UnsupportedFeature(f"version {version} of the VARIANT encoding")
    width = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, width)
    first = 1 + width
    text = first + (count + 1) * width
    offsets = [_unsigned(metadata, first + i * width, width) for i in range(count + 1)]
    if any(begin > end for begin, end in pairwise(offsets)):
        raise IndexError("its names overlap")
    return [metadata[text + offsets[i] : text + offsets[i + 1]].decode() for i in range(count)]


def _unsigned(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise IndexError(f"{width} bytes at {at} of {len(data)}")
    return int.from_bytes(data[at : at + width], "little")


class _Decoder:
    def __init__(self, data: bytes, names: list[str]) -> None:
        self._data = data
        self._names = names
        self._left = len(data)

    def text(self, at: int) -> str:
        """Return the JSON of the value at this place.

        Each part of a value takes at least one byte, so that more parts than bytes mean offsets
        that point to the same parts again and again.
        """
        self._left -= 1
        if self._left < 0:
            raise IndexError("its offsets overlap")
        kind, header = self._data[at] & 3, self._data[at] >> 2
        if kind == _SHORT_STRING:
            return _quoted(self._bytes(at + 1, header).decode())
        if kind == _OBJECT:
            return self._object(at + 1, header)
        if kind == _ARRAY:
            return self._array(at + 1, header)
        return self._primitive(at + 1, header)

    def _bytes(self, at: int, length: int) -> bytes:
        if at + length > len(self._data):
            raise IndexError(f"{length} bytes at {at} of {len(self._data)}")
        return self._data[at : at + length]

    def _object(self, at: int, header: int) -> str:
        width, id_width = (header & 3) + 1, (header >> 2 & 3) + 1
        count, at = self._count(at, large=bool(header >> 4 & 1))
        ids = [_unsigned(self._data, at + i * id_width, id_width) for i in range(count)]
        at += count * id_width
        offsets = [_unsigned(self._data, at + i * width, width) for i in range(count)]
        at += (count + 1) * width
        parts = [
            f"{_quoted(self._names[i])}:{self.text(at + o)}"
            for i, o in zip(ids, offsets, strict=True)
        ]
        return "{" + ",".join(parts) + "}"

    def _array(self, at: int, header: int) -> str:
        width = (header & 3) + 1
        count, at = self._count(at, large=bool(header >> 2 & 1))
        offsets = [_unsigned(self._data, at + i * width, width) for i in range(count)]
        at += (count + 1) * width
        return "[" + ",".join(self.text(at + o) for o in offsets) + "]"

    def _count(self, at: int, *, large: bool) -> tuple[int, int]:
        width = 4 if large else 1
        return _unsigned(self._data, at, width), at + width

    def _primitive(self, at: int, header: int) -> str:
        if header in _INTEGERS:
            return str(int.from_bytes(self._bytes(at, _INTEGERS[header]), "little", signed=True))
        if header in _DECIMALS:
            stored = int.from_bytes(self._bytes(at + 1, _DECIMALS[header]), "little", signed=True)
            text = f"{from_unscaled(stored, self._data[at]):f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
        match header:
            case 0:
                return "null"
            case 1 | 2:
                return "true" if header == 1 else "false"
            case 7:
                return _number(double_text(self._unpacked("<d", at, 8)))
            case 14:
                return _number(float_text(self._unpacked("<f", at, 4)))
            case 11:
                return _quoted(datetimes.iso_date(self._unpacked("<i", at, 4)))
            case 12 | 13:
                nanos = self._unpacked("<q", at, 8) * 1000
                text = datetimes.iso_timestamp(nanos, 6).replace("T", " ")
                return _quoted(_trimmed(text) + ("+00:00" if header == 12 else ""))
            case 15 | 16:
                length = _unsigned(self._data, at, 4)
                found = self._bytes(at + 4, length)
                return _quoted(found.decode() if header == 16 else base64.b64encode(found).decode())
        raise UnsupportedFeature(f"type {header} of the VARIANT encoding")

    def _unpacked(self, layout: str, at: int, length: int) -> Any:
        return struct.unpack(layout, self._bytes(at, length))[0]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(text: str) -> str:
    return text if text[-1].isdigit() else _quoted(text)


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
