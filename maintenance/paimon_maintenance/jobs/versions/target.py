"""The target version of a rollback, from its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from paimon_core.errors import InvalidArgument, NotFound, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.schema.replaced import shares_no_column
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.rules.times import parse_instant

Arguments = Mapping[str, object]


def target_of(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Snapshot:
    """The target snapshot; NotFound, or InvalidArgument unless exactly one argument is set.

    UnsupportedFeature if the table was replaced since then.
    """
    target = _named(table, arguments, context)
    check_same_columns(table, target)
    return target


def check_same_columns(table: FileStoreTable, target: Snapshot) -> None:
    """UnsupportedFeature if the newest schema has no column of the target's.

    The schema of the handle may be an older one.  `CREATE OR REPLACE TABLE` empties the table once
    more after it has added its schema: one that comes after this check is followed by a snapshot.
    """
    now = table.schemas.latest() or table.schema
    schema = table.schemas.get(target.schema_id)
    if shares_no_column(schema, now):
        raise UnsupportedFeature(
            "going back behind CREATE OR REPLACE TABLE",
            f"table {table.name} was replaced after snapshot {target.id}: schema {now.id} has none "
            f"of the columns of schema {schema.id}, so all values would be null",
            table=table.name,
            snapshot=target.id,
            next_step=f"read the rows with VERSION AS OF {target.id}, and write them to a new table",
        )


def _named(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Snapshot:
    given = {k: arguments.get(k) for k in ("snapshot", "tag", "timestamp", "watermark")}
    chosen = {k: v for k, v in given.items() if v is not None}
    if len(chosen) != 1:
        raise InvalidArgument(
            "set exactly one of snapshot, tag, timestamp and watermark", table=table.name
        )
    if "tag" in chosen:
        return table.tags.get(cast("str", chosen["tag"])).snapshot
    if "snapshot" in chosen:
        wanted = cast("int", chosen["snapshot"])
        found = table.snapshots.get_or_none(wanted)
        if found is None:
            tags = (t.snapshot for t in table.tags.all())
            found = next((s for s in tags if s.id == wanted), None)
        return found if found is not None else table.snapshots.get(wanted)
    if "watermark" in chosen:
        return _at_watermark(table, cast("int", chosen["watermark"]))
    millis = parse_instant(cast("str", chosen["timestamp"]), context.env)
    at = table.snapshots.at_or_before_time(millis)
    if at is None:
        raise NotFound(
            f"table {table.name} has no snapshot at or before {millis}",
            table=table.name,
            next_step="choose a later time; `caretaker inspect` lists the snapshots",
        )
    return at


def _at_watermark(table: FileStoreTable, wanted: int) -> Snapshot:
    """The newest snapshot whose watermark is `wanted` or less (`earlierOrEqualWatermark`).

    NotFound if all are later; Java then takes the earliest.
    """
    for snapshot in reversed(table.snapshots.all()):
        if snapshot.watermark is not None and snapshot.watermark <= wanted:
            return snapshot
    raise NotFound(
        f"table {table.name} has no snapshot with watermark {wanted} or less",
        table=table.name,
        next_step="choose a later watermark; `caretaker inspect` lists the snapshots",
    )
