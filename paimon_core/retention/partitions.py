"""Expires partitions (Java: `operation/PartitionExpire`; java-rules K1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.overwrite import Check, replace_partitions
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.features import check_droppable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind
from paimon_core.manifest.entries.columns import NULL, sums
from paimon_core.names import LARGEST_LONG
from paimon_core.options import (
    COMPACTION_SKIP_EXPIRED_PARTITIONS,
    PARTITION_EXPIRATION_BATCH_SIZE,
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    Options,
)
from paimon_core.retention.registered_partitions import unregistered
from paimon_core.scan.columns import scan_columns
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_core.types.partition_time import PartitionTimes

STRATEGIES: Final = ("values-time", "update-time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: its stored row, its path, and its live files.

    `newest_file` is the creation time of its newest file, in milliseconds of the local wall clock.
    A file without a creation time counts as new, because its age is unknown.
    """

    row: bytes
    path: str
    files: int
    bytes: int
    newest_file: int


def partitions_of(table: FileStoreTable, snapshot: Snapshot | None) -> list[Partition]:
    """All partitions with live files, sorted by path."""
    if snapshot is None:
        return []
    live = scan_columns(table, snapshot, ("file_size", "creation_time"))
    rows = live.partitions.rows
    files = np.bincount(live.partition, minlength=len(rows))
    size = sums(live.partition, live.numbers["file_size"], len(rows))
    newest = np.zeros(len(rows), np.int64)
    times = live.numbers["creation_time"]
    np.maximum.at(newest, live.partition, np.where(times == NULL, LARGEST_LONG, times))
    partitions = [
        Partition(
            row=row,
            path=table.paths.partition_path(row),
            files=int(files[code]),
            bytes=int(size[code]),
            newest_file=int(newest[code]),
        )
        for code, row in enumerate(rows)
        if files[code]
    ]
    return sorted(partitions, key=lambda p: p.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRule:
    """When partitions expire: `time` in milliseconds, at most `most` of them in one run."""

    time: int
    strategy: str
    pattern: str | None = None
    formatter: str | None = None
    most: int = 100

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise InvalidArgument(f"unknown partition.expiration-strategy {self.strategy!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """What expires, with its time; and what stays.

    `before` is the wall clock time before which partitions expire.  `unclear` are partitions
    without a time, with the reason; `beyond` expired too, but exceed the maximum of the rule.
    """

    work: PartitionExpiry
    times: Sequence[int]
    before: int
    everything: Sequence[Partition]
    unclear: Sequence[tuple[Partition, str]] = ()
    young: int = 0
    beyond: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiry:
    """The partitions to drop, in order, and the number per commit."""

    going: tuple[Partition, ...] = ()
    batch_size: int = 0
    by_update_time: bool = False


def partition_rule(options: Options) -> PartitionRule | None:
    """Return the rule that the table's options define; None without an expiration time."""
    time = options.value(PARTITION_EXPIRATION_TIME)
    if time is None:
        return None
    return PartitionRule(
        time=time,
        strategy=options.value(PARTITION_EXPIRATION_STRATEGY),
        pattern=options.value(PARTITION_TIMESTAMP_PATTERN),
        formatter=options.value(PARTITION_TIMESTAMP_FORMATTER),
        most=options.value(PARTITION_EXPIRATION_MAX_NUM),
    )


def plan_partitions(
    table: FileStoreTable, latest: Snapshot | None, rule: PartitionRule, *, local_millis: int
) -> PartitionPlan:
    """Return which partitions of the snapshot expire; `local_millis` is the wall clock time."""
    before = local_millis - rule.time
    kind = table.schema.partition_type
    everything = partitions_of(table, latest)
    times = None
    if rule.strategy == "values-time":
        times = PartitionTimes.of(rule.pattern, rule.formatter)
    found: list[tuple[Partition, int]] = []
    unclear: list[tuple[Partition, str]] = []
    young = 0
    for partition in everything:
        time = partition.newest_file if times is None else times.time_of(kind, partition.row)
        if isinstance(time, str):
            unclear.append((partition, time))
        elif time < before:
            found.append((partition, time))
        else:
            young += 1
    found.sort(key=lambda f: _sort_text(table, f[0].row))
    going = found[: rule.most]
    return PartitionPlan(
        work=PartitionExpiry(
            going=tuple(p for p, _ in going),
            batch_size=table.options.value(PARTITION_EXPIRATION_BATCH_SIZE) or 0,
            by_update_time=times is None,
        ),
        times=[time for _, time in going],
        before=before,
        everything=everything,
        unclear=unclear,
        young=young,
        beyond=len(found) - len(going),
    )


def compacts_partition(
    table: FileStoreTable, *, local_millis: int
) -> Callable[[bytes], bool] | None:
    """Return what says by stored row whether a compaction may rewrite a partition; None if any.

    With `compaction.skip-expired-partitions`, partitions that have expired by the time in their
    values stay as they are (Java 2.0: `CompactorSourceBuilder.build`).  `local_millis` is the wall
    clock time.
    """
    rule = partition_rule(table.options)
    if (
        rule is None
        or rule.strategy != "values-time"
        or not table.schema.partition_keys
        or not table.options.value(COMPACTION_SKIP_EXPIRED_PARTITIONS)
    ):
        return None
    times, before = PartitionTimes.of(rule.pattern, rule.formatter), local_millis - rule.time
    kind = table.schema.partition_type

    def compacts(row: bytes) -> bool:
        time = times.time_of(kind, row)
        return isinstance(time, str) or time >= before

    return compacts


def _sort_text(table: FileStoreTable, row: bytes) -> str:
    return ",".join(table.paths.partition_values(row).values())


# --- dropping -----------------------------------------------------------------------------------


def recheck_partitions(table: FileStoreTable, work: PartitionExpiry) -> PartitionExpiry:
    """Return the work without partitions that received files since, with update-time."""
    if not work.by_update_time:
        return work
    now = {p.row: p.newest_file for p in partitions_of(table, table.snapshots.latest())}
    return replace(work, going=tuple(p for p in work.going if now.get(p.row, 0) <= p.newest_file))


def apply_partitions(
    table: FileStoreTable,
    work: PartitionExpiry,
    *,
    user_of: Callable[[int], str],
    env: Environment,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    check: Check | None = None,
) -> list[Snapshot]:
    """Commit one OVERWRITE snapshot per batch, `user_of` its number from 0.

    `check` as in `replace_partitions`, for partitions that do not expire by update time.
    """
    made: list[Snapshot] = []
    size = work.batch_size or max(1, len(work.going))
    for number, start in enumerate(range(0, len(work.going), size)):
        newest = {p.row: p.newest_file for p in work.going[start : start + size]}
        if work.by_update_time:
            check = partial(_check_not_newer, table, newest)
        with unregistered(table, newest):
            made.append(
                replace_partitions(
                    table,
                    newest.__contains__,
                    user=user_of(number),
                    env=env,
                    identifier=identifier,
                    check=check,
                )
            )
    return made


def _check_not_newer(
    table: FileStoreTable, newest: Mapping[bytes, int], changes: ManifestChanges
) -> None:
    """Raise CommitConflict if a partition was updated since its last update made it expire."""
    check_droppable(table)
    for entry in changes.files:
        time = entry.file.creation_time
        if entry.kind is FileKind.DELETE and (time is None or time > newest[entry.partition]):
            raise CommitConflict(
                f"partition {table.paths.partition_path(entry.partition)} of table {table.name} "
                "received files since the plan to expire it",
                table=table.name,
                next_step="run again; the partition was not dropped",
            )
