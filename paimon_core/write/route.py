"""Which partition and bucket each row of a batch belongs to (Java: `table/sink/KeyAndBucketExtractor`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.manifest.data_file import EMPTY_ROW
from paimon_core.options import BUCKET, BUCKET_FUNCTION
from paimon_core.types.binary_row import encode_rows
from paimon_core.types.row_hash import assign_buckets


@dataclass(frozen=True, slots=True)
class Routed:
    """Rows of one batch that go to the same bucket, in their order of arrival."""

    partition: bytes
    bucket: int
    rows: npt.NDArray[np.int64]


def route(table: FileStoreTable, batch: pa.RecordBatch) -> Iterator[Routed]:
    """The rows of the batch by partition (stored row bytes) and bucket."""
    if batch.num_rows == 0:
        return
    partitions, codes = _partitions(table, batch)
    count = max(1, table.options.value(BUCKET))
    buckets = _buckets(table, batch, count)
    combined = codes * count + buckets
    order = np.argsort(combined, kind="stable")
    arranged = combined[order]
    starts = np.flatnonzero(np.r_[True, arranged[1:] != arranged[:-1]])
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        partition, bucket = divmod(int(arranged[start]), count)
        yield Routed(partitions[partition], bucket, order[start:end])


def _partitions(
    table: FileStoreTable, batch: pa.RecordBatch
) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """The distinct partitions of the batch, and which of them each row is in."""
    keys = table.schema.partition_keys
    codes = np.zeros(batch.num_rows, np.int64)
    first = codes[:1]
    if not keys:
        return [EMPTY_ROW], codes
    for key in keys:
        encoded = batch.column(key).dictionary_encode()
        index = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        combined = codes * (len(encoded.dictionary) + 1) + index
        # Renumbered at each step, so that many columns cannot overflow.
        _, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    firsts = pa.array(first)
    return encode_rows(
        [batch.column(k).take(firsts) for k in keys], table.schema.partition_type.types
    ), codes.astype(np.int64)


def _buckets(table: FileStoreTable, batch: pa.RecordBatch, count: int) -> npt.NDArray[np.int64]:
    if table.bucket_mode is not BucketMode.FIXED or count == 1:
        return np.zeros(batch.num_rows, np.int64)
    keys = table.schema.bucket_keys
    types = table.schema.row_type.project(keys).types
    return assign_buckets(
        [batch.column(k) for k in keys],
        types,
        count,
        function=table.options.value(BUCKET_FUNCTION),
    ).astype(np.int64)
