"""mark_partition_done (Java: `partition/actions/PartitionMarkDoneAction`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from maintenance.job import Committed, RunContext
from maintenance.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import PARTITION_MARK_DONE_ACTION
from paimon_core.paths import spec_path

Plan = MetadataPlan[tuple[str, ...]]
_SUPPORTED: Final = frozenset({"success-file"})


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The folders that are marked; UnsupportedFeature for another action than success-file."""
    actions = table.options.value(PARTITION_MARK_DONE_ACTION)
    unknown = sorted(set(actions) - _SUPPORTED)
    if unknown:
        raise UnsupportedFeature(
            f"partition.mark-done-action={','.join(unknown)}", table=table.name
        )
    specs = cast("Sequence[Mapping[str, str]]", arguments["partitions"])
    keys = table.schema.partition_keys
    if not specs:
        raise InvalidArgument("argument --partition is required", table=table.name)
    paths = []
    for spec in specs:
        if list(keys[: len(spec)]) != [k for k in keys if k in spec] or set(spec) - set(keys):
            raise InvalidArgument(
                f"partition {dict(spec)} must name the first of the partition keys "
                f"({', '.join(keys)})",
                table=table.name,
            )
        paths.append(
            f"{table.paths.data_root}/{spec_path({k: spec[k] for k in keys if k in spec})}"
        )
    return MetadataPlan(
        job="mark_partition_done",
        table=table.name,
        pin=latest_pin(table),
        work=tuple(paths),
        actions=tuple(Action(f"mark {path} as done", "success-file") for path in paths),
        arguments=arguments,
    )


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Write _SUCCESS; a partition that was marked before keeps the time of the first mark."""
    now = context.env.now_millis()
    for folder in plan.work:
        path = f"{folder}/_SUCCESS"
        created = now
        try:
            created = int(json.loads(table.io.read_bytes(path))["creationTime"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            created = now
        content = {"creationTime": created, "modificationTime": now}
        table.io.overwrite(path, json.dumps(content).encode())
    return Committed(details={"marked_partitions": list(plan.work)})


DONE: Final = metadata_steps(make, apply)
