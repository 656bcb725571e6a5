"""The compaction that ends a red score in time: what the score would be afterwards decides.  Pure.

A table that has been red for half of `max_red` is overdue.  Then the benefit of a job no longer counts,
but whether the table is still red after it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from paimon_maintenance.health.measurement import Measurement, PartitionMeasurement, Rewrite
from paimon_maintenance.health.score import health_of
from paimon_maintenance.health.thresholds import RED
from paimon_maintenance.policy.needs import TableNeeds
from paimon_maintenance.schedule.state import TableState

_MOST_PARTITIONS: Final = 50


def is_overdue(state: TableState, needs: TableNeeds, now: int) -> bool:
    """Whether the table has been red for half of the time that its policy allows."""
    return state.red_since is not None and now - state.red_since >= needs.max_red_millis / 2


def ends_red(
    table: Measurement,
    partitions: Collection[str],
    needs: TableNeeds,
    now: int,
    *,
    full: bool = False,
) -> bool:
    """Whether the table is no longer red after upkeep and a compaction of these partitions."""
    after = replace(
        table,
        beyond_snapshots=table.blocked_snapshots,
        beyond_bytes=table.blocked_bytes,
        partitions=tuple(
            _compacted(p, p.full if full else p.minor) if p.name in partitions else p
            for p in table.partitions
        ),
    )
    return health_of(after, needs.thresholds(), now).score >= RED


def partitions_to_rewrite(
    table: Measurement, needs: TableNeeds, now: int
) -> list[PartitionMeasurement]:
    """The partitions of which a full compaction ends the red score, the worst first.

    Empty if no compaction ends it, for instance because a consumer has stopped.  If it takes more than
    fifty partitions, the worst fifty.
    """
    by_name = {p.name: p for p in table.partitions if p.full is not None}
    if not by_name or not ends_red(table, by_name, needs, now, full=True):
        return []
    worst = [
        by_name[p.name]
        for p in health_of(table, needs.thresholds(), now).partitions
        if p.name in by_name
    ]
    number = 1
    while number < min(len(worst), _MOST_PARTITIONS):
        if ends_red(table, [p.name for p in worst[:number]], needs, now, full=True):
            break
        number *= 2
    return worst[: min(number, _MOST_PARTITIONS)]


def _compacted(partition: PartitionMeasurement, by: Rewrite | None) -> PartitionMeasurement:
    """The partition after the rewrite."""
    if by is None:
        return partition
    is_whole = by == partition.full
    return replace(
        partition,
        files=partition.files - by.files + by.files_after,
        full_runs=by.runs_after,
        point_runs=min(partition.point_runs, max(1, round(by.runs_after))),
        level_0_files=0,
        oldest_level_0=None,
        delete_rows=0 if is_whole else partition.delete_rows,
        vector_rows=0 if is_whole else partition.vector_rows,
    )
