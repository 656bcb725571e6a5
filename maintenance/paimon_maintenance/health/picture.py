"""The live files of a table by partition, bucket and level, for a picture.

Where a file lies among the keys of its bucket is given by rank: the distinct first and last keys of
the bucket's files are numbered in order, and `low` and `high` of a file are such numbers.  So
overlapping files overlap in the picture whatever the keys are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paimon_core.compaction.evolution import rows_of
from paimon_core.environment import Environment, ahead_of_utc
from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.lsm.tree.sorted_run import KeyedFile
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import NUM_SORTED_RUN_TRIGGER
from paimon_core.scan.key_bounds import bound_fields, is_clustered
from paimon_core.scan.scan import scan_files
from paimon_core.types.binary_row import decode_row
from paimon_core.write.file_layout import target_file_size

MOST_BUCKETS: Final = 24
"""The number of buckets to draw of one partition, those with the most files first."""
MOST_FILES: Final = 400
"""The number of files to draw of one bucket, the largest first."""
MOST_PARTITIONS: Final = 500
_MOST_KEY: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBox:
    """One data file.

    `low` and `high` are ranks of its first and last key, equal for tables without sorted keys.
    """

    name: str
    level: int
    bytes: int
    rows: int
    delete_rows: int
    low: int
    high: int
    first_key: str
    last_key: str
    created_millis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPicture:
    """The files of one bucket; `runs` is the most sorted runs that hold one key.

    `keys`: the number of ranks.  `left_out`: files that are not drawn.
    """

    bucket: int
    files: int
    bytes: int
    rows: int
    runs: int
    keys: int
    boxes: tuple[FileBox, ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLine:
    """One partition in the list to choose from."""

    name: str
    files: int
    bytes: int
    buckets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePicture:
    """The files of one partition, and all partitions, those with the most files first."""

    snapshot: int | None
    primary_key: bool
    run_trigger: int
    target_bytes: int
    partitions: tuple[PartitionLine, ...]
    more_partitions: int
    partition: str
    buckets: tuple[BucketPicture, ...]
    more_buckets: int


def file_picture(
    table: FileStoreTable,
    env: Environment,
    *,
    partition: str | None,
) -> FilePicture:
    """The files of the partition with this path.

    Without one, of the partition with the most files.
    """
    latest = table.snapshots.latest()
    entries = [] if latest is None else scan_files(table, latest)
    by_partition: dict[str, list[ManifestEntry]] = defaultdict(list)
    paths: dict[bytes, str] = {}
    for entry in entries:
        if entry.partition not in paths:
            paths[entry.partition] = table.paths.partition_path(entry.partition)
        by_partition[paths[entry.partition]].append(entry)
    lines = sorted(
        (
            PartitionLine(
                name=name,
                files=len(own),
                bytes=sum(e.file.file_size for e in own),
                buckets=len({e.bucket for e in own}),
            )
            for name, own in by_partition.items()
        ),
        key=lambda p: (-p.files, p.name),
    )
    chosen = partition if partition in by_partition else (lines[0].name if lines else "")
    buckets: dict[int, list[DataFileMeta]] = defaultdict(list)
    for entry in by_partition.get(chosen, ()):
        buckets[entry.bucket].append(entry.file)
    order = sorted(buckets, key=lambda b: (-len(buckets[b]), b))
    # Creation times are wall clock times; the offset of now makes them instants.
    offset = ahead_of_utc(env)
    return FilePicture(
        snapshot=None if latest is None else latest.id,
        primary_key=table.has_primary_key,
        run_trigger=table.options.value(NUM_SORTED_RUN_TRIGGER),
        target_bytes=target_file_size(table.options, primary_key=table.has_primary_key),
        partitions=tuple(lines[:MOST_PARTITIONS]),
        more_partitions=max(0, len(lines) - MOST_PARTITIONS),
        partition=chosen,
        buckets=tuple(_bucket(table, b, buckets[b], offset) for b in sorted(order[:MOST_BUCKETS])),
        more_buckets=max(0, len(order) - MOST_BUCKETS),
    )


def _bucket(
    table: FileStoreTable, number: int, files: Sequence[DataFileMeta], offset: int
) -> BucketPicture:
    drawn = sorted(files, key=lambda f: (-f.file_size, f.file_name))[:MOST_FILES]
    runs = 1
    ranks: dict[str, tuple[int, int]] = {}
    keys = len(drawn)
    if table.has_primary_key and not is_clustered(table):
        key_type = table.schema.key_type
        keyed = [KeyedFile.of(f, key_type) for f in drawn]
        order = {
            key: rank
            for rank, key in enumerate(sorted({k for f in keyed for k in (f.low, f.high)}))
        }
        keys = len(order)
        ranks = {f.file.file_name: (order[f.low], order[f.high]) for f in keyed}
        runs = max((len(section) for section in interval_partition(files, key_type)), default=1)
    else:
        made = sorted(drawn, key=lambda f: (f.creation_time or 0, f.file_name))
        ranks = {f.file_name: (place, place) for place, f in enumerate(made)}
        runs = max(1, sum(f.level == 0 for f in files)) if table.has_primary_key else 1
    return BucketPicture(
        bucket=number,
        files=len(files),
        bytes=sum(f.file_size for f in files),
        rows=rows_of(table, files),
        runs=runs,
        keys=keys,
        boxes=tuple(_box(table, f, ranks[f.file_name], offset) for f in drawn),
        left_out=len(files) - len(drawn),
    )


def _box(table: FileStoreTable, file: DataFileMeta, place: tuple[int, int], offset: int) -> FileBox:
    return FileBox(
        name=file.file_name,
        level=file.level,
        bytes=file.file_size,
        rows=file.row_count,
        delete_rows=file.delete_row_count or 0,
        low=place[0],
        high=place[1],
        first_key=_key_text(table, file, file.min_key),
        last_key=_key_text(table, file, file.max_key),
        created_millis=None if file.creation_time is None else file.creation_time - offset,
    )


def _key_text(table: FileStoreTable, file: DataFileMeta, row: bytes) -> str:
    if not table.has_primary_key:
        return ""
    try:
        values = decode_row(row, [f.type for f in bound_fields(table, file)])
    except PaimonError:
        return "?"
    text = ", ".join(str(v) for v in values)
    return text if len(text) <= _MOST_KEY else text[: _MOST_KEY - 1] + "…"
