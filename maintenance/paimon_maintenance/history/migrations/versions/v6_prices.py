"""The price of a second after each round of the scheduler."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"


def upgrade() -> None:
    """Migrate the database."""
    connection = op.get_bind()
    connection.execute(sa.text("ALTER TABLE caretaker_rounds ADD COLUMN price DOUBLE PRECISION"))
