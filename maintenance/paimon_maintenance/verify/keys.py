"""Finds keys in two buckets of a table with dynamic buckets, or of a cross-partition table.

Readers merge each bucket separately, so they return such a key twice, and a delete in one bucket
leaves the row in the other.  Metadata does not show this: the check reads the keys.  The cause is
two writers that assign buckets at the same time, or a move of rows to other buckets while a running
writer has cached their old buckets.

1. Read and merge each bucket.  Write a 64-bit hash of each key and its bucket number to one of
   several *spill files*, chosen by the hash.  Large spill files are on local disk.
2. Sort each spill file: equal hashes with different buckets are suspects.
3. Read the buckets of some suspects again and compare the keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.features import check_readable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.io.temporary import temporary_files
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.paths import bucket_name
from paimon_core.read.table_read import bucket_vectors, read_bucket
from paimon_core.scan.vectors import vector_files
from paimon_core.types.binary_rows import encode_rows
from paimon_core.types.data_types import RowType
from paimon_core.types.row_hash import wide_hash_rows
from paimon_maintenance.job.text import counted
from paimon_maintenance.verify.findings import Finding, Problem, Severity
from paimon_maintenance.verify.references import Reference

_KEYS_PER_SPILL_FILE: Final = 2_000_000
_MAX_SPILL_FILES: Final = 256
_SPILL_THRESHOLD_BYTES: Final = 1024**2
_MOST_COMPARED: Final = 1000
"""Number of suspects whose keys are compared; for the others, the hash is sufficient."""
_EXAMPLES: Final = 3
_ENTRY: Final = np.dtype([("hash", "<u8"), ("place", "<u4")])

Hashes = npt.NDArray[np.uint64]
Bucket = tuple[bytes, int]
"""Partition (stored row bytes) and bucket."""
Buckets = dict[Bucket, list[ManifestEntry]]


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """The findings about the keys of a snapshot, and the number of keys read."""

    findings: tuple[Finding, ...] = ()
    keys: int = 0


def has_assigned_buckets(table: FileStoreTable) -> bool:
    """Whether writers assign keys to buckets, so that a mistake puts a key into two of them."""
    return table.bucket_mode in (BucketMode.CROSS_PARTITION, BucketMode.DYNAMIC)


def check_keys(reference: Reference, entries: Sequence[ManifestEntry]) -> KeyCheck:
    """Findings about keys of a snapshot in two buckets; `entries` are its live files.

    Only for tables with `has_assigned_buckets`.  Skips partitions with a single bucket.  Also skips
    unsupported tables and partitions with missing or unreadable files, which other checks report.
    Raises errors of the store.
    """
    table = reference.table
    crossing = table.bucket_mode is BucketMode.CROSS_PARTITION
    try:
        check_readable(table)
        vectors = vector_files(table, reference.snapshot)
    except (UnsupportedFeature, CorruptTable):
        return KeyCheck()
    # Within a partition, the rest of the key is sufficient.
    names = table.schema.primary_keys if crossing else table.schema.trimmed_primary_keys
    key_type = table.schema.row_type.project(names)
    groups: dict[bytes, Buckets] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        if entry.bucket >= 0:
            group = b"" if crossing else entry.partition
            groups[group][entry.partition, entry.bucket].append(entry)
    findings: list[Finding] = []
    keys = 0
    for buckets in groups.values():
        if len(buckets) == 1:
            continue
        reader = _KeyReader(
            reference=reference,
            buckets=buckets,
            key_type=key_type,
            vectors=vectors,
            crossing=crossing,
        )
        try:
            suspects = _suspects(reader)
            keys += sum(e.file.row_count for files in buckets.values() for e in files)
            findings += _compare(reader, suspects)
        except (CorruptTable, FileNotFoundError):
            continue
    return KeyCheck(tuple(findings), keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyReader:
    """Reads the keys of buckets among which each key must be unique."""

    reference: Reference
    buckets: Buckets
    key_type: RowType
    vectors: Mapping[Bucket, Sequence[IndexFileMeta]]
    crossing: bool

    @property
    def table(self) -> FileStoreTable:
        return self.reference.table

    @property
    def places(self) -> list[Bucket]:
        return list(self.buckets)

    def columns(self, place: Bucket) -> Iterator[list[pa.Array]]:
        """The key columns of a bucket in batches, without deleted rows."""
        table = self.table
        vectors = bucket_vectors(table, place, self.vectors.get(place, ()))
        names = self.key_type.names
        for batch in read_bucket(table, self.buckets[place], names, vectors):
            if batch.num_rows:
                yield [batch.column(n) for n in names]

    def hashes(self, columns: Sequence[pa.Array]) -> Hashes:
        return wide_hash_rows(columns, self.key_type.types)


def _suspects(reader: _KeyReader) -> dict[int, set[int]]:
    """Hash -> numbers of the buckets that contain it, for hashes in more than one bucket."""
    rows = sum(e.file.row_count for files in reader.buckets.values() for e in files)
    count = min(_MAX_SPILL_FILES, 1 + rows // _KEYS_PER_SPILL_FILE)
    found: dict[int, set[int]] = defaultdict(set)
    with ExitStack() as stack:
        spills = [
            stack.enter_context(SpooledTemporaryFile(max_size=_SPILL_THRESHOLD_BYTES))
            for _ in range(count)
        ]
        for number, place in enumerate(reader.places):
            for columns in reader.columns(place):
                hashes = reader.hashes(columns)
                spill_of = hashes % np.uint64(count)
                for spill, file in enumerate(spills):
                    mine = hashes[spill_of == spill]
                    entries = np.empty(len(mine), _ENTRY)
                    entries["hash"], entries["place"] = mine, number
                    with temporary_files():
                        file.write(entries.tobytes())
        for file in spills:
            with temporary_files():
                file.seek(0)
                entries = np.frombuffer(file.read(), _ENTRY)
            for value, places in _in_several_places(entries):
                found[value] |= places
            file.close()
    return found


def _in_several_places(entries: npt.NDArray[np.void]) -> Iterator[tuple[int, set[int]]]:
    ordered = entries[np.argsort(entries["hash"], kind="stable")]
    hashes, places = ordered["hash"], ordered["place"]
    twice = (hashes[1:] == hashes[:-1]) & (places[1:] != places[:-1])
    for row in np.flatnonzero(twice).tolist():
        yield int(hashes[row]), {int(places[row]), int(places[row + 1])}


def _compare(reader: _KeyReader, suspects: dict[int, set[int]]) -> Iterable[Finding]:
    """The finding about keys in two buckets, if the keys of suspects are equal."""
    if not suspects:
        return []
    chosen = dict(list(suspects.items())[:_MOST_COMPARED])
    wanted = np.array(sorted(chosen), np.uint64)
    places = reader.places
    keys: dict[bytes, set[int]] = defaultdict(set)
    texts: dict[bytes, str] = {}
    for number in sorted({p for found in chosen.values() for p in found}):
        for columns in reader.columns(places[number]):
            rows = np.flatnonzero(np.isin(reader.hashes(columns), wanted))
            taken = [c.take(pa.array(rows)) for c in columns]
            for row, key in enumerate(encode_rows(taken, reader.key_type.types)):
                keys[key].add(number)
                texts[key] = ", ".join(
                    f"{name}={column[row].as_py()}"
                    for name, column in zip(reader.key_type.names, taken, strict=True)
                )
    same = [
        (texts[key], [places[n] for n in sorted(at)]) for key, at in keys.items() if len(at) > 1
    ]
    if not same:
        return []
    return [_finding(reader, len(same) + len(suspects) - len(chosen), sorted(same)[:_EXAMPLES])]


def _finding(reader: _KeyReader, count: int, examples: list[tuple[str, list[Bucket]]]) -> Finding:
    reference, paths = reader.reference, reader.table.paths
    partition = None if reader.crossing else paths.partition_path(examples[0][1][0][0])

    def named(place: Bucket) -> str:
        folder = paths.partition_path(place[0]) if reader.crossing else ""
        return f"{folder}/{bucket_name(place[1])}" if folder else bucket_name(place[1])

    shown = "; ".join(f"{key} in {' and '.join(map(named, at))}" for key, at in examples)
    where = f" of partition {partition}" if partition else ""
    return Finding(
        problem=Problem.KEY_IN_TWO_BUCKETS,
        severity=Severity.ERROR,
        message=f"{counted(count, 'keys')}{where} are in more than one bucket ({shown}): readers "
        "return duplicate rows. Stop the writers, then roll back to an earlier snapshot or "
        "overwrite the partition with correct rows. A rewrite makes the duplicates permanent",
        reference=reference.label,
        branch=reader.table.branch,
        snapshot=reference.snapshot.id,
        partition=partition,
        bucket=examples[0][1][0][1],
    )
