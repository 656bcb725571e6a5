"""One line for each table and for each round, and indexes, for pages over many tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from paimon_maintenance.history.migrations.columns import ROW_ID, SUMMED, table_key

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Migrate the database."""
    connection = op.get_bind()
    tables = sa.MetaData()
    sa.Table(
        "caretaker_table_status",  # the newest of each table
        tables,
        *table_key(),
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
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
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
    for index in (
        sa.Index("caretaker_totals_by_time", totals.c.at_millis),
        # Holds all that sums over a period need, so that they do not read the wide rows.
        sa.Index("caretaker_history_by_time", *(entries.c[c] for c in SUMMED)),
        sa.Index(
            "caretaker_history_by_outcome",
            *(entries.c[c] for c in ("event", "status", "warehouse", "table_name", "id")),
        ),
        sa.Index("caretaker_decisions_by_result", decisions.c.status, decisions.c.at_millis),
    ):
        index.create(connection)
