"""Functions of SQL that Spark's Python workers run, which know nothing of `paimon_spark.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa

from paimon_core.api.schema import paimon_type
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.format.blob.descriptor import BlobDescriptor, parse_descriptor
from paimon_core.format.blob.view import BlobView
from paimon_core.types.row_hash import assign_buckets

T = TypeVar("T")


def buckets(kind: str, count: pa.Array, keys: tuple[pa.Array, ...]) -> pa.Array:
    """The bucket of each row; one number of buckets for all.  InvalidArgument without a key."""
    if not keys:
        raise InvalidArgument("a bucket needs the number of buckets, and a column at least")
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


def descriptor_of(*arguments: object) -> bytes | None:
    """The descriptor of the whole file at a path, None for no path; InvalidArgument for others."""
    path = _only(arguments, "path_to_descriptor", str, "STRING")
    return None if path is None else BlobDescriptor(path).to_bytes()


def view_of(table: str | None, field_id: int | None, row_id: int | None) -> bytes | None:
    """The view of a BLOB, None if an argument is null."""
    if table is None or field_id is None or row_id is None:
        return None
    return BlobView(table, field_id, row_id).to_bytes()


def descriptor_text(*arguments: object) -> str | None:
    """The text of a descriptor, None for no descriptor; InvalidArgument for others."""
    data = _only(arguments, "descriptor_to_string", bytes, "BINARY")
    try:
        return None if data is None else str(parse_descriptor(data))
    except ValueError as e:
        raise InvalidArgument(f"descriptor_to_string: {e}") from e


def _only(arguments: Sequence[object], function: str, kind: type[T], word: str) -> T | None:
    """The argument of a function that takes one (Java: `PathToDescriptorUnbound.bind`)."""
    if len(arguments) != 1:
        raise InvalidArgument(
            f"Function '{function}' requires 1 argument, but found {len(arguments)}"
        )
    value = bytes(arguments[0]) if isinstance(arguments[0], bytearray) else arguments[0]
    if value is not None and not isinstance(value, kind):
        raise InvalidArgument(
            f"The first argument of '{function}' must be {word} type, but found {value!r}"
        )
    return value


def presigned_url(data: bytes | None, validity: timedelta | None) -> str | None:
    """None for a null; errors for all else: of Java's stores, only OSS makes such URLs.

    InvalidArgument for another time than whole seconds, ValueError for bytes that are no
    descriptor, else UnsupportedFeature.  Java: `fs/FileIO.createBlobPresignedUrl`.
    """
    if data is None or validity is None:
        return None
    if validity <= timedelta():
        raise InvalidArgument("Validity interval must be positive.")
    if validity.microseconds:
        raise InvalidArgument("Validity interval must contain whole seconds.")
    uri = parse_descriptor(data).uri
    raise UnsupportedFeature(
        "presigned URLs",
        "the store of the table does not support creating blob presigned URLs.",
        file=uri,
        next_step="use sys.try_descriptor_to_presigned_url, which returns null",
    )


def presigned_url_or_null(_: bytes | None, __: timedelta | None) -> str | None:
    """What `presigned_url` returns, and null in place of an error."""
    return None
