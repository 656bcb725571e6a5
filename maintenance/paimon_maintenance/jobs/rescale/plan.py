"""Chooses what a rescale does: which number of buckets, and which partitions are rewritten.

The option of the table and the numbers of its partitions show how far an earlier run came: a
partition that has the wanted number is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final, cast

import numpy as np

from paimon_core.commit.unknown_metadata import check_rewritable
from paimon_core.errors import InvalidArgument
from paimon_core.features import check_rescalable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.entries.columns import EntryColumns, distinct, sums
from paimon_core.options import BUCKET
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.refs.tags import Tag
from paimon_core.schema.replaced import check_not_older_than_replacement
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.exact_commit import check_changelog_complete
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
from paimon_maintenance.job.rewrite_job import batches_of, slice_bytes_of
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.jobs.rescale.layout import (
    MOST_FILES,
    Layouts,
    PartitionLayout,
    entries_of,
    files_of,
    levels_of,
    read_layouts,
    unit_counts,
)
from paimon_maintenance.jobs.rescale.option import with_buckets
from paimon_maintenance.rules.safety_tag import BEFORE_RESCALE, safety_tag

MOST_BUCKETS: Final = 2**31 - 1
"""Manifests keep the number in four bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleState:
    """What inspection found; `buckets` is what the option says.

    `schema_buckets` are the options of all schemas, oldest first.
    """

    layouts: Layouts
    buckets: int
    schema_buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePlan:
    """Partitions to rewrite for `buckets` buckets, pinned to a snapshot.

    `buckets_before` is what the option says; it is set when the two differ, but with postponed
    buckets, whose option never changes.  `state` describes how far the table is, line by line.
    `files` are those of the partitions.  `unscaled` are the rows of all partitions that had another
    number, chosen or not.
    """

    table: str
    pin: SnapshotPin | None
    buckets_before: int
    buckets: int
    partitions: tuple[PartitionLayout, ...]
    files: EntryColumns = field(compare=False, repr=False)
    unscaled: frozenset[bytes]
    state: tuple[str, ...]
    kept: tuple[Retained, ...]
    effect: Effect
    arguments: Mapping[str, object]
    safety: Tag | None = None
    batch_bytes: int = 0
    slice_bytes: int | None = None
    once: SingleUse = field(default_factory=SingleUse, compare=False, repr=False)
    failure: ClassVar[None] = None
    goes_on: ClassVar[bool] = False

    @property
    def sets_option(self) -> bool:
        """Whether the table's option changes."""
        return self.option != self.buckets_before

    @property
    def option(self) -> int:
        """The new value of the table's option."""
        postponed = self.buckets_before == POSTPONE_BUCKET
        return self.buckets_before if postponed else self.buckets

    @property
    def is_empty(self) -> bool:
        """Whether option and partitions have the number already."""
        return not self.sets_option and not self.partitions

    def to_json(self) -> dict[str, object]:
        """The plan as one JSON object (docs/cli.md)."""
        units = unit_counts(self.files, self.partitions, self.buckets)
        return plan_json(
            self,
            "rescale",
            self.arguments,
            buckets_before=self.buckets_before,
            buckets=self.buckets,
            sets_option=self.sets_option,
            safety_tag=None if self.safety is None else self.safety.name,
            partitions=LazyList(self.partitions, partial(_partition_json, units)),
            state=list(self.state),
        )

    def lines(self) -> Iterator[str]:
        """The plan for people."""
        where = source_text(self)
        head = f"rescale {self.table} from {where} to {counted(self.buckets, 'buckets')}"
        yield f"{head}: nothing to do" if self.is_empty else head
        if self.safety is not None:
            yield f"  tag snapshot {self.safety.snapshot.id} as {self.safety.name!r}: safety"
        if self.sets_option:
            yield (
                f"  set option bucket from {self.buckets_before} to {self.buckets}: writers with "
                f"the old number are refused from then on"
            )
        yield from shortened(self.partitions, self._partition_line, noun="partitions")
        for line in self.state:
            yield f"  {line}"
        for kept in self.kept:
            yield f"  {kept.line()}"

    def _partition_line(self, partition: PartitionLayout) -> str:
        files = f"{counted(partition.files, 'files')} ({human_bytes(partition.bytes)})"
        old = " and ".join(map(str, partition.totals))
        return (
            f"{partition.label}: rewrite {files} from {old} to {counted(self.buckets, 'buckets')}"
        )


def _partition_json(units: Mapping[bytes, int], partition: PartitionLayout) -> dict[str, object]:
    return {
        "partition": partition.name,
        "buckets": list(partition.totals),
        "files": partition.files,
        "bytes": partition.bytes,
        "rows": partition.rows,
        "units": units[partition.row],
    }


def inspect(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> RescaleState:
    """The partitions of the newest snapshot; UnsupportedFeature before anything is read."""
    check_rescalable(table)
    return RescaleState(
        layouts=read_layouts(table, arguments),
        buckets=table.options.value(BUCKET),
        schema_buckets=tuple(s.options.value(BUCKET) for s in table.schemas.all()),
    )


def plan(
    table: FileStoreTable,
    state: RescaleState,
    arguments: Mapping[str, object],
    context: RunContext,
) -> RescalePlan:
    """The partitions that do not have the wanted number yet."""
    found, snapshot = state.layouts, state.layouts.snapshot
    chosen = [p for p in found.partitions if p.row in found.chosen]
    if not chosen and (arguments["partitions"] or arguments["where"]):
        raise InvalidArgument(
            f"no partition of table {table.name} with files is selected", table=table.name
        )
    first = context.first_plan
    if isinstance(first, RescalePlan):
        buckets = first.buckets  # what is restored, or fits a target, was decided when it began
    else:
        buckets = wanted_buckets(table, state, chosen, arguments)
    if buckets != state.buckets != POSTPONE_BUCKET:
        # An invalid option must fail before the job tags or writes anything.
        with_buckets(table.schemas.get(table.schema.id), buckets, context.env)
    going = [p for p in chosen if p.totals != (buckets,)]
    files = files_of(found.files, going)
    if snapshot is not None:
        _check_files(table, snapshot, files, going)
    files = replace(files, numbers={})
    kept = _kept_partitions(state, chosen, buckets)
    safety = None
    resumed = _is_resumed(table, state, buckets)
    if snapshot is not None and going and not resumed:
        safety = safety_tag(
            table,
            snapshot,
            prefix=BEFORE_RESCALE,
            name=f"{snapshot.id}-to-{buckets}",
            retained_millis=cast("int | None", arguments["safety_tag"]),
            env=context.env,
            kept=kept,
        )
    return RescalePlan(
        table=table.name,
        pin=None if snapshot is None else SnapshotPin.of(snapshot),
        buckets_before=state.buckets,
        buckets=buckets,
        partitions=tuple(going),
        files=files,
        unscaled=frozenset(p.row for p in found.partitions if p.totals != (buckets,)),
        state=tuple(_described(state, chosen)),
        kept=tuple(kept),
        effect=Effect(
            rewritten_files=len(files),
            rewritten_bytes=sum(p.bytes for p in going),
            table_files=len(found.files),
            table_bytes=sum(p.bytes for p in found.partitions),
        ),
        arguments=arguments,
        safety=safety,
        batch_bytes=cast("int", arguments["batch_bytes"]),
        slice_bytes=slice_bytes_of(table, arguments),
    )


def _kept_partitions(
    state: RescaleState, chosen: Sequence[PartitionLayout], buckets: int
) -> list[Retained]:
    """The partitions that the plan does not rescale to `buckets`, and why."""
    found = state.layouts
    kept: list[Retained] = []
    _keep(kept, [p for p in chosen if p.totals == (buckets,)], f"has {buckets} buckets already")
    if state.buckets == POSTPONE_BUCKET and not found.partitions and found.snapshot is not None:
        why = "all rows still wait to be put into buckets; see compact"
        kept.append(Retained(what="postponed rows", why=why, count=0))
    left_out = [p for p in found.partitions if p.row not in found.chosen]
    for totals, count in sorted(Counter(p.totals for p in left_out).items()):
        same = [p for p in left_out if p.totals == totals]
        refused = "; writers are refused there until it is rescaled"
        if totals == (buckets,) or state.buckets == POSTPONE_BUCKET:
            refused = ""
        number = " and ".join(map(str, totals))
        _keep(kept, same, f"not chosen: {count} stay at {number} buckets{refused}")
    return kept


def _is_resumed(table: FileStoreTable, state: RescaleState, buckets: int) -> bool:
    """Whether an interrupted run has set the option, and left its safety tag."""
    return buckets == state.buckets and any(
        t.name.startswith(BEFORE_RESCALE) and t.name.split("-to-")[-1].startswith(f"{buckets}-")
        for t in table.tags.all()
    )


def _check_files(
    table: FileStoreTable, snapshot: Snapshot, files: EntryColumns, going: list[PartitionLayout]
) -> None:
    """UnsupportedFeature or SchemaError if a file cannot be rewritten, before anything changes."""
    written = distinct(files.numbers["schema_id"]).tolist()
    check_not_older_than_replacement(table.schemas, written, table.schema)
    codes = {int(files.partition[i]) for i in files.unknown}
    rows = {files.partitions.rows[code] for code in codes}
    unknown = [p for p in going if p.row in rows]
    for part in batches_of(unknown, lambda p: p.files, most=MOST_FILES):
        for partition in entries_of(table, snapshot, files, part):
            check_rewritable(partition.entries, table=table.name)
    for layout, levels in levels_of(files, going):
        check_changelog_complete(table, layout.label, levels)


def wanted_buckets(
    table: FileStoreTable,
    state: RescaleState,
    chosen: Sequence[PartitionLayout],
    arguments: Mapping[str, object],
) -> int:
    """The number of buckets that the arguments mean; InvalidArgument if they contradict."""
    number = cast("int | None", arguments["bucket_num"])
    target = cast("int | None", arguments["target_bytes"])
    restore = bool(arguments["restore"])
    if sum((number is not None, target is not None, restore)) > 1:
        raise InvalidArgument(
            "only one of bucket_num, target_bytes and restore can be used", table=table.name
        )
    if restore:
        return _restored(table, state)
    if target is not None:
        if target < 1:
            raise InvalidArgument("argument --target-bytes: must be positive", table=table.name)
        largest = max((p.bytes for p in chosen), default=0)
        return max(1, -(-largest // target))
    if number is None and state.buckets == POSTPONE_BUCKET:
        raise InvalidArgument(
            "When rescaling postpone bucket tables, you must provide the resulting bucket number, as "
            "their option names none",
            table=table.name,
            next_step="pass bucket_num",
        )
    if number is not None and not 1 <= number <= MOST_BUCKETS:
        raise InvalidArgument(
            f"argument --bucket-num: {number} is not a number of fixed buckets", table=table.name
        )
    return state.buckets if number is None else number


def _restored(table: FileStoreTable, state: RescaleState) -> int:
    """The number before the last change; the present one if that change itself went back.

    So a second run continues an interrupted one and does not undo a finished one.
    """
    numbers: list[int] = []  # the present one last; a rescale can restore the others
    back = False
    for number in state.schema_buckets:
        if numbers and number == numbers[-1]:
            continue
        back = number in numbers[-2:-1]
        if back:
            numbers.pop()
        else:
            numbers.append(number)
    if back:
        return numbers[-1]
    if len(numbers) < 2:
        raise InvalidArgument(
            f"table {table.name} has had {state.buckets} buckets all along: there is nothing "
            f"to restore",
            table=table.name,
        )
    return numbers[-2]


def _keep(kept: list[Retained], partitions: Sequence[PartitionLayout], why: str) -> None:
    if partitions:
        size = sum(p.bytes for p in partitions)
        kept.append(Retained(what="partitions", why=why, count=len(partitions), bytes=size))


def _described(state: RescaleState, chosen: Sequence[PartitionLayout]) -> Iterator[str]:
    """How far the table is, and how large its buckets are."""
    counts = Counter(n for p in state.layouts.partitions for n in p.totals)
    if state.buckets != POSTPONE_BUCKET and set(counts) - {state.buckets}:
        parts = ", ".join(f"{c:,} with {n} buckets" for n, c in sorted(counts.items()))
        yield (
            f"now: the option says {state.buckets} buckets, partitions: {parts}. Writers are "
            f"refused where the two differ; run rescale to go on, or with --restore to go back"
        )
    files = files_of(state.layouts.files, chosen)
    numbers, _, bucket_of = files.group()
    if len(numbers):
        ordered = np.sort(sums(bucket_of, files.numbers["file_size"], len(numbers))).tolist()
        yield (
            f"now: {len(ordered):,} buckets with files, smallest {human_bytes(ordered[0])}, "
            f"median {human_bytes(ordered[len(ordered) // 2])}, largest {human_bytes(ordered[-1])} "
            f"(a bucket of 200 MB to 1 GB is a good size)"
        )
    mixed = [p.label for p in state.layouts.partitions if len(p.totals) > 1]
    if mixed:
        yield (
            f"now: {len(mixed)} partitions mix layouts ({mixed[0]}): a writer went on with the "
            f"old number; rescale puts that right"
        )
