"""The criteria of the health score: the value of each, and the sentence that explains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from paimon_maintenance.health.measurement import Measurement, PartitionMeasurement
from paimon_maintenance.health.thresholds import HOUR, Thresholds
from paimon_maintenance.job.text import age_text, counted, human_bytes

MB: Final = 1024**2
GB: Final = 1024**3
_FEW_BYTES: Final = 128 * MB
"""Below this, held bytes cost nothing, whatever their share."""
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The value of one criterion.  `job` is the one that helps, None if a person has to decide."""

    criterion: str
    value: float
    text: str
    job: str | None = None


def partition_findings(
    table: Measurement, partition: PartitionMeasurement, now: int
) -> Iterator[Finding]:
    """The findings on one partition; criteria without a value are left out."""
    where = partition.name or "the table"
    compact = None if table.refused else compaction_job(table)
    if table.primary_key and table.needs_merge:
        trigger = table.run_trigger
        yield Finding(
            criterion="point_read_runs",
            value=partition.point_runs / trigger,
            text=f"a point read of {where} merges up to {partition.point_runs} sorted runs "
            f"(the trigger is {trigger})",
            job=compact,
        )
        yield Finding(
            criterion="full_read_runs",
            value=partition.full_runs / trigger,
            text=f"a full read of {where} merges {partition.full_runs:.1f} sorted runs on average",
            job=compact,
        )
    if partition.files > table.min_files:
        yield Finding(
            criterion="small_files",
            value=partition.files / max(1, partition.ideal_files),
            text=f"{where} has {counted(partition.files, 'files')} where {partition.ideal_files} "
            f"of {human_bytes(table.target_bytes)} is enough",
            job=compact,
        )
        gapless = max(1, partition.ideal_files - partition.gap_files)
        yield Finding(
            criterion="row_id_gaps",
            value=partition.ideal_files / gapless,
            text=f"gaps between row ids keep {counted(partition.ideal_files, 'files')} of {where} "
            f"apart where {gapless} of {human_bytes(table.target_bytes)} is enough",
            job="reassign_row_id",
        )
    if partition.rows:
        for name, rows, what in (
            ("delete_rows", partition.delete_rows, "deletes"),
            ("deletion_vectors", partition.vector_rows, "rows that deletion vectors hide"),
        ):
            yield Finding(
                criterion=name,
                value=rows / partition.rows,
                text=f"{rows / partition.rows:.0%} of the rows of {where} are {what}",
                job=compact,
            )
    if partition.oldest_level_0 is not None and table.primary_key:
        hours = (now - partition.oldest_level_0) / HOUR
        hidden = "" if table.needs_merge else ", and reads leave it out until then"
        yield Finding(
            criterion="level_0_age",
            value=hours,
            text=f"the oldest data of {where} at level 0 has waited {age_text(hours)} for a "
            f"compaction{hidden}",
            job=compact,
        )
    if table.bucket_mode == "fixed" and partition.buckets:
        yield Finding(
            criterion="large_buckets",
            value=partition.largest_bucket / GB,
            text=f"the largest bucket of {where} has {human_bytes(partition.largest_bucket)}; "
            "200 MB to 1 GB is recommended",
            job="rescale",
        )


def table_findings(table: Measurement, limits: Thresholds, now: int) -> Iterator[Finding]:
    """The findings on the table as a whole."""
    for find in _OF_TABLE:
        yield from find(table, limits, now)


def compaction_job(table: Measurement) -> str:
    """The job that compacts this table without undoing its clustering."""
    return "sort_compact" if table.clustering == "incremental" else "compact"


def _freshness(table: Measurement, limits: Thresholds, now: int) -> Iterator[Finding]:
    waiting = [p for p in table.partitions if p.oldest_level_0 is not None]
    if limits.freshness_millis is None or not waiting or not table.primary_key:
        return
    oldest = min(waiting, key=lambda p: p.oldest_level_0 or 0)
    age = now - (oldest.oldest_level_0 or 0)
    yield Finding(
        criterion="freshness",
        value=age / max(1, limits.freshness_millis),
        text=f"level 0 of {oldest.name or 'the table'} is {age_text(age / HOUR)} old; the goal is "
        f"{age_text(limits.freshness_millis / HOUR)}",
        job=None if table.refused else compaction_job(table),
    )


def _expiry(table: Measurement, _: Thresholds, __: int) -> Iterator[Finding]:
    blocked = ""
    if table.blocked_snapshots:
        names = named([h.name for h in table.holders if h.kind == "consumer"])
        blocked = (
            f"; consumer {names} holds back {counted(table.blocked_snapshots, 'snapshots')} "
            f"and {human_bytes(table.blocked_bytes)} of them"
        )
    # An expiry cannot help while consumers hold everything back.
    free = table.beyond_snapshots > table.blocked_snapshots
    helps = "expire_snapshots" if free else None
    yield Finding(
        criterion="expired_snapshots",
        value=table.beyond_snapshots,
        text=f"{table.beyond_snapshots:,} of {counted(table.snapshots, 'snapshots')} exceed the "
        f"retention{blocked}",
        job=helps,
    )
    if table.beyond_bytes >= _FEW_BYTES:
        yield Finding(
            criterion="expired_bytes",
            value=table.beyond_bytes / max(1, table.bytes),
            text=f"snapshots beyond the retention hold {human_bytes(table.beyond_bytes)}{blocked}",
            job=helps,
        )
    others = [h for h in table.holders if h.kind != "consumer" and h.bytes]
    held = sum(h.bytes for h in others)
    if held >= _FEW_BYTES:
        largest = sorted(others, key=lambda h: -h.bytes)
        names = named([f"{h.kind} {h.name} ({human_bytes(h.bytes)})" for h in largest])
        yield Finding(
            criterion="held_bytes",
            value=held / max(1, table.bytes),
            text=f"{names} hold files that the newest snapshot does not need",
        )


def _consumers(table: Measurement, limits: Thresholds, now: int) -> Iterator[Finding]:
    """The consumer that is furthest beyond one of the limits."""
    worst: Finding | None = None
    for one in table.consumers:
        if one.since is None:
            continue
        age = max(0, now - one.since)
        shares = [age / max(1, limits.consumer_millis)]
        if limits.consumer_snapshots:
            shares.append(one.snapshots / limits.consumer_snapshots)
        if limits.consumer_bytes:
            shares.append(one.bytes / limits.consumer_bytes)
        expires = table.consumer_expiration
        found = Finding(
            criterion="consumer_lag",
            value=max(shares),
            text=f"consumer {one.id} is {counted(one.snapshots, 'snapshots')}, "
            f"{age_text(age / HOUR)} and about {human_bytes(one.bytes)} behind",
            job="expire_consumers"
            if expires is not None and now - one.last_seen > expires
            else None,
        )
        if worst is None or found.value > worst.value:
            worst = found
    if worst is not None:
        yield worst


def _tags(table: Measurement, _: Thresholds, __: int) -> Iterator[Finding]:
    due, over = len(table.tags_due), len(table.tags_over)
    parts = [_tags_are("due", table.tags_due)] if due else []
    parts += [_tags_are("beyond the retention", table.tags_over)] if over else []
    yield Finding(
        criterion="tags_due",
        value=due + over,
        text="; ".join(parts),
        job="trigger_tag_automatic_creation",
    )


def _partitions(table: Measurement, _: Thresholds, __: int) -> Iterator[Finding]:
    yield Finding(
        criterion="partitions_due",
        value=table.partitions_due,
        text=f"{counted(table.partitions_due, 'partitions')} beyond partition.expiration-time",
        job="expire_partitions",
    )
    first = next(iter(table.stuck.items()), ("", ""))
    yield Finding(
        criterion="stuck_partitions",
        value=len(table.stuck),
        text=f"{counted(len(table.stuck), 'partitions')} cannot expire, for example {first[0]}: "
        f"{first[1]}",
    )


def _buckets(table: Measurement, _: Thresholds, __: int) -> Iterator[Finding]:
    number = sum(p.buckets for p in table.partitions)
    yield Finding(
        criterion="bucket_count",
        value=number,
        text=f"{counted(number, 'buckets')} have files; every plan and every commit pays for them",
    )
    if table.bucket_mode != "fixed":
        return
    # Only partitions with several buckets can do with fewer.
    several = [p for p in table.partitions if p.total_buckets > 1 and p.bytes]
    size = sum(p.bytes for p in several)
    buckets = sum(p.total_buckets for p in several)
    needed = sum(max(1, -(-p.bytes // (200 * MB))) for p in several)
    if buckets:
        yield Finding(
            criterion="small_buckets",
            value=buckets / needed,
            text=f"{buckets:,} buckets hold {human_bytes(size / buckets)} each on average; 200 MB "
            "to 1 GB is recommended",
            job="rescale",
        )


def _metadata(table: Measurement, _: Thresholds, __: int) -> Iterator[Finding]:
    yield Finding(
        criterion="manifests",
        value=table.manifests,
        text=f"the newest snapshot has {counted(table.manifests, 'manifests')} "
        f"({human_bytes(table.manifest_bytes)})",
        job="compact_manifest",
    )
    if table.orphans is not None:
        yield Finding(
            criterion="orphans",
            value=table.orphans.bytes / max(1, table.bytes),
            text=f"the last search found {counted(table.orphans.files, 'orphan files')} with "
            f"{human_bytes(table.orphans.bytes)}",
            job="remove_orphan_files",
        )
    yield Finding(
        criterion="unknown_options",
        value=len(table.unknown_options),
        text=f"Paimon does not know the option {named(table.unknown_options)} and ignores it",
    )
    yield Finding(
        criterion="invalid_options",
        value=len(table.invalid_options),
        text=f"the option {named(table.invalid_options)} has an invalid value",
    )
    yield Finding(
        criterion="snapshot_gap",
        value=table.gaps,
        text="snapshots have a gap: commits are lost when they reach it",
        job="repair",
    )


def _indexes(table: Measurement, _: Thresholds, __: int) -> Iterator[Finding]:
    if table.unindexed:
        column, share = max(table.unindexed.items(), key=lambda found: found[1])
        yield Finding(
            criterion="unindexed_rows",
            value=share,
            text=f"the global index of {column} lacks {max(share, 0.001):.1%} of the rows, which "
            "queries of Java leave out by default",
            job="create_global_index",
        )


_OF_TABLE: Final[tuple[Callable[[Measurement, Thresholds, int], Iterator[Finding]], ...]] = (
    _freshness,
    _expiry,
    _consumers,
    _tags,
    _partitions,
    _buckets,
    _indexes,
    _metadata,
)


def _tags_are(state: str, names: tuple[str, ...]) -> str:
    return f"{'tag' if len(names) == 1 else 'tags'} {named(names)} {'is' if len(names) == 1 else 'are'} {state}"


def named(names: tuple[str, ...] | list[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return shown if more <= 0 else f"{shown} and {more} more"
