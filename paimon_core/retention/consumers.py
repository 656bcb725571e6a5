"""Expires consumers (Java: `consumer/ConsumerManager.expire`; java-rules H6).

Only the age of a consumer's file counts, as in Java.  An unreadable consumer expires like any
other; otherwise it would retain all snapshots forever.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.file_store_table import FileStoreTable
from paimon_core.refs.consumers import Consumer, UnreadableConsumer

AnyConsumer = Consumer | UnreadableConsumer


def dead_consumers(
    consumers: Sequence[AnyConsumer], *, expiration_millis: int, now_millis: int
) -> list[AnyConsumer]:
    """Return the consumers that were not updated for this time."""
    return [c for c in consumers if c.modified_millis < now_millis - expiration_millis]


def delete_unchanged(table: FileStoreTable, going: Sequence[AnyConsumer]) -> list[str]:
    """Delete the consumers that were not updated since they were read; return their ids."""
    now = {c.id: c for c in table.consumers.each()} if going else {}
    deleted = [c.id for c in going if now.get(c.id) == c]
    for consumer_id in deleted:
        table.consumers.delete(consumer_id)
    return deleted
