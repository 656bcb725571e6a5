"""How many past runs a prediction of the scheduler rests on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "8"
down_revision = "7"


def upgrade() -> None:
    """Migrate the database."""
    connection = op.get_bind()
    connection.execute(sa.text("ALTER TABLE caretaker_decisions ADD COLUMN past_runs INTEGER"))
