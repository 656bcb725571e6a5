"""Airflow assets of Paimon tables.

A table is an asset, and one of its partitions is the partition key of an asset event, written as in
the table's folder: "dt=2024-01-01" or "dt=2024-01-01/hr=03".

Caretaker's tasks add an event for each table that they changed to the alias `caretaker`; the events
carry the snapshot in `extra`.  A DAG waits for a table with
`schedule=[table_asset("sales.orders")]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from airflow.sdk import Asset, AssetAlias

from paimon_airflow.tasks.results import TableResult

if TYPE_CHECKING:
    from airflow.sdk import Context

MAINTAINED: Final = AssetAlias("caretaker")
"""The alias to which the events of maintained tables are added."""
_PREFIX: Final = "paimon/lake/"
_MOST_EVENTS: Final = 500
_LONGEST_KEY: Final = 250


def table_asset(table: str) -> Asset:
    """The asset of a table, "database.table"."""
    database, _, name = (quote(part, safe="") for part in table.partition("."))
    return Asset(name=f"{_PREFIX}{table}", uri=f"x-paimon://lake/{database}/{name}")


def table_of(asset_name: str) -> str | None:
    """The table of an asset's name; None if it is another asset."""
    return asset_name.removeprefix(_PREFIX) if asset_name.startswith(_PREFIX) else None


def partition_key(partition: Mapping[str, str]) -> str | None:
    """The partition as the key of an asset event; None for an unpartitioned table.

    Airflow's keys have at most 250 characters; None for longer ones.
    """
    key = "/".join(f"{quote(k, safe='')}={quote(v, safe=' :')}" for k, v in partition.items())
    return key if key.strip() and len(key) <= _LONGEST_KEY else None


def partition_of(key: str) -> dict[str, str]:
    """The partition that a key names; InvalidArgument for an invalid key."""
    from paimon_core.errors import InvalidArgument

    found = {}
    for part in key.split("/"):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise InvalidArgument(
                f"{key!r} is not the key of a partition",
                next_step="write it as in the table's folder: dt=2024-01-01, or dt=2024-01-01/hr=03",
            )
        found[unquote(name)] = unquote(value)
    return found


def emit(
    context: Context,
    results: Iterable[TableResult],
    *,
    job: str,
    warehouse: str,
    partitions: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
) -> int:
    """Add an event for each table that got a new snapshot; return how many.

    The task must have the outlet MAINTAINED.  An outlet that is the asset of a table gets an event
    for each of its `partitions` as well, with the partition as key.
    """
    events = context["outlet_events"]
    concrete = {a.name: a for a in context["task"].outlets if isinstance(a, Asset)}
    number = 0
    for result in results:
        if result.outcome != "done" or result.snapshot is None or number >= _MOST_EVENTS:
            continue
        asset = table_asset(result.table)
        changed = [dict(p) for p in (partitions or {}).get(result.table, ())]
        extra: dict[str, Any] = {
            "table": result.table,
            "warehouse": warehouse,
            "snapshot": result.snapshot,
            "job": job,
            **({"partitions": changed} if changed and changed != [{}] else {}),
        }
        events[MAINTAINED].add(asset, extra=extra)
        if asset.name in concrete:
            keys = [key for p in changed if (key := partition_key(p)) is not None]
            own = events[concrete[asset.name]]
            own.extra.update(extra)
            if keys:
                own.add_partitions(keys)
        number += 1
    return number
