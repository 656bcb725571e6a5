"""expire_partitions (Java: `operation/PartitionExpire`; java-rules K1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from paimon_core.features import check_committable, check_droppable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    Options,
)
from paimon_core.retention.partitions import (
    Partition,
    PartitionExpiry,
    PartitionRule,
    apply_partitions,
    plan_partitions,
    recheck_partitions,
)
from paimon_core.table.chain.expiry import ChainExpiry
from paimon_core.table.chain.read import chain_of
from paimon_core.types.datetimes import wall_clock_text
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained, SnapshotPin
from paimon_maintenance.jobs.partitions.content import effect_of
from paimon_maintenance.jobs.partitions.drop import drop_action
from paimon_maintenance.jobs.partitions.expire_chain import apply_chain, plan_chain, recheck_chain

Plan = MetadataPlan[PartitionExpiry | ChainExpiry]


def make(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> Plan:
    """The partitions beyond the expiration time, and the reasons for keeping the others.

    The plan is empty for a table without partitions or expiration time, so that the job can run on
    a whole database; Java's procedure fails.
    """
    check_committable(table)
    check_droppable(table)
    allowed = _argument(
        arguments, "expiration_time", table.options.value(PARTITION_EXPIRATION_TIME)
    )
    if allowed is None or not table.schema.partition_keys:
        why = "neither partition.expiration-time nor the argument is set"
        if not table.schema.partition_keys:
            why = "the table is not partitioned"
        return MetadataPlan(
            job="expire_partitions",
            table=table.name,
            pin=latest_pin(table),
            work=PartitionExpiry(),
            kept=(Retained(what="partitions", why=why, count=0),),
            arguments=arguments,
        )
    rule = _rule(table.options, allowed, arguments)
    chain = chain_of(table)
    if chain is not None:
        return plan_chain(table, chain, rule, arguments, context)
    latest = table.snapshots.latest()
    found = plan_partitions(table, latest, rule, local_millis=context.env.local_millis())
    going = found.work.going
    kept = [
        Retained(
            what=f"partition {partition.path}",
            why=f"{reason}; see timestamp_formatter, timestamp_pattern, drop_partition",
            bytes=partition.bytes,
        )
        for partition, reason in found.unclear
    ]
    if found.young:
        why = f"younger than {wall_clock_text(found.before)} ({rule.strategy})"
        kept.insert(0, Retained(what="partitions", why=why, count=found.young))
    if found.beyond:
        why = "beyond max_expires; left for the next run"
        kept.insert(0, Retained(what="expired partitions", why=why, count=found.beyond))
    return MetadataPlan(
        job="expire_partitions",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=found.work,
        actions=tuple(
            _action(p, time, rule.strategy) for p, time in zip(going, found.times, strict=True)
        ),
        kept=tuple(kept),
        effect=effect_of(going, found.everything),
        arguments=arguments,
    )


def _rule(options: Options, time: int, arguments: Mapping[str, object]) -> PartitionRule:
    """The rule of the arguments, and of the table's options where an argument is not given."""
    return PartitionRule(
        time=time,
        strategy=_argument(
            arguments, "expire_strategy", options.value(PARTITION_EXPIRATION_STRATEGY)
        ),
        pattern=_argument(
            arguments, "timestamp_pattern", options.value(PARTITION_TIMESTAMP_PATTERN)
        ),
        formatter=_argument(
            arguments, "timestamp_formatter", options.value(PARTITION_TIMESTAMP_FORMATTER)
        ),
        most=_argument(arguments, "max_expires", options.value(PARTITION_EXPIRATION_MAX_NUM)),
    )


def _argument(arguments: Mapping[str, object], name: str, default: Any) -> Any:
    value = arguments.get(name)
    return default if value is None else value


def _action(partition: Partition, time: int, strategy: str) -> Action:
    word = "last updated at" if strategy == "update-time" else "its values mean"
    return drop_action(partition, f"{word} {wall_clock_text(time)}")


# --- execution ----------------------------------------------------------------------------------


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without partitions that received files after it, with update-time."""
    if isinstance(plan.work, ChainExpiry):
        return replace(plan, work=recheck_chain(table, plan.work))
    return replace(plan, work=recheck_partitions(table, plan.work))


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Commit one OVERWRITE snapshot per batch."""
    if isinstance(plan.work, ChainExpiry):
        return apply_chain(table, plan.work, context)
    made = apply_partitions(
        table,
        plan.work,
        user_of=lambda number: f"{context.commit_user}-{number}",
        env=context.env,
    )
    details = {"expired_partitions": [p.path for p in plan.work.going]}
    return Committed(snapshots=tuple(s.id for s in made), details=details)


EXPIRE: Final = metadata_steps(make, apply, recheck=recheck)
