"""Tables that also read partitions of another branch (Java: `table/FallbackReadFileStoreTable`).

With `scan.fallback-branch`, partitions that the table does not have are read from that branch; with
`scan.primary-branch`, that branch comes first and the table is the fallback.  A partition is never
read from both.  Writing and maintenance ignore these options: they work on one branch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import BUCKET, SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from paimon_core.table.open import open_table_at

_SNAPSHOT: Final = "scan.snapshot-id"
_NOT_INHERITED: Final = frozenset(
    {SCAN_FALLBACK_BRANCH.key, SCAN_PRIMARY_BRANCH.key, "branch", BUCKET.key}
)


def both_branches(table: FileStoreTable) -> tuple[FileStoreTable, FileStoreTable] | None:
    """Return the table to read first and its fallback, both without these options.

    None for a table that reads only its own branch, or whose other branch does not exist (as in
    Java).  Raises InvalidArgument if the branches do not have the same columns.
    """
    fallback = table.options.value(SCAN_FALLBACK_BRANCH)
    branch = fallback or table.options.value(SCAN_PRIMARY_BRANCH)
    if not branch:
        return None
    own = _alone(table)
    try:
        other = _alone(
            open_table_at(
                table.io,
                table.root,
                table.name,
                branch=branch,
                dynamic_options=_options_there(table, branch),
                snapshot_commit=table.snapshots.snapshot_commit,
                partition_registry=table.partition_registry,
            )
        )
    except NotFound:
        return None
    columns = [
        [(f.name, f.type.with_nullable(True)) for f in t.schema.fields] for t in (own, other)
    ]
    if columns[0] != columns[1] or own.schema.partition_keys != other.schema.partition_keys:
        raise InvalidArgument(
            f"branches {own.branch} and {branch} of table {table.name} do not have the same columns",
            table=table.name,
            next_step="bring the branches to one schema, or read each by itself",
        )
    return (own, other) if fallback else (other, own)


def _alone(table: FileStoreTable) -> FileStoreTable:
    schema = table.schema.with_options(
        {SCAN_FALLBACK_BRANCH.key: None, SCAN_PRIMARY_BRANCH.key: None}
    )
    return replace(table, schema=schema)


def _options_there(table: FileStoreTable, branch: str) -> dict[str, str | None]:
    """Return this handle's options for another branch: map a snapshot id by its commit time."""
    options = {k: v for k, v in table.dynamic_options.items() if k not in _NOT_INHERITED}
    snapshot = options.get(_SNAPSHOT)
    if snapshot is not None and snapshot.isdecimal():
        time = table.snapshots.get(int(snapshot)).time_millis
        there = table.snapshots.of_branch(branch).at_or_before_time(time)
        options[_SNAPSHOT] = str(1 if there is None else there.id)
    return options
