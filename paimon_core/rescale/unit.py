"""Splits the rescaling of a partition into units for tasks.

A row's bucket is `x mod n`, where x depends only on the bucket keys.  Old and new buckets that are
equal modulo gcd(old, new) therefore belong together, and each such group is independent::

    5 -> 10    gcd 5    {0} -> {0, 5}  {1} -> {1, 6}  {2} -> {2, 7}  {3} -> {3, 8}  {4} -> {4, 9}
    6 -> 4     gcd 2    {0, 2, 4} -> {0, 2}             {1, 3, 5} -> {1, 3}
    5 -> 7     gcd 1    {0, 1, 2, 3, 4} -> {0, 1, 2, 3, 4, 5, 6}

A group that is too large for one task is split further: by key range if there is a primary key (all
versions of a key in one unit, disjoint outputs), else into consecutive files, whose sequence
numbers then continue those of the files before.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, Final

from paimon_core.compaction.slices import Samples, are_sampled, key_ranges, samples_of
from paimon_core.compaction.unit import CompactResult, CompactUnit, KeyRange
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.scan.key_bounds import is_clustered

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleUnit:
    """Work for one task: old buckets of one partition, and the new bucket count.

    `sources` name the old buckets and, as `append_files`, the files to read; deletion vectors are
    read from `snapshot`, None if there are none.  All units of a partition are committed together.
    """

    sources: tuple[CompactUnit, ...]
    new_total: int
    key_range: KeyRange | None = None
    first_sequence_number: int = 0
    snapshot: int | None = None

    @property
    def partition(self) -> bytes:
        return self.sources[0].partition

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(f for s in self.sources for f in s.append_files)

    @property
    def read_bytes(self) -> int:
        return sum(f.file_size for f in self.files)

    @property
    def is_mixed(self) -> bool:
        """Return whether old buckets have different layouts, so that keys may be in several."""
        return len({s.total_buckets for s in self.sources}) > 1

    @property
    def new_buckets(self) -> Sequence[int]:
        """Return the buckets that rows of this unit can go to, as a range that takes no memory."""
        first = self.sources[0]
        step = 1 if self.is_mixed else gcd(first.total_buckets, self.new_total)
        return range(first.bucket % step, self.new_total, step)

    def to_bytes(self) -> bytes:
        """Encode the unit for `from_bytes` of the same version of this library."""
        carrier = replace(self.sources[0], append_files=(), key_range=self.key_range)
        return _dump(
            "unit",
            {
                "carrier": carrier.to_bytes(),
                "sources": [s.to_bytes() for s in self.sources],
                "new_total": self.new_total,
                "first_sequence_number": self.first_sequence_number,
                "snapshot": self.snapshot,
            },
        )

    @staticmethod
    def from_bytes(data: bytes) -> RescaleUnit:
        """Decode the result of `to_bytes`; InvalidArgument for anything else."""
        obj = _load("unit", data)
        return RescaleUnit(
            sources=tuple(CompactUnit.from_bytes(base64.b64decode(s)) for s in obj["sources"]),
            new_total=obj["new_total"],
            key_range=CompactUnit.from_bytes(base64.b64decode(obj["carrier"])).key_range,
            first_sequence_number=obj["first_sequence_number"],
            snapshot=obj["snapshot"],
        )


@dataclass(frozen=True, slots=True)
class RescaleResult:
    """The new files (`after`) of each new bucket that got rows."""

    buckets: tuple[CompactResult, ...]

    @property
    def rows(self) -> int:
        return sum(f.row_count for b in self.buckets for f in b.after)

    def to_bytes(self) -> bytes:
        """Encode the result for `from_bytes` of the same version of this library."""
        return _dump("result", {"buckets": [b.to_bytes() for b in self.buckets]})

    @staticmethod
    def from_bytes(data: bytes) -> RescaleResult:
        """Decode the output of `to_bytes`; InvalidArgument for anything else."""
        found = (base64.b64decode(b) for b in _load("result", data)["buckets"])
        return RescaleResult(tuple(CompactResult.from_bytes(b) for b in found))


def rescale_units(
    entries: Sequence[ManifestEntry], new_total: int, *, snapshot: int | None
) -> list[RescaleUnit]:
    """Return one unit per group of buckets of one partition; `entries` holds all its live files.

    A partition with files of several layouts (a writer continued with the old bucket count after a
    rescale) is one group: its keys may be in any bucket.
    """
    if new_total < 1:
        raise InvalidArgument(f"the number of buckets must be positive, not {new_total}")
    totals = {e.total_buckets for e in entries}
    step = gcd(*totals, new_total) if len(totals) == 1 else 1
    groups: dict[int, dict[tuple[int, int], list[ManifestEntry]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for entry in entries:
        groups[entry.bucket % step][entry.total_buckets, entry.bucket].append(entry)
    return [
        RescaleUnit(
            sources=tuple(_source(found) for _, found in sorted(groups[group].items())),
            new_total=new_total,
            snapshot=snapshot,
        )
        for group in sorted(groups)
    ]


def _source(entries: Sequence[ManifestEntry]) -> CompactUnit:
    first = entries[0]
    return CompactUnit(
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        append_files=tuple(
            sorted((e.file for e in entries), key=lambda f: (f.min_sequence_number, f.file_name))
        ),
    )


def is_cut(table: FileStoreTable, unit: RescaleUnit, slice_bytes: int) -> bool:
    """Return whether `sliced` cuts the unit by its keys."""
    return (
        table.has_primary_key
        and not is_clustered(table)
        and unit.read_bytes > slice_bytes
        and unit.key_range is None
    )


def sliced(
    table: FileStoreTable, unit: RescaleUnit, *, slice_bytes: int, samples: Samples | None = None
) -> list[RescaleUnit]:
    """Split `unit` into units of about `slice_bytes` of input each.

    The key columns of the unit's files are read here unless `samples` is given; a unit with a file
    that it lacks is not cut.
    """
    if is_cut(table, unit, slice_bytes):
        if samples is None:
            samples = samples_of(table, unit.sources)
        if not are_sampled(unit.sources, samples):
            return [unit]
        parts = -(-unit.read_bytes // slice_bytes)
        ranges = key_ranges(table, unit.sources, parts, samples)
        return [replace(unit, key_range=key_range) for key_range in ranges]
    if unit.read_bytes <= slice_bytes or table.has_primary_key:
        return [unit]
    return list(_in_file_order(unit, slice_bytes))


def _in_file_order(unit: RescaleUnit, slice_bytes: int) -> Iterator[RescaleUnit]:
    """Yield the unit's files in order, in parts with consecutive sequence numbers."""
    part: list[CompactUnit] = []
    size = 0
    first = rows = 0
    for source in unit.sources:
        for file in source.append_files:
            if part and size + file.file_size > slice_bytes:
                yield replace(unit, sources=tuple(part), first_sequence_number=first)
                part, size, first = [], 0, rows
            if part and part[-1].bucket == source.bucket:
                part[-1] = replace(part[-1], append_files=(*part[-1].append_files, file))
            else:
                part.append(replace(source, append_files=(file,)))
            size += file.file_size
            rows += file.row_count
    if part:
        yield replace(unit, sources=tuple(part), first_sequence_number=first)


def _dump(kind: str, obj: Mapping[str, object]) -> bytes:
    def in_base64(value: Any) -> str:
        return base64.b64encode(value).decode("ascii")

    return json.dumps({"format": _FORMAT, "kind": kind, **obj}, default=in_base64).encode()


def _load(kind: str, data: bytes) -> dict[str, Any]:
    try:
        obj = json.loads(data)
    except ValueError as e:
        raise InvalidArgument(f"not the bytes of a rescale {kind}: {e}") from e
    if not isinstance(obj, dict) or (obj.get("format"), obj.get("kind")) != (_FORMAT, kind):
        raise InvalidArgument(f"not the bytes of a rescale {kind}, or of another version")
    return obj
