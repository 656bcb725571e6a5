"""The history in a SQL database: SQLite in the state folder, or a PostgreSQL database."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from paimon_core.errors import InvalidArgument, MaintenanceError, NotFound, UnsupportedFeature
from paimon_maintenance.history.entry import AIRFLOW, Actor, Entry
from paimon_maintenance.history.migrate import LATEST, migrate, version_of

logger = logging.getLogger(__name__)
_LONGEST_ERROR: Final = 500
"""The maximum number of characters of a database error in a message."""

URL_VARIABLE: Final = "CARETAKER_HISTORY_URL"
STATE_VARIABLE: Final = "CARETAKER_STATE"
NONE: Final = "none"
"""The URL that disables the history."""
_READS: Final = "caretaker_reads"
"""The execution option of a transaction that writes nothing."""
_WAITS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sqlite": {"timeout": 20},  # seconds, while another process writes
    "postgresql": {"connect_timeout": 5},
}
"""The databases that a history can be in, with the arguments of their connections."""
_REFUSALS: Final = 200
"""Number of earlier refusals of a table to compare with a new one."""
_JSON: Final = frozenset({"snapshots", "arguments", "details"})


@dataclass(slots=True)
class _Write:
    """The rows that one thread writes, and the error of the write."""

    rows: list[dict[str, object]]
    is_done: bool = False
    error: Exception | None = None


class SqlHistory:
    """A history in the database at `url`.  It connects at the first use.

    Safe for several threads and processes: each write is one short transaction.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine: sa.Engine | None = None
        self._is_migrated = False
        self._lock = threading.Lock()
        self._writes = threading.Lock()
        self._waiting: list[_Write] = []

    def record(self, entries: Sequence[Entry]) -> str | None:
        """Write the entries in one transaction; None, or the reason why that failed."""
        try:
            self.add(entries)
        except Exception as e:  # noqa: BLE001 - the job must continue
            reason = f"cannot write the history: {one_line(e)}"
            logger.warning("%s", reason)
            return reason
        return None

    def add(self, entries: Sequence[Entry]) -> None:
        """Write the entries in one transaction; raises the errors of the database.

        What other threads bring during a transaction goes together into the next one: SQLite makes
        writers wait by sleeping.
        """
        own = _Write([_row_of(entry) for entry in entries])
        with self._lock:
            self._waiting.append(own)
        with self._writes:
            if not own.is_done:
                with self._lock:
                    writes, self._waiting = self._waiting, []
                self._write(writes)
        if own.error is not None:
            raise own.error

    def _write(self, writes: Sequence[_Write]) -> None:
        """Write all of them in one transaction; each gets the error of a failed one."""
        error: Exception | None = MaintenanceError("the write was interrupted")
        try:
            with self._migrated().begin() as connection:
                rows = [row for write in writes for row in write.rows]
                connection.execute(sa.insert(_entries_table()), rows)
            error = None
        except Exception as e:  # noqa: BLE001 - raised in the thread of each write
            error = e
            if len(writes) > 1 and _is_about_rows(e):
                for write in writes:
                    self._write([write])
                return
        finally:
            for write in writes:
                if not write.is_done:
                    write.is_done, write.error = True, error

    def newest(
        self,
        *,
        table: str | None = None,
        job: str | None = None,
        status: str | Sequence[str] | None = None,
        run_id: str | None = None,
        warehouse: str | None = None,
        since_millis: int | None = None,
        limit: int | None = 20,
    ) -> list[Entry]:
        """The newest matching entries, newest first; `*` is a wildcard in table names.

        Starts are included only without an end.  `status` is one status or several.  NotFound if
        there is no history, MaintenanceError if the database does not answer.
        """
        entries = _entries_table()
        query = sa.select(entries).order_by(entries.c.id.desc()).limit(limit)
        query = query.where(sa.or_(entries.c.event != "start", _has_no_end(entries)))
        if table is not None:
            pattern = table.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            query = query.where(
                entries.c.table_name.like(pattern.replace("*", "%"), escape="\\")
                if "*" in table
                else entries.c.table_name == table
            )
        if since_millis is not None:
            query = query.where(entries.c.at_millis >= since_millis)
        for name, wanted in (
            ("job", job),
            ("status", status),
            ("run_id", run_id),
            ("warehouse", warehouse),
        ):
            if wanted is not None:
                values = [wanted] if isinstance(wanted, str) else list(wanted)
                query = query.where(entries.c[name].in_(values))
        engine = self._open()
        if engine.dialect.name == "sqlite" and not _file_exists(engine):
            raise self._nothing()
        try:
            with _reading(engine) as connection:
                if version_of(connection) == 0:
                    raise self._nothing()
            with _reading(self._migrated()) as connection:
                return [_entry_of(row) for row in connection.execute(query).mappings()]
        except (sa.exc.SQLAlchemyError, OSError) as e:
            raise MaintenanceError(
                f"cannot read the history at {_shown(self.url)}: {one_line(e)}",
                next_step=f"check that the database is reachable, or set {URL_VARIABLE} to another URL",
            ) from e

    def knows_refusal(
        self, error: UnsupportedFeature, *, table: str, warehouse: str, actor: Actor
    ) -> bool:
        """Whether the table was refused before, for the same reason (see `History`)."""
        try:
            return self._knows_refusal(error, table, warehouse, actor)
        except Exception as e:  # noqa: BLE001 - the refusal then counts as new
            logger.warning("cannot read the history: %s", one_line(e))
            return False

    def _knows_refusal(
        self, error: UnsupportedFeature, table: str, warehouse: str, actor: Actor
    ) -> bool:
        entries = _entries_table()
        columns = entries.c
        query = (
            sa.select(columns.details, columns.error)
            .where(columns.table_name == table, columns.warehouse == warehouse)
            .where(columns.error_type == type(error).__name__)
            .order_by(columns.id.desc())
            .limit(_REFUSALS)
        )
        if actor.origin == AIRFLOW:
            query = query.where(sa.or_(columns.origin != actor.origin, columns.actor != actor.name))
        engine = self._open()
        if engine.dialect.name == "sqlite" and not _file_exists(engine):
            return False
        with _reading(engine) as connection:
            if version_of(connection) == 0:
                return False
            rows = connection.execute(query).mappings().all()
        # Entries of older versions have no feature in their details.
        return any(
            json.loads(row["details"]).get("feature") == error.feature
            or row["error"] == error.message
            for row in rows
        )

    def open_runs(self, *, table: str, warehouse: str) -> list[Entry]:
        """The starts on this table without an end, oldest first.

        Empty if the history is unreadable, because jobs do not depend on it.
        """
        entries = _entries_table()
        query = (
            sa.select(entries)
            .where(entries.c.table_name == table, entries.c.warehouse == warehouse)
            .where(entries.c.event == "start", _has_no_end(entries))
            .order_by(entries.c.id)
        )
        try:
            engine = self._open()
            if engine.dialect.name == "sqlite" and not _file_exists(engine):
                return []
            with _reading(engine) as connection:
                if not self._is_migrated and version_of(connection) == 0:
                    return []
            with _reading(self._migrated()) as connection:
                return [_entry_of(row) for row in connection.execute(query).mappings()]
        except Exception as e:  # noqa: BLE001 - the job must continue
            logger.warning("cannot read the history: %s", one_line(e))
            return []

    def _nothing(self) -> NotFound:
        return NotFound(
            "there is no history",
            next_step=f"the next plan or run creates it ({_shown(self.url)})",
        )

    def engine(self) -> sa.Engine:
        """The engine of the migrated database, for the other tables of the history."""
        return self._migrated()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection to the migrated database that only reads.

        MaintenanceError if it does not answer.
        """
        try:
            with _reading(self._migrated()) as connection:
                yield connection
        except (sa.exc.SQLAlchemyError, OSError) as e:
            raise MaintenanceError(
                f"cannot read the history at {_shown(self.url)}: {one_line(e)}",
                next_step=f"check that the database is reachable, or set {URL_VARIABLE} to another URL",
            ) from e

    def _open(self) -> sa.Engine:
        with self._lock:
            if self._engine is None:
                self._engine = _engine(self.url)
            return self._engine

    def _migrated(self) -> sa.Engine:
        engine = self._open()
        if self._is_migrated:
            return engine
        try:
            if engine.dialect.name == "sqlite" and engine.url.database:
                Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)
            with _reading(engine) as connection:
                found = version_of(connection)
            if found < LATEST:
                with engine.begin() as connection:
                    migrate(connection)
        except BaseException:
            self._engine = None
            raise
        self._is_migrated = True
        return engine


def open_history(url: str | None = None) -> SqlHistory | None:
    """The history at this URL, else at that of the environment, else in a file.

    None if disabled.
    """
    chosen = url or os.environ.get(URL_VARIABLE) or f"sqlite:///{state_folder()}/history.db"
    return None if chosen == NONE else SqlHistory(chosen)


def needed_history(user: str, url: str | None = None) -> SqlHistory:
    """The history for `user`, which names a command or a part of Caretaker.

    InvalidArgument if disabled.
    """
    found = open_history(url)
    if found is None:
        raise InvalidArgument(
            f"{user} needs the history, which is disabled ({URL_VARIABLE}={NONE})",
            next_step="unset the variable, or set it to a database URL",
        )
    return found


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The state folder of Caretaker on this machine."""
    own = environ.get(STATE_VARIABLE)
    if own:
        return Path(own)
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "caretaker"


# --- SQLAlchemy ---------------------------------------------------------------------------------


def _engine(url: str) -> sa.Engine:
    try:
        backend = sa.make_url(url).get_backend_name()
        if backend not in _WAITS:
            raise InvalidArgument(
                f"the history needs SQLite or PostgreSQL, not {backend}",
                next_step=f"set {URL_VARIABLE} to a URL of one of them, or to {NONE}",
            )
        # A connection lives for one transaction, so forked processes share none.
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=dict(_WAITS[backend]))
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as e:
        raise InvalidArgument(
            f"cannot use the history URL {_shown(url)}: {one_line(e)}",
            next_step=f"set {URL_VARIABLE} to an SQLAlchemy URL, or to {NONE}",
        ) from e
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _on_sqlite_connect)
        sa.event.listen(engine, "begin", _on_sqlite_begin)
    return engine


@contextmanager
def _reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection for a transaction that writes nothing."""
    with engine.connect() as connection:
        yield connection.execution_options(**{_READS: True})


def _is_about_rows(error: Exception) -> bool:
    """Whether the error may be that of a single row, not of the database."""
    not_answering = (sa.exc.OperationalError, sa.exc.InterfaceError)
    return isinstance(error, sa.exc.StatementError) and not isinstance(error, not_answering)


def _on_sqlite_connect(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin as `_on_sqlite_begin` says
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _on_sqlite_begin(connection: sa.Connection) -> None:
    # A transaction that reads first and writes later can fail immediately instead of waiting.
    # Readers of a write-ahead log never wait.
    reads = connection.get_execution_options().get(_READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _file_exists(engine: sa.Engine) -> bool:
    name = engine.url.database
    return name is None or name == ":memory:" or Path(name).exists()


def _entries_table() -> sa.Table:
    names = (
        "id at_millis event job part_of table_name branch warehouse run_id status exit_code origin "
        "actor engine snapshot_before snapshots attempts seconds files_before files_after "
        "bytes_before bytes_after rows_before rows_after arguments details error_type error "
        "next_step bytes_freed application_id application_url"
    )
    return sa.Table("caretaker_history", sa.MetaData(), *(sa.Column(n) for n in names.split()))


def _has_no_end(starts: sa.Table) -> sa.ColumnElement[bool]:
    """The condition that no other entry has the same run and table."""
    ends = starts.alias("ends")
    return ~sa.exists().where(
        ends.c.run_id == starts.c.run_id,
        ends.c.table_name == starts.c.table_name,
        ends.c.event != "start",
    )


def _row_of(entry: Entry) -> dict[str, object]:
    row = {"table_name" if k == "table" else k: v for k, v in entry.to_json().items()}
    for name in _JSON:
        row[name] = json.dumps(row[name], ensure_ascii=False, default=str)
    return {name: _storable(value) for name, value in row.items()}


def _storable(value: object) -> object:
    r"""A text without the bytes of names that are not UTF-8, which no database takes.

    They become `\udcff`, which is an escape of JSON, too: most of these texts are JSON, which the
    `\xff` of `path_text` would break.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _entry_of(row: Mapping[Any, Any]) -> Entry:
    values = {("table" if k == "table_name" else k): v for k, v in row.items() if k != "id"}
    for name in _JSON:
        values[name] = json.loads(values[name])
    return Entry(**{**values, "snapshots": tuple(values["snapshots"])})


def _shown(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return "(unreadable)"


def one_line(error: Exception) -> str:
    """The class and the message of a database error on one line, without SQL and parameters."""
    text = str(getattr(error, "orig", None) or error)
    return f"{type(error).__name__}: {' '.join(text.split())}"[:_LONGEST_ERROR]
