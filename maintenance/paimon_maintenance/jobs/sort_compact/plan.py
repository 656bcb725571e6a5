"""Chooses what a sort compaction rewrites: all files of the chosen partitions, as Java does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, cast

from paimon_core.clustering.on_write import clustering_by
from paimon_core.clustering.rewrite import SortUnit
from paimon_core.commit.unknown_metadata import check_rewritable
from paimon_core.compaction.unit import CompactUnit
from paimon_core.errors import InvalidArgument
from paimon_core.features import check_sortable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.options import (
    CLUSTERING_COLUMNS,
    CLUSTERING_HISTORY_IDLE,
    CLUSTERING_HISTORY_LIMIT,
    CLUSTERING_INCREMENTAL,
    CLUSTERING_STRATEGY,
    SORT_RANGE_STRATEGY,
    SORT_SAMPLE_MAGNIFICATION,
)
from paimon_core.schema.replaced import check_not_older_than_replacement
from paimon_core.write.external_sort import Clustering
from paimon_maintenance.job.exact_commit import SoleWriter, check_changelog_complete
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.job.plan import (
    Effect,
    Retained,
    SingleUse,
    SnapshotPin,
    plan_json,
    shortened,
    source_text,
)
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.jobs.sort_compact.group import SortGroup
from paimon_maintenance.jobs.sort_compact.incremental import due, idle
from paimon_maintenance.jobs.sort_compact.query_cost import (
    Cost,
    cost_of,
    merged_groups,
    query_ranges,
)
from paimon_maintenance.rules.partition_files import PartitionScan, read_partitions

LEAST_SAMPLE: Final = 20
FULL: Final = "full"
MINOR: Final = "minor"


SortState = PartitionScan[SortGroup]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortPlan:
    """Partitions to sort, pinned to a snapshot; `before` is what queries read now, by column."""

    table: str
    pin: SnapshotPin | None
    clustering: Clustering
    groups: tuple[SortGroup, ...]
    before: Mapping[str, Cost]
    effect: Effect
    arguments: Mapping[str, object]
    batch_bytes: int
    range_bytes: int
    sample: int
    by_size: bool
    sole: SoleWriter | None = None
    """Set where rows move between buckets (dynamic buckets): no other writer may commit then."""
    kept: tuple[Retained, ...] = ()
    once: SingleUse = field(default_factory=SingleUse, compare=False, repr=False)
    failure: ClassVar[None] = None
    goes_on: ClassVar[bool] = False

    @property
    def is_empty(self) -> bool:
        """Whether there is no file."""
        return not self.groups

    def unit(self, group: SortGroup) -> SortUnit:
        """The work of one partition, done by one task."""
        vectors = any(e.index_file.index_type == DELETION_VECTORS_INDEX for e in group.index)
        first = group.entries[0]
        return SortUnit(
            source=CompactUnit(
                partition=group.row,
                bucket=first.bucket,
                total_buckets=first.total_buckets,
                append_files=group.files,
            ),
            clustering=self.clustering,
            snapshot=self.pin.id if vectors and self.pin is not None else None,
        )

    def to_json(self) -> dict[str, object]:
        """The plan as one JSON object (docs/cli.md)."""
        return plan_json(
            self,
            "sort_compact",
            self.arguments,
            order_strategy=str(self.clustering.strategy),
            order_by=list(self.clustering.columns),
            partitions=[
                {
                    "partition": p.name,
                    "files": len(p.entries),
                    "bytes": p.bytes,
                    "rows": p.rows,
                    "output_level": p.output_level,
                }
                for p in self.groups
            ],
            queries={c: cost.to_json() for c, cost in self.before.items()},
        )

    def lines(self) -> Iterator[str]:
        """The plan for people."""
        where = source_text(self)
        columns = ", ".join(self.clustering.columns)
        head = f"sort_compact {self.table} from {where} by {columns} ({self.clustering.strategy})"
        yield f"{head}: nothing to do" if self.is_empty else head
        yield from shortened(self.groups, _group_line, noun="partitions")
        for kept in self.kept:
            yield f"  {kept.line()}"
        for column, cost in self.before.items():
            yield (
                f"  a range query on {column} reads {cost.files:,.1f} of {cost.total_files:,} "
                f"files, {human_bytes(cost.bytes)}, now"
            )


def _group_line(group: SortGroup) -> str:
    return (
        f"{group.label}: sort {counted(len(group.entries), 'files')} ({human_bytes(group.bytes)})"
    )


def inspect(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> SortState:
    """The chosen partitions in the newest snapshot; UnsupportedFeature before anything is read."""
    check_sortable(table)
    return read_partitions(table, arguments, SortGroup)


def plan(
    table: FileStoreTable, state: SortState, arguments: Mapping[str, object], context: RunContext
) -> SortPlan:
    """Everything that was chosen is sorted; with `clustering.incremental` what is due of it."""
    clustering = chosen_clustering(table, arguments)
    groups, kept = _chosen(table, state, clustering, arguments, context)
    if groups and table.bucket_mode is BucketMode.DYNAMIC:
        _check_writers(table, arguments)
    for group in groups:
        check_rewritable(group.entries, table=table.name)
        written = {e.file.schema_id for e in group.entries}
        check_not_older_than_replacement(table.schemas, written, table.schema)
    for group in groups if table.has_primary_key else ():
        check_changelog_complete(table, group.label, (e.file.level for e in group.entries))
    files = [f for p in groups for f in p.files]
    everything = [f for p in state.partitions for f in p.files]
    sample = table.options.value(SORT_SAMPLE_MAGNIFICATION)
    if sample < LEAST_SAMPLE:
        raise InvalidArgument(
            f"{SORT_SAMPLE_MAGNIFICATION.key}={sample} is too small: it must be {LEAST_SAMPLE} or "
            f"more",
            table=table.name,
        )
    strategy = table.options.value(SORT_RANGE_STRATEGY)
    if strategy not in ("size", "quantity"):
        raise InvalidArgument(
            f"{SORT_RANGE_STRATEGY.key}={strategy} is neither size nor quantity", table=table.name
        )
    size = sum(f.file_size for f in files)
    queries = query_ranges(table, files, clustering.columns)
    pin = None if state.snapshot is None else SnapshotPin.of(state.snapshot)
    return SortPlan(
        table=table.name,
        pin=pin,
        clustering=clustering,
        groups=tuple(groups),
        kept=tuple(kept),
        before=cost_of(
            table, merged_groups(table, (b for p in groups for b in p.by_bucket.values())), queries
        ),
        effect=Effect(
            rewritten_files=len(files),
            rewritten_bytes=size,
            table_files=len(everything),
            table_bytes=sum(f.file_size for f in everything),
        ),
        arguments=arguments,
        batch_bytes=cast("int", arguments["batch_bytes"]),
        range_bytes=max(1, cast("int", arguments["range_bytes"])),
        sample=sample,
        by_size=strategy == "size",
        sole=SoleWriter(pin) if table.bucket_mode is BucketMode.DYNAMIC else None,
    )


def _check_writers(table: FileStoreTable, arguments: Mapping[str, object]) -> None:
    """InvalidArgument unless the operator confirms that all writers are stopped.

    A writer keeps in memory which bucket each key is in.  It would write a key that moved into its
    old bucket again, and nothing in the format prevents that.
    """
    if not arguments["writers_stopped"]:
        raise InvalidArgument(
            f"argument --writers-stopped is required: table {table.name} has dynamic buckets, so "
            f"sorting moves keys between buckets, and a running writer would write them twice",
            table=table.name,
            next_step="stop all writers of the table, run again with --writers-stopped, and start "
            "the writers after the run",
        )


def _chosen(
    table: FileStoreTable,
    state: SortState,
    clustering: Clustering,
    arguments: Mapping[str, object],
    context: RunContext,
) -> tuple[list[SortGroup], list[Retained]]:
    chosen = [p for p in state.partitions if p.row in state.chosen]
    strategy = cast("str | None", arguments["strategy"])
    if not table.options.value(CLUSTERING_INCREMENTAL):
        if strategy is not None:
            raise InvalidArgument(
                f"argument --strategy is for tables with {CLUSTERING_INCREMENTAL.key}; all files "
                f"of table {table.name} are sorted each time",
                table=table.name,
            )
        return chosen, []
    groups = list(due(table, chosen, clustering.columns, full=strategy == FULL))
    idle_time = table.options.value(CLUSTERING_HISTORY_IDLE)
    if state.others and idle_time is not None:
        history = idle(
            table,
            [p for p in state.partitions if p.row not in state.chosen],
            before_millis=context.env.local_millis() - idle_time,
            most=table.options.value(CLUSTERING_HISTORY_LIMIT),
        )
        groups += due(table, history, clustering.columns, full=True)
    taken = {p.row for p in groups}
    left = [p for p in chosen if p.row not in taken]
    kept = []
    if left:
        why = f"nothing is due by the rules of a {strategy or MINOR} clustering"
        size = sum(p.bytes for p in left)
        kept.append(Retained(what="partitions", why=why, count=len(left), bytes=size))
    return groups, kept


def chosen_clustering(table: FileStoreTable, arguments: Mapping[str, object]) -> Clustering:
    """How rows are clustered; InvalidArgument or UnsupportedFeature for what cannot be."""
    options = table.options
    asked = arguments["order_by"] or arguments["order_strategy"]
    if asked and options.value(CLUSTERING_INCREMENTAL):
        raise InvalidArgument(
            f"table {table.name} has {CLUSTERING_INCREMENTAL.key}: its options say how it is "
            f"sorted, so order_by and order_strategy cannot be used",
            table=table.name,
        )
    columns = cast("tuple[str, ...]", arguments["order_by"]) or options.value(CLUSTERING_COLUMNS)
    if not columns:
        raise InvalidArgument(
            f"argument --order-by is required: table {table.name} has no "
            f"{CLUSTERING_COLUMNS.key} either",
            table=table.name,
        )
    named = cast("str | None", arguments["order_strategy"]) or options.value(CLUSTERING_STRATEGY)
    return clustering_by(table, columns, named)
