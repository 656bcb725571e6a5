"""Indexes by table, job and run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Migrate the database."""
    connection = op.get_bind()
    entries = sa.Table("caretaker_history", sa.MetaData(), autoload_with=connection)
    for name, columns in (
        ("caretaker_history_by_table", ("table_name", "id")),
        ("caretaker_history_by_job", ("job", "id")),
        ("caretaker_history_by_run", ("run_id",)),
    ):
        sa.Index(name, *(entries.c[c] for c in columns)).create(connection)
