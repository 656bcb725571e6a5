"""mark_partition_done (Java: `partition/actions/PartitionMarkDoneAction`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import PARTITION_MARK_DONE_ACTION
from paimon_core.paths import spec_path
from paimon_core.retention.partitions import partitions_of
from paimon_core.types.text import partition_text
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.jobs.partitions.http_report import HttpReport
from paimon_maintenance.rules.partition_choice import partition_value

_SUCCESS_FILE: Final = "success-file"
_HTTP_REPORT: Final = "http-report"
_SUPPORTED: Final = frozenset({_SUCCESS_FILE, _HTTP_REPORT})
_NEED_METASTORE: Final = frozenset({"done-partition", "mark-event"})


@dataclass(frozen=True, slots=True)
class MarkDone:
    """The partitions as paths below the table root ("dt=1/hh=2/"), and the actions for each."""

    partitions: tuple[str, ...]
    actions: tuple[str, ...]
    report: HttpReport | None = None


Plan = MetadataPlan[MarkDone]


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The partitions to mark and the actions; UnsupportedFeature for an unsupported action."""
    actions = table.options.value(PARTITION_MARK_DONE_ACTION)
    unknown = sorted(set(actions) - _SUPPORTED)
    if unknown:
        raise UnsupportedFeature(
            f"partition.mark-done-action={','.join(unknown)}",
            table=table.name,
            next_step="a filesystem catalog has no metastore: use success-file or http-report"
            if set(unknown) <= _NEED_METASTORE
            else None,
        )
    report = HttpReport.of(table) if _HTTP_REPORT in actions else None
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
        paths.append(
            f"{spec_path({k: _folder_text(table, k, spec[k]) for k in keys if k in spec})}/"
        )
    there = [f"{p.path}/" for p in partitions_of(table, table.snapshots.latest())]
    empty = {path for path in paths if not any(p.startswith(path) for p in there)}
    return MetadataPlan(
        job="mark_partition_done",
        table=table.name,
        pin=latest_pin(table),
        work=MarkDone(tuple(paths), actions, report),
        actions=tuple(
            Action(
                f"mark {path} as done",
                ", ".join(actions) + ("; it has no files" if path in empty else ""),
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
    work = plan.work
    for partition in work.partitions:
        for action in work.actions:
            if action == _SUCCESS_FILE:
                _write_success_file(table, partition, context.env.now_millis())
            elif work.report is not None:
                work.report.send(partition)
    return Committed(details={"marked_partitions": list(work.partitions)})


def _write_success_file(table: FileStoreTable, partition: str, now: int) -> None:
    """Write _SUCCESS; an already marked partition keeps the time of its first mark."""
    path = f"{table.paths.data_root}/{partition}_SUCCESS"
    created = now
    try:
        created = int(json.loads(table.io.read_bytes(path))["creationTime"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        created = now
    content = {"creationTime": created, "modificationTime": now}
    table.io.overwrite(path, json.dumps(content).encode())


DONE: Final = metadata_steps(make, apply)
