"""Where the bytes of a BLOB are (Java: `data/BlobDescriptor`).

All numbers are little endian::

    version (1 byte), magic number (8 bytes, from version 2 on), length of the URI (4 bytes), URI,
    offset (8 bytes), length (8 bytes; -1: up to the end of the file)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.blob.view import view_columns
from paimon_core.io.file_io import FileIO
from paimon_core.io.local import local_path
from paimon_core.io.open import open_file_io
from paimon_core.options import Options
from paimon_core.types.data_types import RowType, TypeRoot, type_roots

_VERSION: Final = 2
_MAGIC: Final = struct.pack("<q", 0x424C4F4244455343)
"""BLOBDESC"""
_RANGE: Final = struct.Struct("<qq")
_SIZE: Final = struct.Struct("<i")
_LOCAL: Final = "file"
OF_DESCRIPTORS: Final = "blob-descriptor."
"""The prefix of options of the store of files that new rows name."""
_SOURCE_TABLE: Final = f"{OF_DESCRIPTORS}source-table"
_COLUMNS: Final = ("blob-descriptor-field", "blob.stored-descriptor-fields")
"""The option, and its older name."""


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """A range of bytes of a file; `length` -1 is all of them from `offset` on."""

    uri: str
    offset: int = 0
    length: int = -1
    version: int = _VERSION

    def to_bytes(self) -> bytes:
        uri = self.uri.encode()
        head = bytes([_VERSION]) + _MAGIC + _SIZE.pack(len(uri))
        return head + uri + _RANGE.pack(self.offset, self.length)

    def __str__(self) -> str:
        return (
            f"BlobDescriptor{{version={self.version}, uri='{self.uri}', offset={self.offset}, "
            f"length={self.length}}}"
        )


def descriptor_columns(options: Options) -> tuple[str, ...]:
    """Return the BLOB columns whose descriptors are in the data files, instead of their bytes."""
    return tuple(n for key in _COLUMNS for n in options.names(key))


def dedicated_columns(columns: RowType, options: Options) -> set[str]:
    """Return the columns of BLOBs that are in files of their own."""
    blobs = {f.name for f in columns if TypeRoot.BLOB in type_roots(f.type)}
    return blobs - {*descriptor_columns(options), *view_columns(options)}


def is_descriptor(data: bytes) -> bool:
    """Return whether a value is a descriptor, as Java decides it."""
    head = len(_MAGIC) + 1
    return len(data) >= head and data[0] <= _VERSION and data[1:head] == _MAGIC


def parse_descriptor(data: bytes) -> BlobDescriptor:
    """Return the descriptor in these bytes; ValueError for others."""
    try:
        version = data[0]
        if version > _VERSION:
            raise ValueError(
                f"Expecting BlobDescriptor version to be less than or equal to {_VERSION}, but "
                f"found {version}."
            )
        at = 1
        if version > 1:
            if data[at : at + len(_MAGIC)] != _MAGIC:
                raise ValueError("Invalid BlobDescriptor: missing magic header")
            at += len(_MAGIC)
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        (uri,) = struct.unpack_from(f"<{size}s", data, at)
        offset, length = _RANGE.unpack_from(data, at + size)
        return BlobDescriptor(uri.decode(), offset, length, version)
    except (struct.error, IndexError, UnicodeDecodeError) as e:
        raise ValueError("Invalid BlobDescriptor data") from e


def read_descriptor(
    io: FileIO, root: str, descriptor: BlobDescriptor, options: Mapping[str, str]
) -> bytes:
    """Return the bytes; UnsupportedFeature unless they are on the store of `root`.

    Or on the store that options of the prefix `blob-descriptor.` describe (Java:
    `BlobDescriptorReaderFactory`).  Raises FileNotFoundError for a missing file, ValueError if it
    ends before the range.
    """
    io, path = _located(io, root, descriptor.uri, options)
    with io.open_input(path) as source:
        length = descriptor.length
        if length < 0:
            length = source.size() - descriptor.offset
        data = bytes(source.read_at(length, descriptor.offset))
    if len(data) != length:
        raise ValueError(f"{descriptor.uri} ends before offset {descriptor.offset + length}")
    return data


def _located(io: FileIO, root: str, uri: str, options: Mapping[str, str]) -> tuple[FileIO, str]:
    """Return the store of the URI, and its path there."""
    scheme = _LOCAL if uri.startswith("/") else uri.partition(":")[0]
    of_table = root.partition("://")[0] if "://" in root else _LOCAL
    own = {
        k.removeprefix(OF_DESCRIPTORS): v
        for k, v in options.items()
        if k.startswith(OF_DESCRIPTORS) and k != _SOURCE_TABLE
    }
    if own and scheme != _LOCAL and "://" in uri:
        authority = uri.partition("://")[2].partition("/")[0]
        return _store(f"{scheme}://{authority}", tuple(sorted(own.items()))), uri
    if scheme != of_table:
        raise UnsupportedFeature(
            f"BLOBs of {scheme}: in a table on {of_table}",
            file=uri,
            next_step=f"set the options of this store with the prefix {OF_DESCRIPTORS}, pass the "
            "bytes themselves, or copy the file to the store of the table",
        )
    return io, local_path(uri) if scheme == _LOCAL else uri


@lru_cache(maxsize=16)
def _store(url: str, options: tuple[tuple[str, str], ...]) -> FileIO:
    return open_file_io(url, dict(options))[0]
