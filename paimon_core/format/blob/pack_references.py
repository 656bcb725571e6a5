"""The sidecar of a data file with BLOBs in packs (Java: `blob/ManagedBlobReferenceFile`).

`data-*.parquet.blobref` lists the packs that the rows of `data-*.parquet` name.
All numbers are big endian::

    magic (4 bytes), version 1, count (4), folder and name of each pack, CRC-32 of all but magic
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Final

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.names import is_file_name

REFERENCES_SUFFIX: Final = ".blobref"
PACK_SUFFIX: Final = ".managed.blob"
"""The ending of packs of BLOBs, which many data files share (Java:
`blob/ManagedBlobReferenceFile`)."""
_MAGIC: Final = 0x50424C52
_HEAD: Final = struct.Struct(">iBi")
_CHECKSUM: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">H")
_VERSION: Final = 1


def pack_paths(data: bytes) -> list[str]:
    """Return the paths of the packs in a sidecar's content.

    Raises CorruptTable if it is damaged, UnsupportedFeature for an unknown version.
    """
    end = len(data) - _CHECKSUM.size
    if end < _HEAD.size:
        raise CorruptTable(f"a list of BLOB packs has only {len(data)} bytes")
    magic, version, count = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptTable("a list of BLOB packs has an unknown magic number")
    if version != _VERSION:
        raise UnsupportedFeature(f"version {version} of lists of BLOB packs")
    if _CHECKSUM.unpack_from(data, end) != (zlib.crc32(data[4:end]),):
        raise CorruptTable("a list of BLOB packs does not match its checksum")
    texts = _texts(data[_HEAD.size : end])
    if len(texts) != 2 * count or not all(map(is_file_name, texts[1::2])):
        raise CorruptTable("a list of BLOB packs does not hold its number of packs")
    return [f"{folder.rstrip('/')}/{name}" for folder, name in zip(*[iter(texts)] * 2, strict=True)]


def references(uris: Iterable[str]) -> bytes:
    """Return the content of the sidecar of a data file whose rows have descriptors of these files.

    Only packs are listed.
    """
    packs = sorted({tuple(uri.rsplit("/", 1)) for uri in uris if uri.endswith(PACK_SUFFIX)})
    texts = b"".join(_text(part) for pack in packs for part in pack)
    payload = _HEAD.pack(_MAGIC, _VERSION, len(packs)) + texts
    return payload + _CHECKSUM.pack(zlib.crc32(payload[4:]))


def _text(text: str) -> bytes:
    """Return a text as Java's `writeUTF` stores it."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = b"".join(
        chr(unit).encode("utf-8", "surrogatepass") if unit else b"\xc0\x80"
        for (unit,) in struct.iter_unpack(">H", units)
    )
    return _LENGTH.pack(len(found)) + found


def _texts(data: bytes) -> list[str]:
    """Return texts as Java's `writeUTF` stores them, for those without NUL and beyond the BMP."""
    texts: list[str] = []
    at = 0
    while at < len(data):
        end = at + _LENGTH.size
        size = _LENGTH.unpack_from(data, at)[0] if end <= len(data) else len(data)
        if end + size > len(data):
            raise CorruptTable("a list of BLOB packs ends within a path")
        texts.append(data[end : end + size].decode(errors="replace"))
        at = end + size
    return texts
