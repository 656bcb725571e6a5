"""Chooses what a compaction rewrites: reads metadata once, then decides without I/O.

`inspect` reads the newest snapshot and the live files of the chosen partitions; `plan` asks
Paimon's pickers bucket by bucket (Java: `CompactProcedure`, `AppendCompactCoordinator`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final, cast

from paimon_core.commit.unknown_metadata import check_rewritable
from paimon_core.compaction.due import BucketFiles, units_due
from paimon_core.compaction.postpone import replay_units
from paimon_core.compaction.record_expiry import record_expiry
from paimon_core.compaction.unit import CompactUnit
from paimon_core.features import check_compactable, check_snapshot_compactable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, FileKind, IndexFileMeta, ManifestEntry
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.retention.partitions import compacts_partition
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.replaced import check_not_older_than_replacement
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.job.lazy_list import LazyList
from paimon_maintenance.job.plan import (
    Effect,
    Retained,
    SingleUse,
    SnapshotPin,
    plan_json,
    shortened,
    source_text,
)
from paimon_maintenance.job.rewrite_job import slice_bytes_of
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.jobs.compact.select import Portion, candidates
from paimon_maintenance.rules.partition_choice import chosen_partitions

FULL: Final = "full"
_BUSY: Final = "partition_idle_time: the partition received files since"
_SKIPPED: Final = "compaction.skip-expired-partitions: the partition has expired"

BucketKey = tuple[bytes, int]
"""Partition (stored row bytes) and bucket."""


@dataclass(frozen=True, slots=True)
class BucketPortion:
    """The files of some buckets, and number, files and bytes of the buckets of later portions."""

    buckets: Mapping[BucketKey, BucketFiles]
    later: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactState:
    """What inspection found: the chosen partitions' buckets in one snapshot.

    `portions` are those in which a compaction may be due; the others are only counted: `idle` for
    those of idle partitions, `busy` for those of partitions that received files lately, `skipped`
    for those of expired ones.  `newest_file` maps partitions to their newest file's creation time,
    `idle_before` is the time before which a partition counts as idle (both milliseconds of local
    wall clock).
    """

    snapshot: Snapshot | None
    portions: Iterator[BucketPortion]
    idle: tuple[int, int] = (0, 0)
    busy: tuple[int, int] = (0, 0)
    skipped: tuple[int, int] = (0, 0)
    newest_file: Mapping[bytes, int]
    idle_before: int | None
    total_files: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPlan:
    """Units of work pinned to a snapshot; units of one bucket are committed together.

    `goes_on`: the units move postponed rows to their buckets, where compaction is due after that,
    or `later` buckets are left for the next plan.  Their files count in `effect` as if all were
    rewritten.  `names` are partitions as text; `files` and `vector_files` are all live files of the
    buckets that have units, and their index files with deletion vectors.
    """

    table: str
    pin: SnapshotPin | None
    units: tuple[CompactUnit, ...]
    names: Mapping[bytes, str]
    files: Mapping[BucketKey, tuple[DataFileMeta, ...]]
    vector_files: Mapping[BucketKey, tuple[IndexFileMeta, ...]] = field(default_factory=dict)
    kept: tuple[Retained, ...]
    effect: Effect
    arguments: Mapping[str, object]
    commit_bytes: int | None = None
    slice_bytes: int | None = None
    goes_on: bool = False
    later: int = 0
    once: SingleUse = field(default_factory=SingleUse, compare=False, repr=False)
    failure: ClassVar[None] = None

    @property
    def is_empty(self) -> bool:
        """Whether no bucket has work that is due."""
        return not self.units

    def label(self, unit: CompactUnit) -> str:
        """The unit for people: its partition, bucket and key range."""
        partition = self.names.get(unit.partition, "")
        part = " (a range of its keys)" if unit.key_range is not None else ""
        return f"{partition + ' ' if partition else ''}bucket {unit.bucket}{part}"

    def to_json(self) -> dict[str, object]:
        """The plan as one JSON object (docs/cli.md)."""
        return plan_json(
            self,
            "compact",
            self.arguments,
            units=LazyList(self.units, self._unit_json),
        )

    def _unit_json(self, unit: CompactUnit) -> dict[str, object]:
        return {
            "partition": self.names.get(unit.partition, ""),
            "bucket": unit.bucket,
            "reason": unit.reason,
            "output_level": unit.output_level,
            "rewrite_files": len(unit.rewritten_files),
            "rewrite_bytes": unit.rewritten_bytes,
            "rewrite_rows": unit.rewritten_rows,
            "upgrade_files": len(unit.moved_files),
            "makes_changelog": unit.writes_changelog,
            "drops_deletes": unit.drop_deletes,
            "key_range": unit.key_range is not None,
            "files": [f.file_name for f in (*unit.rewritten_files, *unit.moved_files)],
        }

    def lines(self) -> Iterator[str]:
        """The plan for people."""
        where = source_text(self)
        if self.is_empty:
            yield f"compact {self.table} from {where}: nothing to do"
        else:
            upgrades = sum(len(u.upgrades) for u in self.units)
            yield (
                f"compact {self.table} from {where}: rewrite {self.effect.rewritten_files:,} of "
                f"{counted(self.effect.table_files, 'files')}, {human_bytes(self.effect.rewritten_bytes)}, "
                f"in {counted(len({(u.partition, u.bucket) for u in self.units}), 'buckets')}"
                + (
                    f"; move {counted(upgrades, 'files')} up a level by metadata alone"
                    if upgrades
                    else ""
                )
            )
        yield from shortened(self.units, self._unit_line, noun="units")
        if self.later:
            yield f"  then, with new plans, what is due in {counted(self.later, 'other buckets')}"
        elif self.goes_on:
            yield "  then, with a new plan, what is due in the real buckets"
        for kept in self.kept:
            yield f"  {kept.line()}"

    def _unit_line(self, unit: CompactUnit) -> str:
        moved = f", move up {len(unit.moved_files)}" if unit.moved_files else ""
        return (
            f"{self.label(unit)}: rewrite {counted(len(unit.rewritten_files), 'files')} "
            f"({human_bytes(unit.rewritten_bytes)}){moved} to level {unit.output_level} "
            f"({unit.reason})"
        )


def inspect(
    table: FileStoreTable, arguments: Mapping[str, object], context: RunContext
) -> CompactState:
    """The chosen partitions in the newest snapshot; UnsupportedFeature before anything is read."""
    check_compactable(table)
    predicate = chosen_partitions(table, arguments)
    snapshot = table.snapshots.latest()
    idle = cast("int | None", arguments["partition_idle_time"])
    idle_before = None if idle is None else context.env.local_millis() - idle
    if snapshot is None:
        return CompactState(
            snapshot=None,
            portions=iter([BucketPortion({})]),
            newest_file={},
            idle_before=idle_before,
            total_files=0,
            total_bytes=0,
        )
    check_snapshot_compactable(table, snapshot)
    vectors = vector_files(table, snapshot)
    found = candidates(
        table,
        snapshot,
        predicate,
        full=arguments["strategy"] == FULL,
        with_vectors=vectors.keys(),
        idle_before=idle_before,
        compacts=compacts_partition(table, local_millis=context.env.local_millis()),
        divided=table.bucket_mode is not BucketMode.POSTPONE,
    )
    return CompactState(
        snapshot=snapshot,
        portions=_portions(table, snapshot, found.portions, vectors),
        idle=found.idle,
        busy=found.busy,
        skipped=found.skipped,
        newest_file=found.newest_file,
        idle_before=idle_before,
        total_files=found.total_files,
        total_bytes=found.total_bytes,
    )


def _portions(
    table: FileStoreTable,
    snapshot: Snapshot,
    portions: Iterator[Portion],
    vectors: Mapping[BucketKey, Sequence[IndexFileMeta]],
) -> Iterator[BucketPortion]:
    for portion in portions:
        check_rewritable(portion.entries, table=table.name, snapshot=snapshot.id)
        written = {e.file.schema_id for e in portion.entries}
        check_not_older_than_replacement(table.schemas, written, table.schema)
        grouped: dict[BucketKey, list[ManifestEntry]] = defaultdict(list)
        for entry in portion.entries:
            grouped[entry.partition, entry.bucket].append(entry)
        later = portion.later
        del portion  # so that only one portion is in memory
        yield BucketPortion(
            {
                key: BucketFiles(
                    partition=key[0],
                    bucket=key[1],
                    total_buckets=own[0].total_buckets,
                    files=tuple(e.file for e in own),
                    vector_files=tuple(vectors.get(key, ())),
                )
                for key, own in grouped.items()
            },
            later,
        )
        del grouped


def plan(
    table: FileStoreTable,
    state: CompactState,
    arguments: Mapping[str, object],
    context: RunContext,
) -> CompactPlan:
    """The work that is due in each bucket, by Paimon's own rules."""
    full = arguments["strategy"] == FULL
    local_millis = context.env.local_millis()
    expiry = None
    if table.has_primary_key:
        expiry = record_expiry(table, now_millis=context.env.now_millis())
    kept = _Kept(f"nothing is due by the rules of a {arguments['strategy']} compaction")
    due = partial(units_due, table, full=full, local_millis=local_millis, expiry=expiry)
    chosen, units, replays = _first_due(table, state, due, kept)
    later = chosen.later
    kept.add(kept.nothing_due, *state.idle)
    kept.add(_BUSY, *state.busy)
    kept.add(_SKIPPED, *state.skipped)
    kept.add("a later plan of the same run looks at them", later[0], later[2])
    left = kept.retained()
    if not units and not left:
        why = "the table has no files"
        if arguments["partitions"] or arguments["where"]:
            why = "no partition that was chosen has files"
        left.append(Retained(what="buckets", why=why, count=0))
    touched = {u.partition for u in units} if replays else frozenset()
    return CompactPlan(
        table=table.name,
        goes_on=replays or later[0] > 0,
        later=later[0],
        pin=None if state.snapshot is None else SnapshotPin.of(state.snapshot),
        units=tuple(units),
        names={u.partition: table.paths.partition_path(u.partition) for u in units},
        files={
            key: chosen.buckets[key].files
            for key in (
                *dict.fromkeys((u.partition, u.bucket) for u in units),
                *(k for k in chosen.buckets if k[0] in touched and k[1] != POSTPONE_BUCKET),
            )
        },
        vector_files={
            key: chosen.buckets[key].vector_files
            for key in dict.fromkeys((u.partition, u.bucket) for u in units)
        },
        kept=tuple(left),
        effect=_effect(state, units, later),
        arguments=arguments,
        commit_bytes=cast("int | None", arguments["commit_bytes"]),
        slice_bytes=slice_bytes_of(table, arguments),
    )


class _Kept:
    """Number and size of the buckets that stay as they are, by the reason."""

    def __init__(self, nothing_due: str) -> None:
        self.nothing_due: Final = nothing_due
        self._found: dict[str, tuple[int, int]] = {}

    def add(self, why: str, count: int, size: int) -> None:
        if count:
            before = self._found.get(why, (0, 0))
            self._found[why] = (before[0] + count, before[1] + size)

    def add_bucket(self, why: str, bucket: BucketFiles) -> None:
        self.add(why, 1, sum(f.file_size for f in bucket.files))

    def retained(self) -> list[Retained]:
        found = self._found.items()
        return [Retained(what="buckets", why=w, count=n, bytes=size) for w, (n, size) in found]


def _first_due(
    table: FileStoreTable,
    state: CompactState,
    due: Callable[[BucketFiles], list[CompactUnit]],
    kept: _Kept,
) -> tuple[BucketPortion, list[CompactUnit], bool]:
    """The first portion with due work, its units, and whether these replay postponed rows.

    The next plan continues with the portions after it.
    """
    for portion in state.portions:
        units = _replays(table, state, portion)
        replays = bool(units)
        for (partition, number), bucket in portion.buckets.items():
            if replays or number == POSTPONE_BUCKET:
                continue  # real buckets are compacted once all postponed rows are in them
            if state.idle_before is not None and state.newest_file[partition] > state.idle_before:
                kept.add_bucket(_BUSY, bucket)
                continue
            found = due(bucket)
            units += found
            if not found:
                kept.add_bucket(kept.nothing_due, bucket)
        if units:
            return portion, units, replays
        del portion  # before the next one is read
    return BucketPortion({}), [], False


def _replays(
    table: FileStoreTable, state: CompactState, portion: BucketPortion
) -> list[CompactUnit]:
    """The postponed rows of the partitions that are idle long enough."""
    if table.bucket_mode is not BucketMode.POSTPONE:
        return []
    return replay_units(
        table,
        [
            ManifestEntry(FileKind.ADD, partition, number, bucket.total_buckets, file)
            for (partition, number), bucket in portion.buckets.items()
            if state.idle_before is None or state.newest_file[partition] <= state.idle_before
            for file in bucket.files
        ],
    )


def _effect(
    state: CompactState, units: Sequence[CompactUnit], later: tuple[int, int, int]
) -> Effect:
    # Slices of a bucket all read the same files.
    files = {
        (u.partition, u.bucket, f.file_name): f.file_size for u in units for f in u.rewritten_files
    }
    return Effect(
        rewritten_files=len(files) + later[1],
        rewritten_bytes=sum(files.values()) + later[2],
        table_files=state.total_files,
        table_bytes=state.total_bytes,
    )
