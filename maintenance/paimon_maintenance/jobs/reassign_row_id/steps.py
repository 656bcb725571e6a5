"""reassign_row_id (Java: `append/dataevolution/DataEvolutionRowIdReassigner`; java-rules L2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind
from paimon_core.predicate import Predicate
from paimon_core.table.row_id_gaps import commit_renumbering, planned_renumbering
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import SnapshotPin
from paimon_maintenance.job.text import counted
from paimon_maintenance.rules.partition_choice import chosen_partitions

Plan = MetadataPlan[Predicate | None]


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The partitions whose row ids have gaps; empty if none has."""
    predicate = chosen_partitions(table, arguments)
    latest = table.snapshots.latest()
    actions: list[Action] = []
    details: dict[str, object] = {}
    if latest is not None:
        planned = planned_renumbering(table, latest, predicate)
        changes = list(planned.index_changes(table.index_entries(latest)))
        moved = {e.index_file.file_name for e in changes if e.kind is FileKind.ADD}
        dropped = {e.index_file.file_name for e in changes} - moved
        for partition, rows in planned.moved.items():
            name = table.paths.partition_path(partition).strip("/")
            actions.append(
                Action(
                    f"give {counted(rows.count, 'rows')} of partition {name} new ids",
                    f"their ids are {rows.ranges:,} ranges with gaps",
                    {"partition": name, "rows": rows.count, "ranges": rows.ranges},
                )
            )
        details = {
            "rows": planned.rows,
            "indexes_moved": len(moved),
            "indexes_dropped": len(dropped),
        }
    return MetadataPlan(
        job="reassign_row_id",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=predicate,
        actions=tuple(actions),
        arguments=arguments,
        details=details,
    )


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Commit the new row ids."""
    snapshot, done = commit_renumbering(table, plan.work, user=context.commit_user, env=context.env)
    return Committed(
        snapshots=(snapshot.id,),
        details={"rows": done.rows, "next_row_id": done.next_row_id},
    )


STEPS: Final = metadata_steps(make, apply)
