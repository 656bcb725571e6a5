"""create_global_index: which rows have no index yet, and the files that cover them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.table.global_index import (
    IndexPart,
    build_part,
    commit_index,
    delete_index_files,
    indexed_field,
    unindexed_parts,
)
from paimon_core.types.data_types import DataField
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import Effect, Retained, SnapshotPin
from paimon_maintenance.job.read_units import read_units
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.rules.partition_choice import chosen_partitions

SMALL_BYTES: Final = 512 * 1024**2
"""The driver's process builds the index of less itself."""


@dataclass(frozen=True, slots=True)
class IndexWork:
    """The column, and the parts of its rows that need index files."""

    field: DataField
    parts: tuple[IndexPart, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of the files to read."""
        return sum(p.size for p in self.parts)


Plan = MetadataPlan[IndexWork]


def make(table: FileStoreTable, arguments: Mapping[str, object], _: RunContext) -> Plan:
    """The rows without an index; empty if it covers all of them."""
    kind = str(arguments["index_type"]).strip().lower()
    field = indexed_field(table, str(arguments["index_column"]).strip(), kind)
    latest = table.snapshots.latest()
    predicate = chosen_partitions(table, arguments)
    parts = (
        () if latest is None else tuple(unindexed_parts(table, latest, field, predicate=predicate))
    )
    work = IndexWork(field, parts)
    rows = sum(len(p.rows) for p in parts)
    files = sum(p.files(table.options) for p in parts)
    action = Action(
        f"index {counted(rows, 'rows')} by {field.name}",
        f"writes {counted(files, 'index files')}, reads the column in {human_bytes(work.bytes)} of "
        "data files",
        {"column": field.name, "rows": rows, "index_files": files, "bytes": work.bytes},
    )
    covered = Retained(what=f"column {field.name}", why="its index covers all rows")
    large = work.bytes > SMALL_BYTES
    return MetadataPlan(
        job="create_global_index",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=work,
        actions=(action,) if parts else (),
        kept=() if parts or latest is None else (covered,),
        # Nothing is rewritten, but a large table is read: that needs Spark.
        effect=Effect(rewritten_bytes=work.bytes if large else 0),
        arguments=arguments,
    )


def build(table: FileStoreTable, field: DataField, env: Environment, payload: bytes) -> bytes:
    """Write the index files of the part in the payload."""
    part: IndexPart = pickle.loads(payload)  # noqa: S301 - our own
    return pickle.dumps(build_part(table, part, field, env.new_uuid))


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Write the index files and commit them."""
    work = plan.work
    built = _built(table, work, context)
    if not built:  # the rows of all parts are deleted
        return Committed()
    made = commit_index(table, built, user=context.commit_user, env=context.env)
    files = [file for _, files in built for file in files]
    details = {
        "index_files": len(files),
        "rows": sum(f.row_count for f in files),
        "bytes": sum(f.file_size for f in files),
    }
    return Committed(snapshots=(made.id,), details=details)


def _built(
    table: FileStoreTable, work: IndexWork, context: RunContext
) -> list[tuple[IndexPart, list[IndexFileMeta]]]:
    units = [
        WorkUnit(
            payload=pickle.dumps(part),
            expected_bytes=part.size,
            label=f"{table.name}: index of rows {part.rows.first} to {part.rows.last}",
        )
        for part in work.parts
    ]
    run = partial(build, table, work.field, context.env)
    results = read_units(units, run, context, small=SMALL_BYTES)
    found: list[tuple[IndexPart, list[IndexFileMeta]]] = []
    for part, result in zip(work.parts, results, strict=True):
        if result.payload is not None:
            files: list[IndexFileMeta] = pickle.loads(result.payload)  # noqa: S301 - our own
            if files:
                found.append((part, files))
    errors = [r.error for r in results if r.error is not None]
    if errors:
        delete_index_files(table, found)
        raise errors[0]
    return found


STEPS: Final = metadata_steps(make, apply)
