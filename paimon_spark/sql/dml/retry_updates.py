"""Runs a change of a table with data evolution again where another one came first.

Java: `spark/commands/UpdatePaimonDataEvolutionTableCommand`, for UPDATE in 2.0.  Nothing was
committed, so that the change, which reads the table again, is the same as one that began later.
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_core.errors import RowsChanged
from paimon_core.options import (
    UPDATE_CONFLICT_MAX_ATTEMPTS,
    UPDATE_CONFLICT_WAIT_MILLIS,
    Options,
)
from paimon_spark.sql.session import SqlSession, TableName


def until_committed(session: SqlSession, name: TableName, change: Callable[[], None]) -> None:
    """Run the change as often as the options of the session allow; RowsChanged if all came late."""
    options = Options(session.table_options(name))
    attempts = max(1, options.value(UPDATE_CONFLICT_MAX_ATTEMPTS))
    wait = max(0, options.value(UPDATE_CONFLICT_WAIT_MILLIS))
    for _ in range(1, attempts):
        session.read_anew()
        try:
            return change()
        except RowsChanged:
            session.env.sleep_millis(wait)
    session.read_anew()
    return change()
