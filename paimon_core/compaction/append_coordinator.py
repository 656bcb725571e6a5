"""Picks the files of append tables that are compacted together.

Java: `AppendCompactCoordinator`, `BucketedAppendCompactManager`.

Rows of a bucket=-1 table have no order, so its small files are packed by size.  Rows of a bucketed
append table are read in sequence number order, so only adjacent files are joined.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paimon_core.compaction.unit import CompactUnit
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import (
    COMPACTION_DELETE_RATIO_THRESHOLD,
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    COMPACTION_MIN_FILE_NUM,
    OPEN_FILE_COST,
    Options,
)
from paimon_core.write.file_layout import small_file_size, target_file_size

_FULL_MIN_FILES = 3
UNAWARE_BUCKET = 0
"""The bucket number of the files of a bucket=-1 table."""

Bin = tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True)
class FileVector:
    """The deletion vector of a data file: its location, and the number of rows that it deletes."""

    index_file: str
    cardinality: int | None


def pick_unaware(
    files: Sequence[DataFileMeta],
    options: Options,
    *,
    partition: bytes,
    total_buckets: int,
    vectors: Mapping[str, FileVector] | None = None,
) -> list[CompactUnit]:
    """Return the bins of one partition of a bucket=-1 table, one unit each.

    Empty if nothing is due.

    `vectors` holds the deletion vectors by data file name; None for a table without them.
    """
    return [
        _unit(bin_, partition, UNAWARE_BUCKET, total_buckets, "small files")
        for bin_ in pack_unaware(files, options, vectors=vectors)
    ]


def pick_bucketed(
    files: Sequence[DataFileMeta],
    options: Options,
    *,
    partition: bytes,
    bucket: int,
    total_buckets: int,
    full: bool,
    until_done: bool = True,
    vectors: Mapping[str, FileVector] | None = None,
) -> list[CompactUnit]:
    """Return the files to join in one bucket of a bucketed append table, one unit per group.

    Java's minor compaction joins the first `compaction.min.file-num` small adjacent files and
    leaves the rest to the next run; `until_done` joins what repeated runs would, each file once.
    """
    ordered = sorted(files, key=_sequence)
    if full:
        groups = _full(ordered, options, vectors)
        if not groups and len(ordered) < _FULL_MIN_FILES and vectors is None:
            # Java's writer picks again before it commits, as in a minor compaction.
            groups = _minor(ordered, options, until_done=False)
    else:
        groups = _minor(ordered, options, until_done=until_done)
    return [_unit(group, partition, bucket, total_buckets, "neighbours") for group in groups]


def pack_unaware(
    files: Sequence[DataFileMeta],
    options: Options,
    *,
    vectors: Mapping[str, FileVector] | None = None,
) -> list[Bin]:
    """Pack small files, and files with many deleted rows, in bins of about two target sizes."""
    small = small_file_size(options, primary_key=False)
    threshold = options.value(COMPACTION_DELETE_RATIO_THRESHOLD)
    wanted = [
        f
        for f in files
        if f.file_size < small or _mostly_deleted(f, (vectors or {}).get(f.file_name), threshold)
    ]
    if vectors is None:
        return _packed(wanted, options)
    # A vector file is rewritten as a whole: all of its data files go into one bin.
    groups: dict[str, list[DataFileMeta]] = defaultdict(list)
    rest: list[DataFileMeta] = []
    for file in wanted:
        vector = vectors.get(file.file_name)
        (rest if vector is None else groups[vector.index_file]).append(file)
    packer = _Packer(options)
    bins: list[Bin] = []
    for group in sorted(groups.values(), key=lambda g: sum(f.file_size for f in g)):
        packer.add(group)
        if packer.is_full:
            bins.append(packer.drain())
    if packer.files:
        bins.append(packer.drain())
    return bins + (_packed(rest, options) if len(rest) > 1 else [])


def _mostly_deleted(file: DataFileMeta, vector: FileVector | None, threshold: float) -> bool:
    if vector is None:
        return False
    return vector.cardinality is None or vector.cardinality > file.row_count * threshold


def _packed(files: Sequence[DataFileMeta], options: Options) -> list[Bin]:
    packer = _Packer(options)
    bins: list[Bin] = []
    for file in sorted(files, key=lambda f: (f.file_size, *_sequence(f))):
        packer.add([file])
        if packer.is_full:
            bins.append(packer.drain())
    if len(packer.files) >= options.value(COMPACTION_MIN_FILE_NUM):
        bins.append(packer.drain())
    return bins


class _Packer:
    """Fills one bin; each file counts with additional bytes for the cost of opening it."""

    __slots__ = ("_cost", "_limit", "_size", "files")

    def __init__(self, options: Options) -> None:
        self.files: list[DataFileMeta] = []
        self._size = 0
        self._cost = options.value(OPEN_FILE_COST)
        self._limit = 2 * target_file_size(options, primary_key=False)

    def add(self, files: Sequence[DataFileMeta]) -> None:
        self.files += files
        self._size += sum(f.file_size + self._cost for f in files)

    @property
    def is_full(self) -> bool:
        return len(self.files) > 1 and self._size >= self._limit

    def drain(self) -> Bin:
        files = tuple(self.files)
        self.files = []
        self._size = 0
        return files


def _sequence(file: DataFileMeta) -> tuple[int, int, int, str]:
    return (
        file.min_sequence_number,
        file.max_sequence_number,
        file.creation_time or 0,
        file.file_name,
    )


def _full(
    ordered: Sequence[DataFileMeta], options: Options, vectors: Mapping[str, FileVector] | None
) -> list[Bin]:
    """Return all files except the large ones at the front, if that is worthwhile."""
    force = options.value(COMPACTION_FORCE_REWRITE_ALL_FILES)
    small = small_file_size(options, primary_key=False)
    rest = list(ordered)
    if not force:
        if not rest or (vectors is None and len(rest) < _FULL_MIN_FILES):
            return []
        while rest and rest[0].file_size >= small and rest[0].file_name not in (vectors or {}):
            rest.pop(0)
    if not rest:
        return []
    smalls = sum(f.file_size < small for f in rest)
    worth_it = smalls > len(rest) - smalls and len(rest) >= _FULL_MIN_FILES
    if vectors is not None:
        # Java rewrites a single file of a table with vectors again and again, to the same content.
        worth_it = len(rest) > 1 or rest[0].file_name in vectors
    if force or worth_it:
        return [tuple(rest)]
    return []


@dataclass(slots=True)
class _Group:
    """Adjacent files that count as one: the output of an earlier pick."""

    files: list[DataFileMeta]
    size: int


def _minor(ordered: Sequence[DataFileMeta], options: Options, *, until_done: bool) -> list[Bin]:
    """Return groups of at least `compaction.min.file-num` adjacent files below the size limit."""
    # Joining a single file would never end.
    min_files = max(2, options.value(COMPACTION_MIN_FILE_NUM))
    limit = 2 * target_file_size(options, primary_key=False)
    small = small_file_size(options, primary_key=False)
    bins: list[Bin] = []
    waiting: deque[_Group] = deque()
    held = 0
    queue = deque(_Group([f], f.file_size) for f in ordered)
    while queue:
        group = queue.popleft()
        waiting.append(group)
        held += group.size
        if len(waiting) >= min_files:
            joined = waiting.popleft()
            for other in waiting:
                joined.files += other.files
            joined.size, held = held, 0
            waiting.clear()
            if until_done and joined.size < small and len(queue) + 1 >= min_files:
                queue.appendleft(joined)
                continue
            bins.append(tuple(joined.files))
            if not until_done or joined.size < small:
                break
        elif held >= limit:
            dropped = waiting.popleft()
            held -= dropped.size
            if len(dropped.files) > 1:
                bins.append(tuple(dropped.files))
    bins += [tuple(group.files) for group in waiting if len(group.files) > 1]
    return bins


def _unit(
    files: Bin, partition: bytes, bucket: int, total_buckets: int, reason: str
) -> CompactUnit:
    return CompactUnit(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        append_files=files,
        reason=reason,
    )
