"""One table of entries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from paimon_maintenance.history.migrations.columns import ROW_ID

revision = "1"
down_revision = None


def upgrade() -> None:
    """Migrate the database."""
    connection = op.get_bind()
    sa.Table(
        "caretaker_history",
        sa.MetaData(),
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
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
