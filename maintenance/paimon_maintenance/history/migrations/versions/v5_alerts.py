"""Positions of maintenance on commit, alerts, and indexes by age."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from paimon_maintenance.history.migrations.columns import ROW_ID, table_columns, table_key

revision = "5"
down_revision = "4"


def upgrade() -> None:
    """Migrate the database."""
    connection = op.get_bind()
    tables = sa.MetaData()
    sa.Table(
        "caretaker_positions",  # the newest snapshot that is maintained, of each table
        tables,
        *table_key(),
        sa.Column("snapshot", sa.BigInteger, nullable=False),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("retry_millis", sa.BigInteger, nullable=False),
    )
    alerts = sa.Table(
        "caretaker_alerts",  # open until `resolved_millis` is set
        tables,
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        *table_columns(),
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
