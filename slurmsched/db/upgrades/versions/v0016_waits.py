"""How long jobs have waited before their earlier runs, and since when they are held."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the columns; earlier waits are not known and count as none."""
    op.add_column("jobs", sa.Column("waited_s", sa.Double, nullable=True))
    op.add_column("jobs", sa.Column("held_since_s", sa.Double, nullable=True))
    op.execute("UPDATE jobs SET waited_s = 0")
