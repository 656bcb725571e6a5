"""Bytes that left the store, applications of Spark, and approvals."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from paimon_maintenance.history.entry import freed_by
from paimon_maintenance.history.migrations.columns import ROW_ID, SUMMED, table_columns

revision = "7"
down_revision = "6"


def upgrade() -> None:
    """Migrate the database."""
    connection = op.get_bind()
    for column in ("bytes_freed BIGINT", "application_id VARCHAR(128)", "application_url TEXT"):
        connection.execute(sa.text(f"ALTER TABLE caretaker_history ADD COLUMN {column}"))
    entries = sa.Table("caretaker_history", sa.MetaData(), autoload_with=connection)
    _fill_freed_bytes(connection, entries)
    sa.Index("caretaker_history_by_time", entries.c.event).drop(connection)
    sa.Index(
        "caretaker_history_by_time",
        *(entries.c[c] for c in (*SUMMED, "bytes_freed")),
    ).create(connection)
    approvals = sa.Table(
        "caretaker_approvals",
        sa.MetaData(),
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        *table_columns(),
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
    """Fill `bytes_freed` of earlier runs from their details; of composite jobs from their steps."""
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
