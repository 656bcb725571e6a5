"""What the scheduler measured, scored, decided and claimed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from paimon_maintenance.history.migrations.columns import ROW_ID, table_columns, table_key

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Migrate the database."""
    connection = op.get_bind()
    tables = sa.MetaData()
    sa.Table(
        "caretaker_measurements",  # the newest of each table
        tables,
        *table_key(),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("measurement", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    scores = sa.Table(
        "caretaker_scores",  # over time
        tables,
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        *table_columns(),
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
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("at_millis", sa.BigInteger, nullable=False),
        sa.Column("round_id", sa.String(64), nullable=False),
        *table_columns(),
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
        *table_key(),
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
