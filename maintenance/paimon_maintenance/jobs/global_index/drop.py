"""drop_global_index: the entries of an index, and a commit without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import Predicate
from paimon_core.table.global_index import drop_index, index_entries_of, named_field
from paimon_core.types.data_types import DataField
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import SnapshotPin
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.rules.partition_choice import chosen_partitions


@dataclass(frozen=True, slots=True)
class DropWork:
    """Which index goes: the column and type, in the partitions that match."""

    field: DataField
    kind: str
    predicate: Predicate | None


Plan = MetadataPlan[DropWork]


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The files of the index; empty if there are none."""
    check_committable(table)
    kind = str(arguments["index_type"]).strip().lower()
    field = named_field(table, str(arguments["index_column"]).strip())
    predicate = chosen_partitions(table, arguments)
    latest = table.snapshots.latest()
    files = (
        []
        if latest is None
        else [e.index_file for e in index_entries_of(table, latest, field, kind, predicate)]
    )
    size = sum(f.file_size for f in files)
    action = Action(
        f"drop the {kind} index of column {field.name}",
        f"{counted(len(files), 'index files')}, {human_bytes(size)}",
        {"column": field.name, "index_type": kind, "bytes": size},
    )
    return MetadataPlan(
        job="drop_global_index",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=DropWork(field, kind, predicate),
        actions=(action,) if files else (),
        arguments=arguments,
        details={"index_files": len(files)},
    )


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Commit the table without the index."""
    work = plan.work
    made = drop_index(
        table,
        work.field,
        work.kind,
        predicate=work.predicate,
        user=context.commit_user,
        env=context.env,
    )
    return Committed(snapshots=(made.id,), details=plan.details)


STEPS: Final = metadata_steps(make, apply)
