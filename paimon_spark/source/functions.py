"""Functions of SQL that Spark's Python workers run, which know nothing of `paimon_spark.sql`."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from paimon_core.api.schema import paimon_type
from paimon_core.types.row_hash import assign_buckets

_VERSION: Final = 2
_MAGIC: Final = 0x424C4F4244455343
"""BLOBDESC"""


def buckets(kind: str, count: pa.Array, keys: tuple[pa.Array, ...]) -> pa.Array:
    """The bucket of each row; one number of buckets for all."""
    if not len(count):
        return pa.array([], pa.int32())
    types = [paimon_type(k.type) for k in keys]
    numbers = set(count.to_pylist())
    if len(numbers) == 1:
        return pa.array(assign_buckets(keys, types, int(numbers.pop()), kind), pa.int32())
    rows = [
        assign_buckets([k.slice(i, 1) for k in keys], types, int(n), kind)[0]
        for i, n in enumerate(count.to_pylist())
    ]
    return pa.array(rows, pa.int32())


def descriptor_of(path: str | None) -> bytes | None:
    """The descriptor of a whole file, None for no path."""
    if path is None:
        return None
    uri = path.encode()
    return struct.pack(f"<Bqi{len(uri)}sqq", _VERSION, _MAGIC, len(uri), uri, 0, -1)


def descriptor_text(data: bytes | None) -> str | None:
    """The text of a descriptor.  ValueError for bytes that are none."""
    if data is None:
        return None
    try:
        version = data[0]
        if version > _VERSION:
            raise ValueError(
                f"Expecting BlobDescriptor version to be less than or equal to {_VERSION}, but "
                f"found {version}."
            )
        at = 1
        if version > 1:
            (magic,) = struct.unpack_from("<q", data, at)
            at += 8
            if magic != _MAGIC:
                raise ValueError("Invalid BlobDescriptor: missing magic header")
        (length,) = struct.unpack_from("<i", data, at)
        uri = struct.unpack_from(f"<{length}s", data, at + 4)[0].decode()
        offset, size = struct.unpack_from("<qq", data, at + 4 + length)
    except (struct.error, IndexError, UnicodeDecodeError) as e:
        raise ValueError("Invalid BlobDescriptor data") from e
    return f"BlobDescriptor{{version={version}, uri='{uri}', offset={offset}, length={size}}}"
