"""The conditions that sensors wait for; each reads the metadata of a table once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paimon_core.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the condition holds, and the reason as text for the log."""

    holds: bool
    why: str


def healthy(
    table: FileStoreTable,
    *,
    score: int = 80,
    partition: Mapping[str, str] | None = None,
    policy: str | None = None,
) -> Answer:
    """Whether the table, or one of its partitions, has at least this health score.

    Thresholds and goals come from the policy file `policy`.
    """
    from paimon_core.environment import system_environment
    from paimon_maintenance.health.measure import measure_table  # noqa: PLC0415 - when it is asked
    from paimon_maintenance.health.score import health_of  # noqa: PLC0415
    from paimon_maintenance.policy.load import load_policy  # noqa: PLC0415
    from paimon_maintenance.policy.model import TablePolicy  # noqa: PLC0415
    from paimon_maintenance.policy.needs import TableFacts  # noqa: PLC0415
    from paimon_maintenance.policy.resolve import under  # noqa: PLC0415

    env = system_environment()
    facts = TableFacts(dict(table.schema.options), table.schema.comment)
    wanted = TablePolicy(table=table.name)
    if policy:
        wanted = load_policy(policy).for_table(table.name, lambda: facts)
    found = measure_table(under(wanted, table), env)
    health = health_of(found, wanted.needs.thresholds(), env.now_millis())
    if partition:
        names = {p.name for p in found.partitions if dict(p.values) == dict(partition)}
        own = [p for p in health.partitions if p.name in names]
        if not own:
            return Answer(False, f"{table.name} has no partition {dict(partition)}")
        health = own[0]
    reason = f", {health.reasons[0].text}" if health.reasons else ""
    return Answer(health.score >= score, f"{health.name or table.name}: {health.score}{reason}")


def watermark_reached(table: FileStoreTable, *, millis: int) -> Answer:
    """Whether the newest snapshot has this watermark (epoch milliseconds) or a later one."""
    latest = table.snapshots.latest()
    mark = None if latest is None else latest.watermark
    return Answer(
        mark is not None and mark >= millis,
        f"the watermark of {table.name} is {mark}, wanted is {millis}",
    )


def tag_exists(table: FileStoreTable, *, tag: str) -> Answer:
    """Whether the table has this tag."""
    found = tag in table.tags.names()
    return Answer(found, f"{table.name} has {'the' if found else 'no'} tag {tag!r}")


def consumer_caught_up(table: FileStoreTable, *, consumer: str, snapshots: int = 0) -> Answer:
    """Whether the consumer exists and has at most this many unread snapshots."""
    latest = table.snapshots.latest_id() or 0
    found = {c.id: c for c in table.consumers.all()}.get(consumer)
    if found is None:
        return Answer(False, f"{table.name} has no consumer {consumer!r}")
    behind = max(0, latest + 1 - found.next_snapshot)
    return Answer(
        behind <= snapshots, f"consumer {consumer!r} of {table.name} is {behind} snapshots behind"
    )


CONDITIONS: Final[Mapping[str, Callable[..., Answer]]] = {
    "healthy": healthy,
    "watermark_reached": watermark_reached,
    "tag_exists": tag_exists,
    "consumer_caught_up": consumer_caught_up,
}


def ask(
    condition: str,
    *,
    warehouse: str,
    table: str,
    branch: str | None,
    storage: Mapping[str, str],
    arguments: Mapping[str, Any],
) -> Answer:
    """Open the table and evaluate the condition with this name; raises the errors of the table."""
    from paimon_maintenance.storage.catalogs import open_table_of, options_of  # noqa: PLC0415
    from paimon_maintenance.storage.options import options_of_environment  # noqa: PLC0415

    options = options_of(warehouse, {**options_of_environment(), **storage})
    opened = open_table_of(warehouse, table, branch=branch, file_io_options=options)
    return CONDITIONS[condition](opened, **arguments)
