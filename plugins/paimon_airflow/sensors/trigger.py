"""The trigger of the sensors: evaluates a condition in a thread, off the event loop.

The threads are those of this module.  A store that hangs occupies them, and the event loop's own
ones serve all triggers of the triggerer, and look up the names of hosts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from paimon_airflow.sensors.conditions import ask
from paimon_airflow.tasks.results import retry_helps

_MOST_FAILURES = 10
_THREADS = ThreadPoolExecutor(max_workers=16, thread_name_prefix="paimon-sensor")


def _event(payload: dict[str, object]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]  # as Airflow has it


class ConditionTrigger(BaseTrigger):
    """Fires when the condition of a table holds, or cannot be asked."""

    def __init__(
        self,
        *,
        condition: str,
        warehouse: str,
        table: str,
        poke_interval: float,
        branch: str | None = None,
        storage: Mapping[str, str] | None = None,
        storage_connection: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as Airflow has it
        self.condition = condition
        self.warehouse = warehouse
        self.table = table
        self.poke_interval = poke_interval
        self.branch = branch
        self.storage = dict(storage or {})
        self.storage_connection = storage_connection
        self.arguments = dict(arguments or {})

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments."""
        names = (
            "condition warehouse table poke_interval branch storage storage_connection arguments"
        )
        return (
            "paimon_airflow.sensors.trigger.ConditionTrigger",
            {name: getattr(self, name) for name in names.split()},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: {"holds": true, "why": ...}, or {"error": ...} if no later try may succeed."""
        failures = 0
        while True:
            try:
                call = partial(copy_context().run, self._ask, await self._options())
                answer = await asyncio.get_running_loop().run_in_executor(_THREADS, call)
            except Exception as e:  # noqa: BLE001 - passed on to the task
                failures += 1
                self.log.warning("cannot ask for %s of %s: %s", self.condition, self.table, e)
                if failures >= _MOST_FAILURES or not retry_helps(type(e).__name__, str(e)):
                    yield _event({"error": f"{type(e).__name__}: {e}"})
                    return
            else:
                failures = 0
                self.log.info("%s", answer.why)
                if answer.holds:
                    yield _event({"holds": True, "why": answer.why})
                    return
            await asyncio.sleep(self.poke_interval)

    def _ask(self, storage: Mapping[str, str]) -> Any:
        return ask(
            self.condition,
            warehouse=self.warehouse,
            table=self.table,
            branch=self.branch,
            storage=storage,
            arguments=self.arguments,
        )

    async def _options(self) -> dict[str, str]:
        if not self.storage_connection:
            return self.storage
        from airflow.sdk import BaseHook  # noqa: PLC0415 - only in the triggerer

        from paimon_airflow.tasks.credentials import options_of_connection  # noqa: PLC0415

        found = await BaseHook.aget_connection(self.storage_connection)
        return {**self.storage, **options_of_connection(found)}
