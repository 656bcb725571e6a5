"""Moves rows from the postpone bucket to real buckets.

Java: `PostponeUtils`, `SparkPostponeCompactProcedure`, `flink/postpone/*`.

::

    bucket-postpone/  f1 f2 f3      --replay, oldest file first-->   bucket-0/ level 0
                                                                     bucket-1/ level 0

A partition with real buckets keeps their number; others get one for each
`postpone.target-row-num-per-bucket` of their rows (2.0), else `postpone.default-bucket-num`.  Rows
are numbered from the greatest sequence number of the partition on, in the order of the files, so
that several tasks can replay files in parallel.  One commit removes the files and adds the new
ones; the compaction of the real buckets is a separate job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from paimon_core.compaction.unit import CompactResult, CompactUnit, Replay
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import BUCKET, POSTPONE_DEFAULT_BUCKETS, POSTPONE_TARGET_ROWS
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.data_file import read_table_file
from paimon_core.read.section import MOST_ROWS
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.write.incoming_rows import without_defaults
from paimon_core.write.on_failure import aborted_on_failure
from paimon_core.write.row_writer import RowWriter, delete_new_files


def with_real_buckets(table: FileStoreTable, buckets: int) -> FileStoreTable:
    """Return the table with the options for writing to this number of real buckets."""
    return replace(table, schema=table.schema.with_options({BUCKET.key: str(buckets)}))


def check_target(table: FileStoreTable, key: str, value: int) -> None:
    """InvalidArgument for an option with the rows or bytes of a bucket that is not above 0."""
    if value <= 0:
        raise InvalidArgument(
            f"Option '{key}' must be greater than 0.",
            table=table.name,
            next_step="set the option to another value",
        )


def known_buckets(table: FileStoreTable, entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """Return the bucket count of each partition with real buckets; CorruptTable if it has two."""
    known: dict[bytes, int] = {}
    for entry in entries:
        if entry.total_buckets <= 0:
            continue
        found = known.setdefault(entry.partition, entry.total_buckets)
        if found != entry.total_buckets:
            where = table.paths.partition_path(entry.partition) or "the table"
            raise CorruptTable(
                f"{where} of table {table.name} has both {found} and {entry.total_buckets} buckets",
                table=table.name,
                file=entry.file.file_name,
            )
    return known


def replay_units(table: FileStoreTable, entries: Sequence[ManifestEntry]) -> list[CompactUnit]:
    """Return one unit for each partition with postponed files.

    `entries` holds all live files of these partitions, in real buckets and the postpone bucket.
    """
    known = known_buckets(table, entries)
    postponed: dict[bytes, list[DataFileMeta]] = defaultdict(list)
    newest: dict[bytes, int] = {}
    for entry in entries:
        if entry.bucket == POSTPONE_BUCKET:
            postponed[entry.partition].append(entry.file)
        else:
            newest[entry.partition] = max(
                newest.get(entry.partition, -1), entry.file.max_sequence_number
            )
    return [
        CompactUnit(
            partition=partition,
            bucket=POSTPONE_BUCKET,
            total_buckets=POSTPONE_BUCKET,
            append_files=tuple(sorted(files, key=lambda f: f.creation_time or 0)),
            replay=Replay(
                buckets=known.get(partition) or _new_buckets(table, files),
                first_sequence_number=newest.get(partition, -1) + 1,
            ),
            reason="postponed rows",
        )
        for partition, files in postponed.items()
    ]


def _new_buckets(table: FileStoreTable, postponed: Iterable[DataFileMeta]) -> int:
    """The buckets that the rows of a partition without real ones get."""
    target = table.options.value(POSTPONE_TARGET_ROWS)
    if target is None:
        return table.options.value(POSTPONE_DEFAULT_BUCKETS)
    check_target(table, POSTPONE_TARGET_ROWS.key, target)
    return max(1, -(-sum(f.row_count for f in postponed) // target))


def replay_slices(unit: CompactUnit, slice_bytes: int) -> list[CompactUnit]:
    """Split `unit` into units of consecutive files of about `slice_bytes` each."""
    assert unit.replay is not None
    files = unit.append_files
    # A group ends where the bytes before a file exceed the next multiple of the slice size.
    before = [0, *accumulate(f.file_size for f in files)]
    rows_before = [0, *accumulate(f.row_count for f in files)]
    groups: dict[int, list[int]] = defaultdict(list)
    for i in range(len(files)):
        groups[before[i] // slice_bytes].append(i)
    first = unit.replay.first_sequence_number
    return [
        replace(
            unit,
            append_files=tuple(files[i] for i in group),
            replay=replace(unit.replay, first_sequence_number=first + rows_before[group[0]]),
        )
        for group in groups.values()
    ]


def replay(
    table: FileStoreTable,
    unit: CompactUnit,
    *,
    env: Environment,
) -> CompactResult:
    """Return the postponed files to remove, and in `moved` the level-0 files of the real buckets.

    The new files exist when this returns; on failure they are deleted again.
    """
    assert unit.replay is not None
    real = with_real_buckets(without_defaults(table), unit.replay.buckets)
    writer = RowWriter(real, env=env, first_sequence=unit.replay.first_sequence_number)
    with aborted_on_failure((writer,)):
        for file in unit.append_files:
            batches = read_table_file(
                table,
                unit.partition,
                unit.bucket,
                file,
                table.schema.row_type,
                key_value=True,
                batch_rows=MOST_ROWS,
            )
            for batch in batches:
                kinds = np.asarray(batch.column(VALUE_KIND)).astype(np.int8)
                writer.write(batch.select(list(table.schema.names)), kinds)
        messages = writer.prepare_commit()
    if any(m.partition != unit.partition for m in messages):
        for message in messages:
            delete_new_files(table, message)
        raise CorruptTable(
            f"postponed rows of table {table.name} are stored in the wrong partition",
            table=table.name,
            file=unit.append_files[0].file_name,
        )
    return CompactResult(
        partition=unit.partition,
        bucket=unit.bucket,
        total_buckets=unit.total_buckets,
        before=unit.append_files,
        moved=tuple(
            CompactResult(
                partition=m.partition,
                bucket=m.bucket,
                total_buckets=m.total_buckets,
                after=m.new_files,
                changelog_files=m.changelog_files,
            )
            for m in messages
        ),
    )
