"""Expires partitions of chain tables (Java: `operation/ChainTablePartitionExpire`).

A partition of the snapshot branch and the delta partitions up to the next one form a *segment*,
which expires as a whole.  In each group, the newest snapshot partition before the cutoff stays with
its segment, because later delta partitions are merged with it.  The table's own partitions, and
groups without a snapshot partition, never expire.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise

from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.environment import Environment
from paimon_core.errors import CommitConflict, InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    PARTITION_EXPIRATION_BATCH_SIZE,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from paimon_core.retention.partitions import (
    Partition,
    PartitionExpiry,
    PartitionRule,
    apply_partitions,
    partitions_of,
)
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.chain.partitions import ChainKeys, Values, byte_order
from paimon_core.table.chain.read import Chain


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainExpiry:
    """The partitions to drop: those of the delta branch first, because they need the others.

    `rule` and `local_millis` are those of the plan, `before` is the end of what expires.
    `everything` holds all partitions of both branches, `unclear` those without a time.
    """

    rule: PartitionRule
    local_millis: int
    before: datetime
    deltas: tuple[Partition, ...] = ()
    snapshots: tuple[Partition, ...] = ()
    everything: tuple[Partition, ...] = ()
    unclear: tuple[Partition, ...] = ()

    @property
    def going(self) -> tuple[Partition, ...]:
        return (*self.deltas, *self.snapshots)


def plan_chain_expiry(chain: Chain, rule: PartitionRule, *, local_millis: int) -> ChainExpiry:
    """Return which partitions expire; `rule.most` limits the segments of each group.

    Raises InvalidArgument for the strategy update-time, as Java does.
    """
    if rule.strategy != "values-time":
        raise InvalidArgument(
            f"chain table {chain.delta.name} expires partitions by values-time only",
            table=chain.delta.name,
        )
    before = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=local_millis - rule.time)
    options = {
        key.key: value
        for key, value in (
            (PARTITION_TIMESTAMP_PATTERN, rule.pattern),
            (PARTITION_TIMESTAMP_FORMATTER, rule.formatter),
        )
        if value is not None
    }
    delta = replace(chain.delta, schema=chain.delta.schema.with_options(options))
    keys = ChainKeys.of(delta)
    whole = partitions_of(chain.snapshot, chain.snapshot_at)
    changes = partitions_of(chain.delta, chain.delta_at)
    times = {p.row: _time(keys, p) for p in (*whole, *changes)}
    snapshots: list[Partition] = []
    deltas: list[Partition] = []
    for group in dict.fromkeys(keys.divided(p.row)[0] for p in whole):
        ours = [[p for p in all_ if keys.divided(p.row)[0] == group] for all_ in (whole, changes)]
        old = [p for p in ours[0] if (time := times[p.row]) is not None and time < before]
        old.sort(key=lambda p: byte_order(keys.divided(p.row)[1]))
        ends = list(pairwise(old))[: rule.most]
        for number, (first, following) in enumerate(ends):
            start = None if number == 0 else times[first.row]
            snapshots.append(first)
            deltas += [p for p in ours[1] if _is_within(times[p.row], start, times[following.row])]
    return ChainExpiry(
        rule=rule,
        local_millis=local_millis,
        before=before,
        deltas=tuple(deltas),
        snapshots=tuple(snapshots),
        everything=(*whole, *changes),
        unclear=tuple(p for p in (*whole, *changes) if times[p.row] is None),
    )


def recheck_chain_expiry(chain: Chain, work: ChainExpiry) -> ChainExpiry:
    """Return the work without partitions that no longer expire: their anchor may be gone."""
    now = plan_chain_expiry(chain, work.rule, local_millis=work.local_millis)
    left = [{p.row for p in part} for part in (now.deltas, now.snapshots)]
    return replace(
        work,
        deltas=tuple(p for p in work.deltas if p.row in left[0]),
        snapshots=tuple(p for p in work.snapshots if p.row in left[1]),
    )


def apply_chain_expiry(
    chain: Chain, work: ChainExpiry, *, user: str, env: Environment
) -> list[Snapshot]:
    """Drop the partitions of the delta branch, then those of the snapshot branch.

    Each commit has a user of its own, whose name begins with `user`.  CommitConflict if one of the
    partitions does not expire any more when it is to go.
    """

    def dropped(branch: FileStoreTable, going: tuple[Partition, ...]) -> list[Snapshot]:
        size = branch.options.value(PARTITION_EXPIRATION_BATCH_SIZE) or 0
        expiry = PartitionExpiry(going=going, batch_size=size)
        users = f"{user}-{branch.branch}"
        check = partial(_check_still_due, chain, work, branch)
        return apply_partitions(
            branch, expiry, user_of=lambda n: f"{users}-{n}", env=env, check=check
        )

    return [*dropped(chain.delta, work.deltas), *dropped(chain.snapshot, work.snapshots)]


def _check_still_due(
    chain: Chain, work: ChainExpiry, branch: FileStoreTable, changes: ManifestChanges
) -> None:
    """Raise CommitConflict if a partition that these changes drop does not expire any more.

    An overwrite of the delta branch, for example, drops the partition that would take its place.
    """
    newest = replace(
        chain,
        snapshot_at=chain.snapshot.snapshots.latest(),
        delta_at=chain.delta.snapshots.latest(),
    )
    now = plan_chain_expiry(newest, work.rule, local_millis=work.local_millis)
    due = {p.row for p in (now.deltas if branch is chain.delta else now.snapshots)}
    for row in sorted({e.partition for e in changes.files} - due):
        raise CommitConflict(
            f"partition {branch.paths.partition_path(row)} of branch {branch.branch} of table "
            f"{branch.name} no longer expires: a concurrent commit changed the partitions that it "
            "belongs to",
            table=branch.name,
            next_step="run again; the partition was not dropped",
        )


def _time(keys: ChainKeys, partition: Partition) -> datetime | None:
    values: Values = keys.divided(partition.row)[1]
    try:
        return keys.time_of(values)
    except UnsupportedFeature:
        return None


def _is_within(time: datetime | None, start: datetime | None, end: datetime | None) -> bool:
    """Return whether the time is in [start, end); without a start, in all before `end`."""
    if time is None or end is None:
        return False
    return time < end and (start is None or start <= time)
