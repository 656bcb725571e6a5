"""Consumers that have read snapshots which a rollback or a fast-forward deletes.

The jobs leave them alone, as Java does.  A reader that starts again at such a position misses the
new snapshots with smaller numbers, so the plan and the report name them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.refs.consumers import Consumer
from paimon_maintenance.job.plan import Retained


def consumers_ahead(table: FileStoreTable, going: Sequence[Reference]) -> dict[str, int]:
    """The positions of these consumers by their ids; those that cannot be read are left out."""
    ids = [r.snapshot.id for r in going if r.kind is RefKind.SNAPSHOT]
    return {
        c.id: c.next_snapshot
        for c in table.consumers.each()
        if isinstance(c, Consumer) and ids and c.next_snapshot > min(ids)
    }


def left_ahead(table: FileStoreTable, going: Sequence[Reference]) -> Iterator[Retained]:
    """What a plan says about these consumers."""
    for name, position in consumers_ahead(table, going).items():
        yield Retained(
            what=f"consumer {name!r}, which continues with snapshot {position}",
            why="its reader misses new snapshots with smaller numbers unless reset_consumer moves it",
        )
