"""expire_partitions (Java: `operation/PartitionExpire`; java-rules K1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from paimon_core.commit.overwrite import replace_partitions
from paimon_core.errors import InvalidArgument
from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    PARTITION_EXPIRATION_BATCH_SIZE,
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from paimon_core.table.registered_partitions import unregister_partitions
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import DataType, TypeRoot
from paimon_core.types.text import partition_text
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained, SnapshotPin
from paimon_maintenance.jobs.partitions.content import Partition, effect_of, partitions_of
from paimon_maintenance.jobs.partitions.drop import drop_action
from paimon_maintenance.rules.date_time_format import DateTimeFormat
from paimon_maintenance.rules.partition_time import DEFAULT_FORMAT, put_together
from paimon_maintenance.rules.times import wall_clock_text

_DAY: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiry:
    """The partitions to drop, in order, and the number per commit."""

    going: tuple[Partition, ...] = ()
    batch_size: int = 0
    by_update_time: bool = False


Plan = MetadataPlan[PartitionExpiry]


def make(table: FileStoreTable, arguments: Mapping[str, object], context: RunContext) -> Plan:
    """The partitions beyond the expiration time, and the reasons for keeping the others.

    The plan is empty for a table without partitions or expiration time, so that the job can run on a
    whole database; Java's procedure fails.
    """
    check_committable(table)
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
    strategy = _argument(
        arguments, "expire_strategy", table.options.value(PARTITION_EXPIRATION_STRATEGY)
    )
    if strategy not in ("values-time", "update-time"):
        raise InvalidArgument(
            f"unknown partition.expiration-strategy {strategy!r}", table=table.name
        )
    before = context.env.local_millis() - allowed
    latest = table.snapshots.latest()
    everything = partitions_of(table, latest)
    reader = _Reader.of(table, arguments) if strategy == "values-time" else None
    found: list[tuple[Partition, int]] = []
    kept: list[Retained] = []
    young = 0
    for partition in everything:
        time = partition.newest_file if reader is None else reader.time_of(table, partition.row)
        if isinstance(time, str):
            kept.append(
                Retained(
                    what=f"partition {partition.path}",
                    why=f"{time}; see timestamp_formatter, timestamp_pattern, drop_partition",
                    bytes=partition.bytes,
                )
            )
        elif time < before:
            found.append((partition, time))
        else:
            young += 1
    most = _argument(arguments, "max_expires", table.options.value(PARTITION_EXPIRATION_MAX_NUM))
    found.sort(key=lambda f: _sort_text(table, f[0].row))
    going, beyond = found[:most], found[most:]
    if young:
        why = f"younger than {wall_clock_text(before)} ({strategy})"
        kept.insert(0, Retained(what="partitions", why=why, count=young))
    if beyond:
        why = "beyond max_expires; left for the next run"
        kept.insert(0, Retained(what="expired partitions", why=why, count=len(beyond)))
    return MetadataPlan(
        job="expire_partitions",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=PartitionExpiry(
            going=tuple(p for p, _ in going),
            batch_size=table.options.value(PARTITION_EXPIRATION_BATCH_SIZE) or 0,
            by_update_time=reader is None,
        ),
        actions=tuple(_action(p, time, strategy) for p, time in going),
        kept=tuple(kept),
        effect=effect_of((p for p, _ in going), everything),
        arguments=arguments,
    )


def _argument(arguments: Mapping[str, object], name: str, default: Any) -> Any:
    value = arguments.get(name)
    return default if value is None else value


def _action(partition: Partition, time: int, strategy: str) -> Action:
    word = "last updated at" if strategy == "update-time" else "its values mean"
    return drop_action(partition, f"{word} {wall_clock_text(time)}")


def _sort_text(table: FileStoreTable, row: bytes) -> str:
    return ",".join(table.paths.partition_values(row).values())


# --- values to times ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reader:
    pattern: str | None
    formatter: DateTimeFormat

    @classmethod
    def of(cls, table: FileStoreTable, arguments: Mapping[str, object]) -> _Reader:
        pattern, formatter = (
            cast("str | None", _argument(arguments, name, table.options.value(option)))
            for name, option in (
                ("timestamp_pattern", PARTITION_TIMESTAMP_PATTERN),
                ("timestamp_formatter", PARTITION_TIMESTAMP_FORMATTER),
            )
        )
        return cls(pattern, DEFAULT_FORMAT if formatter is None else DateTimeFormat.of(formatter))

    def time_of(self, table: FileStoreTable, row: bytes) -> int | str:
        """The time that the values represent, or the reason why there is none."""
        fields = table.schema.partition_type.fields
        values = dict(
            zip((f.name for f in fields), decode_row(row, [f.type for f in fields]), strict=True)
        )
        if self.pattern is None:
            first = fields[0]
            direct = _direct_millis(values[first.name], first.type)
            if direct is not None:
                return direct
        texts = {}
        for field in fields:
            value = values[field.name]
            if value is None and (self.pattern is not None or field is fields[0]):
                return f"{field.name} is null"
            text = "" if value is None else partition_text(value, field.type, legacy_name=False)
            texts[field.name] = text or ""
        text = put_together(self.pattern, texts)
        if text is None:
            return f"timestamp_pattern {self.pattern!r} does not accept its values"
        time = self.formatter.millis(text)
        return f"cannot parse {text!r} as a time" if time is None else time


def _direct_millis(value: object, data_type: DataType) -> int | None:
    """The time of a DATE or TIMESTAMP column.

    Java treats their internal numbers as text, so such partitions never expire (decision 0008).
    """
    if value is None:
        return None
    if data_type.root is TypeRoot.DATE:
        return cast("int", value) * _DAY
    if data_type.root is TypeRoot.TIMESTAMP:
        return cast("int", value) // 1_000_000
    return None


# --- execution ----------------------------------------------------------------------------------


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without partitions that received files after it, with update-time."""
    if not plan.work.by_update_time:
        return plan
    now = {p.row: p.newest_file for p in partitions_of(table, table.snapshots.latest())}
    going = tuple(p for p in plan.work.going if now.get(p.row, 0) <= p.newest_file)
    return replace(plan, work=replace(plan.work, going=going))


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Commit one OVERWRITE snapshot per batch."""
    work = plan.work
    snapshots: list[int] = []
    size = work.batch_size or max(1, len(work.going))
    for start in range(0, len(work.going), size):
        batch = work.going[start : start + size]
        rows = frozenset(p.row for p in batch)
        unregister_partitions(table, rows)
        snapshot = replace_partitions(
            table,
            rows.__contains__,
            user=f"{context.commit_user}-{len(snapshots)}",
            env=context.env,
        )
        snapshots.append(snapshot.id)
    details = {"expired_partitions": [p.path for p in work.going]}
    return Committed(snapshots=tuple(snapshots), details=details)


EXPIRE: Final = metadata_steps(make, apply, recheck=recheck)
