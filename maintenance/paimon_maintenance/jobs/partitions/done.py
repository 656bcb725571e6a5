"""mark_partition_done (Java: `partition/actions/PartitionMarkDoneAction`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from paimon_core.commit.registered_partitions import registry_of
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import PARTITION_MARK_DONE_ACTION
from paimon_core.paths import spec_path, unescape_path_name
from paimon_core.retention.partitions import partitions_of
from paimon_core.retention.registered_partitions import done_spec
from paimon_core.types.partition_text import partition_text
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.jobs.partitions.http_report import HttpReport
from paimon_maintenance.rules.partition_choice import partition_value

_SUCCESS_FILE: Final = "success-file"
_HTTP_REPORT: Final = "http-report"
_DONE_PARTITION: Final = "done-partition"
_MARK_EVENT: Final = "mark-event"
_SUPPORTED: Final = frozenset({_SUCCESS_FILE, _HTTP_REPORT})
_NEED_METASTORE: Final = frozenset({_DONE_PARTITION, _MARK_EVENT})


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
    registry = registry_of(table)
    supported = _SUPPORTED if registry is None else _SUPPORTED | _NEED_METASTORE
    unknown = sorted(set(actions) - supported)
    if unknown:
        raise UnsupportedFeature(
            f"partition.mark-done-action={','.join(unknown)}",
            table=table.name,
            next_step="it needs a Hive catalog and a table with metastore.partitioned-table=true; "
            "elsewhere use success-file or http-report"
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
        if _NEED_METASTORE & set(actions) and len(spec) < len(keys):
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
            elif action in _NEED_METASTORE:
                _mark_in_metastore(table, partition, action)
            elif work.report is not None:
                work.report.send(partition)
    return Committed(details={"marked_partitions": list(work.partitions)})


def _mark_in_metastore(table: FileStoreTable, partition: str, action: str) -> None:
    """Add the partition "VALUE.done" (done-partition), or set Hive's event LOAD_DONE (mark-event)."""
    registry = registry_of(table)
    if registry is None:
        raise UnsupportedFeature(f"partition.mark-done-action={action}", table=table.name)
    named = (folder.partition("=") for folder in partition.strip("/").split("/"))
    spec = {unescape_path_name(k): unescape_path_name(v) for k, _, v in named}
    if action == _DONE_PARTITION:
        registry.add([done_spec(spec)])
    else:
        registry.mark_done([spec])


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
