"""mark_partition_done (Java: `partition/actions/PartitionMarkDoneAction`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import spec_path
from paimon_core.retention.partitions import partitions_of
from paimon_core.table.sink.partition_marks import PartitionMarks
from paimon_core.types.partition_text import partition_text
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.rules.partition_choice import partition_value


@dataclass(frozen=True, slots=True)
class MarkDone:
    """The partitions as paths below the table root ("dt=1/hh=2/"), and the actions for each."""

    partitions: tuple[str, ...]
    marks: PartitionMarks


Plan = MetadataPlan[MarkDone]


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The partitions to mark and the actions; UnsupportedFeature for an unsupported action."""
    marks = PartitionMarks.of(table)
    specs = cast("Sequence[Mapping[str, str]]", arguments["partitions"])
    keys = table.schema.partition_keys
    if not specs:
        raise InvalidArgument("argument --partition is required", table=table.name)
    paths = []
    for spec in specs:
        if list(keys[: len(spec)]) != [k for k in keys if k in spec] or set(spec) - set(keys):
            raise InvalidArgument(
                f"partition {dict(spec)} must start with the first partition keys "
                f"({', '.join(keys)})",
                table=table.name,
            )
        if marks.in_metastore and len(spec) < len(keys):
            raise InvalidArgument(
                f"partition {dict(spec)} must name all partition keys ({', '.join(keys)}): the "
                "metastore has no others",
                table=table.name,
            )
        paths.append(
            f"{spec_path({k: _folder_text(table, k, spec[k]) for k in keys if k in spec})}/"
        )
    there = [f"{p.path}/" for p in partitions_of(table, table.snapshots.latest())]
    empty = {path for path in paths if not any(p.startswith(path) for p in there)}
    return MetadataPlan(
        job="mark_partition_done",
        table=table.name,
        pin=latest_pin(table),
        work=MarkDone(tuple(paths), marks),
        actions=tuple(
            Action(
                f"mark {path} as done",
                ", ".join(marks.actions) + ("; it has no files" if path in empty else ""),
            )
            for path in paths
        ),
        arguments=arguments,
    )


def _folder_text(table: FileStoreTable, key: str, text: str) -> str:
    """The value as in the folder name; a DATE is accepted as text."""
    field = table.schema.partition_type.get(key)
    value = partition_value(table, key, text)
    if field is None or value is None:
        return table.paths.partition_default_name
    name = partition_text(value, field.type, legacy_name=table.paths.partition_legacy_name)
    return name or table.paths.partition_default_name


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Run all actions for each partition, in the order of the table option."""
    for partition in plan.work.partitions:
        context.fence()
        plan.work.marks.mark(table, partition, context.env.now_millis())
    return Committed(details={"marked_partitions": list(plan.work.partitions)})


DONE: Final = metadata_steps(make, apply)
