"""Finds the partition and bucket of each row (Java: `table/sink/KeyAndBucketExtractor`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.index.hash_index import Hashes
from paimon_core.manifest.data_file import EMPTY_ROW
from paimon_core.options import BUCKET, BUCKET_FUNCTION
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.types.binary_rows import encode_rows
from paimon_core.types.row_hash import assign_buckets, hash_rows

Buckets = npt.NDArray[np.int64]
AssignDynamic = Callable[[bytes, Hashes], Buckets]
"""Returns the buckets of a partition's keys, given by their hashes."""


@dataclass(frozen=True, slots=True)
class Routed:
    """Rows of one batch for the same bucket, in the order of arrival."""

    partition: bytes
    bucket: int
    rows: npt.NDArray[np.int64]


def route(
    table: FileStoreTable,
    batch: pa.RecordBatch,
    *,
    dynamic: AssignDynamic,
    bucket: int | None,
) -> list[Routed]:
    """Group the rows of the batch by partition (stored row bytes) and bucket.

    `dynamic` finds the buckets of a dynamic-bucket table; `bucket` sends all rows to one.
    """
    if batch.num_rows == 0:
        return []
    partitions, codes = partition_codes(table, batch)
    if bucket is not None:
        buckets = np.full(batch.num_rows, bucket, np.int64)
    else:
        buckets = _buckets(table, batch, partitions, codes, dynamic)
    return by_bucket(partitions, codes, buckets)


def by_bucket(
    partitions: list[bytes], codes: npt.NDArray[np.int64], buckets: Buckets
) -> list[Routed]:
    """Group rows by partition (as index into `partitions`) and bucket."""
    lowest = int(buckets.min())
    count = int(buckets.max()) - lowest + 1
    combined = codes * count + (buckets - lowest)
    order = np.argsort(combined, kind="stable")
    arranged = combined[order]
    starts = np.flatnonzero(np.r_[True, arranged[1:] != arranged[:-1]])
    result = []
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        partition, bucket = divmod(int(arranged[start]), count)
        result.append(Routed(partitions[partition], bucket + lowest, order[start:end]))
    return result


def partition_codes(
    table: FileStoreTable, batch: pa.RecordBatch
) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """Return the distinct partitions of the batch, and each row's index into them."""
    keys = table.schema.partition_keys
    codes = np.zeros(batch.num_rows, np.int64)
    first = codes[:1]
    if not keys:
        return [EMPTY_ROW], codes
    for key in keys:
        encoded = batch.column(key).dictionary_encode()
        index = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        combined = codes * (len(encoded.dictionary) + 1) + index
        # Renumber at each step, so that many columns cannot overflow.
        _, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    firsts = pa.array(first)
    return encode_rows(
        [batch.column(k).take(firsts) for k in keys], table.schema.partition_type.types
    ), codes.astype(np.int64)


def key_hashes(table: FileStoreTable, batch: pa.RecordBatch) -> Hashes:
    """Return the hash of each row's trimmed primary key."""
    key = table.schema.key_type
    return hash_rows([batch.column(f.name) for f in key], key.types)


def _buckets(
    table: FileStoreTable,
    batch: pa.RecordBatch,
    partitions: list[bytes],
    codes: npt.NDArray[np.int64],
    dynamic: AssignDynamic,
) -> Buckets:
    match table.bucket_mode:
        case BucketMode.FIXED:
            return fixed_buckets(table, batch, table.options.value(BUCKET))
        case BucketMode.POSTPONE:
            return np.full(batch.num_rows, POSTPONE_BUCKET, np.int64)
        case BucketMode.DYNAMIC:
            hashes = key_hashes(table, batch)
            buckets = np.zeros(batch.num_rows, np.int64)
            for code, partition in enumerate(partitions):
                mine = np.flatnonzero(codes == code) if len(partitions) > 1 else slice(None)
                buckets[mine] = dynamic(partition, hashes[mine])
            return buckets
        case _:
            return np.zeros(batch.num_rows, np.int64)


def fixed_buckets(table: FileStoreTable, batch: pa.RecordBatch, count: int) -> Buckets:
    """Return the bucket of each row in a partition with `count` buckets."""
    if count == 1:
        return np.zeros(batch.num_rows, np.int64)
    keys = table.schema.bucket_keys
    types = table.schema.row_type.project(keys).types
    return assign_buckets(
        [batch.column(k) for k in keys],
        types,
        count,
        function=table.options.value(BUCKET_FUNCTION),
    ).astype(np.int64)
