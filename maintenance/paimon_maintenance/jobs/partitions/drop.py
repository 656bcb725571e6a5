"""drop_partition (Java: `FileStoreCommit.dropPartitions`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from paimon_core.commit.overwrite import replace_partitions
from paimon_core.errors import InvalidArgument
from paimon_core.features import check_committable, check_droppable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.retention.partitions import Partition, partitions_of
from paimon_core.retention.registered_partitions import unregistered
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import Retained, SnapshotPin
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.jobs.partitions.content import effect_of, spec_tests

Specs = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class PartitionDrop:
    """The specs, and the matching partitions at the time of the plan."""

    specs: Specs
    partitions: tuple[Partition, ...]


Plan = MetadataPlan[PartitionDrop]


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The partitions that match the specs; specs without a match are reported."""
    check_committable(table)
    check_droppable(table)
    specs = cast("Specs", tuple(cast("Sequence[Mapping[str, str]]", arguments["partitions"])))
    if not specs:
        raise InvalidArgument("argument --partition is required", table=table.name)
    tests = spec_tests(table, specs)
    latest = table.snapshots.latest()
    everything = partitions_of(table, latest)
    going = [p for p in everything if any(t is None or t(p.row) for t in tests)]
    kept = [
        Retained(
            what=f"partition {','.join(f'{k}={v}' for k, v in spec.items())}", why="does not exist"
        )
        for spec, test in zip(specs, tests, strict=True)
        if not any(test is None or test(p.row) for p in going)
    ]
    return MetadataPlan(
        job="drop_partition",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=PartitionDrop(specs, tuple(going)),
        actions=tuple(drop_action(p, "it is named") for p in going),
        kept=tuple(kept),
        effect=effect_of(going, everything),
        arguments=arguments,
    )


def drop_action(partition: Partition, why: str) -> Action:
    """The action that drops a partition."""
    size = f"{counted(partition.files, 'files')}, {human_bytes(partition.bytes)}"
    details = {"partition": partition.path, "files": partition.files, "bytes": partition.bytes}
    return Action(f"drop {partition.path} ({size})", why, details)


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Commit one OVERWRITE snapshot without the partitions."""
    tests = spec_tests(table, plan.work.specs)

    def is_going(row: bytes) -> bool:
        return any(test is None or test(row) for test in tests)

    going: list[bytes] = []
    if table.partition_registry is not None:
        now = partitions_of(table, table.snapshots.latest())
        going = [p.row for p in now if is_going(p.row)]
    with unregistered(table, going):
        snapshot = replace_partitions(
            table,
            is_going,
            user=context.commit_user,
            env=context.env,
        )
    names = [p.path for p in plan.work.partitions]
    return Committed(snapshots=(snapshot.id,), details={"dropped_partitions": names})


DROP: Final = metadata_steps(make, apply)
