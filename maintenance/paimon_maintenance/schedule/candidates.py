"""The jobs that would help a table, with what they gain.  Pure.

Rewriting jobs compete: a cheap minor compaction, a full one of the partitions where it pays most,
or a sort for tables that are clustered.  Upkeep is one run of `maintain`, whose steps have their
own order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_maintenance.health.measurement import (
    Measurement,
    PartitionMeasurement,
    Rewrite,
    dead_rows_excess,
)
from paimon_maintenance.health.reasons import MB, named
from paimon_maintenance.job.text import age_text, counted, human_bytes
from paimon_maintenance.policy.needs import RescaleRule, TableNeeds
from paimon_maintenance.schedule.benefit import WEIGHTS, saving
from paimon_maintenance.schedule.bucket_sizes import BUCKET_BYTES, rescaled, writers_stopped
from paimon_maintenance.schedule.cost import Work
from paimon_maintenance.schedule.state import HOUR, TableState

REWRITING: Final = ("compact", "sort_compact", "rescale")
"""The jobs that rewrite data."""
LEAST_GAIN: Final = 0.05
"""Less excess than this is not worth a run."""
OF_LEVEL_0: Final = 0.5
OF_UPPER_LEVELS: Final = 0.1
OF_SMALL_FILES: Final = 0.2
OF_UPKEEP: Final = 0.2
"""The share of the work that a longer wait saves, by what is read (docs/scheduling.md)."""
_NEARLY: Final = 0.7
"""The share of a goal at which work for it begins."""
_ALIKE: Final = 0.4
"""Partitions join a full compaction if they gain at least this share of the best per byte."""
_MOST_PARTITIONS: Final = 50
"""The maximum number of partitions in one compaction."""
_ACTIVE_MILLIS: Final = 2 * HOUR
"""A partition is active if it received a file within this time before the measurement."""
_QUIET_SHARE: Final = 0.05
"""The share of the table's growth that counts for a partition that is not active."""
_BYTES_OF_PARTITION: Final = 8 * MB
"""The fixed cost of compacting a partition, as bytes to rewrite."""
_MANY_MANIFESTS: Final = 60
"""From this number of manifests on, `maintain` also compacts manifests."""
_FEW_BYTES: Final = 64 * MB
_LEAST_SHARE: Final = 0.02
"""So much of the rows count at least that a global index does not cover: a lost row is lost."""
_FEW_SNAPSHOTS: Final = 20
"""An expiry runs if it frees at least this number of bytes or of snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A job that would help.

    - `arguments`: job arguments, which override those of the policy.
    - `benefit`: in excess hours (see `benefit`).
    - `urgent`: a goal of the policy is missed or nearly missed, or the job helps a table that has
      been red for a long time.
    - `proposal`: a person has to decide.
    - `predicted`: predicted results, which are compared with the measured ones after the run.
    - `avoidable`: the share of the work that a longer wait saves, from 0 to 1.  A longer wait
      always saves the fixed costs.
    """

    table: str
    job: str
    work: Work
    benefit: float
    why: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    rewrites: bool = True
    urgent: bool = False
    proposal: bool = False
    avoidable: float = 1.0
    predicted: Mapping[str, float] = field(default_factory=dict)


def candidates_of(
    table: Measurement,
    state: TableState,
    needs: TableNeeds,
    now: int,
    *,
    mean_bytes: float | None = None,
) -> list[Candidate]:
    """The jobs that would help this table now; empty if it needs nothing.

    `mean_bytes`: the live bytes of a table of this lake on average (default: of this table).
    """
    found: list[Candidate] = []
    mean = max(1.0, table.bytes if mean_bytes is None else mean_bytes)
    if not table.refused and not table.gaps:
        found += _compactions(table, state, needs, now)
    if not table.gaps:
        others = [
            *_upkeep(table, state, now, mean),
            *_indexes(table, state),
            *_rescale(table, state, needs, now),
        ]
        # Other jobs help a red table only if reads are not what makes it red.
        if state.is_red_for_long(needs.max_red_millis, now) and not _worst(table):
            others = [replace(one, urgent=True) for one in others]
        found += others
    return found


@dataclass(frozen=True, slots=True)
class _Reads:
    """What the partitions of a table share when their reads are compared.

    `active` are the bytes of the active partitions (`_ACTIVE_MILLIS`).
    """

    table: Measurement
    growth: float
    now: int
    bytes: int
    rows: int
    ideal_files: int
    active: int

    @classmethod
    def of(cls, table: Measurement, state: TableState, now: int) -> _Reads:
        return cls(
            table=table,
            growth=state.growth,
            now=now,
            bytes=max(1, table.bytes),
            rows=max(1, table.rows),
            ideal_files=max(1, sum(p.ideal_files for p in table.partitions)),
            active=max(1, sum(p.bytes for p in table.partitions if _is_active(table, p))),
        )

    def excess(self, partition: PartitionMeasurement, after: Rewrite | None) -> float:
        """The part of the table's excess in this partition, now or after a compaction."""
        dead = partition.dead_rows if after is None else after.dead_rows_after
        excess = dead_rows_excess(dead, partition.rows) * partition.rows / self.rows
        if self.table.primary_key and self.table.needs_merge:
            runs = partition.full_runs if after is None else after.runs_after
            return excess + max(0.0, runs - 1.0) * partition.bytes / self.bytes
        files = partition.files if after is None else after.files_after
        return excess + max(0, files - partition.ideal_files) / self.ideal_files

    def gain(self, partition: PartitionMeasurement, after: Rewrite | None) -> float:
        """The excess that a compaction of this partition removes."""
        return self.excess(partition, None) - self.excess(partition, after)

    def saving(self, partition: PartitionMeasurement, gain: float) -> float:
        """What this gain saves: the table's growth is shared by the partitions with new files."""
        share = _QUIET_SHARE
        if _is_active(self.table, partition):
            share = partition.bytes / self.active
        return saving(gain, self.growth * share, _idle_hours(partition, self.now))


def _is_active(table: Measurement, partition: PartitionMeasurement) -> bool:
    newest = partition.newest_file
    return newest is not None and table.at_millis - newest <= _ACTIVE_MILLIS


# --- compaction -----------------------------------------------------------------------------------


def _compactions(
    table: Measurement,
    state: TableState,
    needs: TableNeeds,
    now: int,
) -> Iterator[Candidate]:
    reads = _Reads.of(table, state, now)
    late = _late_partitions(table, needs, now)
    if late:
        yield _compaction(reads, late, full=True, goal=needs.freshness_millis)
    elif state.is_red_for_long(needs.max_red_millis, now):
        yield from _against_red(reads, layout=keeps_layout(table, state))
    minor = [p for p in table.partitions if p.minor is not None]
    if minor:
        found = _compaction(reads, minor, full=False)
        if found.predicted["excess_gain"] >= LEAST_GAIN:
            yield found
    if keeps_layout(table, state):
        return  # a full rewrite would undo the clustering
    full = _worth_most(reads)
    if full:
        found = _compaction(reads, full, full=True)
        same = len(full) == len(minor) and all(p.full == p.minor for p in full)
        if found.predicted["excess_gain"] >= LEAST_GAIN and not same:
            yield found


def keeps_layout(table: Measurement, state: TableState) -> bool:
    """Whether the table was sorted, so that its order of rows must be kept."""
    return table.clustering != "none" or state.sorted_at is not None


def _late_partitions(table: Measurement, needs: TableNeeds, now: int) -> list[PartitionMeasurement]:
    """The partitions whose level 0 is older than the goal, or will be soon."""
    goal = needs.freshness_millis
    if goal is None or not table.primary_key:
        return []
    return [
        p
        for p in table.partitions
        if p.oldest_level_0 is not None
        and now - p.oldest_level_0 >= _NEARLY * goal
        and p.full is not None
    ]


def _against_red(reads: _Reads, *, layout: bool) -> Iterator[Candidate]:
    """An urgent compaction of the partitions that make the table red, if there are any.

    These may be so small that the table as a whole gains almost nothing; but the worst partition
    counts as much for the health as the mean.  The compaction is minor if that leaves few runs, or
    with `layout`.
    """
    table = reads.table
    bad = _worst(table)
    minor = bool(bad) and all(p.minor and not _is_bad(table, p, p.minor) for p in bad)
    bad = [p for p in bad if (p.minor if minor or layout else p.full) is not None]
    bad.sort(key=lambda p: (-p.full_runs, -p.files, p.name))
    if bad:
        found = _compaction(reads, bad[:_MOST_PARTITIONS], full=not (minor or layout))
        yield replace(found, urgent=True)


def _worst(table: Measurement) -> list[PartitionMeasurement]:
    """The partitions in which reads merge so much that they make the table red."""
    return [p for p in table.partitions if _is_bad(table, p, None)]


def _is_bad(table: Measurement, partition: PartitionMeasurement, after: Rewrite | None) -> bool:
    """Whether reads of the partition, now or after a compaction, merge too much.

    Too much are as many sorted runs as trigger a compaction in Paimon, or as
    many dead rows as live ones.
    """
    dead = partition.dead_rows if after is None else after.dead_rows_after
    if dead_rows_excess(dead, partition.rows) >= 1:
        return True
    if table.primary_key and table.needs_merge:
        runs = max(partition.full_runs, partition.point_runs) if after is None else after.runs_after
        return runs >= table.run_trigger
    files = partition.files if after is None else after.files_after
    return files >= max(1, partition.ideal_files) * table.run_trigger


def _worth_most(reads: _Reads) -> list[PartitionMeasurement]:
    """The partitions in which a full compaction gains most per byte, and those close to them."""
    rated: list[tuple[float, PartitionMeasurement]] = []
    for partition in reads.table.partitions:
        if partition.full is None:
            continue
        gain = reads.gain(partition, partition.full)
        if gain <= 0:
            continue
        value = reads.saving(partition, gain)
        rated.append((value / (partition.full.bytes + _BYTES_OF_PARTITION), partition))
    rated.sort(key=lambda r: (-r[0], r[1].name))
    return [p for rate, p in rated[:_MOST_PARTITIONS] if rate >= _ALIKE * rated[0][0]]


def _compaction(
    reads: _Reads,
    partitions: Sequence[PartitionMeasurement],
    *,
    full: bool,
    goal: int | None = None,
) -> Candidate:
    table, now = reads.table, reads.now
    works = [w for p in partitions if (w := p.full if full else p.minor) is not None]
    gains = [(p, reads.gain(p, p.full if full else p.minor)) for p in partitions]
    gain = sum(max(0.0, g) for _, g in gains)
    benefit = WEIGHTS.read * sum(reads.saving(p, g) for p, g in gains)
    size = sum(w.bytes for w in works)
    # Fewer files are worth something even where reads merge no less.
    fewer = sum(p.files for p in partitions) - sum(w.files_after for w in works)
    arguments: dict[str, object] = {}
    sorts = table.clustering == "incremental"
    if not sorts:
        arguments["strategy"] = "full" if full else "minor"
        if len(partitions) < len(table.partitions):
            arguments["partitions"] = [dict(p.values) for p in partitions]
    excess = table.amplification - 1.0
    why = (
        f"a read costs {table.amplification:.1f} times the minimum; rewriting "
        f"{human_bytes(size)} in {counted(sum(w.files for w in works), 'files')} brings it to "
        f"{max(1.0, table.amplification - gain):.1f}"
    )
    predicted = {
        "excess_gain": min(gain, max(0.0, excess)),
        "files_fewer": float(max(0, fewer)),
        "bytes": float(size),
    }
    if full and table.primary_key:
        left = table.level_0_hours(now, without=partitions)
        predicted["level_0_hours"] = table.level_0_hours(now) - left
    urgent = False
    if goal is not None:
        oldest = min(p.oldest_level_0 or now for p in partitions)
        age = now - oldest
        urgent = True
        benefit += WEIGHTS.read * age / goal
        why = (
            f"level 0 is {age_text(age / HOUR)} old, the goal is {age_text(goal / HOUR)}; "
            f"{human_bytes(size)} to rewrite"
        )
    return Candidate(
        table=table.table,
        job="sort_compact" if sorts else "compact",
        arguments=arguments,
        partitions=tuple(p.name for p in partitions if p.name),
        work=_work(table, "sort_compact" if sorts else "compact", works),
        benefit=benefit,
        why=why,
        urgent=urgent,
        avoidable=1.0 if full and table.primary_key else _avoidable(table, works),
        predicted=predicted,
    )


def _avoidable(table: Measurement, works: Sequence[Rewrite]) -> float:
    """The share of the work of a minor compaction that a longer wait saves."""
    if not table.primary_key:
        return OF_SMALL_FILES
    size = sum(w.bytes for w in works)
    level_0 = sum(w.level_0_bytes for w in works) / size if size else 1.0
    return OF_UPPER_LEVELS + (OF_LEVEL_0 - OF_UPPER_LEVELS) * level_0


def _idle_hours(partition: PartitionMeasurement, now: int) -> float:
    return 0.0 if partition.newest_file is None else max(0, now - partition.newest_file) / HOUR


# --- upkeep ---------------------------------------------------------------------------------------


def _upkeep(table: Measurement, state: TableState, now: int, mean: float) -> Iterator[Candidate]:
    reasons: list[str] = []
    benefit = 0.0
    free_bytes = max(0, table.beyond_bytes - table.blocked_bytes)
    free_snapshots = max(0, table.beyond_snapshots - table.blocked_snapshots)
    if free_snapshots and (free_bytes >= _FEW_BYTES or free_snapshots >= _FEW_SNAPSHOTS):
        # A byte that is held costs the same in every table.
        growth = state.held_growth * table.bytes / mean
        benefit += WEIGHTS.storage * saving(free_bytes / mean, growth)
        benefit += WEIGHTS.manifests * free_snapshots / 100
        reasons.append(
            f"{counted(free_snapshots, 'snapshots')} beyond the retention hold "
            f"{human_bytes(free_bytes)}"
        )
    urgent = bool(table.tags_due)
    due = len(table.tags_due) + len(table.tags_over)
    if due:
        benefit += WEIGHTS.tags * due
        reasons.append(f"{counted(due, 'tags')} to create or delete")
    if table.partitions_due:
        benefit += WEIGHTS.partitions * table.partitions_due
        reasons.append(f"{counted(table.partitions_due, 'partitions')} to expire")
    expires = table.consumer_expiration
    silent = [c.id for c in table.consumers if expires is not None and now - c.last_seen > expires]
    if silent:
        benefit += WEIGHTS.tags
        reasons.append(f"consumer {silent[0]} has expired")
    also = []
    if table.manifests >= _MANY_MANIFESTS:
        also.append("compact_manifest")
        benefit += WEIGHTS.manifests * saving(table.manifests / _MANY_MANIFESTS, state.growth)
        reasons.append(f"{counted(table.manifests, 'manifests')} to compact")
    if not reasons:
        return
    yield Candidate(
        table=table.table,
        job="maintain",
        arguments={"also": also} if also else {},
        work=Work(job="maintain", table=table.table, files=free_snapshots, bytes=free_bytes),
        benefit=benefit,
        why="; ".join(reasons),
        rewrites=False,
        urgent=urgent,
        avoidable=OF_UPKEEP,
        predicted={"bytes_freed": float(free_bytes), "snapshots_fewer": float(free_snapshots)},
    )


# --- global indexes -------------------------------------------------------------------------------


def _indexes(table: Measurement, state: TableState) -> Iterator[Candidate]:
    """The extension of a global index to new rows, which queries of Java do not find without it.

    Of several, that of the column that lacks most: a round runs a job once per table.
    """
    if table.unindexed:
        column, share = max(table.unindexed.items(), key=lambda found: found[1])
        yield Candidate(
            table=table.table,
            job="create_global_index",
            arguments={"index_column": column},
            work=Work(
                job="create_global_index",
                kind="append",
                table=table.table,
                files=round(table.files * share),
                bytes=round(table.bytes * share / max(1, table.columns)),
                rows=round(table.rows * share),
            ),
            benefit=WEIGHTS.indexes * saving(max(share, _LEAST_SHARE), state.growth),
            why=f"the global index of {column} lacks {max(share, 0.001):.1%} of the rows",
            rewrites=False,
            avoidable=OF_UPKEEP,
            predicted={"indexed_share": share},
        )


# --- rescale --------------------------------------------------------------------------------------


def _work(
    table: Measurement, job: str, parts: Sequence[Rewrite] | Sequence[PartitionMeasurement]
) -> Work:
    """The work of a job that rewrites these parts of the table."""
    return Work(
        job=job,
        kind=table.merge_engine if table.primary_key else "append",
        table=table.table,
        files=sum(p.files for p in parts),
        bytes=sum(p.bytes for p in parts),
        rows=sum(p.rows for p in parts),
        columns=table.columns,
    )


def _rescale(
    table: Measurement, state: TableState, needs: TableNeeds, now: int
) -> Iterator[Candidate]:
    """A rescale of partitions whose buckets are far from 200 MB to 1 GB; by default a proposal."""
    if needs.rescale is RescaleRule.OFF or table.bucket_mode != "fixed" or table.refused:
        return
    idle = needs.rescale is RescaleRule.IDLE and bool(table.partition_keys)
    for one in rescaled(table, state.small_since, now, only_idle=idle):
        stopped = writers_stopped(table, one.buckets, now) if idle else ()
        largest, chosen = one.partitions[0], one.partitions
        where = ""
        if table.partition_keys:
            where = f"{counted(len(chosen), 'partitions')}, the largest with "
        why = (
            f"{where}{counted(largest.total_buckets, 'buckets')} for {human_bytes(largest.bytes)}: "
            f"{counted(one.buckets, 'buckets')} of up to {human_bytes(BUCKET_BYTES)} would do"
        )
        if stopped:
            why += f"; writers of {named(stopped)} would have to stop, so a person decides"
        size = sum(p.bytes for p in chosen)
        partitions = (
            {"partitions": [dict(p.values) for p in chosen]} if table.partition_keys else {}
        )
        yield Candidate(
            table=table.table,
            job="rescale",
            arguments={"bucket_num": one.buckets, **partitions},
            partitions=tuple(p.name for p in chosen if p.name),
            work=_work(table, "rescale", chosen),
            benefit=1.0,
            why=why,
            proposal=not idle or bool(stopped),
            predicted={"bytes": float(size)},
        )
