"""The database schema of the history, by version; released migrations never change.

`caretaker_history_version` has one row: the version of the database.  Each migration and the update of
that row are one transaction; a lock prevents concurrent migrations.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from paimon_maintenance.history.entry import freed_by

_POSTGRES_LOCK: Final = 7_241_906_183
VERSION_TABLE: Final = "caretaker_history_version"
_BIG: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""SQLite generates row ids only for the type INTEGER."""

_TABLE: Final = ("warehouse", "table_name", "branch")

VERSIONS: Final = sa.Table(
    VERSION_TABLE, sa.MetaData(), sa.Column("version", sa.Integer, nullable=False)
)


def _table_key() -> list[sa.Column[str]]:
    """The columns that name a table, as the primary key (versions 3 to 5)."""
    return [sa.Column(name, sa.String(512), primary_key=True) for name in _TABLE]


def _table_columns() -> list[sa.Column[str]]:
    """The same columns in a table with a key of its own."""
    return [sa.Column(name, sa.String(512), nullable=False) for name in _TABLE]


def _first(connection: sa.Connection) -> None:
    """Version 1: one table of entries."""
    sa.Table(
        "caretaker_history",
        sa.MetaData(),
        sa.Column("id", _BIG, primary_key=True, autoincrement=True),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("event", sa.String(8), nullable=False),
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("part_of", sa.String(64)),
        sa.Column("table_name", sa.String(512), nullable=False),
        sa.Column("branch", sa.String(256)),
        sa.Column("warehouse", sa.Text, nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("origin", sa.String(32), nullable=False),
        sa.Column("actor", sa.String(512), nullable=False),
        sa.Column("engine", sa.String(32)),
        sa.Column("snapshot_before", sa.BigInteger),
        sa.Column("snapshots", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float),
        sa.Column("files_before", sa.BigInteger),
        sa.Column("files_after", sa.BigInteger),
        sa.Column("bytes_before", sa.BigInteger),
        sa.Column("bytes_after", sa.BigInteger),
        sa.Column("rows_before", sa.BigInteger),
        sa.Column("rows_after", sa.BigInteger),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("error_type", sa.String(128)),
        sa.Column("error", sa.Text),
        sa.Column("next_step", sa.Text),
    ).create(connection)


def _second(connection: sa.Connection) -> None:
    """Version 2: indexes by table, job and run."""
    entries = sa.Table("caretaker_history", sa.MetaData(), autoload_with=connection)
    for name, columns in (
        ("caretaker_history_by_table", ("table_name", "id")),
        ("caretaker_history_by_job", ("job", "id")),
        ("caretaker_history_by_run", ("run_id",)),
    ):
        sa.Index(name, *(entries.c[c] for c in columns)).create(connection)


def _third(connection: sa.Connection) -> None:
    """Version 3: what the scheduler measured, scored, decided and claimed."""
    tables = sa.MetaData()
    sa.Table(
        "caretaker_measurements",  # the newest of each table
        tables,
        *_table_key(),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("measurement", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    scores = sa.Table(
        "caretaker_scores",  # over time
        tables,
        sa.Column("id", _BIG, primary_key=True, autoincrement=True),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        *_table_columns(),
        sa.Column("score", sa.Integer, nullable=False),
        sa.Column("amplification", sa.Float, nullable=False),
        sa.Column("files", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("held_bytes", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text),
    )
    decisions = sa.Table(
        "caretaker_decisions",
        tables,
        sa.Column("id", _BIG, primary_key=True, autoincrement=True),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("round_id", sa.String(64), nullable=False),
        *_table_columns(),
        sa.Column("job", sa.String(64)),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("rank_value", sa.Float, nullable=False),
        sa.Column("benefit", sa.Float, nullable=False),
        sa.Column("predicted_seconds", sa.Float, nullable=False),
        sa.Column("work", sa.Text, nullable=False),
        sa.Column("predicted", sa.Text, nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("engine", sa.String(32)),
        sa.Column("status", sa.String(32)),
        sa.Column("seconds", sa.Float),
        sa.Column("result", sa.Text),
    )
    sa.Table(
        "caretaker_claims",  # a scheduler works on the table until then
        tables,
        *_table_key(),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("until_millis", sa.BigInteger, nullable=False),
    )
    sa.Table(
        "caretaker_rounds",
        tables,
        sa.Column("round_id", sa.String(64), primary_key=True),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("warehouse", sa.String(512), nullable=False),
        sa.Column("branch", sa.String(512), nullable=False),
        sa.Column("budget_seconds", sa.Float),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("overspent", sa.Float, nullable=False),
    )
    tables.create_all(connection, checkfirst=False)
    sa.Index("caretaker_scores_by_table", scores.c.table_name, scores.c.id).create(connection)
    sa.Index("caretaker_decisions_by_table", decisions.c.table_name, decisions.c.id).create(
        connection
    )


def _pages(connection: sa.Connection) -> None:
    """Version 4: one line for each table and for each round, and indexes, for pages over many tables."""
    tables = sa.MetaData()
    sa.Table(
        "caretaker_table_status",  # the newest of each table
        tables,
        *_table_key(),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("score", sa.Integer),
        sa.Column("color", sa.String(8)),
        sa.Column("criterion", sa.String(64)),
        sa.Column("reason", sa.Text),
        sa.Column("files", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("amplification", sa.Float, nullable=False),
        sa.Column("held_bytes", sa.BigInteger, nullable=False),
        sa.Column("snapshot", sa.BigInteger),
        sa.Column("owner", sa.String(512)),
        sa.Column("next_job", sa.String(64)),
        sa.Column("next_action", sa.String(16)),
        sa.Column("next_reason", sa.Text),
        sa.Column("next_at_millis", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.Column("health", sa.Text, nullable=False),
    )
    totals = sa.Table(
        "caretaker_totals",  # of all tables, over time
        tables,
        sa.Column("id", _BIG, primary_key=True, autoincrement=True),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("warehouse", sa.String(512), nullable=False),
        sa.Column("branch", sa.String(512), nullable=False),
        sa.Column("tables", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("green", "yellow", "red")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("files", "bytes")),
        sa.Column("held_bytes", sa.BigInteger, nullable=False),
        sa.Column("amplification", sa.Float, nullable=False),
    )
    tables.create_all(connection, checkfirst=False)
    entries = sa.Table("caretaker_history", sa.MetaData(), autoload_with=connection)
    decisions = sa.Table("caretaker_decisions", sa.MetaData(), autoload_with=connection)
    long = {"warehouse": 255, "table_name": 255}
    for index in (
        sa.Index("caretaker_totals_by_time", totals.c.at_millis),
        # Holds all that sums over a period need, so that they do not read the wide rows.
        sa.Index("caretaker_history_by_time", *(entries.c[c] for c in _SUMMED), mysql_length=long),
        sa.Index(
            "caretaker_history_by_outcome",
            *(entries.c[c] for c in ("event", "status", "warehouse", "table_name", "id")),
            mysql_length=long,
        ),
        sa.Index("caretaker_decisions_by_result", decisions.c.status, decisions.c.at_millis),
    ):
        index.create(connection)


_SUMMED: Final = (
    "event",
    "at_millis",
    "part_of",
    "warehouse",
    "job",
    "table_name",
    "status",
    "seconds",
    "files_before",
    "files_after",
    "bytes_before",
    "bytes_after",
)


def _alerts(connection: sa.Connection) -> None:
    """Version 5: positions of maintenance on commit, alerts, and indexes by age."""
    tables = sa.MetaData()
    sa.Table(
        "caretaker_positions",  # the newest snapshot that is maintained, of each table
        tables,
        *_table_key(),
        sa.Column("snapshot", sa.BigInteger, nullable=False),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("retry_millis", sa.BigInteger, nullable=False),
    )
    alerts = sa.Table(
        "caretaker_alerts",  # open until `resolved_millis` is set
        tables,
        sa.Column("id", _BIG, primary_key=True, autoincrement=True),
        *_table_columns(),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("next_step", sa.Text),
        sa.Column("owner", sa.String(512)),
        sa.Column("targets", sa.Text, nullable=False),
        sa.Column("opened_millis", sa.BigInteger, nullable=False),
        sa.Column("seen_millis", sa.BigInteger, nullable=False),
        sa.Column("resolved_millis", sa.BigInteger),
        sa.Column("sent", sa.Text, nullable=False),
        sa.Column("sending_until", sa.BigInteger, nullable=False),
    )
    tables.create_all(connection, checkfirst=False)
    sa.Index("caretaker_alerts_by_table", alerts.c.table_name, alerts.c.id).create(connection)
    for name in ("caretaker_history", "caretaker_decisions", "caretaker_scores"):
        one = sa.Table(name, sa.MetaData(), autoload_with=connection)
        sa.Index(f"{name}_by_age", one.c.at_millis).create(connection)


def _prices(connection: sa.Connection) -> None:
    """Version 6: the price of a second after each round of the scheduler."""
    connection.execute(sa.text("ALTER TABLE caretaker_rounds ADD COLUMN price DOUBLE PRECISION"))


def _freed_bytes(connection: sa.Connection) -> None:
    """Version 7: bytes that left the store, applications of Spark, and approvals."""
    for column in ("bytes_freed BIGINT", "application_id VARCHAR(128)", "application_url TEXT"):
        connection.execute(sa.text(f"ALTER TABLE caretaker_history ADD COLUMN {column}"))
    entries = sa.Table("caretaker_history", sa.MetaData(), autoload_with=connection)
    _fill_freed_bytes(connection, entries)
    sa.Index("caretaker_history_by_time", entries.c.event).drop(connection)
    sa.Index(
        "caretaker_history_by_time",
        *(entries.c[c] for c in (*_SUMMED, "bytes_freed")),
        mysql_length={"warehouse": 255, "table_name": 255},
    ).create(connection)
    approvals = sa.Table(
        "caretaker_approvals",
        sa.MetaData(),
        sa.Column("id", _BIG, primary_key=True, autoincrement=True),
        *_table_columns(),
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("reason", sa.String(256), nullable=False),
        sa.Column("origin", sa.String(32), nullable=False),
        sa.Column("asked_by", sa.String(512), nullable=False),
        sa.Column("asked_millis", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("answered_by", sa.String(512)),
        sa.Column("answered_millis", sa.BigInteger),
        sa.Column("run_id", sa.String(64)),
    )
    approvals.create(connection, checkfirst=False)
    sa.Index("caretaker_approvals_by_table", approvals.c.table_name, approvals.c.id).create(
        connection
    )


def _fill_freed_bytes(connection: sa.Connection, entries: sa.Table) -> None:
    """Fill `bytes_freed` of earlier runs from their details, and of composite jobs from their steps."""
    c = entries.c
    rows = connection.execute(
        sa.select(c.id, c.run_id, c.table_name, c.part_of, c.details).where(
            c.event == "run", c.details.like('%"deleted_bytes"%')
        )
    ).all()
    known, composite = [], dict[tuple[str, str, str], int]()
    for row in rows:
        freed = freed_by(json.loads(row.details))
        if not freed:
            continue
        known.append({"row": row.id, "freed": freed})
        if row.part_of is not None:
            key = (row.run_id, row.table_name, row.part_of)
            composite[key] = composite.get(key, 0) + freed
    if known:
        own = sa.update(entries).where(c.id == sa.bindparam("row"))
        connection.execute(own.values(bytes_freed=sa.bindparam("freed")), known)
    if composite:
        whole = sa.update(entries).where(
            c.run_id == sa.bindparam("run"),
            c.table_name == sa.bindparam("of"),
            c.job == sa.bindparam("composite"),
            c.part_of.is_(None),
            c.event == "run",
        )
        connection.execute(
            whole.values(bytes_freed=sa.bindparam("freed")),
            [
                {"run": run, "of": table, "composite": job, "freed": freed}
                for (run, table, job), freed in composite.items()
            ],
        )


MIGRATIONS: Final[tuple[Callable[[sa.Connection], None], ...]] = (
    _first,
    _second,
    _third,
    _pages,
    _alerts,
    _prices,
    _freed_bytes,
)
LATEST: Final = len(MIGRATIONS)


def version_of(connection: sa.Connection) -> int:
    """The version of the database; 0 without a history."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return 0
    return int(connection.execute(sa.select(VERSIONS.c.version)).scalar_one_or_none() or 0)


def migrate(connection: sa.Connection, *, to: int = LATEST) -> int:
    """Migrate the database in the open transaction of the connection; return its version.

    A database of a newer Caretaker version is left unchanged.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
    found = version_of(connection)
    if found >= to:
        return found
    if found == 0:
        VERSIONS.create(connection, checkfirst=True)
        connection.execute(VERSIONS.delete())
        connection.execute(VERSIONS.insert().values(version=0))
    for number in range(found, to):
        MIGRATIONS[number](connection)
    connection.execute(VERSIONS.update().values(version=to))
    return to
