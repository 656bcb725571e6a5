"""The location of each key of a cross-partition table, and the handling of moved keys.

Java: `crosspartition/GlobalIndexAssigner`, `BucketAssigner`, `ExistingProcessor`.

The primary key of such a table does not hold all partition keys, so a row may belong to another
partition than the one that currently holds its key:

- deduplicate: the old location gets a delete, the row goes to its own partition;
- partial-update, aggregation: the row goes to the old location, whatever partition it names;
- first-row: the row is dropped.

With `dynamic-bucket.assigner-parallelism` n, keys are divided into n groups by hash, and group g
fills the buckets g, g + n, g + 2n, ..., as the assigners of a job do in Java.

Nothing on disk stores the locations, so a writer reads all keys first.  They take about 150 bytes
of memory each: this writer is not suitable for a table of a hundred million keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.engines.traits import ExistingKey, traits_of
from paimon_core.lsm.merge_engine import DELETE
from paimon_core.options import DYNAMIC_BUCKET_ASSIGNERS, DYNAMIC_BUCKET_TARGET_ROWS
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.binary_row import decode_row
from paimon_core.types.binary_rows import encode_rows
from paimon_core.types.row_hash import hash_rows
from paimon_core.write.route import partition_codes

_BUCKET_BITS: Final = 31
_BUCKET: Final = (1 << _BUCKET_BITS) - 1


@dataclass(frozen=True, slots=True)
class AssignedRows:
    """The rows to write, in order, with the kind, partition and bucket of each.

    `partitions` are stored row bytes; `codes` hold each row's index into them.
    """

    rows: pa.RecordBatch
    kinds: npt.NDArray[np.int8]
    partitions: list[bytes]
    codes: npt.NDArray[np.int64]
    buckets: npt.NDArray[np.int64]


class GlobalIndex:
    """Primary key (stored row bytes) -> partition and bucket; grows as rows arrive."""

    def __init__(self, table: FileStoreTable, snapshot: Snapshot | None = None) -> None:
        """`snapshot` is the one whose keys will be added."""
        schema = table.schema
        self.snapshot = snapshot
        self._schema = schema
        self._table = table
        self._keys = schema.row_type.project(schema.primary_keys)
        self._existing_key = traits_of(table.options).existing_key
        self._target = max(1, table.options.value(DYNAMIC_BUCKET_TARGET_ROWS))
        self._groups = max(1, table.options.value(DYNAMIC_BUCKET_ASSIGNERS) or 1)
        self._places: dict[bytes, int] = {}
        self._partitions: list[bytes] = []
        self._codes: dict[bytes, int] = {}
        self._counts: list[dict[int, int]] = []
        self._open: list[list[int]] = []
        """For each partition, the bucket that each group fills."""

    def __len__(self) -> int:
        return len(self._places)

    def keys_of(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the primary keys of the rows."""
        return encode_rows([batch.column(f.name) for f in self._keys], self._keys.types)

    def add(self, partition: bytes, bucket: int, keys: Iterable[bytes]) -> None:
        """Add the keys of a bucket."""
        code = self._code(partition)
        counts = self._counts[code]
        place = code << _BUCKET_BITS | bucket
        for key in keys:
            self._places[key] = place
            counts[bucket] = counts.get(bucket, 0) + 1
        self._open[code] = list(range(self._groups))

    def assign(self, batch: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> AssignedRows:
        """Return what to write for these rows, and where; record the keys' new locations."""
        partitions, row_codes = partition_codes(self._table, batch)
        codes = [self._code(p) for p in partitions]
        own = [codes[c] for c in row_codes.tolist()]
        rows: list[int] = []
        places: list[int] = []
        deletes: list[int] = []
        move = self._existing_key is ExistingKey.DELETE_OLD
        drop = self._existing_key is ExistingKey.SKIP_NEW
        known = self._places
        groups = self._groups_of(batch)
        # Row by row: the effect of a row depends on all rows before it.
        for row, key in enumerate(self.keys_of(batch)):
            old = known.get(key)
            if old is not None and (old >> _BUCKET_BITS == own[row] or not (move or drop)):
                rows.append(row)
                places.append(old)
                continue
            if old is not None:
                if drop:
                    continue
                deletes.append(len(rows))
                rows.append(row)
                places.append(old)
                self._release(old >> _BUCKET_BITS, old & _BUCKET)
            place = own[row] << _BUCKET_BITS | self._open_bucket(own[row], groups[row])
            known[key] = place
            rows.append(row)
            places.append(place)
        return self._assigned(batch, kinds, rows, places, deletes)

    def _assigned(
        self,
        batch: pa.RecordBatch,
        kinds: npt.NDArray[np.int8],
        rows: Sequence[int],
        places: Sequence[int],
        deletes: Sequence[int],
    ) -> AssignedRows:
        index = np.array(rows, np.int64)
        at = np.array(places, np.int64)
        new_kinds = kinds[index]
        new_kinds[np.array(deletes, np.int64)] = DELETE
        used, codes = np.unique(at >> _BUCKET_BITS, return_inverse=True)
        partitions = [self._partitions[c] for c in used.tolist()]
        taken = batch.take(pa.array(index))
        columns = list(taken.columns)
        types = self._schema.partition_type.types
        values = [decode_row(p, types) for p in partitions]
        for number, (name, data_type) in enumerate(
            zip(self._schema.partition_keys, types, strict=True)
        ):
            of_partitions = column_from_internal([v[number] for v in values], data_type)
            columns[taken.schema.get_field_index(name)] = of_partitions.take(pa.array(codes))
        return AssignedRows(
            pa.RecordBatch.from_arrays(columns, schema=batch.schema),
            new_kinds,
            partitions,
            codes.astype(np.int64),
            at & _BUCKET,
        )

    def _code(self, partition: bytes) -> int:
        code = self._codes.get(partition)
        if code is None:
            code = self._codes[partition] = len(self._partitions)
            self._partitions.append(partition)
            self._counts.append({})
            self._open.append(list(range(self._groups)))
        return code

    def _groups_of(self, batch: pa.RecordBatch) -> list[int]:
        """Return the group of each row's key."""
        if self._groups == 1:
            return [0] * batch.num_rows
        hashes = hash_rows([batch.column(f.name) for f in self._keys], self._keys.types)
        groups: list[int] = np.abs(np.fmod(hashes.astype(np.int64), self._groups)).tolist()
        return groups

    def _open_bucket(self, code: int, group: int) -> int:
        """Return the first bucket of the group with room for one more key; count the key."""
        counts, bucket = self._counts[code], self._open[code][group]
        while counts.get(bucket, 0) >= self._target:
            bucket += self._groups
        counts[bucket] = counts.get(bucket, 0) + 1
        self._open[code][group] = bucket
        return bucket

    def _release(self, code: int, bucket: int) -> None:
        self._counts[code][bucket] -= 1
        group = bucket % self._groups
        self._open[code][group] = min(self._open[code][group], bucket)
