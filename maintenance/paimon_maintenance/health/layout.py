"""The layout of live files: sorted runs, deletions, and what a compaction would rewrite."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paimon_core.compaction.blob_files import blob_files_to_merge
from paimon_core.compaction.due import BucketFiles, units_due
from paimon_core.compaction.evolution import (
    data_files,
    dedicated_files,
    rewrites_row_ids,
    row_ranges,
    rows_of,
)
from paimon_core.compaction.idle import idle_buckets
from paimon_core.compaction.unit import CompactUnit
from paimon_core.environment import Environment, ahead_of_utc
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import dedicated_columns
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta, ManifestEntry
from paimon_core.manifest.entries.columns import NULL, Column, EntryColumns, Partitions, sums
from paimon_core.names import LARGEST_LONG
from paimon_core.options import BLOB_COMPACTION_ENABLED
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.data_evolution import has_data_evolution, is_dedicated
from paimon_core.retention.partitions import compacts_partition
from paimon_core.scan.portions import Buckets, portions_of
from paimon_core.scan.row_ranges import ordered_rows
from paimon_core.scan.splits import skips_level_0
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.row_id_gaps import is_short, without_gaps
from paimon_core.write.file_layout import target_file_size
from paimon_maintenance.health.groups import grouped, small_bytes
from paimon_maintenance.health.measurement import PartitionMeasurement, Rewrite

Vectors = Mapping[tuple[bytes, int], Sequence[IndexFileMeta]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """One bucket: its files, the depth of its sections, and what each compaction would do.

    `ideal_files` is 0 for append tables whose partitions are measured as a whole.  Times are
    milliseconds since the epoch.
    """

    total_buckets: int
    files: int
    bytes: int
    rows: int
    small_files: int
    ideal_files: int
    gap_files: int = 0
    point_runs: int = 1
    run_bytes: float
    """Bytes times the number of sorted runs that hold their key range."""
    level_0_files: int = 0
    oldest_level_0: int | None = None
    oldest_file: int | None
    newest_file: int | None
    delete_rows: int
    vector_rows: int = 0
    minor: Rewrite | None = None
    full: Rewrite | None = None

    @property
    def dead_rows(self) -> int:
        return self.delete_rows + self.vector_rows


@dataclass(frozen=True, slots=True)
class Outline:
    """What the columns of the live files say: the quiet buckets, and which are to be looked at."""

    partitions: Partitions
    quiet: Sequence[tuple[int, _Bucket]]
    others: Buckets


def outline_of(
    table: FileStoreTable, live: EntryColumns, vectors: Vectors, env: Environment
) -> Outline:
    """The outline of the live files, of which only buckets that may be due have to become objects.

    `live` has the columns of `groups.COLUMNS`, and `first_row_id`; `vectors` are the deletion
    vectors.
    """
    partition, numbers, bucket_of = live.group()
    quiet = _quiet_buckets(table, live, bucket_of, partition, numbers, vectors)
    others = np.flatnonzero(~quiet)
    files = np.bincount(bucket_of, minlength=len(numbers))
    return Outline(
        partitions=live.partitions,
        quiet=list(_without_objects(table, live, bucket_of, partition, quiet, env)),
        others=Buckets(partition[others], numbers[others], files[others]),
    )


def partitions_measured(
    table: FileStoreTable,
    snapshot: Snapshot,
    outline: Outline,
    vectors: Vectors,
    env: Environment,
    *,
    compactable: bool,
) -> list[PartitionMeasurement]:
    """The measurement of each partition, sorted by name.

    Without `compactable`, no compaction is planned, and none for partitions that a compaction
    skips.
    """
    found: dict[int, list[_Bucket]] = defaultdict(list)
    for code, bucket in outline.quiet:
        found[code].append(bucket)
    compacts = compacts_partition(table, local_millis=env.local_millis())
    for portion in portions_of(table, snapshot, outline.partitions, outline.others):
        for one in _by_bucket(portion.entries, vectors):
            may_compact = compactable and (compacts is None or compacts(one.partition))
            found[outline.partitions.code(one.partition)].append(
                _bucket(table, one, env, compactable=may_compact)
            )
        del portion  # before the next one is read
    rows = outline.partitions.rows
    measured = (_partition(table, rows[code], own) for code, own in found.items())
    return sorted(measured, key=lambda p: p.name)


def _quiet_buckets(
    table: FileStoreTable,
    live: EntryColumns,
    bucket_of: Column,
    partition: Column,
    numbers: Column,
    vectors: Vectors,
) -> Column:
    """Which buckets have one sorted run, or none, and no compaction that could be due."""
    quiet = np.ones(len(numbers), bool)
    if has_data_evolution(table):
        if dedicated_columns(table.schema.row_type, table.schema.options):
            return ~quiet  # how many files are ideal depends on those of BLOBs
        quiet = ~ordered_rows(live, bucket_of, len(numbers)).unclear
    for full in (False, True):
        quiet &= idle_buckets(table, live, bucket_of, numbers, full=full)
    if vectors:
        rows = live.partitions.rows
        places = zip(partition.tolist(), numbers.tolist(), strict=True)
        quiet &= np.array([(rows[p], n) not in vectors for p, n in places], bool)
    return quiet


def _without_objects(
    table: FileStoreTable,
    live: EntryColumns,
    bucket_of: Column,
    partition: Column,
    quiet: Column,
    env: Environment,
) -> Iterator[tuple[int, _Bucket]]:
    """The quiet buckets, each with the number of its partition."""
    count = len(quiet)
    totals = grouped(live, bucket_of, count, small=small_bytes(table))
    total = np.zeros(count, np.int64)
    total[bucket_of] = live.total_buckets
    made = live.numbers["creation_time"]
    known = made != NULL
    oldest, newest = np.full(count, LARGEST_LONG, np.int64), np.full(count, NULL, np.int64)
    np.minimum.at(oldest, bucket_of[known], made[known])
    np.maximum.at(newest, bucket_of[known], made[known])
    offset = ahead_of_utc(env)
    ideal, gaps = _ideal_by_bucket(table, live, bucket_of, totals.bytes)
    for i in np.flatnonzero(quiet).tolist():
        size = int(totals.bytes[i])
        is_dated = newest[i] != NULL
        yield (
            int(partition[i]),
            _Bucket(
                total_buckets=int(total[i]),
                files=int(totals.files[i]),
                bytes=size,
                rows=int(totals.rows[i]),
                small_files=int(totals.small_files[i]),
                ideal_files=int(ideal[i]),
                gap_files=int(gaps[i]),
                run_bytes=float(size),
                oldest_file=int(oldest[i]) - offset if is_dated else None,
                newest_file=int(newest[i]) - offset if is_dated else None,
                delete_rows=int(totals.delete_rows[i]),
            ),
        )


def _ideal_by_bucket(
    table: FileStoreTable, live: EntryColumns, bucket_of: Column, sizes: Column
) -> tuple[Column, Column]:
    """What `_ideal_files` says of buckets without BLOBs whose files share no row ids."""
    count = len(sizes)
    target = target_file_size(table.options, primary_key=table.has_primary_key)
    none = np.zeros(count, np.int64)
    if table.has_primary_key:
        return _files_for_each(sizes, target), none
    if not has_data_evolution(table) or not len(live):
        return none, none
    files = ordered_rows(live, bucket_of, count)
    range_of = np.concatenate([[0], np.cumsum(~files.follows)])
    begins = np.flatnonzero(np.concatenate([[True], ~files.follows]))
    bucket = files.bucket[begins]
    range_bytes = sums(range_of, live.numbers["file_size"][files.order], len(begins))
    range_rows = sums(range_of, live.numbers["row_count"][files.order], len(begins))
    wanted = _files_for_each(range_bytes, target)
    ideal = sums(bucket, wanted, count)
    moves = is_short(table, range_rows)
    moved = np.bincount(bucket[moves], minlength=count) > 1
    # What moves gets the row ids after the last range.
    is_last = np.concatenate([bucket[1:] != bucket[:-1], [True]])
    together = moves | (is_last & moved[bucket])
    rest = sums(bucket[~together], wanted[~together], count)
    joined = sums(bucket[together], range_bytes[together], count)
    gapless = np.where(moved, rest + _files_for_each(joined, target), ideal)
    return ideal, np.maximum(0, ideal - gapless)


def _files_for_each(sizes: Column, target: int) -> Column:
    """As `_files_for`."""
    found: Column = np.maximum(1, -(-sizes // target))
    return found


def _by_bucket(entries: Sequence[ManifestEntry], vectors: Vectors) -> Iterator[BucketFiles]:
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry)
    for (partition, number), own in buckets.items():
        yield BucketFiles(
            partition=partition,
            bucket=number,
            total_buckets=own[0].total_buckets,
            files=tuple(e.file for e in own),
            vector_files=tuple(vectors.get((partition, number), ())),
        )


def _partition(
    table: FileStoreTable, row: bytes, buckets: Sequence[_Bucket]
) -> PartitionMeasurement:
    size = sum(b.bytes for b in buckets)
    target = target_file_size(table.options, primary_key=table.has_primary_key)
    return PartitionMeasurement(
        name=table.paths.partition_path(row),
        values=table.paths.partition_values(row),
        files=sum(b.files for b in buckets),
        bytes=size,
        rows=sum(b.rows for b in buckets),
        small_files=sum(b.small_files for b in buckets),
        ideal_files=sum(b.ideal_files for b in buckets) or _files_for(size, target),
        gap_files=sum(b.gap_files for b in buckets),
        buckets=len(buckets),
        total_buckets=max(b.total_buckets for b in buckets),
        smallest_bucket=min(b.bytes for b in buckets),
        largest_bucket=max(b.bytes for b in buckets),
        point_runs=max(b.point_runs for b in buckets),
        full_runs=max(1.0, sum(b.run_bytes for b in buckets) / size) if size else 1.0,
        level_0_files=sum(b.level_0_files for b in buckets),
        oldest_level_0=min(_known(b.oldest_level_0 for b in buckets), default=None),
        oldest_file=min(_known(b.oldest_file for b in buckets), default=None),
        newest_file=max(_known(b.newest_file for b in buckets), default=None),
        delete_rows=sum(b.delete_rows for b in buckets),
        vector_rows=sum(b.vector_rows for b in buckets),
        minor=_joined([b.minor for b in buckets], buckets),
        full=_joined([b.full for b in buckets], buckets),
    )


def _known(times: Iterable[int | None]) -> Iterator[int]:
    return (time for time in times if time is not None)


def _files_for(size: int, target: int) -> int:
    """The smallest number of files of the target size."""
    return max(1, -(-size // target))


def _ideal_files(table: FileStoreTable, bucket: BucketFiles, size: int) -> tuple[int, int]:
    """The `ideal_files` of a bucket, and how many of them `reassign_row_id` would save."""
    target = target_file_size(table.options, primary_key=table.has_primary_key)
    if table.has_primary_key:  # each bucket needs a file of its own
        return _files_for(size, target), 0
    if not has_data_evolution(table):
        return 0, 0
    ideal = _files_of_ranges(table, bucket, bucket.files, target)
    moved = without_gaps(table, bucket.files)
    gapless = ideal if moved is bucket.files else _files_of_ranges(table, bucket, moved, target)
    return ideal, max(0, ideal - gapless)


def _files_of_ranges(
    table: FileStoreTable, bucket: BucketFiles, files: Sequence[DataFileMeta], target: int
) -> int:
    """As `_ideal_files`, under data evolution: gaps remain, and BLOBs may have to stay."""
    try:
        ranges = row_ranges(table, files, partition=bucket.partition, bucket=bucket.bucket)
    except UnsupportedFeature:
        return len(files)  # the job for it says why
    sizes = [sum(f.file_size for g in groups for f in data_files(g)) for groups in ranges]
    apart = sum(1 for f in files if is_dedicated(f))
    if table.options.value(BLOB_COMPACTION_ENABLED):
        merged = (blob_files_to_merge(table, dedicated_files(groups)) for groups in ranges)
        apart -= sum(len(some) - 1 for found in merged for some in found)
    return apart + sum(max(1, -(-size // target)) for size in sizes)


def _due(
    table: FileStoreTable, bucket: BucketFiles, env: Environment, *, full: bool
) -> list[CompactUnit]:
    try:
        return units_due(table, bucket, full=full, local_millis=env.local_millis())
    except UnsupportedFeature:
        return []  # the job says why


def _bucket(
    table: FileStoreTable, bucket: BucketFiles, env: Environment, *, compactable: bool
) -> _Bucket:
    files = bucket.files
    size = sum(f.file_size for f in files)
    small = small_bytes(table)
    point, weighted = _depths(table, files)
    hidden = _hidden_rows(table, bucket)
    minor = full = None
    if compactable and bucket.bucket == POSTPONE_BUCKET:
        # The postponed rows become one run in the buckets of their keys.
        minor = full = _rewrite(table, bucket, files, runs_after=1.0, files_after=1, dead_after=0)
    elif compactable:
        minor, full = (
            _planned(table, bucket, _due(table, bucket, env, full=way), hidden)
            for way in (False, True)
        )
    offset = ahead_of_utc(env)
    waiting = [f for f in files if f.level == 0] if table.has_primary_key else []
    made = [f.creation_time - offset for f in files if f.creation_time is not None]
    level_0 = [f.creation_time - offset for f in waiting if f.creation_time is not None]
    ideal, gaps = _ideal_files(table, bucket, size)
    return _Bucket(
        total_buckets=bucket.total_buckets,
        files=len(files),
        bytes=size,
        rows=rows_of(table, files),
        small_files=sum(1 for f in files if f.file_size < small),
        ideal_files=ideal,
        gap_files=gaps,
        point_runs=point,
        run_bytes=weighted,
        level_0_files=len(waiting),
        oldest_level_0=min(level_0, default=None),
        oldest_file=min(made, default=None),
        newest_file=max(made, default=None),
        delete_rows=sum(f.delete_row_count or 0 for f in files),
        vector_rows=sum(hidden.values()),
        minor=minor,
        full=full,
    )


def _hidden_rows(table: FileStoreTable, files: BucketFiles) -> Counter[str]:
    """How many rows of each data file its deletion vector hides, as far as the index names it.

    None with data evolution where compaction keeps these rows: nothing can be done about them.
    """
    hidden: Counter[str] = Counter()
    if has_data_evolution(table) and not rewrites_row_ids(table):
        return hidden
    for index in files.vector_files:
        for one in index.dv_ranges or ():
            hidden[one.data_file] += one.cardinality or 0
    return hidden


def _depths(table: FileStoreTable, files: Sequence[DataFileMeta]) -> tuple[int, float]:
    """The most sorted runs that one key may be in, and bytes times runs, summed over sections."""
    size = float(sum(f.file_size for f in files))
    if not table.has_primary_key:
        return 1, size
    if skips_level_0(table):
        # Reads see only what is compacted, and vectors take the place of a merge.
        return 1, size
    if len({f.level for f in files}) == 1 and all(f.level for f in files):
        return 1, size
    deepest, weighted = 1, 0.0
    for section in interval_partition(files, table.schema.key_type):
        deepest = max(deepest, len(section))
        weighted += len(section) * sum(run.total_size for run in section)
    return deepest, weighted


def _planned(
    table: FileStoreTable,
    files: BucketFiles,
    units: Sequence[CompactUnit],
    hidden: Mapping[str, int],
) -> Rewrite | None:
    if not units:
        return None
    read = {f.file_name: f for u in units for f in (*u.rewritten_files, *u.read_upgrades)}
    gone = read.keys() | {f.file_name for u in units for f in u.moved_files}
    rest = [f for f in files.files if f.file_name not in gone]
    target = target_file_size(table.options, primary_key=table.has_primary_key)
    new_bytes = sum(f.file_size for f in read.values())
    runs = 1.0
    if table.has_primary_key:
        levels = {f.level for f in rest if f.level} | {u.output_level for u in units}
        runs = float(len(levels) + sum(1 for f in rest if f.level == 0))
    moved = sum(len(u.moved_files) for u in units)
    new_files = max(1 if read else 0, -(-new_bytes // target))
    if has_data_evolution(table):
        new_files = len(units)
    after = len(rest) + moved + new_files
    drops = {f.file_name for u in units if u.drop_deletes for f in u.rewritten_files}
    dead = sum(rows for name, rows in hidden.items() if name not in read)
    dead += sum(f.delete_row_count or 0 for f in files.files if f.file_name not in drops)
    return _rewrite(
        table, files, tuple(read.values()), runs_after=runs, files_after=after, dead_after=dead
    )


def _rewrite(
    table: FileStoreTable,
    files: BucketFiles,
    read: Sequence[DataFileMeta],
    *,
    runs_after: float,
    files_after: int,
    dead_after: int,
) -> Rewrite:
    return Rewrite(
        files=len(read),
        bytes=sum(f.file_size for f in read),
        level_0_bytes=sum(f.file_size for f in read if f.level == 0),
        rows=rows_of(table, read),
        files_after=min(files_after, len(files.files)),
        runs_after=runs_after,
        dead_rows_after=dead_after,
    )


def _joined(works: Sequence[Rewrite | None], buckets: Sequence[_Bucket]) -> Rewrite | None:
    """The work on all buckets of a partition; None if none of them has any."""
    done = [w for w in works if w is not None]
    if not done:
        return None
    size = sum(b.bytes for b in buckets)
    weighted = 0.0
    files_after = dead_after = 0
    for work, bucket in zip(works, buckets, strict=True):
        now = bucket.run_bytes / bucket.bytes if bucket.bytes else 1.0
        weighted += bucket.bytes * (now if work is None else min(now, work.runs_after))
        files_after += bucket.files if work is None else work.files_after
        dead_after += bucket.dead_rows if work is None else work.dead_rows_after
    return Rewrite(
        files=sum(w.files for w in done),
        bytes=sum(w.bytes for w in done),
        level_0_bytes=sum(w.level_0_bytes for w in done),
        rows=sum(w.rows for w in done),
        files_after=files_after,
        runs_after=max(1.0, weighted / size) if size else 1.0,
        dead_rows_after=dead_after,
    )
