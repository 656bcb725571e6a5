"""Runs statements again where another commit changed or moved the rows that they read.

Nothing was committed, so that the change, which reads the table again, is the same as one that
began later.  Java does so for UPDATE of tables with data evolution, which the names of the options
come from (2.0: `spark/commands/UpdatePaimonDataEvolutionTableCommand`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from paimon_core.errors import CommitConflict, CommitObstructed
from paimon_core.options import UPDATE_CONFLICT_MAX_ATTEMPTS, UPDATE_CONFLICT_WAIT_MILLIS, Options
from paimon_core.snapshot.expiry_beside import read_beside_expiry
from paimon_core.snapshot.store import SnapshotStore
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName

log = logging.getLogger(__name__)

_Opened = TypeVar("_Opened")


def until_committed(session: SqlSession, name: TableName, change: Callable[[], None]) -> None:
    """Run the change until no other commit is first; CommitConflict after the last attempt.

    The options of the session say how often.
    """
    options = Options(session.table_options(name))
    attempts = max(1, options.value(UPDATE_CONFLICT_MAX_ATTEMPTS))
    wait = max(0, options.value(UPDATE_CONFLICT_WAIT_MILLIS))
    for number in range(1, attempts):
        session.read_anew()
        try:
            return change()
        except CommitObstructed:
            raise
        except CommitConflict as e:
            log.warning("statement runs again, attempt=%d of %d: %s", number + 1, attempts, e)
            session.env.sleep_millis(wait)
    session.read_anew()
    return change()


def opened_beside_expiry(
    session: SqlSession, name: TableName, opened: Callable[[], _Opened]
) -> _Opened:
    """What `opened` returns for the newest snapshot, for a newer one if that expires meanwhile.

    `opened` must commit nothing, because it may run again.  CorruptTable if no expiry explains what
    is missing.
    """

    def newest() -> SnapshotStore:
        session.read_anew()
        return session.open(name, to_write=True).snapshots

    return read_beside_expiry(opened, newest)
