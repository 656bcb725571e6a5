"""A claim on a table in the history: while it is held, no other scheduler works on the table.

A claim runs out after 30 seconds and is renewed every five.  So the table of a process that
was killed is free again soon, and a job may take as long as it needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import PaimonError
from paimon_maintenance.history.need_store import NeedStore

logger = logging.getLogger(__name__)

CLAIM_MILLIS: Final = 30_000
_RENEW_SECONDS: Final = 5.0


@contextmanager
def claimed(
    store: NeedStore, table: str, holder: str, env: Environment, *, since: int | None = None
) -> Iterator[bool]:
    """Whether the table is claimed for this holder; it is released in the end.

    `since`: when the caller looked at the table.  MaintenanceError if the history does not answer.
    """
    now = env.now_millis()
    if not store.claim(table, holder, now=now, until=now + CLAIM_MILLIS, since=since):
        yield False
        return
    ended = threading.Event()
    renewing = threading.Thread(
        target=_renew, args=(store, table, holder, env, ended), name=f"claim {table}", daemon=True
    )
    renewing.start()
    try:
        yield True
    finally:
        ended.set()
        renewing.join()
        store.release(table, holder, now=env.now_millis())


def _renew(
    store: NeedStore, table: str, holder: str, env: Environment, ended: threading.Event
) -> None:
    while not ended.wait(_RENEW_SECONDS):
        try:
            if not store.renew(table, holder, until=env.now_millis() + CLAIM_MILLIS):
                logger.warning("the claim on %s is lost: another scheduler may work on it", table)
                return
        except PaimonError as e:
            # The commit of a job is safe without a claim; the next renewal may succeed.
            logger.warning("cannot renew the claim on %s: %s", table, e)
