"""expire_partitions on chain tables: segments of two branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paimon_core.file_store_table import FileStoreTable
from paimon_core.retention.partitions import Partition, PartitionExpiry, PartitionRule
from paimon_core.table.chain.expiry import (
    ChainExpiry,
    apply_chain_expiry,
    plan_chain_expiry,
    recheck_chain_expiry,
)
from paimon_core.table.chain.read import Chain, chain_of
from paimon_core.types.datetimes import wall_clock_text
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin
from paimon_maintenance.job.plan import Retained
from paimon_maintenance.jobs.partitions.content import effect_of
from paimon_maintenance.jobs.partitions.drop import drop_action

_MILLIS = 1000


def plan_chain(
    table: FileStoreTable,
    chain: Chain,
    rule: PartitionRule,
    arguments: Mapping[str, object],
    context: RunContext,
) -> MetadataPlan[PartitionExpiry | ChainExpiry]:
    """The segments before the cutoff, but for the newest of each group."""
    work = plan_chain_expiry(chain, rule, local_millis=context.env.local_millis())
    before = wall_clock_text(int(work.before.timestamp() * _MILLIS))
    actions = [
        replace(action, what=f"{action.what} of branch {branch}")
        for branch, going in (
            (chain.delta.branch, work.deltas),
            (chain.snapshot.branch, work.snapshots),
        )
        for action in (_action(p, before) for p in going)
    ]
    left = len(work.everything) - len(work.going)
    return MetadataPlan(
        job="expire_partitions",
        table=table.name,
        pin=latest_pin(table),
        work=work,
        actions=tuple(actions),
        kept=(
            Retained(
                what="partitions of both branches",
                why=f"after {before}, or of the newest segment before it, or beyond max_expires",
                count=left,
            ),
            *(
                Retained(what=f"partition {p.path}", why="its values are not a time", bytes=p.bytes)
                for p in work.unclear
            ),
        ),
        effect=effect_of(work.going, work.everything),
        arguments=arguments,
    )


def _action(partition: Partition, before: str) -> Action:
    return drop_action(partition, f"its segment ends before {before}")


def recheck_chain(table: FileStoreTable, work: ChainExpiry) -> ChainExpiry:
    """The work without partitions whose anchor was dropped since the plan."""
    return recheck_chain_expiry(_chain(table), work)


def apply_chain(table: FileStoreTable, work: ChainExpiry, context: RunContext) -> Committed:
    """Commit to the delta branch, then to the snapshot branch."""
    chain = _chain(table)
    made = apply_chain_expiry(chain, work, user=context.commit_user, env=context.env)
    branches = {chain.delta.branch: work.deltas, chain.snapshot.branch: work.snapshots}
    return Committed(
        details={
            "expired_partitions": [p.path for p in work.going],
            "expired_by_branch": {b: [p.path for p in going] for b, going in branches.items()},
            "commits": len(made),
        }
    )


def _chain(table: FileStoreTable) -> Chain:
    chain = chain_of(table)
    assert chain is not None  # the plan was made for one
    return chain
