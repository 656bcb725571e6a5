"""The layout of live files: sorted runs, deletions, and what a compaction would rewrite."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paimon_core.compaction.blob_files import blob_files_to_merge
from paimon_core.compaction.due import BucketFiles, units_due
from paimon_core.compaction.evolution import (
    data_files,
    dedicated_files,
    rewrites_row_ids,
    row_ranges,
    rows_of,
)
from paimon_core.compaction.unit import CompactUnit
from paimon_core.environment import Environment
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta, ManifestEntry
from paimon_core.options import BLOB_COMPACTION_ENABLED
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.data_evolution import has_data_evolution, is_dedicated
from paimon_core.read.table_read import skips_level_0
from paimon_core.retention.partitions import compacts_partition
from paimon_core.table.row_id_gaps import without_gaps
from paimon_core.write.file_layout import small_file_size, target_file_size
from paimon_maintenance.health.measurement import PartitionMeasurement, Rewrite

Vectors = Mapping[tuple[bytes, int], Sequence[IndexFileMeta]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """One bucket: its files, the depth of its sections, and what each compaction would do."""

    files: BucketFiles
    point_runs: int
    run_bytes: float
    """Bytes times the number of sorted runs that hold their key range."""
    vector_rows: int
    minor: Rewrite | None
    full: Rewrite | None

    @property
    def bytes(self) -> int:
        return sum(f.file_size for f in self.files.files)

    @property
    def delete_rows(self) -> int:
        return sum(f.delete_row_count or 0 for f in self.files.files)

    @property
    def dead_rows(self) -> int:
        return self.delete_rows + self.vector_rows


def partitions_measured(
    table: FileStoreTable,
    entries: Sequence[ManifestEntry],
    vectors: Vectors,
    env: Environment,
    *,
    compactable: bool,
) -> list[PartitionMeasurement]:
    """The measurement of each partition, sorted by name; `vectors` are its deletion vectors.

    Without `compactable`, no compaction is planned, and none for partitions that a compaction
    skips.
    """
    grouped: dict[bytes, dict[int, list[ManifestEntry]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        grouped[entry.partition][entry.bucket].append(entry)
    compacts = compacts_partition(table, local_millis=env.local_millis())
    found = []
    for row, buckets in grouped.items():
        may_compact = compactable and (compacts is None or compacts(row))
        measured = [
            _bucket(
                table,
                BucketFiles(
                    partition=row,
                    bucket=number,
                    total_buckets=own[0].total_buckets,
                    files=tuple(e.file for e in own),
                    vector_files=tuple(vectors.get((row, number), ())),
                ),
                env,
                compactable=may_compact,
            )
            for number, own in buckets.items()
        ]
        found.append(_partition(table, row, measured, env))
    return sorted(found, key=lambda p: p.name)


def _partition(
    table: FileStoreTable, row: bytes, buckets: Sequence[_Bucket], env: Environment
) -> PartitionMeasurement:
    files = [f for b in buckets for f in b.files.files]
    size = sum(f.file_size for f in files)
    small = small_file_size(table.options, primary_key=table.has_primary_key)
    waiting = [f for f in files if f.level == 0] if table.has_primary_key else []
    # Creation times are wall clock times; the offset of now makes them instants.
    offset = env.local_millis() - env.now_millis()
    made = [f.creation_time - offset for f in files if f.creation_time is not None]
    oldest = [f.creation_time - offset for f in waiting if f.creation_time is not None]
    return PartitionMeasurement(
        name=table.paths.partition_path(row),
        values=table.paths.partition_values(row),
        files=len(files),
        bytes=size,
        rows=sum(rows_of(table, b.files.files) for b in buckets),
        small_files=sum(1 for f in files if f.file_size < small),
        ideal_files=_ideal_files(table, buckets),
        gap_files=_gap_files(table, buckets),
        buckets=len(buckets),
        total_buckets=max(b.files.total_buckets for b in buckets),
        smallest_bucket=min(b.bytes for b in buckets),
        largest_bucket=max(b.bytes for b in buckets),
        point_runs=max(b.point_runs for b in buckets),
        full_runs=max(1.0, sum(b.run_bytes for b in buckets) / size) if size else 1.0,
        level_0_files=len(waiting),
        oldest_level_0=min(oldest, default=None),
        oldest_file=min(made, default=None),
        newest_file=max(made, default=None),
        delete_rows=sum(b.delete_rows for b in buckets),
        vector_rows=sum(b.vector_rows for b in buckets),
        minor=_joined([b.minor for b in buckets], buckets),
        full=_joined([b.full for b in buckets], buckets),
    )


def _ideal_files(table: FileStoreTable, buckets: Sequence[_Bucket]) -> int:
    """The smallest number of files of the target size."""
    target = target_file_size(table.options, primary_key=table.has_primary_key)
    if table.has_primary_key:  # each bucket needs a file of its own
        return sum(max(1, -(-b.bytes // target)) for b in buckets)
    if has_data_evolution(table):
        return sum(_files_of_ranges(table, b.files, b.files.files, target) for b in buckets)
    return max(1, -(-sum(b.bytes for b in buckets) // target))


def _gap_files(table: FileStoreTable, buckets: Sequence[_Bucket]) -> int:
    """How many fewer `_ideal_files` there were if `reassign_row_id` closed the gaps of row ids."""
    if not has_data_evolution(table):
        return 0
    target = target_file_size(table.options, primary_key=table.has_primary_key)
    gapless = sum(
        _files_of_ranges(table, b.files, without_gaps(table, b.files.files), target)
        for b in buckets
    )
    return max(0, _ideal_files(table, buckets) - gapless)


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
    table: FileStoreTable, files: BucketFiles, env: Environment, *, compactable: bool
) -> _Bucket:
    point, weighted = _depths(table, files.files)
    hidden = _hidden_rows(table, files)
    minor = full = None
    if compactable and files.bucket == POSTPONE_BUCKET:
        # The postponed rows become one run in the buckets of their keys.
        minor = full = _rewrite(
            table, files, files.files, runs_after=1.0, files_after=1, dead_after=0
        )
    elif compactable:
        minor, full = (
            _planned(table, files, _due(table, files, env, full=way), hidden)
            for way in (False, True)
        )
    return _Bucket(
        files=files,
        point_runs=point,
        run_bytes=weighted,
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
        files_after += len(bucket.files.files) if work is None else work.files_after
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
