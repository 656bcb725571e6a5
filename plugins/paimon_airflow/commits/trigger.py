"""The watcher: fires when tables of a lake have commits that are not maintained yet.

One look reads the newest snapshot id of every table; looks run in a thread, so that the event loop
of the triggerer stays free.  What is maintained is in the history (`position_store`), so a killed
triggerer loses nothing: its successor finds the same commits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

if TYPE_CHECKING:
    from paimon_maintenance.schedule.commits import Watch

_AGAIN_SECONDS = 60.0
"""Commits that are not maintained by then are announced again: an event or a run may be lost."""
_MOST_NAMED = 200


class CommitTrigger(BaseEventTrigger):
    """Fires with the tables that have new commits: {"tables": {"db.t": 42}}.

    `tables` are names or patterns.  `storage` configures the store and holds no secrets; these come
    from the connection `storage_connection` or from the environment.
    """

    def __init__(
        self,
        *,
        warehouse: str,
        tables: Sequence[str] = ("*.*",),
        poll_seconds: float = 5.0,
        storage: Mapping[str, str] | None = None,
        storage_connection: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as Airflow has it
        self.warehouse = warehouse
        self.tables = list(tables)
        self.poll_seconds = poll_seconds
        self.storage = dict(storage or {})
        self.storage_connection = storage_connection

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments."""
        return (
            "paimon_airflow.commits.trigger.CommitTrigger",
            {
                "warehouse": self.warehouse,
                "tables": self.tables,
                "poll_seconds": self.poll_seconds,
                "storage": self.storage,
                "storage_connection": self.storage_connection,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for commits that two looks in a row found and that were not announced."""
        watch: Watch | None = None
        before: dict[str, int] = {}
        announced: dict[str, tuple[int, float]] = {}
        while True:
            try:
                if watch is None:
                    watch = await self._watch()
                pending = await asyncio.to_thread(watch.look)
            except Exception as e:  # noqa: BLE001 - a store or a database that is down comes back
                self.log.warning("cannot look for commits: %s", e)
                await asyncio.sleep(max(self.poll_seconds, 10.0))
                continue
            # A task that lingers sees most commits before the second look.
            new = _new({t: s for t, s in pending.items() if t in before}, announced)
            announced = {t: a for t, a in announced.items() if t in pending}
            before = pending
            if new:
                now = time.monotonic()
                announced |= {table: (snapshot, now) for table, snapshot in new.items()}
                named = dict(sorted(new.items())[:_MOST_NAMED])
                found = {"tables": named, "number": len(new)}
                yield TriggerEvent(found)  # type: ignore[no-untyped-call]  # as above
            await asyncio.sleep(self.poll_seconds)

    async def _watch(self) -> Watch:
        from paimon_airflow.commits.on_commit import watch_of  # noqa: PLC0415 - only in the triggerer

        storage = self.storage
        if self.storage_connection:
            from airflow.sdk import BaseHook  # noqa: PLC0415 - only in the triggerer

            from paimon_airflow.tasks.credentials import options_of_connection  # noqa: PLC0415

            found = await BaseHook.aget_connection(self.storage_connection)
            storage = {**storage, **options_of_connection(found)}
        return await asyncio.to_thread(watch_of, self.warehouse, tuple(self.tables), storage)


def _new(pending: Mapping[str, int], announced: Mapping[str, tuple[int, float]]) -> dict[str, int]:
    """The tables not announced yet, or announced so long ago that the event must be lost."""
    long_ago = time.monotonic() - _AGAIN_SECONDS
    never = (-1, 0.0)
    return {
        table: snapshot
        for table, snapshot in pending.items()
        if announced.get(table, never)[1] < long_ago
        or (announced[table][0] != snapshot and announced[table][1] < time.monotonic() - 10)
    }
