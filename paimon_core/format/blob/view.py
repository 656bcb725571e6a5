"""A BLOB of a row of another table (Java: `data/BlobViewStruct`).

All numbers are little endian::

    version 1 (1 byte), magic number (8 bytes), length of the name (4 bytes), name of the table,
    id of its column (4 bytes), id of its row (8 bytes)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.options import Option, Options, parse_bool

BLOB_VIEW_FIELD: Final = "blob-view-field"
VIEW_RESOLVE: Final = Option("blob-view.resolve.enabled", parse_bool, default=True)
_VERSION: Final = 1
_MAGIC: Final = struct.pack("<q", 0x424C4F4256494557)
"""BLOBVIEW"""
_SIZE: Final = struct.Struct("<i")
_TAIL: Final = struct.Struct("<iq")
_HEAD: Final = 1 + len(_MAGIC)


@dataclass(frozen=True, slots=True)
class BlobView:
    """The BLOB in this column of this row; `table` is DATABASE.TABLE."""

    table: str
    field_id: int
    row_id: int

    def to_bytes(self) -> bytes:
        name = self.table.encode()
        head = bytes([_VERSION]) + _MAGIC + _SIZE.pack(len(name))
        return head + name + _TAIL.pack(self.field_id, self.row_id)


def view_columns(options: Options) -> tuple[str, ...]:
    """Return the columns that hold views."""
    return options.names(BLOB_VIEW_FIELD)


def is_view(data: bytes) -> bool:
    """Return whether a value is a view, as Java decides it."""
    return len(data) >= _HEAD and data[0] == _VERSION and data[1:_HEAD] == _MAGIC


def parse_view(data: bytes) -> BlobView:
    """Return the view in these bytes.

    UnsupportedFeature for another version, CorruptTable for other bytes.
    """
    if data[:1] and data[0] != _VERSION:
        raise UnsupportedFeature(f"version {data[0]} of BLOB views")
    try:
        if data[1:_HEAD] != _MAGIC:
            raise CorruptTable("the value of a BLOB view is none")
        (size,) = _SIZE.unpack_from(data, _HEAD)
        at = _HEAD + _SIZE.size
        (name,) = struct.unpack_from(f"<{size}s", data, at)
        field_id, row_id = _TAIL.unpack_from(data, at + size)
        return BlobView(name.decode(), field_id, row_id)
    except (struct.error, UnicodeDecodeError) as e:
        raise CorruptTable("the value of a BLOB view is cut off") from e
